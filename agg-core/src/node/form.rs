//! How the ranks of a node come to share a memory.

use super::{Node, NodeAddress};
use crate::error::Result;
use crate::group;
use crate::transport::Transport;

/// Makes the memory that the ranks of this node share; collective over all ranks of `transport`.
/// `None` on all ranks if memory is not to be had on some node: then everything travels in
/// messages.
pub async fn form(transport: &dyn Transport, tag: u32) -> Result<Option<Node>> {
    let rank = transport.rank();
    let members: Vec<usize> = transport.nodes().beside(rank).collect();
    let index = members.iter().position(|member| *member == rank).unwrap_or(0);
    let node = if index == 0 {
        invite(transport, tag, members).await?
    } else {
        follow(transport, tag, members, index).await?
    };
    // Not `agree`: where there is no memory, that is no error of anybody.
    let all = group::allgather(transport, tag, &[u8::from(node.is_ok())]).await?;
    if all.iter().all(|there| *there == 1) { node.map(Some) } else { Ok(None) }
}

/// The first rank of a node makes the memory and tells the others.
async fn invite(t: &dyn Transport, tag: u32, members: Vec<usize>) -> Result<Result<Node>> {
    let node = Node::create(members.clone(), 0);
    let address = node.as_ref().map(|node| node.address().to_bytes().to_vec()).unwrap_or_default();
    for member in &members[1..] {
        group::send_framed(t, *member, tag, &address).await?;
    }
    Ok(node)
}

async fn follow(
    t: &dyn Transport,
    tag: u32,
    members: Vec<usize>,
    index: usize,
) -> Result<Result<Node>> {
    let address = group::recv_framed(t, members[0], tag).await?;
    let address = NodeAddress::from_bytes(&address);
    Ok(address.and_then(|address| Node::open(address, members, index)))
}
