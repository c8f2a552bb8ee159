//! Subscriptions to bytes that programs of this node will read of the next generations, and bytes
//! that other nodes push because of that.

use super::{
    Action, Agents, Area, Body, Extent, Host, Key, Message, Peer, Received, Replication, Target,
    bad, differences, len,
};
use crate::peers::{Announced, LEAST, PLACES, Route, Template, agree};
use crate::registry::{Series, series};
use crate::spares::has_room;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Generations that a node accepts before its programs open one of them.
const AHEAD: u32 = 2;

impl Replication {
    /// Subscribes to bytes that programs have read of a generation, before the last of them closes
    /// it.
    pub(super) fn subscribe(&mut self, key: Key, agents: &dyn Agents) -> Vec<Action> {
        let Some((wanted, template)) = self.replicas.was_read(key) else { return Vec::new() };
        let series = series(&template.path);
        self.replicas.give_up_early(key, &series);
        let replica = self.replicas.get(key);
        let places = replica.map(|one| one.places_of(key, &wanted, agents)).unwrap_or_default();
        let count: usize = places.values().map(Vec::len).sum();
        let is_of_use = template.size >= LEAST && count <= PLACES && has_room(template.size);
        let places = if is_of_use { places } else { BTreeMap::new() };
        let credit = AHEAD.saturating_sub(self.replicas.unopened(key.0, &series));
        let mut actions = Vec::new();
        for (route, number) in self.subscriptions.of(key.0, &series) {
            if !places.contains_key(&route.0) {
                actions.extend(self.end_subscription(&route, number, agents));
            }
        }
        let Some(owner) = agents.words(key.0) else { return actions };
        for (peer, places) in places {
            let route = (peer, key.0, series.clone());
            let renewed = self.subscriptions.renew(route.clone(), template.clone(), places, credit);
            let Some((number, places)) = renewed else { continue };
            let (owner, series) = (owner.clone(), series.clone());
            let message = Message::Subscribe { owner, series, number, credit };
            let places = Body::Bytes(differences::places(&places));
            actions.push(Action::Say(peer, message, places));
            actions.extend(self.ask_unpromised(&route, None, agents));
        }
        actions
    }

    fn end_subscription(&mut self, route: &Route, number: u64, agents: &dyn Agents) -> Vec<Action> {
        self.subscriptions.end(route);
        let mut actions = Vec::new();
        if let Some(owner) = agents.words(route.1) {
            let message = Message::Subscribe { owner, series: route.2.clone(), number, credit: 0 };
            actions.push(Action::Say(route.0, message, Body::None));
        }
        actions.extend(self.ask_unpromised(route, None, agents));
        actions
    }

    /// Ends all subscriptions to files of an owner, or those to one series.
    pub(super) fn end_subscriptions(
        &mut self,
        owner: Peer,
        series: Option<&Series>,
        agents: &dyn Agents,
    ) -> Vec<Action> {
        let all = match series {
            Some(series) => vec![series.clone()],
            None => self.subscriptions.series_of(owner),
        };
        let routes: Vec<(Route, u64)> =
            all.iter().flat_map(|series| self.subscriptions.of(owner, series)).collect();
        let end = |(route, number): &(Route, u64)| self.end_subscription(route, *number, agents);
        routes.iter().flat_map(end).collect()
    }

    /// Gives up early replicas and subscriptions of owners that no process of this node asks any
    /// more.
    pub(crate) fn decline(&mut self, asked: &BTreeSet<Peer>, agents: &dyn Agents) -> Vec<Action> {
        self.replicas.decline(asked);
        let mut owners = self.subscriptions.owners();
        owners.retain(|owner| !asked.contains(owner));
        owners.into_iter().flat_map(|owner| self.end_subscriptions(owner, None, agents)).collect()
    }

    /// A node announces bytes of a generation by a tag, or that it sends none. Returns whether they
    /// are accepted.
    pub(super) fn hear_push(
        &mut self,
        route: &Route,
        (number, area): (u64, Area),
        (report, tag): (u64, u64),
        host: &mut Host<'_>,
    ) -> bool {
        let announced = self.subscriptions.announced(route, number, area);
        let Some((places, template)) = announced.filter(|_| tag != 0) else { return false };
        let key = (route.1, area);
        if self.replicas.get(key).is_none() && !self.begin_early(key, &template, host) {
            return false;
        }
        let words = host.agents.words(route.0);
        let Some(replica) = self.replicas.get_mut(key) else { return false };
        let by = (&places[..], route.0, report);
        // A replica that programs of this node write has their bytes.
        let is_usual = replica.shared.is_none()
            && replica.is_only_read()
            && (replica.early || agree(&replica.incoming.sources, key, by, words));
        if !is_usual || !replica.incoming.pushed.begin(route.0, report, &places) {
            return false;
        }
        let left = places.iter().map(|place| place.len).sum();
        let announced = Announced { key, local: replica.local, left };
        self.subscriptions.expect(route.0, tag, announced);
        true
    }

    /// Makes memory for bytes that arrive before the owner says that their generation is complete.
    fn begin_early(&mut self, key: Key, template: &Template, host: &mut Host<'_>) -> bool {
        if key.1 <= template.area
            || !host.requests.has_joined(key.0)
            || self.replicas.unopened(key.0, &series(&template.path)) >= AHEAD
            || !has_room(template.size)
        {
            return false;
        }
        self.replicas.begin_early(key, template, host.pages.file(template.size)).is_ok()
    }

    /// Announced bytes have arrived.
    ///
    /// # Errors
    /// They were not announced.
    pub(super) fn hear_pushed(
        &mut self,
        peer: Peer,
        (tag, offset): (u64, u64),
        body: &Received,
    ) -> io::Result<Vec<Action>> {
        let none = Ok(Vec::new());
        let Some(announced) = self.subscriptions.target(peer, tag) else { return none };
        let (key, part) = (announced.key, Extent::new(offset, len(body)));
        self.subscriptions.came(peer, tag, part.len);
        if self.replicas.made(key, announced.local).is_none() {
            return none;
        }
        let Some(replica) = self.replicas.get_mut(key) else { return none };
        if !replica.incoming.pushed.is_coming(part, peer) {
            return Err(bad("bytes that were not announced"));
        }
        if !replica.is_only_read() {
            return none;
        }
        if let Received::Bytes(bytes) = body
            && let Err(error) = self.replicas.fill(key, bytes, offset)
        {
            return Ok(vec![Action::Broken(key, error)]);
        }
        if let Some(replica) = self.replicas.get_mut(key) {
            replica.incoming.pushed.come(part, peer);
        }
        let target = Target::Replica(key, announced.local);
        let there = self.takes.pushed(target, peer, part);
        if there.is_empty() { none } else { self.filled(key, &there) }
    }

    /// Requests bytes that a node was to send without a request, and does not, or not of the
    /// generation `refused`.
    pub(super) fn ask_unpromised(
        &mut self,
        route: &Route,
        refused: Option<Area>,
        agents: &dyn Agents,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some(owner) = agents.words(route.1) else { return actions };
        for (tag, target, mut parts) in self.takes.awaited(route.0) {
            let Target::Replica(key, local) = target else { continue };
            if key.0 != route.1 {
                continue;
            }
            let Some(replica) = self.replicas.made(key, local) else {
                self.takes.fail_of(tag, route.0);
                continue;
            };
            let is_promised = |part: &Extent| {
                refused != Some(key.1) && self.subscriptions.promises(route, key.1, *part)
            };
            parts.retain(|part| {
                !replica.incoming.pushed.is_coming(*part, route.0) && !is_promised(part)
            });
            if series(&replica.path) != route.2 || parts.is_empty() {
                continue;
            }
            self.takes.ask(tag, route.0, &parts);
            self.takes.sent += 1;
            let take = Message::Take { tag, owner: owner.clone(), area: key.1 };
            let places = Body::Bytes(differences::places(&parts));
            actions.push(Action::Say(route.0, take, places));
        }
        actions
    }
}
