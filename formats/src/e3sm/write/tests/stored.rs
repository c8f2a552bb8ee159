//! Files with bytes that are copied from where they are stored.

use super::*;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// A file that is stored writer by writer.
pub(super) struct InStores<'a> {
    file: &'a Written,
    stores: Vec<Vec<u8>>,
    parts: Vec<Stored>,
    /// Bytes that were copied from the stores.
    pub(super) copied: Mutex<u64>,
}

impl<'a> InStores<'a> {
    /// The bytes of each writer lie in the order of the file, with `parting` bytes of something
    /// else before each part that has a multiple of `every` as its number.
    pub(super) fn new(file: &'a Written, every: usize, parting: usize) -> Self {
        let mut stores = vec![vec![0xAA; 5]; file.writers as usize];
        let mut parts = Vec::new();
        for (number, Owned { range, writer }) in file.owned().into_iter().enumerate() {
            let store = &mut stores[writer as usize];
            if number % every == 0 {
                store.extend(vec![0xAA; parting]);
            }
            let place = store.len() as u64;
            store.extend(&file.bytes[range.start as usize..range.end as usize]);
            parts.push(Stored { range, store: writer.into(), place });
        }
        InStores { file, stores, parts, copied: Mutex::new(0) }
    }
}

impl Content for InStores<'_> {
    fn size(&self) -> u64 {
        self.file.bytes.size()
    }

    fn read_at(&self, out: &mut [u8], offset: u64) -> Result<()> {
        self.file.bytes.read_at(out, offset)
    }

    fn store(&self) -> Option<&dyn Store> {
        Some(self)
    }
}

impl Store for InStores<'_> {
    fn find(&self, range: Range<u64>) -> Result<Vec<Stored>> {
        let part = |part: &Stored| {
            let (start, end) = (part.range.start.max(range.start), part.range.end.min(range.end));
            let place = part.place + start.saturating_sub(part.range.start);
            (start < end).then_some(Stored { range: start..end, store: part.store, place })
        };
        Ok(self.parts.iter().filter_map(part).collect())
    }

    fn copy(&self, bytes: Stored, to: &File, offset: u64) -> Result<()> {
        let len = bytes.range.end - bytes.range.start;
        let from = bytes.place as usize;
        to.write_all_at(&self.stores[bytes.store as usize][from..from + len as usize], offset)
            .unwrap();
        *self.copied.lock().unwrap() += len;
        Ok(())
    }
}

/// A file on disk.
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

    fn file(&self) -> Option<&File> {
        Some(&self.0)
    }
}

/// The files of a set of that content, written to disk.
pub(super) fn files_on_disk(plan: &Plan, content: &dyn Content) -> Files {
    let file = |subfile: usize| {
        let mut disk = OnDisk(tempfile::tempfile().unwrap());
        disk.write_at(&[0xEE; 99], 0).unwrap();
        plan.write(subfile, content, &disk).unwrap();
        let mut bytes = Vec::new();
        disk.0.read_to_end(&mut bytes).unwrap();
        (file_name("set", subfile), bytes)
    };
    (0..plan.subfiles()).map(file).collect()
}

/// `x(64)` of shorts, even columns of writer 0 and odd ones of writer 1.
fn columns() -> Written {
    let mut header = Header {
        version: Version::Data64,
        records: Records::Known(0),
        dimensions: vec![Dimension { name: "n".into(), length: 64 }],
        attributes: vec![],
        variables: vec![Variable {
            name: "x".into(),
            dimensions: vec![0],
            attributes: vec![],
            kind: Type::Short,
            told_size: 0,
            begin: 0,
        }],
    };
    header.assign(Alignment::default()).unwrap();
    let mut bytes = header.write().unwrap();
    let mut owners = vec![Some(0); bytes.len()];
    let begin = header.variables[0].begin as usize;
    bytes.resize(begin, 0);
    owners.resize(begin, None);
    bytes.extend(1..=128);
    owners.extend((0..128).map(|at| Some(at / 2 % 2)));
    Written { bytes, owners, writers: 2 }
}

/// How many bytes are copied if this many of others lie between any two parts.
fn copied(parting: usize, kind: Kind) -> u64 {
    let written = columns();
    let plan = written.plan(&[vec![0, 1]], kind);
    let stores = InStores::new(&written, 1, parting);
    assert!(files_on_disk(&plan, &stores) == files(&plan, &written.bytes));
    stores.copied.into_inner().unwrap()
}

#[test]
fn what_lies_together_is_copied_without_being_looked_at() {
    assert_eq!(copied(0, Kind::Pnetcdf), 128);
}

#[test]
fn what_does_not_lie_together_or_is_turned_round_is_gathered() {
    assert_eq!(copied(1, Kind::Pnetcdf), 0);
    let turned = cfg!(target_endian = "little");
    assert_eq!(copied(0, Kind::Hdf5), if turned { 0 } else { 128 });
}
