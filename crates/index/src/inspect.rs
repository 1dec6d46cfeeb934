//! Which single pages a tree can have written: asked once of every page that comes from the medium.
//!
//! - Everything behind this file may index a page by its counts, and finds its keys in order, its
//!   states and tags known, and its addresses in zones of the right class.
//! - What takes two pages to see (levels, ranges of keys, a log beside its body, pages used twice)
//!   is checked where one page leads to the next: inner pages when a store is opened, leaves when
//!   they are read.

use littoral_base::mutant;
use littoral_base::units::Lba;
use littoral_store::inspect::{Inspect, Places};
use littoral_store::pages::NO_PAGE;

use crate::Result;
use crate::engine::Engine;
use crate::layout::{self, Body, HEADER_BYTES, PageKind, Shape};
use crate::tree::{HEIGHT_MAX, wrong};
use crate::zb::state::{HeadView, Ptr, State};

/// The rules of one tree's pages.
#[derive(Clone, Copy, Debug)]
pub struct PageRules {
    /// The tree.
    pub engine: Engine,
    /// Its sizes, which fit the page.
    pub shape: Shape,
}

impl Inspect for PageRules {
    fn inspect(&self, at: Lba, page: &[u8], places: &dyn Places) -> Result<()> {
        match self.broken(page, places) {
            None => Ok(()),
            Some(rule) => Err(wrong(at, rule)),
        }
    }
}

fn unless(holds: bool, rule: &'static str) -> Option<&'static str> {
    (!holds).then_some(rule)
}

fn ascend<'k>(from: usize, to: usize, key: impl Fn(usize) -> &'k [u8]) -> Option<&'static str> {
    unless((from + 1..to).all(|i| key(i - 1) < key(i)), "keys out of order")
}

impl PageRules {
    /// The first rule that a page breaks.
    fn broken(&self, page: &[u8], places: &dyn Places) -> Option<&'static str> {
        if page.len() < HEADER_BYTES {
            return Some("shorter than a page's header");
        }
        let is_zb = self.engine == Engine::Zb;
        if u32::from(layout::level(page)) > HEIGHT_MAX {
            return Some("a level that no tree has");
        }
        match layout::kind(page) {
            Some(PageKind::Leaf) => self.broken_leaf(page),
            Some(PageKind::Interior) => self.broken_interior(page, places),
            Some(PageKind::Head) if is_zb => self.broken_head(page, places),
            Some(PageKind::Log) if is_zb => self.broken_log(page, places),
            _ => Some("no page of this tree"),
        }
    }

    fn broken_leaf(&self, page: &[u8]) -> Option<&'static str> {
        let (body, n) = (self.shape.leaf(), layout::count(page));
        unless(layout::level(page) == 0, "a leaf above level 0")
            .or_else(|| unless(n <= body.slots, "more records than slots"))
            .or_else(|| ascend(0, n, |i| body.key(page, i)))
    }

    /// Whether an interior page may have a page at `at` below it.
    fn may_be_child(&self, at: Lba, places: &dyn Places) -> bool {
        if mutant!("index_child_address_unchecked") {
            return true;
        }
        match self.engine {
            Engine::Zb => places.is_conventional(at),
            Engine::Cow => places.is_appended(at),
        }
    }

    fn broken_interior(&self, page: &[u8], places: &dyn Places) -> Option<&'static str> {
        let level = layout::level(page);
        if level == 0 {
            return Some("an interior page at level 0");
        }
        let (body, n) = (self.shape.interior(level), layout::count(page));
        let least = if self.engine == Engine::Cow { 2 } else { 1 };
        let child = |i: usize| layout::address(&body.record(page, i)[body.key..]);
        unless((least..=body.slots).contains(&n), "too few or too many children")
            .or_else(|| ascend(1, n, |i| body.key(page, i)))
            .or_else(|| {
                let legal = (0..n).all(|i| self.may_be_child(child(i), places));
                unless(legal, "a child where none can be")
            })
    }

    fn broken_head(&self, page: &[u8], places: &dyn Places) -> Option<&'static str> {
        let (view, n) = (HeadView::new(&self.shape, page), layout::count(page));
        let is_legal = |i: usize| view.ptr(i).is_some_and(|ptr| may_be(&ptr, places));
        unless((1..=self.shape.head_slots).contains(&n), "too few or too many bodies")
            .or_else(|| ascend(1, n, |i| view.key(i)))
            .or_else(|| unless((0..n).all(is_legal), "a body or log where none can be"))
    }

    fn broken_log(&self, page: &[u8], places: &dyn Places) -> Option<&'static str> {
        let body = self.shape.body(layout::level(page));
        let base = layout::base_count(page);
        if !(1..=body.slots).contains(&base) {
            return Some("a log of more slots than a body has");
        }
        let tags = &page[body.tag_at(0)..body.tag_at(body.slots)];
        let tagged = tags[..base].iter().filter(|&&t| t != 0).count();
        let is_known = tags[..base].iter().all(|&t| t <= 2);
        let is_bounded = tags[base..].iter().all(|&t| t == 0);
        unless(is_known && is_bounded, "a tag that no log has")
            .or_else(|| {
                let counted = tagged == layout::count(page) && (1..base).contains(&tagged);
                unless(counted, "a log whose count is wrong")
            })
            .or_else(|| {
                unless(
                    self.has_legal_children(&body, page, base, places),
                    "a child where none can be",
                )
            })
    }

    fn has_legal_children(&self, body: &Body, log: &[u8], n: usize, places: &dyn Places) -> bool {
        let child = |i: usize| layout::address(&body.log_record(log, i)[body.key..]);
        let is_update = |i: &usize| body.tag(log, *i) == layout::Tag::Update;
        body.level == 0 || (0..n).filter(is_update).all(|i| self.may_be_child(child(i), places))
    }
}

/// Whether a head may name this body and log.
fn may_be(ptr: &Ptr, places: &dyn Places) -> bool {
    let log = ptr.log;
    let (has_no_log, has_log) = (log == NO_PAGE, places.is_conventional(log));
    match ptr.state {
        State::Change => places.is_conventional(ptr.body) && has_no_log,
        State::Steady => places.is_appended(ptr.body) && (has_no_log || has_log),
        State::After => places.is_appended(ptr.body) && has_log,
    }
}
