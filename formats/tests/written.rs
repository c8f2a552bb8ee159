//! Sets of random files, on disk: an independent reader (`tests/netcdf_reader.py`) finds the file
//! in them, and the tools of netCDF, PnetCDF and HDF5 accept their files.

use aggio_formats::Result;
use aggio_formats::blobs::{Content, Kind, Outcome, Owned, Plan, Sink, file_name};
use aggio_formats::cdf::{
    Alignment, Attribute, Dimension, Header, Layout, Place, Records, Type, Variable, Version,
};
use aggio_tests::{repository, skip};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Random numbers that are the same each time.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

struct Bytes(Vec<u8>);

impl Content for Bytes {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        out.copy_from_slice(&self.0[offset as usize..offset as usize + out.len()]);
        Ok(())
    }
}

struct OnDisk(File);

impl Sink for OnDisk {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(bytes, offset).unwrap();
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<()> {
        self.0.set_len(size).unwrap();
        Ok(())
    }
}

/// A header of any version, with names that every library accepts.
fn header(random: &mut Random) -> Header {
    let version = [Version::Classic, Version::Offset64, Version::Data64, Version::Data64]
        [random.below(4) as usize];
    let kinds = if version == Version::Data64 { 11 } else { 6 };
    let mut dimensions = vec![Dimension { name: "time".into(), length: 0 }];
    for id in 1..4 {
        let name = format!("d{id}").as_str().into();
        dimensions.push(Dimension { name, length: 1 + random.below(40) });
    }
    let variable = |(id, random): (u64, &mut Random)| {
        let with_records = (random.below(2) == 0).then_some(0);
        let own = (0..random.below(4)).map(|_| 1 + random.below(3) as usize);
        Variable {
            name: format!("v{id}").as_str().into(),
            dimensions: with_records.into_iter().chain(own.collect::<Vec<usize>>()).collect(),
            attributes: vec![Attribute::of_ints("id", &[id as i32])],
            kind: Type::ALL[random.below(kinds) as usize],
            told_size: 0,
            begin: 0,
        }
    };
    let count = 1 + random.below(9);
    let variables = (0..count).map(|id| variable((id, random))).collect();
    let mut header = Header {
        version,
        records: Records::Known(random.below(4)),
        dimensions,
        attributes: vec![Attribute::of_ints("of", &[1, 2])],
        variables,
    };
    let alignment = [Alignment::default(), Alignment { variables: 4, records: 4 }];
    header.assign(alignment[random.below(2) as usize]).unwrap();
    header
}

/// The bytes of a file, and their owners: each variable is of one writer, of nobody, or dealt out
/// in runs.
fn written(header: &Header, writers: u64, random: &mut Random) -> (Vec<u8>, Vec<Owned>) {
    let layout = Layout::of(header).unwrap();
    let Records::Known(records) = header.records else { unreachable!() };
    let mut bytes = header.write().unwrap();
    let mut owned = vec![Owned { range: 0..bytes.len() as u64, writer: 0 }];
    bytes.resize(layout.end(records).unwrap().max(layout.header) as usize, 0);
    let ways: Vec<[u64; 3]> = header
        .variables
        .iter()
        .map(|_| [random.below(4), 1 + random.below(9), random.below(writers)])
        .collect();
    for piece in layout.pieces(layout.header..bytes.len() as u64) {
        let Place::Data { variable, .. } = piece.place else { continue };
        let ([way, run, first], size) = (ways[variable], layout.slots[variable].element);
        let elements = (piece.range.end - piece.range.start) / size;
        for element in 0..elements {
            // One more than there are writers is nobody.
            let writer = match way {
                0 => first,
                1 => writers,
                _ => (element / run + first) % (writers + 1),
            };
            if writer < writers {
                let range =
                    piece.range.start + element * size..piece.range.start + (element + 1) * size;
                range.clone().for_each(|at| bytes[at as usize] = random.below(256) as u8);
                owned.push(Owned { range, writer: writer as u32 });
            }
        }
    }
    (bytes, owned)
}

/// Writes a set of random groups of writers; the names of its files.
fn write(path: &str, bytes: &[u8], owned: &[Owned], writers: u64, kind: Kind) -> Vec<String> {
    let subfiles = writers.min(3) as usize;
    let mut groups = vec![Vec::new(); subfiles];
    (0..writers as u32).rev().for_each(|writer| groups[writer as usize % subfiles].push(writer));
    let content = Bytes(bytes.to_vec());
    let outcome = Plan::of(&content, &mut owned.iter().cloned().map(Ok), &groups, kind).unwrap();
    let plan = match outcome {
        Outcome::Plan(plan) => plan,
        Outcome::Unsuited(what) => panic!("{what}"),
    };
    let file = |subfile: usize| {
        let name = file_name(path, subfile);
        plan.write(subfile, &content, &OnDisk(File::create(&name).unwrap())).unwrap();
        name
    };
    (0..plan.subfiles()).map(file).collect()
}

/// The standard output of a program; none if it is not installed and need not be.
fn told(program: &str, arguments: &[&str]) -> Option<Vec<u8>> {
    match Command::new(program).args(arguments).output() {
        Err(why) => {
            skip(&format!("{program}: {why} (tests/setup.sh check)"));
            None
        }
        Ok(output) => {
            assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
            Some(output.stdout)
        }
    }
}

fn accepted(file: &str, kind: Kind) {
    match kind {
        Kind::Pnetcdf => {
            let text = told("ncdump", &["-h", file]).map(|text| String::from_utf8(text).unwrap());
            assert!(text.is_none_or(|text| text.contains("global_nprocs")), "{file}");
            // It starts MPI each time, which takes long.
            if file.ends_with("4.0000") {
                told("ncmpidump", &["-h", file]);
            }
            told("ncvalidator", &["-q", file]);
        }
        Kind::Hdf5 => {
            let text = told("h5dump", &["-H", file]).map(|text| String::from_utf8(text).unwrap());
            let both = |text: String| text.contains("header_blob") && text.contains("data_blob");
            assert!(text.is_none_or(both), "{file}");
            // Also the checksums and the bytes are read.
            told("h5dump", &["-d", "header_blob", "-o", "/dev/null", file]);
        }
    }
}

fn check(folder: &Path, seed: u64) {
    let mut random = Random(seed);
    let header = header(&mut random);
    let writers = 1 + random.below(7);
    let (bytes, owned) = written(&header, writers, &mut random);
    let canonical = folder.join("canonical").display().to_string();
    std::fs::write(&canonical, &bytes).unwrap();
    for (kind, name) in [(Kind::Pnetcdf, "pnetcdf"), (Kind::Hdf5, "hdf5")] {
        let set = folder.join(format!("{name}{seed}")).display().to_string();
        for file in write(&set, &bytes, &owned, writers, kind) {
            accepted(&file, kind);
        }
        let reader = repository().join("tests/netcdf_reader.py").display().to_string();
        let found = told("python3", &[&reader, "canonical", &set, &canonical]);
        assert!(found.is_none_or(|found| found == bytes), "{set}");
    }
}

#[test]
fn random_sets_are_what_an_independent_reader_finds_and_the_libraries_accept() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..24 {
        check(folder.path(), seed);
    }
}
