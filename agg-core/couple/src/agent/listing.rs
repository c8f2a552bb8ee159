//! Listings of directories with the files that other nodes own.

use super::Agent;
use super::away::{Way, failed};
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
    let found = if view { registry.list_viewed(process, dir) } else { registry.list(process, dir) };
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
                self.reply(link, &failed(&error), None);
                return Way::There;
            }
        };
        let own = list(&self.registry, process, dir, after, *view);
        let listing = Listing::new(owners.len(), own);
        if let Some(peers) = &mut self.peers {
            peers.listings.insert(link, listing);
        }
        owners.into_iter().for_each(|peer| self.ask(peer, link, process, request.clone()));
        Way::There
    }

    /// What one of them has answered; gives the answer back if the program waits for no listing.
    pub(super) fn hear_names(&mut self, link: u64, reply: Reply) -> Option<Reply> {
        let listings = self.peers.as_mut().map(|peers| &mut peers.listings);
        let Some(listing) = listings.and_then(|listings| listings.get_mut(&link)) else {
            return Some(reply);
        };
        if listing.hear(reply) {
            let listing = self.peers.as_mut().and_then(|peers| peers.listings.remove(&link));
            listing.into_iter().for_each(|all| _ = self.reply(link, &all.reply(), None));
        }
        None
    }
}
