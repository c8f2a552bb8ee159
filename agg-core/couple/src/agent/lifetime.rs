//! When the agent ends.

use super::Agent;
use super::socket_watch::SocketWatch;
use crate::peers::Peers;
use crate::protocol::Reply;
use crate::registry::Registry;
use aggio_base::log;
use aggio_base::log::Level;
use std::time::{Duration, Instant};

/// How long an agent without programs and generations stays.
const LINGERS: Duration = Duration::from_millis(500);

/// How long it stays if a program may still have to learn that a writer died.
const LINGERS_AFTER_DEATH: Duration = Duration::from_secs(10);

/// The beginning of the agent, and the reasons for which it ends.
#[derive(Debug)]
pub(super) struct Lifetime {
    pub(super) socket_watch: SocketWatch,
    began: Instant,
    idle_since: Option<Instant>,
    /// It was started by hand: it stays until the first program has come.
    pub(super) stays: bool,
    /// It was told to end.
    pub(super) quits: bool,
}

impl Lifetime {
    pub(super) fn begin(socket_watch: SocketWatch) -> Self {
        Self { socket_watch, began: Instant::now(), idle_since: None, stays: false, quits: false }
    }

    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// When an agent that has nothing to do ends.
    pub(super) fn end(&self, registry: &Registry) -> Option<Instant> {
        let is_waited_for = registry.files.names.has_unreported_deaths();
        let lingers = if is_waited_for { LINGERS_AFTER_DEATH } else { LINGERS };
        self.idle_since.map(|since| since + lingers)
    }

    /// Whether nothing has been left to do for a while; `serves` tells that there is something.
    fn is_over(&mut self, serves: bool, registry: &Registry) -> bool {
        if self.stays || serves || !registry.is_empty() {
            self.idle_since = None;
            return false;
        }
        self.idle_since.get_or_insert_with(Instant::now);
        self.end(registry).is_some_and(|end| end <= Instant::now())
    }
}

impl Agent {
    /// Whether nothing is left to do, and has not been for a while.
    pub(super) fn is_done(&mut self) -> bool {
        let is_lost = self.lifetime.socket_watch.is_lost() && self.owner.life.clients.is_empty();
        if is_lost && self.owner.life.own.registry.files.store_all(false) > 0 {
            self.settle();
        }
        let is_busy = self.owner.life.storage.is_busy();
        if self.lifetime.quits && self.owner.life.clients.is_empty() && !is_busy {
            return true;
        }
        if is_lost && !is_busy {
            let left = self.owner.life.own.registry.files.generations.len();
            let text = "its socket was removed, so that no program can reach it";
            log!(Level::Warn, "agent: ends with {left} generations that nobody read: {text}");
            return true;
        }
        let is_needed = self.peers.as_ref().is_some_and(|peers| !peers.are_idle());
        let serves = is_busy || is_needed || !self.links.is_empty();
        self.lifetime.is_over(serves, &self.owner.life.own.registry)
    }

    /// Ends the agent, unless somebody needs it: the answer.
    pub(super) fn end_if_idle(&mut self) -> Reply {
        let busy = |text: &str| Reply::Failed(libc::EBUSY, text.to_owned());
        let is_needed = self.peers.as_ref().is_some_and(|peers| !peers.are_idle());
        if is_needed || !self.owner.life.clients.is_empty() {
            let keeps = self.peers.as_ref().is_some_and(Peers::keeps_alone);
            return busy(match keeps && self.owner.life.clients.is_empty() {
                true => "generations that other nodes own have bytes here: drop them there first",
                false => "programs are connected",
            });
        }
        let left = self.owner.life.own.registry.files.store_all(true);
        self.settle();
        if left > 0 {
            let text = "generations that are to be on disk are not yet: they are being stored";
            return busy(&format!("{left} {text}"));
        }
        if self.owner.life.storage.is_busy() {
            return busy("files are being removed");
        }
        if !self.owner.life.background.is_idle() {
            return busy("generations are being copied or compared");
        }
        self.lifetime.quits = true;
        Reply::Done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::Who;

    #[test]
    fn an_agent_ends_a_while_after_it_has_nothing_to_do() {
        let scratch = tempfile::tempdir().unwrap();
        let place =
            crate::place::Place::open(scratch.path().join("agent").to_str().unwrap()).unwrap();
        std::fs::write(place.visible("sock"), "").unwrap();
        let lock = place.lock("lock").unwrap().unwrap();
        let watch = SocketWatch::new(place, lock).unwrap();
        let (mut lifetime, mut registry) = (Lifetime::begin(watch), Registry::behind(0));
        lifetime.stays = true;
        assert!(!lifetime.is_over(false, &registry));
        assert_eq!(lifetime.end(&registry), None, "no program has come yet");
        lifetime.stays = false;
        assert!(!lifetime.is_over(false, &registry));
        let end = lifetime.end(&registry).unwrap();
        assert!(end > Instant::now());
        lifetime.idle_since = lifetime.idle_since.map(|since| since - LINGERS);
        assert!(lifetime.is_over(false, &registry));
        assert!(!lifetime.is_over(true, &registry), "something is to be done");
        registry.join(1, Who { job: 1, ranks: 1, family: 1, label: "p1".into() });
        assert!(!lifetime.is_over(false, &registry));
        assert_eq!(lifetime.end(&registry), None);
    }
}
