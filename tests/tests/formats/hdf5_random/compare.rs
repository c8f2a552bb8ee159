//! Compares the results of the reader for a file with those of HDF5.

use super::truth::{self, Object, list, sum};
use aggio_formats::hdf5::{Chunk, Contents, Dataset, Index, Layout, OneOf, Space, What};
use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;

/// The numbers of objects in all files.
#[derive(Debug, Default)]
pub(crate) struct Met {
    files: u64,
    /// Files that HDF5 itself could not write.
    failed: u64,
    objects: u64,
    datasets: u64,
    chunks: u64,
    indexes: BTreeSet<&'static str>,
}

impl Met {
    pub(crate) fn is_enough(&self) -> bool {
        self.indexes.len() == 6 && self.failed <= self.files / 100
    }
}

impl fmt::Display for Met {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Met { files, failed, objects, datasets, chunks, indexes } = self;
        write!(
            to,
            "{files} files, {failed} not written by HDF5, {objects} objects, {datasets} datasets, \
             {chunks} chunks; "
        )?;
        write!(to, "{indexes:?}")
    }
}

/// Compares a file with the truth beside it.
pub(crate) fn file(path: &Path, met: &mut Met) {
    met.files += 1;
    let Ok(text) = std::fs::read_to_string(path.with_extension("truth")) else {
        met.failed += 1;
        return;
    };
    let bytes = std::fs::read(path).expect("the file is there");
    let mut truth = truth::parse(&text);
    let files = vec![(path.display().to_string(), bytes)];
    let found = Contents::read(&OneOf(&files, 0)).unwrap_or_else(|why| panic!("{why}"));
    let bytes = &files[0].1;
    assert_eq!(found.superblock.user_block, truth.user_block, "{}", path.display());
    assert!(found.metadata + found.data <= found.size, "{}: {found:?}", path.display());
    for object in &found.objects {
        let at = format!("{}: {}", path.display(), object.path);
        let wanted = truth.objects.remove(&object.path).unwrap_or_else(|| panic!("{at}: none"));
        let fields: Vec<&str> = wanted.fields.iter().map(String::as_str).collect();
        let (kind, target) = match &object.what {
            What::Group => ("group", None),
            What::Datatype => ("datatype", None),
            What::Dataset(..) => ("dataset", None),
            What::Same(path) => ("same", Some(vec![&path[..]])),
            What::Soft(path) => ("soft", Some(vec![&path[..], ""])),
            What::External { file, path } => ("external", Some(vec![&path[..], file])),
            What::Unknown(why) => panic!("{at}: {why}"),
        };
        assert_eq!(kind, wanted.kind, "{at}");
        match target {
            Some(target) => assert_eq!(target, fields, "{at}"),
            None => assert_eq!(object.attributes.to_string(), fields[0], "{at}: attributes"),
        }
        met.objects += 1;
        if let What::Dataset(found, chunks) = &object.what {
            let chunks: Vec<Chunk> = chunks.iter().collect();
            dataset(&at, found, &chunks, &wanted, bytes, met);
            places(&at, &chunks, &wanted);
        }
    }
    assert!(truth.objects.is_empty(), "{}: {:?}", path.display(), truth.objects.keys());
}

fn dataset(
    at: &str,
    found: &Dataset,
    chunks: &[Chunk],
    wanted: &Object,
    bytes: &[u8],
    met: &mut Met,
) {
    let fields: Vec<&str> = wanted.fields.iter().map(String::as_str).collect();
    let [_, shape, most, element, layout, filters] = fields[..] else { panic!("{at}") };
    met.datasets += 1;
    if shape == "null" {
        assert_eq!(found.space, Space::Null, "{at}");
    } else {
        assert_eq!(found.space.shape(), list(shape), "{at}");
        let limits: Vec<u64> = found.space.most().iter().map(|m| m.unwrap_or(u64::MAX)).collect();
        assert_eq!(limits, list(most), "{at}");
    }
    if element != "0" {
        assert_eq!(found.datatype.size.to_string(), element, "{at}");
    }
    let ids: Vec<String> = found.filters.iter().map(|filter| filter.id.to_string()).collect();
    assert_eq!(ids, filters.split_whitespace().collect::<Vec<_>>(), "{at}");
    let words: Vec<&str> = layout.split(' ').collect();
    match &found.layout {
        Layout::Compact { size } => assert_eq!(words, ["compact", &size.to_string()], "{at}"),
        Layout::Contiguous { address, .. } => {
            let told = address.map_or("-1".into(), |address| address.to_string());
            assert_eq!(words, ["contiguous", &told], "{at}");
        }
        Layout::Chunked(chunked) => {
            let index = match chunked.index {
                Index::BTree1 => "0",
                Index::Single(_) => "1",
                Index::Implicit => "2",
                Index::FixedArray => "3",
                Index::ExtensibleArray => "4",
                Index::BTree2 => "5",
            };
            assert_eq!((words[0], words[2]), ("chunked", index), "{at}");
            assert_eq!(chunked.shape, list(words[1]), "{at}");
            met.indexes.insert(chunked.index.name());
        }
    }
    let offsets: Vec<_> = chunks.iter().map(|chunk| &chunk.offset).collect();
    assert_eq!(offsets, wanted.chunks.keys().collect::<Vec<_>>(), "{at}");
    for (found, (offset, wanted)) in chunks.iter().zip(&wanted.chunks) {
        let there = &bytes[found.place as usize..(found.place + found.stored) as usize];
        let told = (wanted.stored, wanted.mask, wanted.sum);
        assert_eq!((found.stored, found.mask, sum(there)), told, "{at}: chunk {offset:?}");
        met.chunks += 1;
    }
}

/// The places are those that HDF5's query of all chunks returns.
fn places(at: &str, chunks: &[Chunk], wanted: &Object) {
    if wanted.addresses.is_empty() {
        return;
    }
    let all = chunks.iter().map(|one| (one.stored, one.mask, one.place));
    let (mut found, mut wanted) = (all.collect::<Vec<_>>(), wanted.addresses.clone());
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted, "{at}");
}
