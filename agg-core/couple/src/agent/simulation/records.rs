//! Programs that write records of netCDF files, and others that read them meanwhile (`ready=step`).

use super::chance::Chance;
use super::open_file::{How, OpenFile};
use super::program::Program;
use super::world::World;
use crate::netcdf_header::tests::header;
use crate::protocol::{Before, Reply, Request};
use crate::registry::Options;
use std::cell::Cell;
use std::path::PathBuf;
use std::rc::Rc;

/// Bytes of the header, and of a variable in one record.
const PAGE: u64 = 4096;

/// A series of generations of a file.
struct Series {
    path: Vec<u8>,
    options: Options,
    /// The format of the header, the variables, and the records of each generation.
    version: u8,
    variables: u64,
    records: Vec<u64>,
    /// Announced records of all generations, or records that are just being announced.
    announced: Cell<u64>,
    /// Generations up to the newest one that a reader was done with.
    read: Cell<usize>,
    /// Readers that have yet to open a generation.
    coming: Cell<usize>,
}

impl Series {
    fn how(&self, mpi: bool, write: bool) -> How {
        let (path, options) = (self.path.clone(), self.options.clone());
        let [create, truncate] = [write, write && !mpi];
        let (read, blocking) = (!write, true);
        How { path, options, mpi, read, write, create, truncate, blocking, ..How::default() }
    }

    fn header(&self, records: u64) -> Vec<u8> {
        header(self.version, records, &vec![PAGE / 2; self.variables as usize], PAGE)
    }

    /// Where a variable of a record is, and its bytes.
    fn slot(&self, generation: usize, record: u64, variable: u64) -> (u64, Vec<u8>) {
        let number = record * self.variables + variable;
        let value = 1 + (31 * generation as u64 + 7 * number) % 255;
        (PAGE * (1 + number), vec![value as u8; PAGE as usize])
    }

    fn before(&self, generation: usize) -> u64 {
        self.records[..generation].iter().sum()
    }
}

/// What a rank of a reader tells another one, which does not ask for the number of records.
#[derive(Default)]
struct Told {
    /// The generation that the first rank has open, and the other one; 0 for none.
    open: [Cell<u64>; 2],
    /// Records that the other rank is to read.
    records: Cell<u64>,
    is_over: Cell<bool>,
}

/// A program of the series, and whether it uses MPI-IO.
struct Stepper {
    program: Program,
    series: Rc<Series>,
    mpi: bool,
    /// A reader comes when so many records of all generations have begun.
    late: u64,
    /// For a reader with another rank.
    told: Option<Rc<Told>>,
}

impl Stepper {
    async fn put(&self, open: &mut OpenFile, at: u64, bytes: &[u8]) {
        open.before_write(&self.program, at, bytes.len() as u64).await.unwrap();
        open.put(at, bytes);
        self.program.pause().await;
    }

    async fn write(self) {
        for generation in 0..self.series.records.len() {
            let how = self.series.how(self.mpi, true);
            let mut open = OpenFile::open(&self.program, &how).await.unwrap();
            if self.mpi {
                open.resize(&self.program, 0).await.unwrap();
            }
            for record in 0..self.series.records[generation] {
                let is_first = self.program.chance().once_in(2);
                if is_first {
                    // The number comes before the record, as netCDF writes it without buffers.
                    self.announce(&mut open, generation, record + 1, Before::Others).await;
                }
                for variable in 0..self.series.variables {
                    let (at, bytes) = self.series.slot(generation, record, variable);
                    self.put(&mut open, at, &bytes).await;
                }
                if !is_first {
                    self.announce(&mut open, generation, record + 1, Before::All).await;
                } else if self.program.chance().once_in(2) {
                    open.sync(&self.program).await.unwrap();
                    open.renew(&self.program).await.unwrap();
                }
            }
            open.close(&self.program).await.unwrap();
        }
        self.program.order(Request::Goodbye).await.unwrap();
    }

    async fn announce(&self, open: &mut OpenFile, generation: usize, count: u64, before: Before) {
        let all = self.series.before(generation) + count;
        self.series.announced.set(self.series.announced.get().max(all));
        let header = self.series.header(count);
        self.put(open, 0, &header).await;
        let reply = open.ask(&self.program, |handle| Request::Announce(handle, before)).await;
        assert_eq!(reply, Reply::Done, "{}: records", self.program.name);
    }

    async fn read(self) {
        self.program.does("comes late");
        self.program.until(|| self.series.announced.get() >= self.late).await;
        let (mut next, mut known, mut is_first) = (0, 0, true);
        // An open that has not seen the end is followed by one of the same generation.
        while next < self.series.records.len() {
            let how = self.series.how(self.mpi, false);
            let mut open = OpenFile::open(&self.program, &how).await.unwrap();
            if std::mem::take(&mut is_first) {
                next = self.first(&open);
            }
            let (name, number) = (&self.program.name, open.generation);
            assert_eq!(number, next as u64 + 1, "{name}: its generation");
            self.tell_open(number).await;
            let is_over;
            (known, is_over) = self.read_on(&mut open, next, known).await;
            if is_over {
                (next, known) = (next + 1, 0);
                self.finish(next).await;
            }
            self.tell_open(0).await;
            open.close(&self.program).await.unwrap();
        }
        self.told.iter().for_each(|told| told.is_over.set(true));
        self.program.order(Request::Goodbye).await.unwrap();
    }

    /// Lets the other rank open a generation, or close it.
    async fn tell_open(&self, generation: u64) {
        let Some(told) = &self.told else { return };
        told.open[0].set(generation);
        self.program.does("lets the other rank open or close the file");
        self.program.until(|| told.open[1].get() == generation).await;
    }

    /// The other rank of a reader: reads the records that the first one tells it.
    async fn follow(self, told: Rc<Told>) {
        let (how, [first, own]) = (self.series.how(self.mpi, false), &told.open);
        loop {
            self.program.does("waits for the first rank");
            self.program.until(|| told.is_over.get() || first.get() > 0).await;
            if told.is_over.get() {
                return self.program.order(Request::Goodbye).await.unwrap();
            }
            let mut open = OpenFile::open(&self.program, &how).await.unwrap();
            assert_eq!(open.generation, first.get(), "{}: its generation", self.program.name);
            own.set(open.generation);
            while first.get() > 0 {
                self.program.until(|| first.get() == 0 || told.records.get() > 0).await;
                let (records, generation) = (told.records.get(), open.generation as usize - 1);
                self.check(&mut open, generation, records).await;
                told.records.set(0);
            }
            open.close(&self.program).await.unwrap();
            own.set(0);
        }
    }

    /// The generation that a reader gets first: others may be done with those before it.
    fn first(&self, open: &OpenFile) -> usize {
        let (name, read) = (&self.program.name, self.series.read.get());
        let index = open.generation as usize - 1;
        assert!(index <= read, "{name}: it begins with {}, but {read} were read", open.generation);
        self.series.coming.set(self.series.coming.get() - 1);
        index
    }

    /// A reader is about to be done with so many generations.
    async fn finish(&self, read: usize) {
        if read == self.series.records.len() {
            // Nobody keeps it for readers that come later.
            self.program.does("lets others come first");
            self.program.until(|| self.series.coming.get() == 0).await;
        }
        self.series.read.set(self.series.read.get().max(read));
    }

    /// Reads records until there are no more, or for a while. How many there were, and whether all
    /// of the file was read.
    async fn read_on(&self, open: &mut OpenFile, generation: usize, known: u64) -> (u64, bool) {
        let (name, mut told) = (&self.program.name, 0);
        loop {
            let reply = open.ask(&self.program, |handle| Request::Records(handle, told)).await;
            let (count, is_over) = match reply {
                Reply::Records(Some((found, _))) => {
                    let all = self.series.before(generation) + found;
                    assert!(all <= self.series.announced.get(), "{name}: {found} records");
                    let least =
                        if self.series.options.records_now { known } else { known.max(told) };
                    assert!(found >= least, "{name}: {found} records, not {least}");
                    (found, false)
                }
                Reply::Records(None) => (self.series.records[generation], true),
                other => panic!("{name}: {other:?}"),
            };
            self.told.iter().for_each(|told| told.records.set(count));
            self.check(open, generation, count).await;
            if let Some(told) = &self.told {
                self.program.does("waits for the other rank");
                self.program.until(|| told.records.get() == 0).await;
            }
            if is_over {
                let header = self.series.header(count);
                let found = open.read(&self.program, 0, header.len() as u64).await.unwrap();
                assert!(found == header, "{name}: the header of a file that is complete");
                let size = PAGE * (1 + count * self.series.variables);
                assert_eq!(open.size(), size, "{name}: size");
                open.moved = u64::MAX;
                return (count, true);
            }
            if self.program.chance().once_in(4) {
                return (count, false);
            }
            told = count + 1;
        }
    }

    async fn check(&self, open: &mut OpenFile, generation: usize, count: u64) {
        for record in 0..count {
            for variable in 0..self.series.variables {
                let (at, bytes) = self.series.slot(generation, record, variable);
                open.reach(&self.program, at + PAGE).await;
                let found = open.read(&self.program, at, PAGE).await.unwrap();
                let name = &self.program.name;
                assert!(found == bytes, "{name}: record {record} of generation {generation}");
            }
        }
    }
}

/// Adds a program that writes records, and some that read them.
pub(super) fn begin(chance: &Chance, world: &mut World, path: PathBuf) {
    let options = Options { at_step: true, records_now: chance.once_in(2), ..Options::default() };
    let records = (0..1 + chance.of(0..3)).map(|_| 1 + chance.of(0..5) as u64).collect();
    let readers = 1 + chance.of(0..2);
    let series = Rc::new(Series {
        path: path.into_os_string().into_encoded_bytes(),
        options,
        version: chance.one(&[1, 2, 5]),
        variables: 1 + chance.of(0..3) as u64,
        records,
        announced: Cell::new(0),
        read: Cell::new(0),
        coming: Cell::new(readers),
    });
    let all = series.before(series.records.len()) as usize;
    for number in 0..1 + readers {
        let (series, node) = (series.clone(), chance.of(0..world.agents.len()));
        let (mpi, writes) = (chance.once_in(2), number == 0);
        let late = if chance.once_in(3) { chance.of(0..all + 1) as u64 } else { 0 };
        let name = format!("step {number} on {node}{}", if mpi { ", MPI" } else { "" });
        let job = format!("step {number}");
        let told = (!writes && chance.once_in(2)).then(Rc::<Told>::default);
        let ranks = 1 + u32::from(told.is_some());
        if let Some(told) = told.clone() {
            let (node, series) = (chance.of(0..world.agents.len()), series.clone());
            let name = format!("{name}, its other rank on {node}");
            world.enter(node, (&job, ranks, name), |program| async move {
                Stepper { program, series, mpi, late, told: None }.follow(told).await;
            });
        }
        world.enter(node, (&job, ranks, name), |program| async move {
            let stepper = Stepper { program, series, mpi, late, told };
            if writes { stepper.write().await } else { stepper.read().await }
        });
    }
}
