//! Progress on standard error, drawn only when that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use littoral::graph::build::{Hooks, Stage};

use crate::interrupt;

/// A bar that names the stage it shows.
pub(crate) struct Bar {
    bar: ProgressBar,
    stage: Option<Stage>,
}

impl Bar {
    /// A bar that has nothing to show yet; indicatif hides it where standard error is no terminal.
    pub(crate) fn new() -> Self {
        let style = ProgressStyle::with_template("{msg:12} {wide_bar} {percent:>3} %  {elapsed}")
            .expect("invariant: the template is well formed");
        let bar = ProgressBar::new(1).with_style(style);
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
