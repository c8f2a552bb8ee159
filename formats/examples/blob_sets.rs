//! Large sets of E3SM-IO's blobs, made of the decompositions of a small one; `tests/set_speed.py`
//! measures with them.
//!
//! ```text
//! cargo run --release -p aggio-formats --example blob_sets -- SEED SHAPE MIB DIRECTORY
//! ```
//!
//! `SEED` is a set with variables `(time, ncol)` and `(time, lev, ncol)`. `SHAPE` is `tiled`: its
//! variables and records, but so many times its columns that the file has `MIB` mebibytes, each
//! process writes its columns of each copy; or `wide`: its decompositions as they are, 323
//! variables of the smaller and 77 of the larger one, and as many records as it takes. Below
//! `DIRECTORY` are then the file itself, `plain`, and sets of it: `pnetcdf1`, `pnetcdf4`, `hdf5-1`
//! and `hdf5-4`.

use aggio_formats::blobs::{Content, Kind, Outcome, Owned, Plan, Sink, file_name};
use aggio_formats::cdf::{Alignment, Header, Layout, Place, Records, Variable};
use aggio_formats::files::Folder;
use aggio_formats::{Options, Result, Set};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Elements of one process: the first, how many, and the process.
type Run = (u64, u64, u32);

/// The decompositions of the seed.
struct Maps {
    columns: u64,
    levels: u64,
    flat: Vec<Run>,
    deep: Vec<Run>,
    processes: u32,
}

/// The runs of a variable's first record.
fn runs(owned: &[Owned], layout: &Layout, variable: usize) -> Vec<Run> {
    let slot = layout.slots[variable];
    let within = owned.iter().filter(|part| part.range.start >= slot.begin);
    let within = within.filter(|part| part.range.end <= slot.begin + slot.size);
    let run = |part: &Owned| {
        let first = (part.range.start - slot.begin) / slot.element;
        (first, (part.range.end - part.range.start) / slot.element, part.writer)
    };
    within.map(run).collect()
}

fn id_of(header: &Header, name: &str) -> usize {
    let found = header.dimensions.iter().position(|dimension| dimension.name == *name);
    found.unwrap_or_else(|| panic!("no dimension {name}"))
}

fn seed(path: &Path) -> (Header, Maps) {
    let (folder, name) = Folder::of(path).expect("a path");
    let set = Set::find(&folder, &name).expect("a set").expect("a set");
    let file = set.open(&Options::default()).expect("a complete set");
    let written = file.written().expect("a set that tells who wrote it");
    let (header, owned) = (file.header().clone(), written.owned().collect::<Vec<Owned>>());
    let [time, lev, ncol] = ["time", "lev", "ncol"].map(|name| id_of(&header, name));
    let of = |dimensions: &[usize]| {
        let found = header.variables.iter().position(|one| one.dimensions == dimensions);
        runs(&owned, file.layout(), found.expect("a variable of these dimensions"))
    };
    let (flat, deep) = (of(&[time, ncol]), of(&[time, lev, ncol]));
    let processes = written.groups().iter().map(Vec::len).sum::<usize>() as u32;
    let (columns, levels) = (header.dimensions[ncol].length, header.dimensions[lev].length);
    (header, Maps { columns, levels, flat, deep, processes })
}

impl Maps {
    /// The same for so many times the columns.
    fn tiled(self, tiles: u64) -> Self {
        let columns = self.columns;
        let repeated = |runs: &[Run]| {
            // A run that crosses the end of a row becomes two.
            let cut = runs.iter().flat_map(|(first, len, writer)| {
                let border = (first / columns + 1) * columns;
                let head = (*len).min(border - first);
                [(*first, head, *writer), (border, len - head, *writer)]
            });
            let cut: Vec<Run> = cut.filter(|run| run.1 > 0).collect();
            let row = |runs: &[Run]| {
                let (runs, level) = (runs.to_vec(), runs[0].0 / columns);
                (0..tiles).flat_map(move |tile| {
                    let shift = level * columns * tiles + tile * columns;
                    runs.clone()
                        .into_iter()
                        .map(move |(first, len, writer)| (shift + first % columns, len, writer))
                })
            };
            cut.chunk_by(|one, other| one.0 / columns == other.0 / columns).flat_map(row).collect()
        };
        let (flat, deep) = (repeated(&self.flat), repeated(&self.deep));
        Maps { columns: columns * tiles, flat, deep, ..self }
    }
}

/// A file with bytes that follow from their places.
struct Made {
    head: Vec<u8>,
    layout: Layout,
    size: u64,
}

impl Content for Made {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        for piece in self.layout.pieces(offset..offset + out.len() as u64) {
            let range = (piece.range.start - offset) as usize..(piece.range.end - offset) as usize;
            let part = &mut out[range];
            let start = piece.range.start;
            match piece.place {
                Place::Header => {
                    part.copy_from_slice(&self.head[start as usize..start as usize + part.len()]);
                }
                Place::Pad => part.fill(0),
                Place::Data { .. } => (start..).zip(part).for_each(|(at, byte)| {
                    *byte = ((at / 8).wrapping_mul(0x9E37_79B9) >> (at % 8 * 4)) as u8;
                }),
            }
        }
        Ok(())
    }
}

struct Target(File);

impl Sink for Target {
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.0.write_all_at(bytes, offset).expect("room for the set");
        Ok(())
    }

    fn set_len(&self, size: u64) -> Result<()> {
        self.0.set_len(size).expect("room for the set");
        Ok(())
    }
}

/// The header of a file of about so many bytes, and how its variables are decomposed.
fn shaped(shape: &str, bytes: u64, mut header: Header, maps: Maps) -> (Header, Maps) {
    let ids = ["time", "lev", "ncol"].map(|name| id_of(&header, name));
    let [time, lev, ncol] = ids;
    let size_of = |header: &Header, records| {
        Layout::of(header).and_then(|layout| layout.end(records)).expect("a file of 64 bits")
    };
    let Records::Known(records) = header.records else { panic!("streaming") };
    let maps = match shape {
        "tiled" => {
            let tiles = bytes.div_ceil(size_of(&header, records));
            header.dimensions[ncol].length *= tiles;
            maps.tiled(tiles)
        }
        "wide" => {
            let variable = |(index, dimensions): (usize, &[usize])| Variable {
                name: format!("v{index}").as_str().into(),
                dimensions: dimensions.to_vec(),
                ..header.variables[header.variables.len() - 1].clone()
            };
            let (flat, deep) = ([time, ncol], [time, lev, ncol]);
            let all = (0..400).map(|index| (index, if index < 323 { &flat[..] } else { &deep }));
            header.variables = all.map(variable).collect();
            header.assign(Alignment::default()).expect("places");
            let record = size_of(&header, 2) - size_of(&header, 1);
            header.records = Records::Known(bytes.div_ceil(record));
            maps
        }
        _ => panic!("{shape} is neither tiled nor wide"),
    };
    header.assign(Alignment::default()).expect("places");
    (header, maps)
}

impl Made {
    fn of(header: &Header) -> Self {
        let layout = Layout::of(header).expect("a layout");
        let Records::Known(records) = header.records else { panic!("streaming") };
        let size = layout.end(records).expect("a file of 64 bits");
        Made { head: header.write().expect("a header"), layout, size }
    }

    /// The ranges of the file and their writers.
    fn owned<'a>(&'a self, header: &'a Header, maps: &'a Maps) -> impl Iterator<Item = Owned> {
        let pieces = self.layout.pieces(self.layout.header..self.size);
        let head = Owned { range: 0..self.layout.header, writer: 0 };
        let deep = maps.columns * maps.levels;
        let data = pieces.filter_map(|piece| match piece.place {
            Place::Data { variable, .. } => Some((variable, piece.range)),
            _ => None,
        });
        std::iter::once(head).chain(data.flat_map(move |(variable, range)| {
            let size = self.layout.slots[variable].element;
            let dimensions = &header.variables[variable].dimensions;
            let flat = dimensions.last() == Some(&id_of(header, "ncol"));
            let runs: &[Run] = match (range.end - range.start) / size {
                elements if elements == deep => &maps.deep,
                elements if flat && elements == maps.columns => &maps.flat,
                _ => &[],
            };
            let whole = runs.is_empty().then(|| Owned { range: range.clone(), writer: 0 });
            whole.into_iter().chain(runs.iter().map(move |(first, len, writer)| Owned {
                range: range.start + first * size..range.start + (first + len) * size,
                writer: *writer,
            }))
        }))
    }
}

fn create(path: &Path) -> Target {
    Target(File::create(path).expect("a file"))
}

fn write_plain(content: &Made, path: &Path) -> Result<()> {
    let (file, mut bytes) = (create(path), vec![0; 1 << 20]);
    for start in (0..content.size).step_by(bytes.len()) {
        let len = (content.size - start).min(bytes.len() as u64) as usize;
        content.read_at(&mut bytes[..len], start)?;
        file.write_at(&bytes[..len], start)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, shape, mib, directory] = &arguments[..] else { panic!("SEED SHAPE MIB DIRECTORY") };
    let directory = Path::new(directory);
    let (header, maps) = seed(Path::new(from));
    let bytes = mib.parse::<u64>().expect("a number") << 20;
    let (header, maps) = shaped(shape, bytes, header, maps);
    let content = Made::of(&header);
    write_plain(&content, &directory.join("plain"))?;
    for (kind, subfiles, name) in [
        (Kind::Pnetcdf, 1, "pnetcdf1"),
        (Kind::Pnetcdf, 4, "pnetcdf4"),
        (Kind::Hdf5, 1, "hdf5-1"),
        (Kind::Hdf5, 4, "hdf5-4"),
    ] {
        let border = |group: u32| maps.processes * group / subfiles;
        let groups: Vec<Vec<u32>> =
            (0..subfiles).map(|group| (border(group)..border(group + 1)).collect()).collect();
        let mut owned = content.owned(&header, &maps).map(Ok);
        let plan = match Plan::of(&content, &mut owned, &groups, kind)? {
            Outcome::Plan(plan) => plan,
            Outcome::Unsuited(what) => panic!("{what}"),
        };
        let set = directory.join(name).display().to_string();
        for subfile in 0..plan.subfiles() {
            plan.write(subfile, &content, &create(Path::new(&file_name(&set, subfile))))?;
        }
    }
    Ok(())
}
