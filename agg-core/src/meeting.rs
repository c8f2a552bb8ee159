//! The first and the last step of a collective operation: all ranks hear what all bring, and all
//! end with one result. In the memory of the node if it has all ranks, else with messages.

use crate::error::Result;
use crate::group;
use crate::node::Operation;
use crate::tags::TagBlock;
use crate::task::place::on_caller;
use crate::transport::Transport;

/// One collective operation. At most one for each [`TagBlock`].
pub(crate) struct Meeting<'a> {
    transport: &'a dyn Transport,
    tags: &'a TagBlock,
    operation: Option<Operation<'a>>,
}

impl<'a> Meeting<'a> {
    /// Joins the operation that `tags` belong to.
    pub(crate) async fn join(transport: &'a dyn Transport, tags: &'a TagBlock) -> Result<Self> {
        tags.ready().await;
        let node = transport.node().filter(|node| node.members().len() == transport.size());
        let operation = match node {
            Some(node) => Some(node.claim(tags.id()).await?),
            None => {
                on_caller().await;
                None
            }
        };
        Ok(Self { transport, tags, operation })
    }

    /// The operation in the memory of the node, if that has all ranks.
    pub(crate) fn operation(&self) -> Option<&Operation<'a>> {
        self.operation.as_ref()
    }

    /// Gives every rank the `mine` of all ranks, in rank order, end to end. At most once.
    pub(crate) async fn all(&self, step: u32, mine: &[u8]) -> Result<Vec<u8>> {
        match &self.operation {
            Some(operation) => operation.meet(mine).await,
            None => group::allgather(self.transport, self.tags.tag(step), mine).await,
        }
    }

    /// Ends with the result of the lowest rank that failed. At most once.
    pub(crate) async fn agree(&self, step: u32, local: Result<()>) -> Result<()> {
        match &self.operation {
            Some(operation) => operation.agree(local).await,
            None => group::agree(self.transport, self.tags.tag(step), local).await,
        }
    }
}
