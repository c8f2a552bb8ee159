//! Files opened by threads that play ranks.

mod account;
mod alike;
mod asking;
mod atomic;
mod closing;
mod data;
mod deferred;
mod deferred_views;
mod engines;
mod fast_path;
mod faults;
mod fill;
mod header;
mod manage;
mod open;
mod orders;
mod pointers;
mod sealing;
mod small;
mod split;
mod write_behind;

use super::{Amode, Call, Direction, Displacement, File, OpenRequest, Position, Whence};
use crate::Engine;
use aggio_base::diagnostics::Diagnostics;
use aggio_base::{Error, ErrorClass, Result};
use aggio_comm::task::{BoxFuture, block_on};
use aggio_comm::transport::{ThreadTransport, Transport};
use aggio_config::hints::{Hints, Sources};
use aggio_config::settings::Settings;
use aggio_store::driver::{Drivers, Outcome};
use aggio_types::datatype::{Basic, Datatype};
use aggio_types::memory::Memory;
use aggio_types::view::{Representation, View};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

/// The engine of all tests here. New files of some names become containers, or sets of two files.
fn engine() -> &'static Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    ENGINE.get_or_init(|| {
        let rules = "*.piles:e3sm:blobs=2,*.blob";
        let variable = |name: &str| (name == "AGGIO_BLOB").then(|| rules.to_owned());
        let names = ["AGGIO_BLOB".to_owned()];
        let settings = Settings::read(&variable, &names, &mut Diagnostics::default());
        let drivers = Drivers::new(&settings.blobs, true);
        Arc::new(Engine::new(drivers).with_recaster(&sealing::Piles))
    })
}

const CREATE: Amode = Amode::RDWR.with(Amode::CREATE);

/// Defers writes.
const DEFER: (&str, &str) = ("aggio_defer", "enable");

/// A file name of its own; the file is deleted in the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self(std::env::temp_dir().join(format!("aggio-file-{}-{number}", std::process::id())))
    }

    fn holding(bytes: &[u8]) -> Self {
        let scratch = Self::new();
        std::fs::write(&scratch.0, bytes).expect("the scratch file can be written");
        scratch
    }

    fn name(&self) -> String {
        self.0.to_str().expect("the name is text").to_owned()
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).expect("the scratch file can be read")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs `body` on as many threads as there are ranks; fails instead of hanging.
fn ranks<T: Send + 'static>(
    size: usize,
    body: impl Fn(Arc<ThreadTransport>) -> T + Send + Sync + 'static,
) -> Vec<T> {
    ranks_on(ThreadTransport::group(size), body)
}

/// As [`ranks`] for ranks that are connected already.
fn ranks_on<T: Send + 'static>(
    transports: Vec<Arc<ThreadTransport>>,
    body: impl Fn(Arc<ThreadTransport>) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let (body, size) = (Arc::new(body), transports.len());
    let (sender, receiver) = mpsc::channel();
    for (rank, transport) in transports.into_iter().enumerate() {
        let (body, sender) = (body.clone(), sender.clone());
        std::thread::spawn(move || sender.send((rank, body(transport))));
    }
    drop(sender);
    let next = || receiver.recv_timeout(Duration::from_secs(60));
    let mut all: Vec<_> = (0..size).map(|_| next().expect("no rank hangs or panics")).collect();
    all.sort_by_key(|(rank, _)| *rank);
    all.into_iter().map(|(_, value)| value).collect()
}

/// Numbers of nodes on which ranks ask each other alike.
const NODES: [usize; 3] = [1, 2, 3];

/// Ranks on this number of nodes, in turn.
fn on(nodes: usize, ranks: usize) -> Vec<Arc<ThreadTransport>> {
    ThreadTransport::group_on((0..ranks).map(|rank| (rank % nodes).to_string()).collect())
}

fn wait<T>(transport: &dyn Transport, future: impl Future<Output = T>) -> T {
    block_on(future, |waits| transport.idle(waits))
}

/// Hints that defer writes regardless of cost.
fn hints(pairs: &[(&str, &str)]) -> Hints {
    let always = ("aggio_tune", "defer_always=true");
    let pairs: Vec<_> =
        pairs.iter().chain([&always]).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    Hints::resolve(&Sources::default(), "/x", &pairs, &mut Diagnostics::default())
}

fn open(transport: &Arc<ThreadTransport>, name: &str, amode: Amode) -> Result<Arc<File>> {
    let request = OpenRequest::new(name, amode, hints(&[]));
    wait(&**transport, engine().open(transport.clone(), request))
}

/// Opens `name` on `size` ranks, runs `body` on each, and closes it.
fn on_file<T: Send + 'static>(
    size: usize,
    name: String,
    amode: Amode,
    body: impl Fn(&Rank) -> T + Send + Sync + 'static,
) -> Vec<T> {
    on_file_of(ThreadTransport::group(size), name, amode, body)
}

/// As [`on_file`] for ranks that are connected already.
fn on_file_of<T: Send + 'static>(
    transports: Vec<Arc<ThreadTransport>>,
    name: String,
    amode: Amode,
    body: impl Fn(&Rank) -> T + Send + Sync + 'static,
) -> Vec<T> {
    ranks_on(transports, move |transport| {
        let file = open(&transport, &name, amode).expect("the file opens");
        let rank = Rank { number: transport.rank(), file };
        let value = body(&rank);
        rank.wait(rank.file.clone().close()).expect("the file closes");
        value
    })
}

/// One rank and its open file.
struct Rank {
    number: usize,
    file: Arc<File>,
}

impl Rank {
    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        wait(&**self.file.transport(), future)
    }

    /// Starts an operation on the bytes of `buffer`, which must outlive it.
    fn start(
        &self,
        direction: Direction,
        position: Position,
        collective: bool,
        buffer: &mut [u8],
    ) -> BoxFuture<'static, Outcome> {
        let memory = bytes(buffer);
        self.file.start(Call {
            operation: "MPI_File_test",
            direction,
            position,
            collective,
            memory: Ok(memory),
        })
    }

    fn write(&self, position: Position, data: &[u8]) -> Outcome {
        self.wait(self.start(Direction::Write, position, false, &mut data.to_vec()))
    }

    fn write_all(&self, position: Position, data: &[u8]) -> Outcome {
        let mut data = data.to_vec();
        self.wait(self.start(Direction::Write, position, true, &mut data))
    }

    /// Reads up to `len` bytes.
    fn read(&self, position: Position, len: usize) -> (Vec<u8>, Outcome) {
        let mut buffer = vec![0xEE; len];
        let outcome = self.wait(self.start(Direction::Read, position, false, &mut buffer));
        (buffer, outcome)
    }

    fn read_all(&self, position: Position, len: usize) -> (Vec<u8>, Outcome) {
        let mut buffer = vec![0xEE; len];
        let outcome = self.wait(self.start(Direction::Read, position, true, &mut buffer));
        (buffer, outcome)
    }

    /// A read of `len` bytes by the short way.
    fn read_on_fast_path(&self, offset: usize, len: usize) -> Option<(Vec<u8>, Outcome)> {
        let mut buffer = vec![0xEE; len];
        let outcome = self.fast_path(Direction::Read, offset, &mut buffer)?;
        Some((buffer, outcome))
    }

    fn fast_path(&self, direction: Direction, offset: usize, buffer: &mut [u8]) -> Option<Outcome> {
        let position = Position::Explicit(offset as i64);
        let memory = Ok(bytes(buffer));
        let operation = "MPI_File_test";
        let mut call = Call { operation, direction, position, collective: false, memory };
        self.file.fast_path(&mut call)
    }

    fn set_view(&self, view: Result<View>) -> Result<()> {
        self.set_view_at(view, Displacement::OfView)
    }

    fn set_view_at(&self, view: Result<View>, displacement: Displacement) -> Result<()> {
        let mut complaints = Diagnostics::default();
        self.wait(self.file.set_view(view, displacement, &[], &mut complaints))
    }

    fn barrier(&self) {
        self.wait(self.file.set_atomicity(self.file.atomicity())).expect("all ranks meet");
    }
}

fn bytes(buffer: &mut [u8]) -> Memory {
    // SAFETY: callers keep the buffer and leave it alone until the operation has ended.
    unsafe { Memory::new(buffer.as_mut_ptr(), Datatype::bytes(buffer.len() as u64), 1) }
}

/// `take` bytes of every `every`, from byte `from` on, in etypes of `etype` bytes.
fn every(etype: u32, take: u64, every: i64, from: u64) -> Result<View> {
    let etype = Datatype::basic(Basic::unsigned(etype));
    let filetype = Datatype::contiguous(take, &etype)?.resized(0, every)?;
    View::new(from, etype, filetype, Representation::Native, true)
}

fn class<T: std::fmt::Debug>(result: Result<T>) -> ErrorClass {
    result.expect_err("an error").class()
}

fn failed(outcome: Outcome) -> Error {
    outcome.result.expect_err("an error")
}

/// How many bytes a successful operation moved.
fn moved(outcome: Outcome) -> u64 {
    outcome.result.expect("success");
    outcome.bytes
}
