//! Progress on standard error, drawn only when that is a terminal and `-q` was not given.

use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::{ProgressBar, ProgressStyle};
use littoral::graph::builder::{Hooks, Stage};

use crate::interrupt;

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Draws nothing from now on.
pub(crate) fn set_quiet(quiet: bool) {
    IS_QUIET.store(quiet, Ordering::Relaxed);
}

/// Says on standard error what is being done, unless `-q` was given.
pub(crate) fn note(what: &impl std::fmt::Display) {
    if !IS_QUIET.load(Ordering::Relaxed) {
        // The work does not depend on standard error being open.
        let _ = writeln!(std::io::stderr(), "littoral: {what}");
    }
}

/// A bar of `length`; indicatif hides it where standard error is no terminal.
pub(crate) fn bar(length: u64, style: ProgressStyle) -> ProgressBar {
    let bar = match IS_QUIET.load(Ordering::Relaxed) {
        true => ProgressBar::hidden(),
        false => ProgressBar::new(length),
    };
    bar.with_style(style)
}

/// A bar that names the stage it shows.
pub(crate) struct Bar {
    bar: ProgressBar,
    stage: Option<Stage>,
}

impl Bar {
    /// A bar that has nothing to show yet.
    pub(crate) fn new() -> Self {
        let bar = bar(1, style());
        Bar { bar, stage: None }
    }

    /// Shows `done` of `total` of `stage`.
    pub(crate) fn show(&mut self, stage: Stage, done: u64, total: u64) {
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            self.bar.set_message(word(stage));
        }
        self.bar.set_length(total.max(1));
        self.bar.set_position(done);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn word(stage: Stage) -> &'static str {
    match stage {
        Stage::Reading => "reading",
        Stage::Generating => "generating",
        Stage::Sorting => "sorting",
        Stage::Merging => "merging",
        Stage::Writing => "writing",
        Stage::Checking => "checking",
        _ => "working",
    }
}

/// Hooks that draw progress and end on Ctrl-C.
pub(crate) fn hooks() -> Hooks<'static> {
    let mut bar = Bar::new();
    Hooks::new(move |stage, done, total| bar.show(stage, done, total), interrupt::flag())
}

/// A bar over a share of a whole.
pub(crate) struct Share(ProgressBar);

impl Share {
    /// A bar called `name`.
    pub(crate) fn new(name: &'static str) -> Self {
        let bar = bar(1000, style());
        bar.set_message(name);
        Share(bar)
    }

    /// Shows `share`, 1 being all; more than all stays at all.
    pub(crate) fn show(&self, share: f64) {
        self.0.set_position((share.clamp(0.0, 1.0) * 1000.0) as u64);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg:12} {wide_bar} {percent:>3} %  {elapsed}")
        .expect("invariant: the template is well formed")
}
