//! Runs a program with threads as ranks and compares all results with those of the oracle.

mod alone;

use crate::oracle::{BEFORE, Expected, FILL, Oracle, Told, pattern};
use crate::program::{DataStep, Direction, Mistake, Mode, Op, Place, Program, Step, ViewRecipe};
use crate::store::Store;
use agg_core::datatype::Datatype;
use agg_core::diagnostics::Diagnostics;
use agg_core::driver::{Drivers, Outcome, fault};
use agg_core::file::{Amode, Call, Displacement, File, OpenRequest, Position, SplitKind, Stages};
use agg_core::hints::{Hints, Sources};
use agg_core::memory::Memory;
use agg_core::stage::{Home, Staged};
use agg_core::task::{BoxFuture, block_on, join_all, pause};
use agg_core::transport::{ThreadTransport, Transport};
use agg_core::view::{Representation, View};
use agg_core::workers::Running;
use agg_core::{Engine, Error, ErrorClass};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::time::Duration;

/// Longer than any case takes, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// Once a case has hung, smaller ones are tried with less patience.
const IMPATIENCE: Duration = Duration::from_secs(4);

/// The engine of all ranks. Without `home`, writes are not staged; with it, they are staged there.
fn engine(home: Option<&Home>) -> Arc<Engine> {
    static ENGINE: OnceLock<Arc<Engine>> = OnceLock::new();
    let plain = ENGINE.get_or_init(Arc::default);
    let Some(home) = home else { return plain.clone() };
    let workers = plain.workers();
    let staged = Staged::new(home.clone()).with_workers(workers.clone());
    let drivers = Drivers::default().with_last(Arc::new(staged));
    Arc::new(Engine::new(drivers).with_workers(workers.clone()))
}

static HUNG: AtomicBool = AtomicBool::new(false);

/// Runs `program` on a file of its own, kept as `store` says; `Err` describes the difference.
pub(crate) fn run(program: &Program, store: Store) -> Result<(), String> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name =
        format!("differential-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let path = directory().join(name);
    let result = watched(program, &path, store);
    store.remove(&path);
    result
}

/// Where the files are: in memory if the system has such a place.
fn directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    if memory.is_dir() { memory } else { std::env::temp_dir() }
}

fn watched(program: &Program, path: &Path, store: Store) -> Result<(), String> {
    let mut oracle = Oracle::new(program);
    store.write(path, &oracle.file)?;
    let told: Arc<Vec<Told>> = Arc::new(program.steps.iter().map(|s| oracle.step(s)).collect());
    let path = path.to_str().ok_or("the path is no text")?.to_owned();
    let _faults = match &program.faults {
        Some(plan) => Some(fault::arrange(&path, plan).map_err(|error| error.to_string())?),
        None => None,
    };
    let name = if program.faults.is_some() { format!("testfs:{path}") } else { path.clone() };
    let hosts = (0..program.ranks).map(|rank| format!("host{}", rank % program.hosts)).collect();
    let barrier = Arc::new(Barrier::new(program.ranks));
    let home = store.home(Path::new(&path));
    let engine = engine(home.as_ref());
    let (sender, receiver) = mpsc::channel();
    for transport in ThreadTransport::group_on(hosts) {
        let rank = Rank {
            transport,
            engine: engine.clone(),
            home: home.clone(),
            program: program.clone(),
            told: told.clone(),
            barrier: barrier.clone(),
            name: name.clone(),
            own: OnceLock::new(),
        };
        let sender = sender.clone();
        std::thread::spawn(move || sender.send(rank.run()));
    }
    drop(sender);
    for _ in 0..program.ranks {
        let patience = if HUNG.load(Ordering::Relaxed) { IMPATIENCE } else { PATIENCE };
        match receiver.recv_timeout(patience) {
            Ok(result) => result?,
            Err(_) => {
                if !HUNG.swap(true, Ordering::Relaxed) {
                    eprintln!(
                        "a rank hangs or has panicked; looking for a smaller case than\n{program:?}"
                    );
                }
                return Err("a rank hangs or has panicked".into());
            }
        }
    }
    compare_file(&oracle, &store.read(Path::new(&path), program)?)
}

fn compare_file(oracle: &Oracle, file: &[u8]) -> Result<(), String> {
    if file.len() != oracle.file.len() {
        return Err(format!("the file has {} bytes, not {}", file.len(), oracle.file.len()));
    }
    let wrong = (0..file.len()).find(|&i| !oracle.open[i] && file[i] != oracle.file[i]);
    match wrong {
        None => Ok(()),
        Some(i) => Err(format!("byte {i} of the file is {}, not {}", file[i], oracle.file[i])),
    }
}

struct Rank {
    transport: Arc<ThreadTransport>,
    engine: Arc<Engine>,
    /// Where writes are staged.
    home: Option<Home>,
    program: Program,
    told: Arc<Vec<Told>>,
    barrier: Arc<Barrier>,
    name: String,
    /// The file through a handle of this rank alone.
    own: OnceLock<Arc<File>>,
}

impl Rank {
    fn open(&self, transport: Arc<ThreadTransport>) -> Result<Arc<File>, String> {
        let mut complaints = Diagnostics::default();
        let hints =
            Hints::resolve(&Sources::default(), &self.name, &self.program.hints, &mut complaints);
        let amode = Amode::RDWR.with(Amode::CREATE);
        let stages = self.home.is_some().then_some(Stages { makes: true, or_buffers: false });
        let request = OpenRequest { stages, ..OpenRequest::new(&self.name, amode, hints) };
        let opened = self.engine.open(transport.clone(), request);
        block_on(opened, |waits| transport.idle(waits)).map_err(|error| error.to_string())
    }

    fn close(&self, file: Arc<File>) -> Result<(), String> {
        self.wait(file.close()).map_err(|error| format!("close: {error}"))
    }

    fn run(&self) -> Result<(), String> {
        let mut file = self.open(self.transport.clone())?;
        let mut wrong = None;
        for (index, step) in self.program.steps.iter().enumerate() {
            if matches!(step, Step::Reopen) {
                self.close(file)?;
                file = self.open(self.transport.clone())?;
            }
            let result = self.step(&file, step, &self.told[index]);
            if let (Err(text), None) = (result, &wrong) {
                wrong = Some(format!("step {index}, rank {}: {text}", self.transport.rank()));
            }
            self.barrier.wait();
        }
        let own = self.own.get().map_or(Ok(()), |own| self.close(own.clone()));
        let closed = self.close(file).and(own);
        wrong.map_or(closed, Err)
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        block_on(future, |waits| self.transport.idle(waits))
    }

    fn step(&self, file: &Arc<File>, step: &Step, told: &Told) -> Result<(), String> {
        let rank = self.transport.rank();
        let ok = |result: agg_core::Result<()>| result.map_err(|error| error.to_string());
        match (step, told) {
            (Step::SetView(views), _) => ok(self.set_view(file, view(&views[rank]))),
            (Step::Data(data), Told::Data(expected, turns)) => {
                self.data(file, data, &expected[rank], *turns)
            }
            (Step::Seek(seeks), Told::Seek(legal)) => {
                self.wait(file.settled()).map_err(|error| error.to_string())?;
                let result = file.seek(seeks[rank].0, seeks[rank].1);
                must(result.is_ok() == legal[rank], || format!("seek: {result:?}"))
            }
            (Step::SeekShared(offset, whence), Told::Seek(legal)) => {
                let result = self.wait(file.seek_shared(*offset, *whence));
                must(result.is_ok() == legal[rank], || format!("seek_shared: {result:?}"))
            }
            (Step::SetSize(size), _) => ok(self.wait(file.set_size(*size as i64))),
            (Step::Preallocate(size), _) => ok(self.wait(file.preallocate(*size as i64))),
            (Step::SetAtomicity(atomic), _) => ok(self.wait(file.set_atomicity(*atomic))),
            (Step::Sync, _) => ok(self.wait(file.sync())),
            (Step::Ask(offset), told) => {
                self.wait(file.settled()).map_err(|error| error.to_string())?;
                ask(file, rank, *offset, told)
            }
            (Step::Wrong(who, mistake), _) => self.mistake(file, *who, *mistake),
            (Step::Reopen, _) => Ok(()),
            (Step::Own(own), Told::Own(told)) if own.rank == rank => self.alone(own, told.as_ref()),
            (Step::Look(who, stays), Told::File(bytes)) if *who == rank => self.look(*stays, bytes),
            (Step::Own(_) | Step::Look(..), _) => Ok(()),
            _ => Err("the oracle answered something else".into()),
        }
    }

    fn set_view(&self, file: &Arc<File>, view: agg_core::Result<View>) -> agg_core::Result<()> {
        let mut complaints = Diagnostics::default();
        self.wait(file.set_view(view, Displacement::OfView, &[], &mut complaints))
    }

    fn data(
        &self,
        file: &Arc<File>,
        step: &DataStep,
        expected: &[Expected],
        turns: bool,
    ) -> Result<(), String> {
        let rank = self.transport.rank();
        let direction = step.direction_of(rank);
        let mut buffers: Vec<Vec<u8>> =
            step.ops[rank].iter().map(|op| buffer(op, direction)).collect();
        let calls: Vec<Call> = step.ops[rank]
            .iter()
            .zip(&mut buffers)
            .zip(&step.places)
            .map(|((op, buffer), place)| call(op, (direction, *place), buffer))
            .collect();
        let outcomes = if turns {
            self.in_turn(|| self.blocking(file, calls))
        } else {
            match step.mode {
                Mode::Blocking => self.blocking(file, calls),
                Mode::Nonblocking => {
                    let running = calls.into_iter().map(|call| ended(file.launch(call))).collect();
                    self.wait(join_all(running))
                }
                Mode::Split => calls.into_iter().map(|call| self.split(file, call)).collect(),
            }
        };
        for (index, outcome) in outcomes.iter().enumerate() {
            compare(outcome, &buffers[index], &expected[index])
                .map_err(|text| format!("operation {index}: {text}"))?;
        }
        Ok(())
    }

    fn blocking(&self, file: &Arc<File>, calls: Vec<Call>) -> Vec<Outcome> {
        calls.into_iter().map(|call| self.wait(file.start(call))).collect()
    }

    fn split(&self, file: &Arc<File>, call: Call) -> Outcome {
        let kind = match SplitKind::of(&call) {
            Ok(kind) => kind,
            Err(error) => return Outcome { bytes: 0, result: Err(error) },
        };
        match file.begin_split(call) {
            Ok(()) => self.wait(file.end_split(kind, "end")),
            Err(error) => Outcome { bytes: 0, result: Err(error) },
        }
    }

    /// Does `work` on one rank after the other.
    fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut work = Some(work);
        let mut done = None;
        for rank in 0..self.transport.size() {
            if rank == self.transport.rank() {
                done = work.take().map(|work| work());
            }
            self.barrier.wait();
        }
        done.expect("every rank has its turn")
    }

    /// Makes `mistake` on rank `who`; every rank must get an error.
    fn mistake(&self, file: &Arc<File>, who: usize, mistake: Mistake) -> Result<(), String> {
        let mine = who == self.transport.rank();
        let alone = self.transport.size() == 1;
        let differs =
            matches!(mistake, Mistake::Size | Mistake::Atomicity | Mistake::Kind | Mistake::Call);
        if alone && differs {
            return Ok(());
        }
        let result = match mistake {
            Mistake::Size => self.wait(file.set_size(if mine { 3 } else { 5 })),
            Mistake::Atomicity => self.wait(file.set_atomicity(mine)),
            Mistake::View => {
                let wrong = Err(Error::new(ErrorClass::Type, "not committed"));
                self.set_view(file, if mine { wrong } else { Ok(View::bytes()) })
            }
            Mistake::Call if mine => self.wait(file.sync()),
            Mistake::Offset | Mistake::Memory | Mistake::Kind | Mistake::Call => {
                self.wrong_access(file, mistake, mine).result
            }
        };
        must(result.is_err(), || format!("{mistake:?} on rank {who} went unnoticed"))?;
        match mistake.accesses() {
            true => self.right_access(file, mine),
            false => Ok(()),
        }
    }

    fn wrong_access(&self, file: &Arc<File>, mistake: Mistake, mine: bool) -> Outcome {
        let direction = match mistake {
            Mistake::Kind if mine => Direction::Read,
            _ => Direction::Write,
        };
        let offset = if mine && mistake == Mistake::Offset { -1 } else { 1 };
        self.access(file, (direction, offset), |good| match mine && mistake == Mistake::Memory {
            true => Err(Error::new(ErrorClass::Count, "count -1")),
            false => Ok(good),
        })
    }

    /// Ranks that went ahead have written, the others have not: now all but the mistaken one do.
    fn right_access(&self, file: &Arc<File>, mistaken: bool) -> Result<(), String> {
        let nothing = |good| if mistaken { Memory::nothing() } else { good };
        let outcome = self.access(file, (Direction::Write, 1), |good| Ok(nothing(good)));
        outcome.result.map_err(|error| format!("after a mistake: {error}"))
    }

    /// All ranks access one etype.
    fn access(
        &self,
        file: &Arc<File>,
        (direction, offset): (Direction, i64),
        memory_of: impl FnOnce(Memory) -> agg_core::Result<Memory>,
    ) -> Outcome {
        let etype = file.view().etype_size();
        let mut bytes = vec![FILL; etype as usize];
        let good = memory(bytes.as_mut_ptr(), Datatype::bytes(etype), 1);
        let outcome = self.wait(file.start(Call {
            operation: "wrong",
            direction,
            position: Position::Explicit(offset),
            collective: true,
            memory: memory_of(good),
        }));
        drop(bytes);
        outcome
    }
}

/// The outcome of a call that does not block, as programs ask for it again and again.
fn ended(running: Running<Outcome>) -> BoxFuture<'static, Outcome> {
    Box::pin(async move {
        loop {
            if let Some(outcome) = running.poll() {
                return outcome;
            }
            pause().await;
        }
    })
}

fn must(condition: bool, text: impl FnOnce() -> String) -> Result<(), String> {
    if condition { Ok(()) } else { Err(text()) }
}

fn view(recipe: &ViewRecipe) -> agg_core::Result<View> {
    let representation =
        if recipe.external { Representation::External32 } else { Representation::Native };
    let (etype, filetype) = (recipe.etype.datatype(), recipe.filetype.datatype());
    View::new(recipe.displacement, etype, filetype, representation, true)
}

fn buffer(op: &Op, direction: Direction) -> Vec<u8> {
    let (_, len) = op.room();
    match direction {
        Direction::Write => (0..len).map(|i| pattern(op.salt, i)).collect(),
        Direction::Read => vec![BEFORE; len],
    }
}

fn memory(address: *mut u8, datatype: Datatype, count: u64) -> Memory {
    // SAFETY: every caller keeps the buffer, which the recipe fits into, until the operation has
    // ended, and does not look at it before.
    unsafe { Memory::new(address, datatype, count) }
}

fn call(op: &Op, (direction, place): (Direction, Place), buffer: &mut [u8]) -> Call {
    let (base, _) = op.room();
    let position = match place {
        Place::Explicit | Place::ExplicitAll => Position::Explicit(op.offset),
        Place::Individual | Place::IndividualAll => Position::Individual,
        Place::Shared => Position::Shared,
        Place::Ordered => Position::Ordered,
    };
    let address = buffer.as_mut_ptr().wrapping_add(base);
    Call {
        operation: "data",
        direction,
        position,
        collective: place.is_collective(),
        memory: Ok(memory(address, op.memory.datatype(), op.count)),
    }
}

fn compare(outcome: &Outcome, buffer: &[u8], expected: &Expected) -> Result<(), String> {
    let mut text = String::new();
    if let Err(error) = &outcome.result {
        let _ = write!(text, "{error}; ");
    }
    if outcome.bytes != expected.bytes {
        let _ = write!(text, "{} bytes moved, not {}; ", outcome.bytes, expected.bytes);
    }
    let differs = |i: &usize| expected.buffer[*i].is_some_and(|byte| byte != buffer[*i]);
    if let Some(i) = (0..buffer.len()).find(differs) {
        let wanted = expected.buffer[i].unwrap_or(0);
        let _ = write!(text, "byte {i} of the buffer is {}, not {wanted}", buffer[i]);
    }
    if text.is_empty() { Ok(()) } else { Err(text) }
}

fn ask(file: &Arc<File>, rank: usize, offset: i64, told: &Told) -> Result<(), String> {
    let Told::Asked { size, positions, shared, offsets } = told else {
        return Err("the oracle answered something else".into());
    };
    let got = (file.size().ok(), file.position().ok(), file.position_shared().ok());
    let wanted = (Some(*size), Some(positions[rank]), Some(*shared));
    must(got == wanted, || format!("size, position, shared position: {got:?}, not {wanted:?}"))?;
    let byte = file.byte_offset(offset).ok();
    must(byte == offsets[rank], || {
        format!("byte of etype {offset}: {byte:?}, not {:?}", offsets[rank])
    })
}
