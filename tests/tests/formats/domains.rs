//! netCDF files among MPI programs: file domains end where variables do, and headers come last.

use aggio_formats::cdf::{Alignment, Dimension, Header, Layout, Records, Type, Variable, Version};
use aggio_tests::{Directory, Finished, Mpi, calls_of_each, compile, installed, library};
use std::ops::Range;
use std::path::{Path, PathBuf};

const RANKS: u32 = 4;
const RECORDS: u64 = 6;
/// Rows of the three variables with records, 64 integers each: together as many pieces for each
/// rank.
const ROWS: [u64; 3] = [150, 100, 142];

/// A file with a variable without records and three with records.
fn header() -> Header {
    let dimension = |name: &str, length| Dimension { name: name.into(), length };
    let mut header = Header {
        version: Version::Offset64,
        records: Records::Known(0),
        dimensions: vec![dimension("time", 0), dimension("x", 64)],
        attributes: vec![],
        variables: vec![],
    };
    let mut add = |name: &str, dimensions: Vec<usize>| {
        let (attributes, told_size, begin) = (vec![], 0, 0);
        let name = name.into();
        header.variables.push(Variable {
            name,
            dimensions,
            attributes,
            kind: Type::Int,
            told_size,
            begin,
        });
    };
    add("x", vec![1]);
    for (number, name) in ["u", "v", "w"].into_iter().enumerate() {
        add(name, vec![0, 2 + number, 1]);
    }
    for (name, rows) in ["a", "b", "c"].into_iter().zip(ROWS) {
        header.dimensions.push(dimension(name, rows));
    }
    header.assign(Alignment::default()).expect("a small file");
    header
}

/// A file in a directory of its own, and its header, bytes and layout.
struct Case {
    _directory: Directory,
    file: PathBuf,
    header: PathBuf,
    bytes: Vec<u8>,
    layout: Layout,
}

impl Case {
    fn new() -> Self {
        let (directory, header) = (Directory::new(), header());
        let bytes = header.write().expect("a header");
        let (file, header_file) =
            (directory.path().join("file.nc"), directory.path().join("header"));
        std::fs::write(&header_file, &bytes).expect("the directory can be written");
        let layout = Layout::of(&header).expect("a layout");
        Self { _directory: directory, file, header: header_file, bytes, layout }
    }

    /// Runs the program under strace: the writes of each process.
    fn run(
        &self,
        mpi: &Mpi,
        library: &Path,
        append: bool,
        variables: &[(&str, &str)],
    ) -> Vec<Vec<Write>> {
        let numbers =
            [self.layout.records_begin, self.layout.record_size, RECORDS].map(|n| n.to_string());
        let mut arguments = vec![self.header.to_str().expect("text")];
        arguments.extend(numbers.iter().map(String::as_str));
        if append {
            std::fs::write(&self.file, &self.bytes).expect("the directory can be written");
            arguments.push("append");
        }
        let program = compile("netcdf_records.c", mpi);
        let (finished, calls): (Finished, _) = calls_of_each(
            &self.file,
            "pwrite64,pwritev,pwritev2,write,writev",
            &program,
            &arguments,
            (RANKS, library),
            variables,
            &["-ttt", "-T", "-s", "0"],
        );
        assert!(
            finished.succeeded() && finished.stdout.contains("ok"),
            "{}: {}",
            mpi.name,
            finished.report()
        );
        self.check(&mpi.name);
        calls.iter().map(|lines| lines.iter().map(|line| Write::read(line)).collect()).collect()
    }

    /// The file holds the header, with the number of records, and all records.
    fn check(&self, name: &str) {
        let file = std::fs::read(&self.file).expect("the file is there");
        let begin = self.layout.records_begin as usize;
        let mut header = self.bytes.clone();
        header[4..8].copy_from_slice(&(RECORDS as u32).to_be_bytes());
        assert!(file[..header.len()] == header[..], "{name}: the header");
        assert_eq!(file.len() as u64, self.layout.end(RECORDS).expect("a small file"), "{name}");
        let wrong = (begin..file.len()).find(|place| file[*place] != (place * 31 % 251) as u8);
        assert_eq!(wrong, None, "{name}: a byte of a record");
    }

    /// The slabs of all records.
    fn slabs(&self) -> Vec<Range<u64>> {
        let slots = self.layout.slots.iter().enumerate().filter(|(_, slot)| slot.records);
        let slabs = slots.flat_map(|(variable, slot)| {
            let begin =
                move |record| self.layout.offset_of(variable, record).expect("a small file");
            (0..RECORDS).map(move |record| begin(record)..begin(record) + slot.size)
        });
        slabs.collect()
    }

    /// How many slabs more than one process has written to.
    fn split(&self, processes: &[Vec<Write>]) -> usize {
        let touches = |writes: &Vec<Write>, slab: &Range<u64>| {
            writes.iter().any(|write| write.place.start < slab.end && slab.start < write.place.end)
        };
        let writers =
            |slab: &Range<u64>| processes.iter().filter(|writes| touches(writes, slab)).count();
        self.slabs().iter().filter(|slab| writers(slab) > 1).count()
    }
}

/// A request of a process.
#[derive(Clone, Debug)]
struct Write {
    place: Range<u64>,
    began: f64,
    ended: f64,
}

impl Write {
    /// Of a line such as `1.5 pwrite64(3</f>, ""..., 8, 4) = 8 <0.1>`.
    fn read(line: &str) -> Self {
        let word = |text: &str| text.trim_matches(['<', '>', ')', ',']).to_owned();
        let words: Vec<String> = line.split_whitespace().map(word).collect();
        let number = |back: usize| {
            words[words.len() - back].parse::<f64>().unwrap_or_else(|_| panic!("{line}"))
        };
        assert!(
            line.contains(" pwrite") && line.contains(") = "),
            "a request without a place: {line}"
        );
        let equals = words.iter().position(|word| word == "=").expect("a result");
        let offset: u64 = words[equals - 1].parse().unwrap_or_else(|_| panic!("{line}"));
        let (began, len) =
            (words[0].parse::<f64>().unwrap_or_else(|_| panic!("{line}")), number(2) as u64);
        Self { place: offset..offset + len, began, ended: began + number(1) }
    }
}

/// Only the aggregators write, two of them.
const TWO: &str = "*:cb_nodes=2:romio_cb_write=enable";

#[test]
fn no_slab_of_a_variable_belongs_to_two_aggregators_if_it_fits_into_one_domain() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        for append in [false, true] {
            let case = Case::new();
            let of = |hints: &str| {
                let hints = format!("{TWO}{hints}");
                let writes = case.run(
                    &mpi,
                    &library,
                    append,
                    &[("AGGIO_HINTS", &hints), ("AGGIO_TEST_COSTS", "assumed")],
                );
                let writers = writes
                    .iter()
                    .filter(|writes| writes.iter().any(|write| write.place.start > 4096));
                (case.split(&writes), writers.count())
            };
            assert_eq!(
                of(":aggio_format=bytes"),
                (RECORDS as usize, 2),
                "{}: borders of bytes",
                mpi.name
            );
            assert_eq!(of(""), (0, 2), "{}: borders of variables, append: {append}", mpi.name);
        }
    }
}

#[test]
fn records_are_cut_nowhere_if_their_size_is_told() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        let case = Case::new();
        let begin = case.layout.records_begin;
        // How many requests begin inside of one of the 32 parts of a record of the file.
        let size = case.layout.record_size / 32;
        let cut = |format: &str| {
            let hints = format!("{TWO}:aggio_format={format}");
            let variables = [("AGGIO_HINTS", &*hints), ("AGGIO_TEST_COSTS", "assumed")];
            let writes = case.run(&mpi, &library, false, &variables).concat();
            let data = writes.iter().filter(|write| write.place.start >= begin);
            data.filter(|write| !(write.place.start - begin).is_multiple_of(size)).count()
        };
        assert_eq!(cut("bytes"), RECORDS as usize, "{}", mpi.name);
        assert_eq!(cut(&format!("records:{size}:{begin}")), 0, "{}", mpi.name);
    }
}

#[test]
fn a_header_that_waits_reaches_the_file_after_the_data_of_all_ranks() {
    let Some(library) = library() else { return };
    for mpi in installed() {
        for append in [false, true] {
            let case = Case::new();
            let always = ("AGGIO_HINTS", "*:aggio_tune=defer_always=true");
            let buffered = ("AGGIO_STAGE", "none");
            let assumed = ("AGGIO_TEST_COSTS", "assumed");
            let variables = [("AGGIO_DEFER", "*"), always, buffered, assumed];
            let writes = case.run(&mpi, &library, append, &variables).concat();
            let header = case.layout.header;
            let (data, mut headers): (Vec<_>, Vec<_>) =
                writes.iter().partition(|write| write.place.start >= header);
            // The header of a new file is written before any data wait, and announces none.
            headers.sort_by(|one, other| one.began.total_cmp(&other.began));
            let headers = headers.split_off(if append { 0 } else { 2 });
            assert!(!data.is_empty() && !headers.is_empty(), "{}: {writes:?}", mpi.name);
            let data_ended = data.iter().map(|write| write.ended).fold(0.0, f64::max);
            let announced = headers[0].began;
            assert!(announced >= data_ended, "{}: {announced} before {data_ended}", mpi.name);
        }
    }
}
