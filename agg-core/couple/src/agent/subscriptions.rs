//! Subscribes to bytes that programs of this node will read of the next generations, and takes in
//! what other nodes push because of that.

use super::Agent;
use super::offers::LEAST;
use super::pushes::PLACES;
use crate::peers::{Announced, Key, Message, Route, Target, Template, agree, differences};
use crate::protocol::bad;
use crate::registry::{Area, Series, series};
use crate::spares::has_room;
use aggio_base::Extent;
use aggio_link::{Body, Peer, Received};
use std::collections::BTreeMap;
use std::io;

/// Generations that a node accepts before its programs open one of them.
const AHEAD: u32 = 2;

impl Agent {
    /// Handles a message about bytes that are sent without a request.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn hear_of_pushes(
        &mut self,
        peer: Peer,
        message: Message,
        body: Received,
    ) -> io::Result<()> {
        match (message, body) {
            (Message::Subscribe { owner, series, number, credit }, body) => {
                let body = if let Received::Bytes(bytes) = body { bytes } else { Vec::new() };
                self.hear_subscribe(peer, (owner, series), (number, credit), &body)
            }
            (Message::Subscribed { owner, series, number, credit, after }, _) => {
                let Some(peers) = &mut self.peers else { return Ok(()) };
                let Some(owner) = peers.nodes.known(&owner) else { return Ok(()) };
                let route = (peer, owner, series);
                peers.subscriptions.noted(&route, number, credit, after);
                self.ask_unpromised(&route, None);
                Ok(())
            }
            (Message::Push { owner, series, number, area, report, tag }, _) => {
                let owner = self.peers.as_ref().and_then(|peers| peers.nodes.known(&owner));
                let Some(owner) = owner else { return Ok(()) };
                let route = (peer, owner, series);
                let accepted = self.hear_push(&route, number, area, (report, tag));
                self.ask_unpromised(&route, (!accepted).then_some(area));
                Ok(())
            }
            (Message::Pushed(tag, offset), body) => self.hear_pushed(peer, tag, offset, body),
            _ => Err(io::Error::other("it is of no known kind")),
        }
    }

    /// Subscribes to what programs have read of a generation, before the last of them closes it.
    pub(super) fn subscribe(&mut self, key: Key) {
        let Some(peers) = &mut self.peers else { return };
        let Some((wanted, template)) = peers.copies.was_read(key) else { return };
        let series = series(&template.path);
        peers.copies.give_up_early(key, &series);
        let places = self.places_of(key, &wanted);
        let Some(peers) = &mut self.peers else { return };
        let is_small =
            template.size < LEAST || places.values().map(Vec::len).sum::<usize>() > PLACES;
        let places = if is_small { BTreeMap::new() } else { places };
        let credit = AHEAD.saturating_sub(peers.copies.unopened(key.0, &series));
        for (route, number) in peers.subscriptions.of(key.0, &series) {
            if !places.contains_key(&route.0) {
                self.end_subscription(&route, number);
            }
        }
        let Some(owner) = self.peers.as_ref().and_then(|peers| peers.nodes.words(key.0)) else {
            return;
        };
        for (peer, places) in places {
            let Some(peers) = &mut self.peers else { return };
            let route = (peer, key.0, series.clone());
            let renewed =
                peers.subscriptions.renew(route.clone(), template.clone(), places, credit);
            let Some((number, places)) = renewed else { continue };
            let (owner, series) = (owner.clone(), series.clone());
            let message = Message::Subscribe { owner, series, number, credit };
            // A connection that has ended is told soon.
            let _ = peers.nodes.say(peer, &message, Body::Bytes(differences::places(&places)));
            self.ask_unpromised(&route, None);
        }
    }

    /// The parts of `wanted` that other nodes wrote to this generation, by the nodes.
    fn places_of(&self, key: Key, wanted: &[Extent]) -> BTreeMap<Peer, Vec<Extent>> {
        let mut places = BTreeMap::<Peer, Vec<Extent>>::new();
        let Some(peers) = &self.peers else { return places };
        let Some(copy) = peers.copies.get(key) else { return places };
        let own = peers.nodes.directory.own().words();
        for (part, node) in wanted.iter().flat_map(|range| copy.sources.of(*range)) {
            let peer = match node.map(|node| copy.sources.node(node)) {
                None => Some(key.0),
                Some(Some(node)) if node.words != own && node.area == key.1 => {
                    peers.nodes.known(&node.words)
                }
                _ => None,
            };
            let Some(peer) = peer else { continue };
            let places = places.entry(peer).or_default();
            match places.last_mut().filter(|last| last.end() == part.offset) {
                Some(last) => last.len += part.len,
                None => places.push(part),
            }
        }
        places
    }

    fn end_subscription(&mut self, route: &Route, number: u64) {
        let Some(peers) = &mut self.peers else { return };
        peers.subscriptions.end(route);
        if let Some(owner) = peers.nodes.words(route.1) {
            let message = Message::Subscribe { owner, series: route.2.clone(), number, credit: 0 };
            // A connection that has ended is told soon.
            let _ = peers.nodes.say(route.0, &message, Body::None);
        }
        self.ask_unpromised(route, None);
    }

    /// Ends all subscriptions to files of an owner, or those to one series.
    pub(super) fn end_subscriptions(&mut self, owner: Peer, series: Option<&Series>) {
        let Some(peers) = &self.peers else { return };
        let all = match series {
            Some(series) => vec![series.clone()],
            None => peers.subscriptions.series_of(owner),
        };
        let routes: Vec<(Route, u64)> =
            all.iter().flat_map(|series| peers.subscriptions.of(owner, series)).collect();
        routes.iter().for_each(|(route, number)| self.end_subscription(route, *number));
    }

    /// The owner gives up a generation: if no program has opened it, none will open the next ones.
    pub(super) fn end_unread(&mut self, key: Key) {
        let Some(peers) = &self.peers else { return };
        let unread = peers.copies.get(key).filter(|copy| copy.offered);
        if let Some(series) = unread.map(|copy| series(&copy.path)) {
            self.end_subscriptions(key.0, Some(&series));
        }
    }

    /// A node announces bytes of a generation, or that it sends none. Whether they are accepted.
    fn hear_push(
        &mut self,
        route: &Route,
        number: u64,
        area: Area,
        (report, tag): (u64, u64),
    ) -> bool {
        let Some(peers) = &mut self.peers else { return false };
        let announced = peers.subscriptions.announced(route, number, area);
        let Some((places, template)) = announced.filter(|_| tag != 0) else { return false };
        let key = (route.1, area);
        if peers.copies.get(key).is_none() && !self.begin_early(key, &template) {
            return false;
        }
        let Some(peers) = &mut self.peers else { return false };
        let words = peers.nodes.words(route.0);
        let Some(copy) = peers.copies.get_mut(key) else { return false };
        let is_usual = copy.shared.is_none()
            && (copy.is_early() || agree(&copy.sources, key, (&places, route.0, report), words));
        if !is_usual || !copy.pushed.begin(route.0, report, &places) {
            return false;
        }
        let left = places.iter().map(|place| place.len).sum();
        let announced = Announced { key, local: copy.local(), left };
        peers.subscriptions.expect(route.0, tag, announced);
        true
    }

    /// Makes memory for bytes that arrive before the owner says that their generation is complete.
    fn begin_early(&mut self, key: Key, template: &Template) -> bool {
        let Some(peers) = &mut self.peers else { return false };
        let is_read = peers.joined.iter().any(|(owner, _)| *owner == key.0);
        let has_room = || has_room(template.size);
        if key.1 <= template.area
            || !is_read
            || peers.copies.unopened(key.0, &series(&template.path)) >= AHEAD
            || !has_room()
        {
            return false;
        }
        let spare = self.pages.file(template.size);
        peers.copies.begin_early(key, template, spare).is_ok()
    }

    /// Announced bytes have arrived.
    ///
    /// # Errors
    /// They were not announced.
    fn hear_pushed(&mut self, peer: Peer, tag: u64, offset: u64, body: Received) -> io::Result<()> {
        let len = match &body {
            Received::None => 0,
            Received::Bytes(bytes) => bytes.len() as u64,
            Received::Placed(extent) => extent.len,
        };
        let Some(peers) = &mut self.peers else { return Ok(()) };
        let Some(announced) = peers.subscriptions.target(peer, tag) else { return Ok(()) };
        let (key, part) = (announced.key, Extent::new(offset, len));
        peers.subscriptions.came(peer, tag, len);
        if peers.copies.made(key, announced.local).is_none() {
            return Ok(());
        }
        let Some(copy) = peers.copies.get_mut(key) else { return Ok(()) };
        if !copy.pushed.is_coming(part, peer) {
            return Err(bad("bytes that were not announced"));
        }
        if let Received::Bytes(bytes) = &body
            && let Err(error) = peers.copies.fill(key, bytes, offset)
        {
            self.cannot_send(key, &error);
            return Ok(());
        }
        let Some(peers) = &mut self.peers else { return Ok(()) };
        if let Some(copy) = peers.copies.get_mut(key) {
            copy.pushed.come(part, peer);
        }
        let target = Target::Copy(key, announced.local);
        let there = peers.takes.pushed(target, peer, part);
        if there.is_empty() { Ok(()) } else { self.filled(key, &there) }
    }

    /// Requests bytes that a node was to send without a request, and does not, or not of the
    /// generation `refused`.
    fn ask_unpromised(&mut self, route: &Route, refused: Option<Area>) {
        let Some(peers) = &mut self.peers else { return };
        let Some(owner) = peers.nodes.words(route.1) else { return };
        for (tag, target, mut parts) in peers.takes.awaited(route.0) {
            let Target::Copy(key, local) = target else { continue };
            if key.0 != route.1 {
                continue;
            }
            let Some(copy) = peers.copies.made(key, local) else {
                peers.takes.fail_of(tag, route.0);
                continue;
            };
            let is_promised = |part: &Extent| {
                refused != Some(key.1) && peers.subscriptions.promises(route, key.1, *part)
            };
            parts.retain(|part| !copy.pushed.is_coming(*part, route.0) && !is_promised(part));
            if series(&copy.path) != route.2 || parts.is_empty() {
                continue;
            }
            peers.takes.ask(tag, route.0, &parts);
            let take = Message::Take { tag, owner: owner.clone(), area: key.1 };
            // A connection that has ended is told soon.
            let _ = peers.say_take(route.0, &take, &parts);
        }
    }
}
