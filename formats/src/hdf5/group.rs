//! Groups, old and new: the names in them and the targets of these.

use super::btree1;
use super::btree2::Tree;
use super::cursor::Cursor;
use super::header::{self, Message, kind};
use super::heap::Heap;
use super::reader::Reader;
use super::superblock::Superblock;
use crate::error::Result;

/// The target of a name of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The object header at this address.
    Hard(u64),
    /// A path in this file.
    Soft(String),
    /// A path in another file.
    External {
        /// The file.
        file: String,
        /// The path.
        path: String,
    },
    /// A link of a kind that a program has defined for itself.
    User(u8),
}

/// A name of a group and its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) name: String,
    pub(super) target: Target,
}

/// Bytes of memory that an identifier of a heap takes.
const ID: u64 = 48;
/// Bytes of memory that a link takes besides its texts.
const LINK: u64 = 96;

impl Link {
    /// Bytes of its texts.
    fn bytes(&self) -> u64 {
        let target = match &self.target {
            Target::Soft(path) => path.len(),
            Target::External { file, path } => file.len() + path.len(),
            Target::Hard(_) | Target::User(_) => 0,
        };
        (self.name.len() + target) as u64
    }
}

/// All names of the group that has these messages, in the order of their bytes.
pub(super) fn links(
    reader: &Reader<'_>,
    superblock: &Superblock,
    messages: &[Message],
) -> Result<Vec<Link>> {
    let mut found = Vec::new();
    for message in messages {
        reader.step(0)?;
        let cursor = reader.cursor(&message.body);
        match message.kind {
            kind::SYMBOLS => old(reader, superblock, cursor, &mut found)?,
            kind::LINK => found.push(link(reader, cursor)?),
            kind::LINK_INFO => dense(reader, cursor, &mut found)?,
            _ => {}
        }
    }
    found.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(found)
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// A link message.
fn link(reader: &Reader<'_>, cursor: Cursor<'_>) -> Result<Link> {
    let found = parse(cursor).ok_or_else(|| reader.corrupt("a link is malformed"))?;
    reader.keep(LINK + found.bytes())?;
    Ok(found)
}

fn parse(mut cursor: Cursor<'_>) -> Option<Link> {
    let (version, flags) = (cursor.byte()?, cursor.byte()?);
    let kind = if flags & 8 != 0 { cursor.byte()? } else { 0 };
    cursor.take(if flags & 4 != 0 { 8 } else { 0 })?;
    cursor.take(usize::from(flags & 16 != 0))?;
    let length = cursor.number(1 << (flags & 3))?;
    let name = String::from_utf8_lossy(cursor.take(usize::try_from(length).ok()?)?).into_owned();
    let target = match kind {
        0 => Target::Hard(cursor.address()??),
        1 => {
            let length = cursor.two()?.into();
            Target::Soft(text(cursor.take(length)?))
        }
        64 => {
            let length = cursor.two()?.into();
            let mut parts = cursor.take(length)?.get(1..)?.split(|byte| *byte == 0);
            let (file, path) = (text(parts.next()?), text(parts.next()?));
            Target::External { file, path }
        }
        kind => Target::User(kind),
    };
    (version == 1).then_some(Link { name, target })
}

/// Links in a fractal heap, found by a B-tree of their names.
fn dense(reader: &Reader<'_>, mut cursor: Cursor<'_>, found: &mut Vec<Link>) -> Result<()> {
    let mut fields = || {
        let (_version, flags) = (cursor.byte()?, cursor.byte()?);
        cursor.take(if flags & 1 != 0 { 8 } else { 0 })?;
        Some((cursor.address()?, cursor.address()?))
    };
    let places = fields().ok_or_else(|| reader.corrupt("the link information is too short"))?;
    let (Some(heap), Some(names)) = places else { return Ok(()) };
    let tree = Tree::open(reader, names)?;
    if tree.kind != 5 {
        return Err(reader.corrupt(format!("no B-tree of names at {names}")));
    }
    let mut ids = Vec::new();
    tree.records(reader, &mut |record| {
        reader.keep(ID)?;
        ids.push(record.get(4..).unwrap_or_default().to_vec());
        Ok(())
    })?;
    for body in Heap::open(reader, heap)?.objects(reader, &ids)? {
        found.push(link(reader, reader.cursor(&body))?);
    }
    Ok(())
}

/// A symbol table: a B-tree of nodes with entries, and a local heap with their names.
fn old(
    reader: &Reader<'_>,
    superblock: &Superblock,
    mut cursor: Cursor<'_>,
    found: &mut Vec<Link>,
) -> Result<()> {
    let places = cursor.address().flatten().zip(cursor.address().flatten());
    let (tree, heap) = places.ok_or_else(|| reader.corrupt("a symbol table has no address"))?;
    let names = local_heap(reader, heap)?;
    let most = superblock.nodes.group.saturating_mul(2);
    let kind = btree1::Kind { number: 0, key: reader.widths.length, most };
    btree1::walk(reader, tree, kind, &mut |_, node| {
        symbols(reader, superblock, node, &names, found)
    })
}

/// The data of a local heap.
fn local_heap(reader: &Reader<'_>, address: u64) -> Result<Vec<u8>> {
    const WHAT: &str = "local heap";
    let widths = reader.widths;
    let count = (8 + 2 * widths.length + widths.offset) as u64;
    let bytes = reader.bytes(WHAT, address, count)?;
    let mut cursor = reader.cursor(&bytes);
    let is_one = cursor.take(8).is_some_and(|start| start.starts_with(b"HEAP"));
    let size = cursor.length();
    cursor.length();
    match (is_one, size, cursor.address().flatten()) {
        (true, Some(size), Some(data)) => {
            reader.note(address, count);
            reader.note(data, size);
            reader.bytes(WHAT, data, size)
        }
        _ => Err(reader.corrupt(format!("no {WHAT} at {address}"))),
    }
}

/// The entries of a symbol table node.
fn symbols(
    reader: &Reader<'_>,
    superblock: &Superblock,
    address: u64,
    names: &[u8],
    found: &mut Vec<Link>,
) -> Result<()> {
    const WHAT: &str = "symbol table node";
    let entry = reader.widths.length + reader.widths.offset + 24;
    let most = superblock.nodes.symbols.saturating_mul(2);
    let start = reader.bytes(WHAT, address, 8)?;
    let [b'S', b'N', b'O', b'D', 1, _, low, high] = start[..] else {
        return Err(reader.corrupt(format!("no {WHAT} at {address}")));
    };
    let used = u64::from(u16::from_le_bytes([low, high]));
    if used > most {
        return Err(reader.corrupt(format!("the {WHAT} at {address} has too many entries")));
    }
    reader.note(address, 8 + most * entry as u64);
    let bytes = reader.bytes(WHAT, address + 8, used * entry as u64)?;
    for entry in bytes.chunks_exact(entry) {
        reader.step(0)?;
        let one = symbol(reader.cursor(entry), names);
        let one =
            one.ok_or_else(|| reader.corrupt(format!("a name in the {WHAT} at {address}")))?;
        reader.keep(LINK + one.bytes())?;
        found.push(one);
    }
    Ok(())
}

fn symbol(mut cursor: Cursor<'_>, names: &[u8]) -> Option<Link> {
    let name = |at: u64| names.get(usize::try_from(at).ok()?..).map(text);
    let found = name(cursor.length()?)?;
    let object = cursor.address()?;
    let kind = cursor.four()?;
    cursor.take(4)?;
    let target = match (kind, object) {
        (2, _) => Target::Soft(name(cursor.four()?.into())?),
        (_, object) => Target::Hard(object?),
    };
    Some(Link { name: found, target })
}

/// Whether these are the messages of a group.
pub(super) fn is_group(messages: &[Message]) -> bool {
    let of_groups = [kind::SYMBOLS, kind::LINK_INFO, kind::LINK, kind::GROUP_INFO];
    messages.iter().any(|message| of_groups.contains(&message.kind))
}

/// How many attributes an object has.
pub(super) fn attributes(reader: &Reader<'_>, messages: &[Message]) -> Result<u64> {
    let mut count = messages.iter().filter(|one| one.kind == kind::ATTRIBUTE).count() as u64;
    if let Some(message) = header::one(reader, messages, kind::ATTRIBUTES)? {
        let mut cursor = reader.cursor(&message.body);
        let mut fields = || {
            let (_version, flags) = (cursor.byte()?, cursor.byte()?);
            cursor.take(if flags & 1 != 0 { 2 } else { 0 })?;
            Some((cursor.address()?, cursor.address()?))
        };
        let places = fields().ok_or_else(|| reader.corrupt("attribute information"))?;
        if let (Some(_), Some(names)) = places {
            count = count.saturating_add(Tree::open(reader, names)?.records);
        }
    }
    Ok(count)
}
