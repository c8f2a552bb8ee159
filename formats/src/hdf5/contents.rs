//! The contents of an HDF5 file: all groups and datasets, and where their bytes are.

use super::dataset::{self, Dataset};
use super::group::{self, Link, Target};
use super::header::{self, Message};
use super::index::{self, Chunks};
use super::layout::Layout;
use super::reader::Reader;
use super::source::Source;
use super::superblock::{self, Superblock};
use crate::error::{Error, Kind, Result};
use std::collections::HashMap;

/// Everything in a file.
#[derive(Debug)]
pub struct Contents {
    /// Its superblock.
    pub superblock: Superblock,
    /// Bytes of the file, the user block included.
    pub size: u64,
    /// Names in the order of their paths; the first one is the root group, `/`.
    pub objects: Vec<Object>,
    /// Bytes of metadata that were found.
    pub metadata: u64,
    /// Bytes of datasets in the file, as the filters left them.
    pub data: u64,
}

/// A name in the file.
#[derive(Debug)]
pub struct Object {
    /// The groups that lead to it, and its own name.
    pub path: String,
    /// The object of that name.
    pub what: What,
    /// How many attributes it has.
    pub attributes: u64,
    /// Where its header is, for [`Details`](super::Details); `None` if the name has no own one.
    pub address: Option<u64>,
}

/// The object that a name stands for.
#[derive(Debug)]
pub enum What {
    /// A group.
    Group,
    /// A dataset and its chunks, if it has any.
    Dataset(Box<Dataset>, Chunks),
    /// A datatype that has a name.
    Datatype,
    /// The same object as another path.
    Same(String),
    /// A path in this file.
    Soft(String),
    /// A path in another file.
    External {
        /// The file.
        file: String,
        /// The path.
        path: String,
    },
    /// An object that cannot be read, and why.
    Unknown(Error),
}

/// Whether a file begins like an HDF5 file, also behind a user block.
///
/// # Errors
///
/// If it cannot be read.
pub fn is_hdf5(source: &dyn Source) -> Result<bool> {
    match superblock::find(&Reader::new(source)?) {
        Ok(_) => Ok(true),
        Err(why) if why.kind == Kind::Corrupt => Ok(false),
        Err(why) => Err(why),
    }
}

impl Contents {
    /// Reads the metadata of a file; its datasets are not read.
    ///
    /// If a part of an object is damaged or not supported, that is reported in its place.
    ///
    /// # Errors
    ///
    /// If the superblock or the root group cannot be read, or the metadata have no end.
    pub fn read(source: &dyn Source) -> Result<Self> {
        Self::read_with(Reader::new(source)?)
    }

    /// The same, with checksums taken for right: for tests that damage files.
    ///
    /// # Errors
    ///
    /// As [`Contents::read`].
    #[doc(hidden)]
    pub fn read_unverified(source: &dyn Source) -> Result<Self> {
        Self::read_with(Reader::trusting(source)?)
    }

    fn read_with(mut reader: Reader<'_>) -> Result<Self> {
        let superblock = superblock::read(&mut reader)?;
        superblock::is_whole(&reader, &superblock)?;
        let root = header::read(&reader, superblock.root)?;
        let mut walk = Walk {
            reader: &reader,
            superblock: &superblock,
            objects: Vec::new(),
            known: HashMap::from([(superblock.root, "/".into())]),
            open: Vec::new(),
            data: 0,
        };
        walk.describe("/".into(), superblock.root, &root)?;
        let links = group::links(&reader, &superblock, &root)?;
        walk.open.push((String::new(), links.into_iter()));
        walk.all()?;
        let (objects, data) = (walk.objects, walk.data);
        let metadata = reader.metadata();
        Ok(Contents { superblock, size: reader.size(), objects, metadata, data })
    }
}

/// Bytes of memory that an object takes besides its path.
const OBJECT: u64 = 256 + size_of::<Dataset>() as u64;

struct Walk<'a> {
    reader: &'a Reader<'a>,
    superblock: &'a Superblock,
    objects: Vec<Object>,
    /// The first path of each object header.
    known: HashMap<u64, String>,
    /// The groups that lead to the current name, and the names in each that are still to come.
    open: Vec<(String, std::vec::IntoIter<Link>)>,
    data: u64,
}

impl Walk<'_> {
    /// Every name in the open groups and below.
    fn all(&mut self) -> Result<()> {
        while let Some((group, links)) = self.open.last_mut() {
            let Some(link) = links.next() else {
                self.open.pop();
                continue;
            };
            let path = format!("{group}/{}", link.name);
            self.reader.step(path.len() as u64)?;
            self.reader.keep(OBJECT + 3 * path.len() as u64)?;
            self.name(path, link.target)?;
        }
        Ok(())
    }

    fn name(&mut self, path: String, target: Target) -> Result<()> {
        let what = match target {
            Target::Hard(address) => match self.known.get(&address) {
                Some(first) => What::Same(first.clone()),
                None => {
                    self.known.insert(address, path.clone());
                    return self.object(path, address);
                }
            },
            Target::Soft(target) => What::Soft(target),
            Target::External { file, path } => What::External { file, path },
            Target::User(kind) => What::Unknown(
                self.reader.unsupported(format!("{path}: a link of the user-defined kind {kind}")),
            ),
        };
        self.objects.push(Object { path, what, attributes: 0, address: None });
        Ok(())
    }

    /// The object at an address; a group is opened.
    fn object(&mut self, path: String, address: u64) -> Result<()> {
        let messages = match header::read(self.reader, address) {
            Ok(messages) => messages,
            Err(why) => return self.unknown(path, why),
        };
        self.describe(path.clone(), address, &messages)?;
        if !group::is_group(&messages) {
            return Ok(());
        }
        match group::links(self.reader, self.superblock, &messages) {
            Ok(links) => {
                self.open.push((path, links.into_iter()));
                Ok(())
            }
            Err(why) => self.unknown(path, why),
        }
    }

    /// Whether nothing more can be read.
    fn is_fatal(&self) -> bool {
        self.reader.step(0).is_err() || self.reader.keep(0).is_err()
    }

    fn unknown(&mut self, path: String, mut why: Error) -> Result<()> {
        if self.is_fatal() {
            return Err(why);
        }
        why.what = format!("{path}: {}", why.what);
        let what = What::Unknown(why);
        self.objects.push(Object { path, what, attributes: 0, address: None });
        Ok(())
    }

    /// Adds the object that has these messages.
    fn describe(&mut self, path: String, address: u64, messages: &[Message]) -> Result<()> {
        let what = self.what(messages);
        let found = what.and_then(|what| Ok((what, group::attributes(self.reader, messages)?)));
        match found {
            Ok((what, attributes)) => {
                self.objects.push(Object { path, what, attributes, address: Some(address) });
                Ok(())
            }
            Err(why) => self.unknown(path, why),
        }
    }

    fn what(&mut self, messages: &[Message]) -> Result<What> {
        if !dataset::is_dataset(messages) {
            return Ok(if group::is_group(messages) { What::Group } else { What::Datatype });
        }
        let mut found = dataset::of(self.reader, messages)?;
        let chunks = index::chunks(self.reader, self.superblock, &found)?;
        let lies = found.contiguous(self.reader)?;
        let stored = match &mut found.layout {
            Layout::Contiguous { address, .. } => {
                *address = lies.map(|(place, _)| place);
                lies.map_or(0, |(_, bytes)| bytes)
            }
            Layout::Chunked(_) => chunks.stored(),
            Layout::Compact { .. } => 0,
        };
        self.data = self.data.saturating_add(stored);
        Ok(What::Dataset(Box::new(found), chunks))
    }
}

/// Where the bytes of the contiguous dataset at `name` of the root group lie.
///
/// # Errors
///
/// If there is none, or it is no contiguous list of bytes, or its end is not in the file.
pub(super) fn bytes_of(source: &dyn Source, name: &str) -> Result<std::ops::Range<u64>> {
    let mut reader = Reader::new(source)?;
    let superblock = superblock::read(&mut reader)?;
    let root = header::read(&reader, superblock.root)?;
    let links = group::links(&reader, &superblock, &root)?;
    let target = links.into_iter().find(|link| link.name == name).map(|link| link.target);
    let Some(Target::Hard(address)) = target else {
        return Err(reader.corrupt(format!("no dataset {name}")));
    };
    let named = |mut why: Error| {
        why.what = format!("{}: {name}", why.what);
        why
    };
    let found = dataset::of(&reader, &header::read(&reader, address).map_err(named)?);
    let found = found.map_err(named)?;
    let is_list = found.space.shape().len() == 1 && found.datatype.size == 1;
    if !is_list || !matches!(found.layout, Layout::Contiguous { .. }) {
        return Err(reader.error(Kind::Unsupported, format!("{name}: no contiguous list of bytes")));
    }
    match found.contiguous(&reader).map_err(named)? {
        Some((place, count)) => Ok(place..place + count),
        None if found.space.elements() == Some(0) => Ok(0..0),
        None => Err(reader.error(Kind::Truncated, format!("{name}: it has no address"))),
    }
}
