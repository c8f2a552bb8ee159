//! Makes the memory shared by the ranks of a node.

use super::{Map, Node, NodeAddress};
use crate::group;
use crate::transport::Transport;
use aggio_base::error::Result;

/// Makes the memory that the ranks of this node share; collective over all ranks of `transport`.
/// `None` on all ranks if memory is not available on some node: then everything travels in
/// messages.
pub async fn form(transport: &dyn Transport, tag: u32) -> Result<Option<Node>> {
    let map = Map::new(transport.nodes(), transport.rank());
    let node = if map.index() == 0 {
        invite(transport, tag, map).await?
    } else {
        follow(transport, tag, map).await?
    };
    // Not `agree`: it is not an error if there is no memory.
    let all = group::allgather(transport, tag, &[u8::from(node.is_ok())]).await?;
    if all.iter().all(|there| *there == 1) { node.map(Some) } else { Ok(None) }
}

/// The first rank of a node makes the memory and sends its address to the others.
async fn invite(t: &dyn Transport, tag: u32, map: Map) -> Result<Result<Node>> {
    let others = map.members_of(map.node())[1..].to_vec();
    let node = Node::create(map);
    let address = node.as_ref().map(|node| node.address().to_bytes().to_vec()).unwrap_or_default();
    for member in others {
        group::send_framed(t, member, tag, &address).await?;
    }
    Ok(node)
}

async fn follow(t: &dyn Transport, tag: u32, map: Map) -> Result<Result<Node>> {
    let address = group::recv_framed(t, map.leaders()[map.node()], tag).await?;
    let address = NodeAddress::from_bytes(&address);
    Ok(address.and_then(|address| Node::open(address, map)))
}
