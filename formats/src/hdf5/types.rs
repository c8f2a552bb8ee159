//! Datatypes in full: members, lists and references, for comparisons of values.

use super::cursor::{Cursor, Widths};

/// Types within types.
const MOST_DEPTH: u8 = 16;

/// A datatype, as far as it affects the meaning of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Bytes that mean the same wherever they lie: a number, a text of fixed size, bits.
    Plain {
        /// All other properties of the type.
        told: String,
        /// Bytes of an element.
        size: usize,
    },
    /// A reference to an object.
    Object {
        /// Bytes of an element.
        size: usize,
    },
    /// A reference to a part of a dataset, or one of HDF5 1.12: it gives a place in a heap, and not
    /// the object that it refers to.
    Part {
        /// Bytes of an element.
        size: usize,
    },
    /// A list, or a text, that lies in a heap.
    List(Box<Type>),
    /// Members with a name and a place each.
    Compound {
        /// Name, place in the element, type.
        members: Vec<(String, usize, Type)>,
        /// Bytes of an element.
        size: usize,
    },
    /// A fixed number of elements.
    Array {
        /// Elements along each dimension.
        shape: Vec<u32>,
        /// Their type.
        of: Box<Type>,
    },
}

impl Type {
    /// Bytes of an element in the file, where addresses have so many bytes.
    #[must_use]
    pub fn size(&self, address: usize) -> usize {
        match self {
            Type::Plain { size, .. }
            | Type::Object { size }
            | Type::Part { size }
            | Type::Compound { size, .. } => *size,
            Type::List(_) => 8 + address,
            Type::Array { shape, of } => {
                let each = shape.iter().map(|one| *one as usize);
                each.fold(of.size(address), usize::saturating_mul)
            }
        }
    }

    /// Whether all of an element is in its own bytes.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        match self {
            Type::Plain { .. } => true,
            Type::Object { .. } | Type::Part { .. } | Type::List(_) => false,
            Type::Compound { members, .. } => members.iter().all(|(.., of)| of.is_plain()),
            Type::Array { of, .. } => of.is_plain(),
        }
    }
}

impl std::fmt::Display for Type {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Type::Plain { told, .. } => write!(to, "{told}"),
            Type::Object { .. } => write!(to, "reference to an object"),
            Type::Part { size } => write!(to, "reference of {size} bytes to a part"),
            Type::List(of) => write!(to, "list of {of}"),
            Type::Compound { members, .. } => {
                let each: Vec<String> =
                    members.iter().map(|(name, at, of)| format!("{name}: {of} at {at}")).collect();
                write!(to, "{{{}}}", each.join(", "))
            }
            Type::Array { shape, of } => write!(to, "array {shape:?} of {of}"),
        }
    }
}

/// The type in a message.
pub(super) fn parse(body: &[u8], widths: Widths) -> Option<Type> {
    one(&mut Cursor::new(body, widths), 0)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Takes a text that ends with a zero; up to version 2 its bytes are a multiple of eight.
fn name(cursor: &mut Cursor<'_>, version: u8) -> Option<String> {
    let length = cursor.rest().iter().position(|byte| *byte == 0)?;
    let all = if version < 3 { (length + 1).next_multiple_of(8) } else { length + 1 };
    Some(text(&cursor.take(all)?[..length]))
}

fn one(cursor: &mut Cursor<'_>, depth: u8) -> Option<Type> {
    let (first, bits) = (cursor.byte()?, cursor.take(3)?);
    let size = cursor.four()? as usize;
    let version = first >> 4;
    if depth > MOST_DEPTH || size == 0 {
        return None;
    }
    let plain = |told: String| Some(Type::Plain { told, size });
    match first & 15 {
        class @ (0 | 4) => {
            let kind = if class == 4 { "bits" } else { "integer" };
            let (offset, precision) = (cursor.two()?, cursor.two()?);
            let order = if bits[0] & 1 != 0 { ", big-endian" } else { "" };
            let sign = if bits[0] & 8 != 0 { "signed " } else { "" };
            let used = format!("{precision} bits from {offset}");
            plain(format!("{sign}{kind} of {size} bytes, {used}{order}"))
        }
        1 => {
            let properties = cursor.take(12)?;
            plain(format!("floating-point number of {size} bytes, {bits:02x?} {properties:02x?}"))
        }
        2 => {
            let precision = cursor.two()?;
            plain(format!("time of {size} bytes, {bits:02x?} {precision}"))
        }
        3 => plain(format!("string of {size} bytes, {bits:02x?}")),
        5 => {
            let tag = cursor.take(bits[0].into())?;
            plain(format!("opaque of {size} bytes, {}", text(tag).trim_end_matches('\0')))
        }
        6 => compound(cursor, version, u16::from_le_bytes([bits[0], bits[1]]), size, depth),
        7 if bits[0] & 15 == 0 => Some(Type::Object { size }),
        7 => Some(Type::Part { size }),
        8 => enumeration(cursor, version, u16::from_le_bytes([bits[0], bits[1]]), depth),
        9 => Some(Type::List(Box::new(one(cursor, depth + 1)?))),
        10 => {
            let rank = cursor.byte()?;
            cursor.take(if version < 3 { 3 } else { 0 })?;
            let shape = (0..rank).map(|_| cursor.four()).collect::<Option<_>>()?;
            cursor.take(if version < 3 { 4 * usize::from(rank) } else { 0 })?;
            Some(Type::Array { shape, of: Box::new(one(cursor, depth + 1)?) })
        }
        11 => {
            let part = one(cursor, depth + 1)?;
            plain(format!("complex number of {part}"))
        }
        _ => None,
    }
}

fn compound(
    cursor: &mut Cursor<'_>,
    version: u8,
    count: u16,
    size: usize,
    depth: u8,
) -> Option<Type> {
    let mut members = Vec::new();
    for _ in 0..count {
        let name = name(cursor, version)?;
        let at = if version < 3 {
            cursor.four()? as usize
        } else {
            cursor.number(super::cursor::bytes_for(size as u64))? as usize
        };
        let mut shape = Vec::new();
        if version == 1 {
            // The member itself describes an array.
            let rank = cursor.byte()?;
            cursor.take(11)?;
            let lengths: Vec<u32> = (0..4).map(|_| cursor.four()).collect::<Option<_>>()?;
            shape = lengths.get(..rank.into())?.to_vec();
        }
        let mut of = one(cursor, depth + 1)?;
        if !shape.is_empty() {
            of = Type::Array { shape, of: Box::new(of) };
        }
        members.push((name, at, of));
    }
    let fits = members.iter().all(|(_, at, of)| {
        at.checked_add(of.size(cursor.widths().offset)).is_some_and(|end| end <= size)
    });
    fits.then_some(Type::Compound { members, size })
}

fn enumeration(cursor: &mut Cursor<'_>, version: u8, count: u16, depth: u8) -> Option<Type> {
    let Type::Plain { told, size } = one(cursor, depth + 1)? else { return None };
    let names: Vec<String> = (0..count).map(|_| name(cursor, version)).collect::<Option<_>>()?;
    let values = cursor.take(usize::from(count).checked_mul(size)?)?;
    let pairs = names.iter().zip(values.chunks(size));
    let each: Vec<String> = pairs.map(|(name, value)| format!("{name}: {value:02x?}")).collect();
    Some(Type::Plain { told: format!("enumeration {{{}}} of {told}", each.join(", ")), size })
}
