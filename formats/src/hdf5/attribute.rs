//! Attributes with their values, and types in full: the details of one object, for comparisons.

use super::btree2::Tree;
use super::cursor::Cursor;
use super::globals::Heaps;
use super::header::{self, Message, kind};
use super::heap::Heap;
use super::reader::Reader;
use super::source::Source;
use super::space::{self, Space};
use super::types::{self, Type};
use super::{layout, superblock};
use crate::error::Result;

/// An attribute of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub of: Type,
    /// Its shape.
    pub space: Space,
    /// Its elements as they are stored.
    pub bytes: Vec<u8>,
}

/// One object of a file, looked at more closely.
pub struct Details<'a> {
    reader: Reader<'a>,
    messages: Vec<Message>,
    heaps: Heaps,
}

impl<'a> Details<'a> {
    /// The object with the header at an address.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn of(source: &'a dyn Source, address: u64) -> Result<Self> {
        let mut reader = Reader::new(source)?;
        superblock::read(&mut reader)?;
        let messages = header::read(&reader, address)?;
        Ok(Details { reader, messages, heaps: Heaps::default() })
    }

    /// Bytes of an address in this file.
    #[must_use]
    pub fn address_bytes(&self) -> usize {
        self.reader.widths.offset
    }

    /// The type of a dataset's elements.
    ///
    /// # Errors
    ///
    /// If there is none, or it is malformed.
    pub fn datatype(&self) -> Result<Type> {
        let found = header::one(&self.reader, &self.messages, kind::DATATYPE)?;
        let found = found.ok_or_else(|| self.reader.corrupt("no datatype"))?;
        let body = header::body(&self.reader, found)?;
        let wrong = || self.reader.corrupt("the datatype is malformed");
        types::parse(&body, self.reader.widths).ok_or_else(wrong)
    }

    /// The elements of a dataset that lie in its header.
    ///
    /// # Errors
    ///
    /// If they lie elsewhere.
    pub fn compact(&self) -> Result<Vec<u8>> {
        let found = header::one(&self.reader, &self.messages, kind::LAYOUT)?;
        let found = found.and_then(|found| layout::compact(self.reader.cursor(&found.body)));
        found.ok_or_else(|| self.reader.corrupt("no elements in the header"))
    }

    /// Its attributes, in the order of their names.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub fn attributes(&self) -> Result<Vec<Attribute>> {
        let reader = &self.reader;
        let mut bodies: Vec<Vec<u8>> = Vec::new();
        for message in self.messages.iter().filter(|one| one.kind == kind::ATTRIBUTE) {
            bodies.push(header::body(reader, message)?);
        }
        if let Some(message) = header::one(reader, &self.messages, kind::ATTRIBUTES)?
            && let Some((heap, names)) = dense(reader.cursor(&message.body))
        {
            let mut ids = Vec::new();
            Tree::open(reader, names)?.records(reader, &mut |record| {
                reader.keep(record.len() as u64)?;
                // Then the identifier is one of another heap, that of shared messages.
                if record.len().checked_sub(9).is_some_and(|flags| record[flags] & 2 != 0) {
                    return Err(reader.unsupported("attributes in a heap of shared messages"));
                }
                // The identifier; behind it flags, an order and a hash.
                ids.push(record.get(..record.len().saturating_sub(9)).unwrap_or(record).to_vec());
                Ok(())
            })?;
            bodies.extend(Heap::open(reader, heap)?.objects(reader, &ids)?);
        }
        let each = bodies.iter().map(|body| self.attribute(body));
        let mut found = each.collect::<Result<Vec<_>>>()?;
        found.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }

    /// The value of an element in a heap: a list's number of elements, and their bytes.
    ///
    /// # Errors
    ///
    /// If there is no such heap.
    pub fn list(&self, element: &[u8]) -> Result<(u64, Vec<u8>)> {
        self.heaps.list(&self.reader, element)
    }

    fn attribute(&self, body: &[u8]) -> Result<Attribute> {
        let parsed = parts(self.reader.cursor(body));
        let wrong = || self.reader.corrupt("an attribute is malformed");
        let (name, (of, is_shared), space, bytes) = parsed.ok_or_else(wrong)?;
        let of = if is_shared {
            let message = Message::shared(kind::DATATYPE, of);
            header::body(&self.reader, &message)?
        } else {
            of.to_vec()
        };
        let of = types::parse(&of, self.reader.widths).ok_or_else(wrong)?;
        let space = space::parse(self.reader.cursor(space)).ok_or_else(wrong)?;
        let elements = space.elements().and_then(|count| usize::try_from(count).ok());
        let size = elements.and_then(|count| count.checked_mul(of.size(self.address_bytes())));
        let bytes = size.and_then(|size| bytes.get(..size)).ok_or_else(wrong)?.to_vec();
        self.reader.keep(bytes.len() as u64)?;
        Ok(Attribute { name, of, space, bytes })
    }
}

/// Where attributes lie that are many: the heap, and the tree of their names.
fn dense(mut cursor: Cursor<'_>) -> Option<(u64, u64)> {
    let (_version, flags) = (cursor.byte()?, cursor.byte()?);
    cursor.take(if flags & 1 != 0 { 2 } else { 0 })?;
    cursor.address()?.zip(cursor.address()?)
}

/// The type's bytes and whether they tell where the type is.
type Typed<'a> = (&'a [u8], bool);

/// Name, type, dataspace and values of an attribute message.
fn parts(mut cursor: Cursor<'_>) -> Option<(String, Typed<'_>, &[u8], &[u8])> {
    let (version, flags) = (cursor.byte()?, cursor.byte()?);
    let sizes = [cursor.two()?, cursor.two()?, cursor.two()?].map(usize::from);
    cursor.take(usize::from(version == 3))?;
    if !(1..=3).contains(&version) || (version > 1 && flags & 2 != 0) {
        return None;
    }
    let mut next = |size: usize| {
        let all = if version == 1 { size.next_multiple_of(8) } else { size };
        Some(&cursor.take(all)?[..size])
    };
    let (name, of, space) = (next(sizes[0])?, next(sizes[1])?, next(sizes[2])?);
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    let is_shared = version > 1 && flags & 1 != 0;
    Some((String::from_utf8_lossy(name).into_owned(), (of, is_shared), space, cursor.rest()))
}
