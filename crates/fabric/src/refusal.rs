//! Errors that several fabrics report alike; the nodes are fields of the error's place.

use littoral_base::units::NodeId;

use crate::{Error, Kind};

/// `node` does not exist in a job of `nodes` nodes.
#[cold]
pub(super) fn no_such_node(me: NodeId, node: NodeId, nodes: usize) -> Error {
    let what = format!("node {node} of a job with {nodes} nodes");
    Error::new(Kind::IllegalRequest, what).at_rank(me).at_peer(node)
}

/// `node` is gone, as node `me` has noticed.
#[cold]
pub(super) fn gone(me: NodeId, node: NodeId, how: &str) -> Error {
    Error::new(Kind::Io, format!("node {node} is gone: {how}")).at_rank(me).at_peer(node)
}

/// `node` did not do what node `me` has waited for.
#[cold]
pub(super) fn missed(me: NodeId, node: NodeId, what: String) -> Error {
    Error::new(Kind::Io, what).at_rank(me).at_peer(node)
}

/// `node` hosts no board.
#[cold]
pub(super) fn no_board(node: NodeId, where_to: &str) -> Error {
    Error::new(Kind::Unsupported, format!("node {node} hosts no board{where_to}")).at_peer(node)
}
