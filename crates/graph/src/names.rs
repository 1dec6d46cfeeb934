//! What vertices are called outside: numbers or text, kept with the graph, found by binary search.
//!
//! Invariants
//! - Names are unique; `order` lists vertices by ascending name (numbers as numbers, text as
//!   bytes). Checked by `names_are_found_and_near_ones_offered`, `a_forged_order_is_refused`.
//! - A table from a file is checked before it is used; its lookups cannot panic. Checked by
//!   `a_forged_order_is_refused`.

use std::cmp::Ordering;

use crate::error::{Error, Kind, Result};

/// Text names one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextNames {
    offsets: Vec<u64>,
    bytes: Vec<u8>,
}

impl TextNames {
    /// No names.
    pub fn new() -> Self {
        TextNames { offsets: vec![0], bytes: Vec::new() }
    }

    /// Appends a name.
    pub fn push(&mut self, name: &str) {
        self.push_bytes(name.as_bytes());
    }

    /// Appends a name given as UTF-8.
    pub(crate) fn push_bytes(&mut self, name: &[u8]) {
        debug_assert!(std::str::from_utf8(name).is_ok(), "names are UTF-8");
        self.bytes.extend_from_slice(name);
        self.offsets.push(self.bytes.len() as u64);
    }

    /// How many names.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of name `i`.
    pub fn get(&self, i: u32) -> &[u8] {
        let i = i as usize;
        &self.bytes[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    pub(crate) fn parts(&self) -> (&[u64], &[u8]) {
        (&self.offsets, &self.bytes)
    }

    pub(crate) fn from_parts(offsets: Vec<u64>, bytes: Vec<u8>) -> Result<Self> {
        let ascending = offsets.windows(2).all(|w| w[0] <= w[1]);
        let whole = offsets.first() == Some(&0) && offsets.last() == Some(&(bytes.len() as u64));
        if !(ascending && whole) {
            return Err(Error::new(Kind::Corrupt, "name offsets descend or leave the names"));
        }
        let names = TextNames { offsets, bytes };
        let text = (0..names.len() as u32).all(|i| std::str::from_utf8(names.get(i)).is_ok());
        if text { Ok(names) } else { Err(Error::new(Kind::Corrupt, "a name is not UTF-8")) }
    }

    /// Bytes of memory that the names take.
    pub(crate) fn bytes_held(&self) -> u64 {
        8 * self.offsets.len() as u64 + self.bytes.len() as u64
    }

    fn permuted(&self, old_of_new: &[u32]) -> Self {
        let mut out = TextNames {
            offsets: Vec::with_capacity(self.offsets.len()),
            bytes: Vec::with_capacity(self.bytes.len()),
        };
        out.offsets.push(0);
        for &old in old_of_new {
            out.bytes.extend_from_slice(self.get(old));
            out.offsets.push(out.bytes.len() as u64);
        }
        out
    }
}

/// The names of a graph's vertices, by internal id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Labels {
    /// A vertex is called by its internal id.
    Identity,
    /// Numbers.
    Numbers(Vec<u64>),
    /// Text.
    Text(TextNames),
}

impl Labels {
    /// The labels after vertices were renumbered; `old_of_new[v]` is what `v` was before.
    #[must_use]
    pub fn permuted(&self, old_of_new: &[u32]) -> Labels {
        match self {
            Labels::Identity if old_of_new.iter().zip(0u32..).all(|(&o, n)| o == n) => {
                Labels::Identity
            }
            Labels::Identity => Labels::Numbers(old_of_new.iter().map(|&o| u64::from(o)).collect()),
            Labels::Numbers(n) => {
                Labels::Numbers(old_of_new.iter().map(|&o| n[o as usize]).collect())
            }
            Labels::Text(t) => Labels::Text(t.permuted(old_of_new)),
        }
    }

    fn compare(&self, a: u32, b: u32) -> Ordering {
        match self {
            Labels::Identity => a.cmp(&b),
            Labels::Numbers(n) => n[a as usize].cmp(&n[b as usize]),
            Labels::Text(t) => t.get(a).cmp(t.get(b)),
        }
    }

    fn len(&self) -> Option<usize> {
        match self {
            Labels::Identity => None,
            Labels::Numbers(n) => Some(n.len()),
            Labels::Text(t) => Some(t.len()),
        }
    }
}

/// Whether numbers of which `most` is the largest are dense.
fn are_dense(most: u64, vertices: u32) -> bool {
    most / 4 <= u64::from(vertices)
}

/// Bytes that [`Names::new`] takes to put numbers in order.
pub(crate) fn order_bytes(numbers: &[u64], vertices: u32) -> u64 {
    let most = numbers.iter().copied().max().unwrap_or(0);
    4 * if are_dense(most, vertices) { most + 1 } else { u64::from(vertices) }
}

/// Vertices by ascending number. Numbers that are dense are put in their places without comparing.
fn ascending(numbers: &[u64], vertices: u32) -> Vec<u32> {
    const FREE: u32 = u32::MAX;
    let most = numbers.iter().copied().max().unwrap_or(0);
    if are_dense(most, vertices) {
        let mut places = vec![FREE; most as usize + 1];
        (0..vertices).zip(numbers).for_each(|(v, &number)| places[number as usize] = v);
        places.retain(|&v| v != FREE);
        if places.len() == vertices as usize {
            return places;
        }
    }
    let mut order: Vec<u32> = (0..vertices).collect();
    order.sort_unstable_by_key(|&v| numbers[v as usize]);
    order
}

/// Labels with their sorted order: names vertices and finds them by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    labels: Labels,
    order: Vec<u32>,
    vertices: u32,
}

impl Names {
    /// Sorts the labels of `vertices` vertices.
    pub fn new(labels: Labels, vertices: u32) -> Self {
        let order = match &labels {
            Labels::Identity => Vec::new(),
            Labels::Numbers(numbers) => ascending(numbers, vertices),
            Labels::Text(_) => {
                let mut order: Vec<u32> = (0..vertices).collect();
                order.sort_unstable_by(|&a, &b| labels.compare(a, b));
                order
            }
        };
        Names { labels, order, vertices }
    }

    /// Labels and order read from a file.
    ///
    /// # Errors
    /// `Kind::Corrupt` when the order is no strictly ascending arrangement of all vertices.
    pub(crate) fn checked(labels: Labels, order: Vec<u32>, vertices: u32) -> Result<Self> {
        let bad = |what: &str| Err(Error::new(Kind::Corrupt, format!("names: {what}")));
        let Some(len) = labels.len() else { return Ok(Names { labels, order, vertices }) };
        if len != vertices as usize || order.len() != len || order.iter().any(|&v| v >= vertices) {
            return bad("one name a vertex, and every vertex in the order, was expected");
        }
        if order.windows(2).any(|w| labels.compare(w[0], w[1]) != Ordering::Less) {
            return bad("the order of names does not ascend");
        }
        Ok(Names { labels, order, vertices })
    }

    /// What vertex `v` is called.
    ///
    /// # Panics
    /// When `v` is out of range.
    pub fn name(&self, v: u32) -> String {
        assert!(v < self.vertices, "vertex {v} of {}", self.vertices);
        match &self.labels {
            Labels::Identity => v.to_string(),
            Labels::Numbers(n) => n[v as usize].to_string(),
            Labels::Text(t) => String::from_utf8_lossy(t.get(v)).into_owned(),
        }
    }

    /// The vertex called `name`.
    ///
    /// # Errors
    /// `Kind::NoSuchVertex`, with a near name when there is one.
    pub fn find(&self, name: &str) -> Result<u32> {
        self.lookup(name).ok_or_else(|| {
            let near = self.nearest(name).map(|n| format!("; the next in order is '{n}'"));
            let context = format!("no vertex is called '{name}'{}", near.unwrap_or_default());
            Error::new(Kind::NoSuchVertex, context)
        })
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        match &self.labels {
            Labels::Identity => name.parse().ok().filter(|&v| v < self.vertices),
            Labels::Numbers(n) => {
                let wanted: u64 = name.parse().ok()?;
                let at = self.order.binary_search_by_key(&wanted, |&v| n[v as usize]).ok()?;
                Some(self.order[at])
            }
            Labels::Text(t) => {
                let at = self.order.binary_search_by(|&v| t.get(v).cmp(name.as_bytes())).ok()?;
                Some(self.order[at])
            }
        }
    }

    fn nearest(&self, name: &str) -> Option<String> {
        let at = match &self.labels {
            Labels::Identity => return None,
            Labels::Numbers(n) => {
                let wanted: u64 = name.parse().ok()?;
                self.order.partition_point(|&v| n[v as usize] < wanted)
            }
            Labels::Text(t) => self.order.partition_point(|&v| t.get(v) < name.as_bytes()),
        };
        self.order.get(at).or(self.order.last()).map(|&v| self.name(v))
    }

    /// The labels themselves.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// Vertices by ascending name; empty when names are the internal ids.
    pub fn order(&self) -> &[u32] {
        &self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_and_near_ones_offered() {
        let mut t = TextNames::new();
        for n in ["perl", "apt", "libc6"] {
            t.push(n);
        }
        let names = Names::new(Labels::Text(t), 3);
        assert_eq!((names.find("apt").unwrap(), names.name(2)), (1, "libc6".to_owned()));
        let e = names.find("lib").unwrap_err();
        assert_eq!(e.kind(), Kind::NoSuchVertex);
        assert!(e.to_string().contains("'libc6'"), "{e}");
        let numbers = Names::new(Labels::Numbers(vec![9, u64::MAX, 0]), 3);
        assert_eq!(numbers.find(&u64::MAX.to_string()).unwrap(), 1);
        assert!(numbers.find("1").is_err() && numbers.find("x").is_err());
        assert_eq!(Names::new(Labels::Identity, 4).find("3").unwrap(), 3);
        assert!(Names::new(Labels::Identity, 4).find("4").is_err());
    }

    #[test]
    fn dense_and_scattered_numbers_have_the_same_order() {
        let dense: Vec<u64> = (0..1000).map(|v| v * 7 % 1000 + v % 3 * 1000).collect();
        let scattered: Vec<u64> = dense.iter().map(|n| n << 40).collect();
        let order = ascending(&dense, 1000);
        assert!(order.is_sorted_by_key(|&v| dense[v as usize]));
        assert_eq!(order, ascending(&scattered, 1000));
    }

    #[test]
    fn a_forged_order_is_refused() {
        let labels = || Labels::Numbers(vec![5, 3]);
        assert!(Names::checked(labels(), vec![1, 0], 2).is_ok());
        for forged in [vec![0, 1], vec![1, 1], vec![1, 2], vec![1]] {
            assert!(Names::checked(labels(), forged, 2).is_err());
        }
        assert!(TextNames::from_parts(vec![0, 9], b"abc".to_vec()).is_err());
        assert!(TextNames::from_parts(vec![0, 1], vec![0xff]).is_err());
    }
}
