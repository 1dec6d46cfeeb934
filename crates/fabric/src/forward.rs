//! Wrappers of a fabric: what they hand on to the fabric that they hold is written once.
//!
//! A wrapper names in `forward_fabric!` what it leaves as it is and writes the rest.
//!
//! Invariants
//! - A wrapper hands on every method that it does not write itself, also those for which
//!   [`Fabric`](crate::Fabric) has an answer of its own: a default in their place would change what
//!   the wrapped fabric does. Checked by `every_wrapper_forwards_or_writes_every_method`.

/// Writes methods of [`Fabric`](crate::Fabric) that hand on to another fabric:
/// `forward_fabric!(through: me nodes)`, where `through!(self, me())` is the caller's macro that
/// says on what to call it; `all` is every method.
macro_rules! forward_fabric {
    ($through:ident: all) => {
        $crate::forward::forward_fabric!($through:
            me nodes window_bytes is_coherent put get fetch_add flush post post_bytes_max try_post
            try_post_bytes_max receive receive_asleep attend call receive_attending notify show_life send_rest liveness has_delivered rmw
            signal wait_word pause board_write board_read board_ask board_answer);
    };
    ($through:ident: $($method:ident)+) => {
        $($crate::forward::forward_fabric!(@$method $through);)+
    };
    (@me $through:ident) => {
        fn me(&self) -> ::littoral_base::units::NodeId {
            $through!(self, me())
        }
    };
    (@nodes $through:ident) => {
        fn nodes(&self) -> u16 {
            $through!(self, nodes())
        }
    };
    (@window_bytes $through:ident) => {
        fn window_bytes(&self) -> usize {
            $through!(self, window_bytes())
        }
    };
    (@is_coherent $through:ident) => {
        fn is_coherent(&self) -> bool {
            $through!(self, is_coherent())
        }
    };
    (@put $through:ident) => {
        fn put(&self, node: ::littoral_base::units::NodeId, offset: usize, data: &[u8]) -> $crate::Result<()> {
            $through!(self, put(node, offset, data))
        }
    };
    (@get $through:ident) => {
        fn get(&self, node: ::littoral_base::units::NodeId, offset: usize, into: &mut [u8]) -> $crate::Result<()> {
            $through!(self, get(node, offset, into))
        }
    };
    (@fetch_add $through:ident) => {
        fn fetch_add(&self, node: ::littoral_base::units::NodeId, offset: usize, add: u64) -> $crate::Result<u64> {
            $through!(self, fetch_add(node, offset, add))
        }
    };
    (@flush $through:ident) => {
        fn flush(&self, node: ::littoral_base::units::NodeId) -> $crate::Result<()> {
            $through!(self, flush(node))
        }
    };
    (@post $through:ident) => {
        fn post(&self, node: ::littoral_base::units::NodeId, message: &[u8]) -> $crate::Result<()> {
            $through!(self, post(node, message))
        }
    };
    (@post_bytes_max $through:ident) => {
        fn post_bytes_max(&self) -> usize {
            $through!(self, post_bytes_max())
        }
    };
    (@try_post $through:ident) => {
        fn try_post(&self, node: ::littoral_base::units::NodeId, message: &[u8]) -> $crate::Result<bool> {
            $through!(self, try_post(node, message))
        }
    };
    (@try_post_bytes_max $through:ident) => {
        fn try_post_bytes_max(&self) -> usize {
            $through!(self, try_post_bytes_max())
        }
    };
    (@receive $through:ident) => {
        fn receive(&self, timeout: ::std::time::Duration) -> $crate::Result<Option<(::littoral_base::units::NodeId, Vec<u8>)>> {
            $through!(self, receive(timeout))
        }
    };
    (@receive_asleep $through:ident) => {
        fn receive_asleep(&self, timeout: ::std::time::Duration) -> $crate::Result<Option<(::littoral_base::units::NodeId, Vec<u8>)>> {
            $through!(self, receive_asleep(timeout))
        }
    };
    (@attend $through:ident) => {
        fn attend(&self, begins: bool) -> bool {
            $through!(self, attend(begins))
        }
    };
    (@call $through:ident) => {
        fn call(&self) {
            $through!(self, call())
        }
    };
    (@receive_attending $through:ident) => {
        fn receive_attending(&self, timeout: ::std::time::Duration) -> $crate::Result<Option<(::littoral_base::units::NodeId, Vec<u8>)>> {
            $through!(self, receive_attending(timeout))
        }
    };
    (@notify $through:ident) => {
        fn notify(&self, node: ::littoral_base::units::NodeId) -> $crate::Result<()> {
            $through!(self, notify(node))
        }
    };
    (@show_life $through:ident) => {
        fn show_life(&self) -> $crate::Result<()> {
            $through!(self, show_life())
        }
    };
    (@send_rest $through:ident) => {
        fn send_rest(&self) {
            $through!(self, send_rest());
        }
    };
    (@liveness $through:ident) => {
        fn liveness(&self, node: ::littoral_base::units::NodeId) -> $crate::Liveness {
            $through!(self, liveness(node))
        }
    };
    (@has_delivered $through:ident) => {
        fn has_delivered(&self, node: ::littoral_base::units::NodeId) -> bool {
            $through!(self, has_delivered(node))
        }
    };
    (@rmw $through:ident) => {
        fn rmw(&self, node: ::littoral_base::units::NodeId, offset: usize, op: $crate::Rmw) -> $crate::Result<u64> {
            $through!(self, rmw(node, offset, op))
        }
    };
    (@signal $through:ident) => {
        fn signal(&self, node: ::littoral_base::units::NodeId, offset: usize, word: u64) -> $crate::Result<()> {
            $through!(self, signal(node, offset, word))
        }
    };
    (@wait_word $through:ident) => {
        fn wait_word(&self, offset: usize, unlike: u64, timeout: ::std::time::Duration) -> $crate::Result<Option<u64>> {
            $through!(self, wait_word(offset, unlike, timeout))
        }
    };
    (@pause $through:ident) => {
        fn pause(&self, length: ::std::time::Duration) {
            $through!(self, pause(length));
        }
    };
    (@board_write $through:ident) => {
        fn board_write(&self, node: ::littoral_base::units::NodeId, data: &[u8]) -> $crate::Result<()> {
            $through!(self, board_write(node, data))
        }
    };
    (@board_read $through:ident) => {
        fn board_read(&self, node: ::littoral_base::units::NodeId, question: &[u8]) -> $crate::Result<Vec<u8>> {
            $through!(self, board_read(node, question))
        }
    };
    (@board_ask $through:ident) => {
        fn board_ask(&self, node: ::littoral_base::units::NodeId, question: &[u8]) -> $crate::Result<Option<u64>> {
            $through!(self, board_ask(node, question))
        }
    };
    (@board_answer $through:ident) => {
        fn board_answer(&self, node: ::littoral_base::units::NodeId, asked: u64) -> $crate::Result<Vec<u8>> {
            $through!(self, board_answer(node, asked))
        }
    };
}
pub(crate) use forward_fabric;

#[cfg(test)]
mod tests {
    /// The names behind `fn` in `text`.
    fn functions(text: &str) -> Vec<&str> {
        let after = text.split("    fn ").skip(1);
        after.filter_map(|rest| rest.split(['(', '<']).next()).collect()
    }

    /// The part of `text` from `from` to the next line that is a closing brace.
    fn block<'t>(text: &'t str, from: &str) -> &'t str {
        let (_, rest) = text.split_once(from).expect("the block is there");
        rest.split("\n}").next().expect("a split has a first part")
    }

    #[test]
    fn every_wrapper_forwards_or_writes_every_method() {
        let methods = functions(block(include_str!("lib.rs"), "pub trait Fabric {"));
        assert!(methods.len() > 20 && methods.contains(&"show_life"), "{methods:?}");
        let (_, rest) = include_str!("forward.rs").split_once("($through:ident: all)").unwrap();
        let (every, _) = rest.split_once("};").unwrap();
        for (name, text) in [
            ("&F", every),
            ("Counted", block(include_str!("counted.rs"), "> Fabric for Counted<F>")),
            ("Faulty", block(include_str!("faulty.rs"), "> Fabric for Faulty<F>")),
        ] {
            let written = functions(text);
            let forwarded: Vec<&str> = match text.split_once("forward_fabric!(") {
                Some((_, rest)) => rest.split(");").next().unwrap().split_whitespace().collect(),
                None => Vec::new(),
            };
            for method in &methods {
                let times =
                    [&written, &forwarded].map(|l| l.iter().filter(|m| *m == method).count());
                assert_eq!(times.iter().sum::<usize>(), 1, "{name}: {method}");
            }
        }
    }
}
