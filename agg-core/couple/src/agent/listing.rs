//! Listings of directories with the files that other nodes own.

use super::Agent;
use super::forward::Way;
use crate::peers::{Listing, page};
use crate::protocol::{Reply, Request};
use crate::registry::{Process, Registry};

/// The names of files in a directory that this node owns and the process can open, behind `after`.
pub(super) fn list(
    registry: &Registry,
    process: Process,
    dir: &[u8],
    after: &[u8],
    view: bool,
) -> Reply {
    let found = registry.list(process, dir, view);
    page(found.into_iter().filter(|name| &**name > after), false)
}

impl Agent {
    /// Asks the nodes that own files in a directory, if there are any.
    pub(super) fn list_on_all(&mut self, link: u64, process: Process, request: Request) -> Way {
        let (Some(peers), Request::List(dir, after, view)) = (&mut self.peers, &request) else {
            return Way::Here(request);
        };
        let owners = match peers.nodes.owners_in(dir) {
            Ok(owners) if owners.is_empty() => return Way::Here(request),
            Ok(owners) => owners,
            Err(error) => {
                self.reply(link, &Reply::from(&error), None);
                return Way::There;
            }
        };
        let own = list(&self.own.registry, process, dir, after, *view);
        let listing = Listing::new(owners.len(), own);
        peers.requests.list(link, listing);
        owners.into_iter().for_each(|peer| self.ask(peer, link, process, request.clone()));
        Way::There
    }
}
