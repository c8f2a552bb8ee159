//! Fetches bytes of generations of this node from the nodes that have them, because a program of
//! this node needs them, or another node that writes the same file.

use super::Agent;
use super::deferred::After;
use crate::hosted::{Hosted, Pulled};
use crate::peers::{Holder, Message, Part, Target, differences, gone};
use crate::registry::Area;
use aggio_base::Extent;
use aggio_link::Body;

impl Agent {
    /// Lets bytes of `extents` come that other nodes have; then `after` is done. If there are none,
    /// it is given back.
    pub(super) fn pulls_first(
        &mut self,
        area: Area,
        extents: &[Extent],
        after: After,
    ) -> Result<(), After> {
        match self.own.hosted.get_mut(area) {
            Some(hosted) => hosted.pull(extents, after)?,
            None => return Err(after),
        }
        self.go_on_pulling(area);
        Ok(())
    }

    fn go_on_pulling(&mut self, area: Area) {
        let Some(peers) = &mut self.peers else { return };
        let owner = peers.nodes.directory.own().words();
        while let Some(pull) = self.own.hosted.get_mut(area).and_then(Hosted::pulling) {
            let Some((part, holder)) = pull.next() else { break };
            let Holder { peer, area: of } = holder;
            let parts = [Part { extent: part, peer, area: of, pushed: false }];
            let tag = peers.replication.takes.begin(Target::Own(area), vec![part], &parts);
            pull.sent(tag, part, holder);
            let take = Message::Take { tag, owner: owner.clone(), area: of };
            let places = Body::Bytes(differences::places(&[part]));
            if peers.nodes.caller(peer).is_none() || peers.nodes.say(peer, &take, places).is_err() {
                let host = self.own.hosted.node(holder).map(|node| node.host.clone());
                let pull = self.own.hosted.get_mut(area).and_then(Hosted::pulling);
                pull.into_iter().for_each(|pull| pull.fail(gone(host.as_deref().unwrap_or(""))));
            }
        }
        if let Some(pulled) = self.own.hosted.get_mut(area).and_then(Hosted::end_pull) {
            self.finish_pull(area, pulled);
        }
    }

    /// Bytes of a generation have come, or do not come.
    pub(super) fn finish_pull(&mut self, area: Area, pulled: Pulled<After>) {
        let Pulled { tags, mut after, failed } = pulled;
        if let Some(peers) = &mut self.peers {
            tags.into_iter().for_each(|tag| _ = peers.replication.takes.fail(tag));
        }
        // Writers that wait get their descriptors before the agent looks whether anybody can write.
        after.sort_by_key(|after| matches!(after, After::Look(_)));
        for after in after {
            match &failed {
                None => self.finish(after),
                Some(text) => self.fail(area, after, text),
            }
        }
        self.settle();
    }

    /// A requested part has arrived in the memory of the generation.
    pub(super) fn has_pulled(&mut self, area: Area, tag: u64) {
        self.own.hosted.get_mut(area).into_iter().for_each(|hosted| hosted.pulled(tag));
        self.go_on_pulling(area);
    }

    /// Bytes that were requested do not arrive.
    pub(super) fn fail_pull(&mut self, area: Area, text: String) {
        let pull = self.own.hosted.get_mut(area).and_then(Hosted::pulling);
        pull.into_iter().for_each(|pull| pull.fail(text.clone()));
        self.go_on_pulling(area);
    }
}
