//! Files that PnetCDF and E3SM-IO wrote (`tests/golden/netcdf.tar.xz`).

use aggio_formats::blobs::{Content, Kind, Outcome, Plan, Sink, file_name};
use aggio_formats::cdf::{Alignment, Dialect, Endian, Header, Layout, parse, parse_as};
use aggio_formats::files::{Files, Folder, OnDisk};
use aggio_formats::{Holes, Logical, Options, Result, Set, Sets, hdf5};
use aggio_tests::netcdf_samples;
use std::path::Path;
use std::sync::Mutex;

/// All files that begin as netCDF files do.
fn netcdf_files(directory: &Path) -> Vec<(String, Vec<u8>)> {
    let files = aggio_tests::snapshot(directory).into_iter();
    let found = files.filter(|(_, bytes)| bytes.starts_with(b"CDF"));
    found.map(|(path, bytes)| (path.display().to_string(), bytes)).collect()
}

fn open(path: &Path, options: &Options) -> Logical {
    let (folder, name) = Folder::of(path).unwrap();
    Set::find(&folder, &name).unwrap().expect("a set").open(options).unwrap()
}

fn all(file: &Logical) -> Vec<u8> {
    let mut bytes = vec![0xEE; file.size() as usize + 1];
    let count = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(count);
    bytes
}

#[test]
fn headers_are_written_as_they_were_read_and_every_prefix_needs_more() {
    let samples = netcdf_samples();
    let files = netcdf_files(samples.path());
    assert_eq!(files.len(), 24);
    let dialect = Dialect { many_unlimited: true, ..Dialect::default() };
    for (name, bytes) in files {
        let header = parse_as(&bytes, dialect).unwrap_or_else(|why| panic!("{name}: {why}"));
        let size = header.size() as usize;
        assert!(header.write().unwrap() == bytes[..size], "{name}");
        assert_eq!(parse(&bytes).is_err(), name.contains("sub2.nc.subfile"), "{name}");
        for len in (0..size).step_by(size / 199 + 1) {
            let more = parse_as(&bytes[..len], dialect);
            assert!(matches!(more, Err(aggio_formats::cdf::Error::NeedMore(_))), "{name}: {len}");
        }
    }
}

#[test]
fn places_are_those_that_pnetcdf_has_chosen() {
    let samples = netcdf_samples();
    for (name, bytes) in netcdf_files(samples.path()) {
        let Ok(header) = parse(&bytes) else { continue };
        let mut assigned = header.clone();
        assigned.assign(Alignment::default()).unwrap();
        assert_eq!(assigned, header, "{name}");
        Layout::of(&header).unwrap_or_else(|why| panic!("{name}: {why}"));
    }
}

#[test]
fn the_header_in_an_hdf5_blob_has_the_order_of_the_machine() {
    let samples = netcdf_samples();
    let (folder, name) = Folder::of(&samples.path().join("e3sm/h5blob4_h1.h5.0000")).unwrap();
    let files = OnDisk::new(folder, vec![name], 1);
    let place = hdf5::bytes_of(&files, 0, "header_blob").unwrap();
    assert_eq!(place, 2048..2048 + 16236);
    let mut bytes = vec![0; 16236];
    files.read(0, &mut bytes, place.start).unwrap();
    let dialect = Dialect { endian: Endian::Little, ..Dialect::default() };
    let header = parse_as(&bytes, dialect).unwrap();
    assert!(header.write_as(Endian::Little).unwrap() == bytes);
    assert!(
        hdf5::bytes_of(&files, 0, "nothing")
            .unwrap_err()
            .to_string()
            .contains("no dataset nothing")
    );
}

#[test]
fn sets_of_e3sm_io_are_the_canonical_file() {
    let samples = netcdf_samples();
    let folder = samples.path().join("e3sm");
    let canonical = std::fs::read(folder.join("can_h1.nc")).unwrap();
    for (name, files) in [
        ("blob1_h1.nc", 1),
        ("blob4_h1.nc", 4),
        ("blobq_h1.nc", 1),
        ("h5blob1_h1.h5", 1),
        ("h5blob4_h1.h5", 4),
    ] {
        for holes in [Holes::Zero, Holes::Fill] {
            let file = open(&folder.join(name), &Options { holes, ..Options::default() });
            assert!(all(&file) == canonical, "{name}");
            let told = file.describe();
            assert_eq!((told.files.len(), told.processes, told.coverage.len()), (files, 16, 3));
            assert!(told.coverage.iter().all(|found| found.written == found.elements));
        }
    }
}

#[test]
fn subfiles_of_pnetcdf_have_their_records_though_no_header_tells_them() {
    let samples = netcdf_samples();
    let folder = samples.path().join("pnetcdf_subfiling");
    for (name, records) in [("sub0.nc", 0), ("sub1.nc", 1), ("sub2.nc", 1), ("sub3.nc", 0)] {
        let file = open(&folder.join(name), &Options::default());
        assert_eq!(file.records(), records, "{name}");
        let bytes = all(&file);
        assert_eq!(parse(&bytes).as_ref(), Ok(file.header()));
        let values: Vec<i32> = (0..10).flat_map(|y| (0..6).map(move |x| 100 * y + x)).collect();
        let mut slab = vec![0; 240];
        for (variable, found) in file.header().variables.iter().enumerate() {
            if found.name == *"small" {
                continue;
            }
            let first = if found.name == *"A" { 0 } else { 10_000 };
            file.read_slab(aggio_formats::Slab { variable, record: 0 }, 0, &mut slab).unwrap();
            let wanted = values.iter().flat_map(|value| (value + first).to_be_bytes());
            assert!(wanted.eq(slab.iter().copied()), "{name}: {}", found.name);
        }
    }
}

#[test]
fn a_missing_subfile_of_pnetcdf_is_named() {
    let samples = netcdf_samples();
    let master = samples.path().join("pnetcdf_subfiling/sub1.nc");
    std::fs::remove_file(samples.path().join("pnetcdf_subfiling/sub1.nc.subfile_2.nc")).unwrap();
    let (folder, name) = Folder::of(&master).unwrap();
    let set = Set::find(&folder, &name).unwrap().unwrap();
    let why = set.open(&Options::default()).map(|_| ()).unwrap_err();
    assert!(why.to_string().ends_with("sub1.nc.subfile_2.nc: missing"), "{why}");
    let partial = open(&master, &Options { partial: true, ..Options::default() });
    assert_eq!((partial.records(), partial.describe().notes.len()), (1, 2));
}

#[test]
fn files_that_are_no_sets_are_none() {
    let samples = netcdf_samples();
    let folder = samples.path().join("e3sm");
    std::fs::write(folder.join("log.0000"), "CDF, but not really").unwrap();
    std::fs::write(folder.join("hdf.0000"), hdf5::SIGNATURE).unwrap();
    std::fs::copy(folder.join("can_h1.nc"), folder.join("plain.nc.0000")).unwrap();
    let (place, _) = Folder::of(&folder.join("x")).unwrap();
    let mut sets = Sets::of(place);
    for name in ["log", "hdf", "plain.nc", "can_h1.nc", "nothing"] {
        assert!(sets.find(name).unwrap().is_none(), "{name}");
        assert!(sets.that_has(&format!("{name}.0000")).unwrap().is_none());
    }
    assert_eq!(sets.that_has("blob4_h1.nc.0003").unwrap().unwrap().name(), "blob4_h1.nc");
    assert!(sets.that_has("blob4_h1.nc.0004").unwrap().is_none());
    assert!(sets.that_has("blob4_h1.nc.3").unwrap().is_none());
}

/// A logical file to make a set of.
struct Whole(Logical);

impl Content for Whole {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        assert_eq!(self.0.read_at(out, offset)?, out.len());
        Ok(())
    }
}

struct Memory(Mutex<Vec<u8>>);

impl Sink for Memory {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.lock().unwrap()[offset as usize..][..bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<()> {
        self.0.lock().unwrap().resize(size as usize, 0);
        Ok(())
    }
}

/// A subfile in PnetCDF's layout.
struct Subfile {
    header: Header,
    layout: Layout,
    bytes: Vec<u8>,
}

impl Subfile {
    fn of(bytes: Vec<u8>) -> Self {
        let header = parse(&bytes).unwrap();
        Subfile { layout: Layout::of(&header).unwrap(), header, bytes }
    }

    fn position(&self, name: &str) -> usize {
        self.header.variables.iter().position(|one| one.name == *name).unwrap()
    }

    fn values(&self, name: &str, record: u64) -> &[u8] {
        let id = self.position(name);
        let begin = self.layout.offset_of(id, record).unwrap() as usize;
        &self.bytes[begin..begin + self.layout.slots[id].size as usize]
    }

    /// The tables of a decomposition, without entries that no request fills.
    fn tables(&self, k: i32) -> Vec<Vec<u8>> {
        let [nreqs, start, count, offsets, lengths] =
            ["nreqs", "blob_start", "blob_count", "offsets", "lengths"]
                .map(|table| self.values(&format!("D{k}.{table}"), 0));
        let mut all = vec![nreqs.to_vec(), start.to_vec(), count.to_vec()];
        let blobs = nreqs.len() / 4;
        for (blob, requests) in nreqs.as_chunks::<4>().0.iter().enumerate() {
            let requests = u32::from_be_bytes(*requests) as usize;
            for table in [offsets, lengths] {
                let row = &table[table.len() / blobs * blob..];
                all.push(row[..4 * requests].to_vec());
            }
        }
        all
    }

    fn decomposition(&self, name: &str) -> Option<i32> {
        let variable = &self.header.variables[self.position(name)];
        Some(variable.attribute("decomposition_ID")?.ints()?[0])
    }
}

#[test]
fn sets_made_of_sets_of_e3sm_io_have_its_tables_and_values() {
    let samples = netcdf_samples();
    let folder = samples.path().join("e3sm");
    for name in ["blob1_h1.nc", "blob4_h1.nc"] {
        let file = Whole(open(&folder.join(name), &Options::default()));
        let told = file.0.written().unwrap();
        let owned = &mut told.owned().map(Ok);
        let outcome = Plan::of(&file, owned, told.groups(), Kind::Pnetcdf).unwrap();
        let Outcome::Plan(plan) = outcome else { panic!("no plan") };
        for subfile in 0..plan.subfiles() {
            let made = Memory(Mutex::default());
            plan.write(subfile, &file, &made).unwrap();
            let made = Subfile::of(made.0.into_inner().unwrap());
            let own = Subfile::of(std::fs::read(folder.join(file_name(name, subfile))).unwrap());
            assert_eq!(made.header.variables.len(), own.header.variables.len());
            for variable in &file.0.header().variables {
                let variable_name = variable.name.to_string();
                let numbers = [&made, &own].map(|set| set.decomposition(&variable_name));
                match numbers {
                    [Some(one), Some(other)] => assert!(made.tables(one) == own.tables(other)),
                    numbers => {
                        assert_eq!(numbers, [None, None], "{variable_name}");
                    }
                }
                for record in 0..if file.0.header().has_records(variable) { 3 } else { 1 } {
                    let values = made.values(&variable_name, record);
                    assert!(values == own.values(&variable_name, record), "{variable_name}");
                }
            }
        }
    }
}
