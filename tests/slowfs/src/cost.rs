//! When the answer to a request is due.

use std::collections::HashMap;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The prices of requests.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Prices {
    /// Of every request.
    pub(crate) latency: Duration,
    /// Bytes a second of the line that all clients share; 0 is no limit.
    pub(crate) bandwidth: u64,
    /// Bytes of a lock unit; 0 is no locks.
    pub(crate) lock_unit: u64,
    /// Of a lock unit on its way from one client to another.
    pub(crate) lock_latency: Duration,
}

/// The client that may write a lock unit without asking for it.
#[derive(Clone, Copy, Debug)]
struct Unit {
    /// The last writer; nobody after another client has read.
    owner: Option<u32>,
    /// Until then its owner is at work in it.
    busy_until: Instant,
}

/// A read or a write.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    pub(crate) client: u32,
    pub(crate) inode: u64,
    pub(crate) bytes: Range<u64>,
    pub(crate) is_write: bool,
}

/// The state of the server: its line and its locks.
pub(crate) struct Model {
    prices: Prices,
    line_free: Option<Instant>,
    units: HashMap<(u64, u64), Unit>,
}

/// The price of a transfer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Price {
    /// When its answer goes out.
    pub(crate) due: Instant,
    /// How many lock units came from another client.
    pub(crate) lock_moves: u64,
}

impl Model {
    pub(crate) fn new(prices: Prices) -> Self {
        Model { prices, line_free: None, units: HashMap::new() }
    }

    /// The latency of requests that move no data.
    pub(crate) fn latency(&self) -> Duration {
        self.prices.latency
    }

    /// The price of a transfer that arrives now.
    pub(crate) fn transfer(&mut self, now: Instant, transfer: &Transfer) -> Price {
        let (granted, lock_moves) = self.locks(now, transfer);
        let service = self.service(transfer.bytes.end - transfer.bytes.start);
        // A request that waits for a lock does not keep the line from others.
        let begin = self.line_free.map_or(now, |free| free.max(now));
        self.line_free = Some(begin + service);
        let due = begin.max(granted) + service + self.prices.latency;
        for unit in self.units_of(transfer) {
            if let Some(unit) = self.units.get_mut(&(transfer.inode, unit)) {
                unit.busy_until = unit.busy_until.max(due);
            }
        }
        Price { due, lock_moves }
    }

    /// Forgets the locks of a file that is gone.
    pub(crate) fn forget(&mut self, inode: u64) {
        self.units.retain(|(of, _), _| *of != inode);
    }

    fn service(&self, bytes: u64) -> Duration {
        match self.prices.bandwidth {
            0 => Duration::ZERO,
            bandwidth => Duration::from_secs_f64(bytes as f64 / bandwidth as f64),
        }
    }

    fn units_of(&self, transfer: &Transfer) -> Range<u64> {
        match self.prices.lock_unit {
            0 => 0..0,
            _ if transfer.bytes.is_empty() => 0..0,
            unit => transfer.bytes.start / unit..(transfer.bytes.end - 1) / unit + 1,
        }
    }

    /// Takes the locks of a transfer: when the last one has come, and how many came from others.
    fn locks(&mut self, now: Instant, transfer: &Transfer) -> (Instant, u64) {
        let (mut granted, mut moves) = (now, 0);
        for index in self.units_of(transfer) {
            let me = Some(transfer.client);
            let unit = self
                .units
                .entry((transfer.inode, index))
                .or_insert(Unit { owner: me, busy_until: now });
            let foreign = if transfer.is_write {
                unit.owner != me
            } else {
                unit.owner.is_some_and(|owner| owner != transfer.client)
            };
            if foreign {
                moves += 1;
                granted = granted.max(unit.busy_until) + self.prices.lock_latency;
                unit.owner = me.filter(|_| transfer.is_write);
            }
        }
        (granted, moves)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn model() -> Model {
        Model::new(Prices { latency: MS, bandwidth: 1000, lock_unit: 100, lock_latency: 10 * MS })
    }

    fn transfer(client: u32, bytes: Range<u64>, is_write: bool) -> Transfer {
        Transfer { client, inode: 7, bytes, is_write }
    }

    #[test]
    fn a_request_takes_its_latency_and_its_bytes_pass_the_line_one_after_another() {
        let (mut model, now) = (model(), Instant::now());
        let first = model.transfer(now, &transfer(1, 0..50, true));
        assert_eq!(first, Price { due: now + 51 * MS, lock_moves: 0 });
        let second = model.transfer(now, &transfer(2, 100..110, true));
        assert_eq!(second, Price { due: now + 61 * MS, lock_moves: 0 });
        let later = now + 1000 * MS;
        assert_eq!(model.transfer(later, &transfer(2, 110..120, true)).due, later + 11 * MS);
    }

    #[test]
    fn a_unit_of_another_client_is_waited_for_and_comes_at_a_price() {
        let (mut model, now) = (model(), Instant::now());
        let first = model.transfer(now, &transfer(1, 0..10, true));
        let price = model.transfer(now, &transfer(2, 10..20, true));
        assert_eq!(price, Price { due: first.due + 10 * MS + 10 * MS + MS, lock_moves: 1 });
        assert_eq!(model.transfer(price.due, &transfer(2, 20..30, true)).lock_moves, 0);
        assert_eq!(model.transfer(price.due, &transfer(1, 0..300, true)).lock_moves, 1);
    }

    #[test]
    fn a_foreign_read_takes_the_lock_away_once_and_readers_share() {
        let (mut model, now) = (model(), Instant::now());
        model.transfer(now, &transfer(1, 0..10, true));
        assert_eq!(model.transfer(now, &transfer(1, 0..10, false)).lock_moves, 0);
        assert_eq!(model.transfer(now, &transfer(2, 0..10, false)).lock_moves, 1);
        assert_eq!(model.transfer(now, &transfer(3, 0..10, false)).lock_moves, 0);
        assert_eq!(model.transfer(now, &transfer(1, 0..10, true)).lock_moves, 1);
    }

    #[test]
    fn without_lock_units_and_bandwidth_only_latency_is_left() {
        let prices =
            Prices { latency: MS, bandwidth: 0, lock_unit: 0, lock_latency: Duration::MAX };
        let (mut model, now) = (Model::new(prices), Instant::now());
        for client in 1..3 {
            let price = model.transfer(now, &transfer(client, 0..1000, true));
            assert_eq!(price, Price { due: now + MS, lock_moves: 0 });
        }
    }

    #[test]
    fn an_empty_transfer_needs_no_lock_and_a_forgotten_file_has_none() {
        let (mut model, now) = (model(), Instant::now());
        assert_eq!(model.transfer(now, &transfer(1, 5..5, true)).lock_moves, 0);
        assert!(model.units.is_empty());
        model.transfer(now, &transfer(1, 0..10, true));
        model.forget(7);
        assert!(model.units.is_empty());
    }
}
