//! A netCDF file never announces records without data, even if a flush fails.

use agg_core::Engine;
use agg_core::datatype::Datatype;
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::fault::arrange;
use agg_core::file::{Amode, Call, Direction, File, OpenRequest, Position};
use agg_core::format::Formats;
use agg_core::hints::{Hints, Sources};
use agg_core::memory::Memory;
use agg_core::task::block_on;
use agg_core::transport::{ThreadTransport, Transport};
use aggio_formats::cdf::{Alignment, Dimension, Header, Layout, Records, Type, Variable, Version};
use aggio_tests::Directory;
use std::path::Path;
use std::sync::{Arc, Barrier, Mutex, OnceLock};

const RANKS: usize = 3;
/// Bytes of each rank in each record.
const PART: usize = 20_000;
/// How often the ranks synchronise: more often than any plan of these tests lets a write fail.
const ATTEMPTS: usize = 2 * RANKS + 1;

/// A file of one variable with records, of `RANKS * PART` bytes each.
fn header() -> (Vec<u8>, Layout) {
    let dimension = |name: &str, length| Dimension { name: name.into(), length };
    let mut header = Header {
        version: Version::Data64,
        records: Records::Known(0),
        dimensions: vec![dimension("t", 0), dimension("x", (RANKS * PART) as u64)],
        attributes: vec![],
        variables: vec![Variable {
            name: "v".into(),
            dimensions: vec![0, 1],
            attributes: vec![],
            kind: Type::Byte,
            told_size: 0,
            begin: 0,
        }],
    };
    header.assign(Alignment::default()).expect("a small file");
    (header.write().expect("a header"), Layout::of(&header).expect("a layout"))
}

/// The number of records that the file announces; none without a header.
fn announced(path: &Path) -> u64 {
    let file = std::fs::read(path).expect("the file is there");
    let number = file.get(4..12).and_then(|bytes| bytes.first_chunk());
    number.map_or(0, |number| u64::from_be_bytes(*number))
}

/// The number of records from the first one on with all of their bytes.
fn complete(path: &Path, layout: &Layout) -> u64 {
    let file = std::fs::read(path).expect("the file is there");
    let begin = layout.records_begin as usize;
    let record = |number: usize| {
        file.get(begin + number * RANKS * PART..begin + (number + 1) * RANKS * PART)
    };
    let is_there = |number: &usize| {
        let right = |bytes: &[u8]| bytes.iter().all(|byte| *byte == *number as u8 + 1);
        record(*number).is_some_and(right)
    };
    (0..).take_while(is_there).count() as u64
}

struct Rank {
    transport: Arc<ThreadTransport>,
    file: Arc<File>,
}

impl Rank {
    fn open(transport: Arc<ThreadTransport>, name: &str, pairs: &[(&str, &str)]) -> Self {
        let pairs: Vec<_> =
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let hints = Hints::resolve(&Sources::default(), name, &pairs, &mut Diagnostics::default());
        let request = OpenRequest::new(name, Amode::RDWR.with(Amode::CREATE), hints);
        let opened =
            block_on(engine().open(transport.clone(), request), |waits| transport.idle(waits));
        Self { transport, file: opened.expect("it opens") }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(future, |waits| self.transport.idle(waits))
    }

    fn write(&self, offset: u64, bytes: &[u8], collective: bool) {
        // A write only reads the bytes.
        self.transfer(Direction::Write, offset, bytes.as_ptr().cast_mut(), bytes.len(), collective);
    }

    /// Reads the header, as libraries do that open a file.
    fn read_head(&self, len: usize) {
        let mut bytes = vec![0; len];
        self.transfer(Direction::Read, 0, bytes.as_mut_ptr(), len, false);
    }

    fn transfer(
        &self,
        direction: Direction,
        offset: u64,
        bytes: *mut u8,
        len: usize,
        collective: bool,
    ) {
        let datatype = Datatype::bytes(len as u64);
        // SAFETY: the callers' bytes live until the call has ended.
        let memory = unsafe { Memory::new(bytes, datatype, 1) };
        let outcome = self.wait(self.file.start(Call {
            operation: "MPI_File_write_at",
            direction,
            position: Position::Explicit(offset as i64),
            collective,
            memory: Ok(memory),
        }));
        assert_eq!((outcome.bytes, outcome.result), (len as u64, Ok(())));
    }

    /// This rank's part of a record; rank 0 writes the number.
    fn add_record(&self, number: u64, layout: &Layout) {
        let rank = self.transport.rank();
        let place = layout.records_begin + number * layout.record_size + (rank * PART) as u64;
        self.write(place, &[number as u8 + 1; PART], true);
        if rank == 0 {
            self.write(4, &(number + 1).to_be_bytes(), false);
        }
    }
}

/// An engine that recognises netCDF files.
fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let formats = Formats::new(aggio_formats::FORMATS);
    ENGINE.get_or_init(|| Arc::new(Engine::default().with_formats(formats)))
}

fn ranks(body: impl Fn(Arc<ThreadTransport>) + Send + Sync) {
    std::thread::scope(|scope| {
        for transport in ThreadTransport::group(RANKS) {
            let body = &body;
            scope.spawn(move || body(transport));
        }
    });
}

/// The way in which the ranks use the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// They write it.
    Written,
    /// They read it.
    Read,
}

/// The records of the file after a synchronisation: announced, and complete.
type Found = (u64, u64);

/// Three records are written and synchronised so often that it succeeds, while writes fail as
/// `plan` says: for each attempt that failed, how many records the file announced then, and how
/// many of them were complete. All ranks get the same result of each attempt.
fn after_failed_flushes(plan: &str, known: Known, buffering: &str) -> Vec<Found> {
    let (directory, (head, layout)) = (Directory::new(), header());
    let path = directory.path().join("file.nc");
    if known != Known::Written {
        std::fs::write(&path, &head).expect("the directory can be written");
    }
    let plain = path.to_str().expect("text");
    let _plan = arrange(plain, plan).expect("a plan");
    let (enable, always) = (("aggio_defer", "enable"), ("aggio_tune", "defer_always=true"));
    let pairs = [enable, always, ("romio_cb_write", buffering)];
    let (found, barrier) = (Mutex::new(vec![]), Barrier::new(RANKS));
    let heard = Mutex::new([0; ATTEMPTS]);
    ranks(|transport| {
        let rank = Rank::open(transport, &format!("testfs:{plain}"), &pairs);
        let is_first = rank.transport.rank() == 0;
        if known == Known::Written && is_first {
            rank.write(0, &head[..50], false);
            rank.write(50, &head[50..], false);
        } else if is_first {
            rank.read_head(head.len());
        }
        (0..3).for_each(|number| rank.add_record(number, &layout));
        for attempt in 0..ATTEMPTS {
            let failed = rank.wait(rank.file.sync()).is_err();
            heard.lock().expect("no rank panicked")[attempt] += usize::from(failed);
            if failed && is_first {
                let state = (announced(&path), complete(&path, &layout));
                found.lock().expect("no rank panicked").push(state);
            }
            barrier.wait();
        }
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    assert_eq!((announced(&path), complete(&path, &layout)), (3, 3), "in the end all is there");
    let file = std::fs::read(&path).expect("the file is there");
    assert!(file[12..head.len()] == head[12..], "the header is as it was");
    let found = found.into_inner().expect("no rank panicked");
    let heard = heard.into_inner().expect("no rank panicked");
    let (failed, succeeded) = heard.split_at(found.len());
    assert!(failed.iter().all(|ranks| *ranks == RANKS), "everybody hears of it: {heard:?}");
    assert!(succeeded.iter().all(|ranks| *ranks == 0), "what waited is stored: {heard:?}");
    found
}

#[test]
fn nothing_is_announced_if_the_data_of_any_rank_are_not_stored() {
    for failing in 0..RANKS {
        for known in [Known::Read, Known::Written] {
            // The header goes to the file at once if no data wait.
            let nth = if known == Known::Written && failing == 0 { 3 } else { 1 };
            let plan = format!("op=write,rank={failing},nth={nth},errno=ENOSPC");
            let found = after_failed_flushes(&plan, known, "disable");
            assert_eq!(found, [(0, 0)], "rank {failing}, {known:?}");
        }
    }
}

/// Any idle rank writes the bytes that the ranks have gathered, so that each rank's first writes
/// fail.
#[test]
fn nothing_is_announced_if_those_who_write_for_all_fail() {
    for times in [1, 2] {
        let plan = format!("op=write,nth=1,times={times},errno=ENOSPC");
        let found = after_failed_flushes(&plan, Known::Read, "enable");
        assert!((times..=times * RANKS).contains(&found.len()), "{plan}: {found:?}");
        assert_eq!(found[0], (0, 0), "{plan}");
        let is_safe = |(announced, complete): &Found| announced <= complete;
        assert!(found.iter().all(is_safe), "{plan}: {found:?}");
    }
}

#[test]
fn a_rank_whose_buffer_is_full_announces_nothing_that_others_hold_back() {
    let (directory, (head, layout)) = (Directory::new(), header());
    let path = directory.path().join("file.nc");
    std::fs::write(&path, &head).expect("the directory can be written");
    ranks(|transport| {
        // Rank 0 has room for one part, the others for all.
        let room = if transport.rank() == 0 { "30000" } else { "100M" };
        let tuned = format!("defer_always=true defer_buffer={room}");
        let pairs = [("aggio_defer", "enable"), ("aggio_tune", &*tuned)];
        let rank = Rank::open(transport, path.to_str().expect("text"), &pairs);
        if rank.transport.rank() == 0 {
            rank.read_head(head.len());
        }
        (0..3).for_each(|number| rank.add_record(number, &layout));
        if rank.transport.rank() == 0 {
            assert!(announced(&path) <= complete(&path, &layout));
        }
        rank.wait(rank.file.clone().close()).expect("it closes");
    });
    assert_eq!((announced(&path), complete(&path, &layout)), (3, 3));
}
