//! What tier 0 ran while it was watched, as the paths that a region may have.
//!
//! - A *trace* is a few thousand instructions as they were executed. Its *head* is the loop that
//!   they are in: the address that control came back to most often without returning to a caller
//!   in between.
//! - *Anchors* are the addresses where paths begin: the head, and the heads of loops on the way. An
//!   anchor's *tree* has a node for each instruction of each path that began there: what was
//!   executed from one anchor to the next is a way from a root to a leaf. So each node has one
//!   predecessor, and what is known there of registers is what its path made.
//! - A path goes on through a call and its return. Its *context* are the return addresses of the
//!   calls that it is inside.
//! - A path that would be too long ends at an anchor of its own, outside of calls if it can.
//! - A short loop is unrolled: its paths pass the anchor a few times before they end there.

use rustc_hash::FxHashMap;

/// What is known by the addresses of instructions: a trace looks thousands of them up.
pub(in super::super) type ByAddress<V> = FxHashMap<u64, V>;

/// Instructions behind each other as they were executed, and where control went from the last.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Stretch {
    pub(in super::super) pc: u64,
    pub(in super::super) count: u64,
    pub(in super::super) next: u64,
}

/// How control goes on from an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Kind {
    /// To the next one.
    Straight,
    /// To the next one or a fixed target.
    Conditional,
    /// To a fixed target.
    Jump,
    /// To a fixed target, which returns to the next one.
    Call,
    /// The same by a register.
    IndirectCall,
    /// To the address in register 1.
    Return,
    /// To an address in a register.
    Indirect,
    /// It is not in a region.
    Stop,
}

/// Anchors of a region.
const ANCHORS_MAX: usize = 8;
/// Instructions from an anchor to the next; also of calls inside each other.
const PATH_MAX: u16 = 256;
const DEPTH_MAX: usize = 3;
/// A path that is too long is cut so far behind its anchor at least.
const CUT_MIN: usize = 64;
/// Instructions that a loop is unrolled to, and how often it is at most.
const UNROLLED: u64 = 64;
const UNROLLS_MAX: u64 = 8;
/// A head was come back to at least so often.
const VISITS_MIN: u32 = 4;

/// Where an edge of a tree leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// To another node.
    Node(usize),
    /// To the root of an anchor.
    Root(usize),
}

/// An instruction of a path.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) pc: u64,
    /// How often it was executed.
    pub(super) count: u32,
    /// Instructions from the anchor to it.
    pub(super) before: u16,
    pub(super) context: usize,
    pub(super) next: Vec<(u64, Next)>,
}

/// Return addresses of calls, the innermost first: an address and the rest; 0 is none.
#[derive(Clone, Debug)]
pub(super) struct Contexts(Vec<(usize, u64)>);

impl Contexts {
    fn new() -> Contexts {
        Contexts(vec![(0, 0)])
    }

    /// The context inside a call that returns to an address.
    pub(super) fn inside(&mut self, outer: usize, back: u64) -> usize {
        let found = self.0.iter().skip(1).position(|&c| c == (outer, back));
        found.map_or_else(
            || {
                self.0.push((outer, back));
                self.0.len() - 1
            },
            |at| at + 1,
        )
    }

    /// The innermost return address, and the context there; `None` outside of calls.
    pub(super) fn back(&self, context: usize) -> Option<(u64, usize)> {
        let (outer, back) = self.0[context];
        (context != 0).then_some((back, outer))
    }

    /// How many calls a context is inside of.
    fn depth(&self, mut context: usize) -> usize {
        let mut depth = 0;
        while let Some((_, outer)) = self.back(context) {
            (context, depth) = (outer, depth + 1);
        }
        depth
    }

    /// Return addresses from the outermost call on.
    pub(super) fn list(&self, mut context: usize) -> Vec<u64> {
        let mut list = Vec::new();
        while let Some((back, outer)) = self.back(context) {
            list.push(back);
            context = outer;
        }
        list.reverse();
        list
    }
}

/// The paths of a trace.
#[derive(Debug)]
pub(in super::super) struct Paths {
    /// Addresses where paths begin; the node of anchor n is number n.
    pub(super) anchors: Vec<u64>,
    pub(super) nodes: Vec<Node>,
    pub(super) contexts: Contexts,
}

/// Where in the trees a trace is.
struct Cursor {
    node: usize,
    /// The anchor of the path.
    root: usize,
    /// Anchors passed since the root.
    passes: u64,
    /// Addresses and contexts since the last anchor.
    seen: Vec<(u64, usize)>,
}

impl Paths {
    /// The paths of a trace from `head` on.
    pub(in super::super) fn of(trace: &[Stretch], head: u64, kind: &dyn Fn(u64) -> Kind) -> Paths {
        let mut anchors = vec![head];
        let once = |anchors: &mut Vec<u64>| loop {
            match walk(trace, anchors, &vec![1; anchors.len()], kind) {
                Ok(paths) => return paths,
                Err(head) => anchors.push(head),
            }
        };
        let paths = once(&mut anchors);
        let unrolls: Vec<u64> = (0..anchors.len()).map(|n| paths.unrolls(n)).collect();
        walk(trace, &anchors, &unrolls, kind).unwrap_or(paths)
    }

    /// How often a loop is passed before its paths end.
    fn unrolls(&self, anchor: usize) -> u64 {
        let mut instructions = 0;
        let mut list = vec![anchor];
        while let Some(n) = list.pop() {
            instructions += u64::from(self.nodes[n].count);
            list.extend(self.nodes[n].next.iter().filter_map(|&(_, next)| match next {
                Next::Node(n) => Some(n),
                Next::Root(_) => None,
            }));
        }
        let length = instructions / u64::from(self.nodes[anchor].count.max(1));
        (UNROLLED / length.max(1)).clamp(1, UNROLLS_MAX)
    }

    /// The node behind `node` at `pc`, made if there is none.
    fn follow(&mut self, node: usize, pc: u64, context: usize) -> Option<usize> {
        let before = self.nodes[node].before + 1;
        let found = self.nodes[node].next.iter().find(|n| n.0 == pc);
        let n = match found {
            Some(&(_, Next::Node(n))) => n,
            Some(_) => return None,
            None => {
                let n = self.nodes.len();
                self.nodes.push(Node { pc, count: 0, before, context, next: Vec::new() });
                self.nodes[node].next.push((pc, Next::Node(n)));
                n
            }
        };
        self.nodes[n].count += 1;
        Some(n)
    }

    /// The root of the anchor at `pc`, to which `from` leads.
    fn root(&mut self, pc: u64, from: Option<usize>) -> Option<Cursor> {
        let n = self.anchors.iter().position(|&a| a == pc)?;
        if let Some(from) = from
            && !self.nodes[from].next.iter().any(|next| next.0 == pc)
        {
            self.nodes[from].next.push((pc, Next::Root(n)));
        }
        self.nodes[n].count += 1;
        Some(Cursor { node: n, root: n, passes: 1, seen: vec![(pc, 0)] })
    }
}

/// The trees of these anchors; an address that is another loop's head is an error.
fn walk(
    trace: &[Stretch],
    anchors: &[u64],
    unrolls: &[u64],
    kind: &dyn Fn(u64) -> Kind,
) -> Result<Paths, u64> {
    let root = |&pc: &u64| Node { pc, count: 0, before: 0, context: 0, next: Vec::new() };
    let nodes = anchors.iter().map(root).collect();
    let mut paths = Paths { anchors: anchors.to_vec(), nodes, contexts: Contexts::new() };
    let mut cursor = trace.first().and_then(|first| paths.root(first.pc, None));
    for stretch in trace {
        // Behind the end of one look comes the beginning of another one.
        if cursor.as_ref().is_some_and(|c| paths.nodes[c.node].pc != stretch.pc) {
            cursor = paths.root(stretch.pc, None);
        }
        for n in 0..stretch.count {
            let pc = stretch.pc.wrapping_add(4 * n);
            let next = if n + 1 < stretch.count { pc.wrapping_add(4) } else { stretch.next };
            cursor = match cursor {
                Some(cursor) => step(&mut paths, cursor, (pc, next), unrolls, kind)?,
                None => None,
            };
            if cursor.is_none() {
                cursor = paths.root(next, None);
            }
        }
    }
    Ok(paths)
}

/// From the instruction at `pc` to the one at `next`; `None` where no path goes on.
fn step(
    paths: &mut Paths,
    mut cursor: Cursor,
    (pc, next): (u64, u64),
    unrolls: &[u64],
    kind: &dyn Fn(u64) -> Kind,
) -> Result<Option<Cursor>, u64> {
    let node = cursor.node;
    let Node { before, context, .. } = paths.nodes[node];
    if kind(next) == Kind::Stop {
        return Ok(None);
    }
    let context = match kind(pc) {
        Kind::Stop => return Ok(None),
        Kind::Straight | Kind::Conditional | Kind::Jump | Kind::Indirect => context,
        Kind::Call | Kind::IndirectCall => {
            let back = pc.wrapping_add(4);
            paths.contexts.inside(context, back)
        }
        Kind::Return => match paths.contexts.back(context) {
            Some((back, outer)) if back == next => outer,
            _ => return Ok(None),
        },
    };
    let too_long = before + 1 >= PATH_MAX || paths.contexts.depth(context) > DEPTH_MAX;
    if let Some(anchor) = paths.anchors.iter().position(|&a| a == next) {
        if anchor != cursor.root || cursor.passes >= unrolls[anchor] || too_long {
            return Ok(paths.root(next, Some(node)));
        }
        cursor.passes += 1;
        cursor.seen.clear();
    } else if next <= pc && cursor.seen.contains(&(next, context)) {
        return if paths.anchors.len() < ANCHORS_MAX { Err(next) } else { Ok(None) };
    } else if too_long {
        return middle(paths, &cursor).map_or(Ok(None), Err);
    }
    let Some(node) = paths.follow(node, next, context) else { return Ok(None) };
    cursor.node = node;
    cursor.seen.push((next, context));
    Ok(Some(cursor))
}

/// The address outside of calls at which a path that is too long is to be cut, if there may be
/// another anchor.
fn middle(paths: &Paths, cursor: &Cursor) -> Option<u64> {
    let is_long = paths.nodes[cursor.node].before + 1 >= PATH_MAX;
    let last = cursor.seen.iter().skip(CUT_MIN).rfind(|(_, context)| *context == 0);
    last.filter(|_| is_long && paths.anchors.len() < ANCHORS_MAX).map(|&(pc, _)| pc)
}

/// How often control came to an address.
#[derive(Clone, Copy, Debug, Default)]
struct Visits {
    count: u32,
    /// How deep in calls, summed over them, from where the trace began.
    depths: i64,
    /// The depth at the last one, and the least since then.
    last: i64,
    /// Instructions from one to the next.
    between: u64,
    at: u64,
}

/// The loop that a trace is in, among the addresses that are `new`.
pub(in super::super) fn head(
    trace: &[Stretch],
    kind: &dyn Fn(u64) -> Kind,
    is_new: &dyn Fn(u64) -> bool,
) -> Option<u64> {
    let mut visits: ByAddress<Visits> = ByAddress::default();
    let (mut depth, mut at) = (0i64, 0u64);
    for stretch in trace {
        at += stretch.count;
        let last = stretch.pc.wrapping_add(4 * stretch.count.saturating_sub(1));
        let kind = kind(last);
        match kind {
            Kind::Call | Kind::IndirectCall => depth += 1,
            Kind::Return => {
                depth -= 1;
                // What began inside the call that ends is not come back to from it.
                visits.values_mut().filter(|v| v.last > depth).for_each(|v| v.last = i64::MIN);
                continue;
            }
            _ => {}
        }
        if stretch.next > last || !is_new(stretch.next) {
            continue;
        }
        let v = visits.entry(stretch.next).or_default();
        if v.count == 0 || v.last != i64::MIN {
            v.count += 1;
            v.between += if v.at == 0 { 0 } else { (at - v.at).min(PATH_MAX.into()) };
            v.depths += depth;
        }
        (v.last, v.at) = (depth, at);
    }
    let worth = |v: &Visits| v.count >= VISITS_MIN && 16 * v.between >= at;
    let most = visits.values().filter(|v| worth(v)).map(|v| v.count).max()?;
    let often = visits.iter().filter(|(_, v)| worth(v) && 2 * v.count >= most);
    let depth = |v: &Visits| v.depths / i64::from(v.count);
    often.min_by_key(|(pc, v)| (depth(v), std::cmp::Reverse(v.count), **pc)).map(|(pc, _)| *pc)
}
