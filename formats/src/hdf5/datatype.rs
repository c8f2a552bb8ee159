//! Datatypes, as far as they are shown and their values are.

use super::cursor::Cursor;
use std::fmt;

/// The class of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// An integer.
    Integer {
        /// Whether it has a sign.
        signed: bool,
    },
    /// A floating-point number.
    Float,
    /// A time.
    Time,
    /// A text of fixed size.
    Text,
    /// Bits.
    Bits,
    /// Bytes of no meaning.
    Opaque,
    /// Several members.
    Compound,
    /// A reference to an object or a part of one.
    Reference,
    /// A number that has a name.
    Enumeration,
    /// A list or text of any length, which lies in a heap.
    Variable,
    /// An array of a fixed shape.
    Array,
    /// A complex number.
    Complex,
}

/// The type of a dataset's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datatype {
    /// Its class.
    pub class: Class,
    /// Whether its bytes begin with the most significant one.
    pub big_endian: bool,
    /// Bytes of an element.
    pub size: u32,
}

impl Datatype {
    /// A value of the type in words, if it is a number; else its bytes.
    #[must_use]
    pub fn show(&self, bytes: &[u8]) -> String {
        let mut little = bytes.to_vec();
        if self.big_endian {
            little.reverse();
        }
        let fits = bytes.len() == self.size as usize && matches!(bytes.len(), 1 | 2 | 4 | 8);
        let raw = little.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        match (self.class, bytes.len()) {
            (Class::Float, 4) if fits => f32::from_bits(raw as u32).to_string(),
            (Class::Float, 8) if fits => f64::from_bits(raw).to_string(),
            (Class::Integer { signed: false }, _) if fits => raw.to_string(),
            (Class::Integer { signed: true }, count) if fits => {
                let shift = 64 - 8 * count;
                (((raw << shift) as i64) >> shift).to_string()
            }
            _ => hexadecimal(bytes),
        }
    }
}

/// Bytes in the order of the file; of many the first ones.
fn hexadecimal(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > 16 { "..." } else { "" };
    format!("0x{shown}{more}")
}

impl fmt::Display for Datatype {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u64::from(self.size) * 8;
        match self.class {
            Class::Integer { signed: true } => write!(to, "int{bits}")?,
            Class::Integer { signed: false } => write!(to, "uint{bits}")?,
            Class::Float => write!(to, "float{bits}")?,
            Class::Complex => write!(to, "complex{bits}")?,
            Class::Time => write!(to, "time{bits}")?,
            Class::Variable => return write!(to, "variable length"),
            Class::Text => return write!(to, "string of {} bytes", self.size),
            Class::Bits => return write!(to, "bits of {} bytes", self.size),
            Class::Opaque => return write!(to, "opaque of {} bytes", self.size),
            Class::Compound => return write!(to, "compound of {} bytes", self.size),
            Class::Reference => return write!(to, "reference of {} bytes", self.size),
            Class::Enumeration => return write!(to, "enumeration of {} bytes", self.size),
            Class::Array => return write!(to, "array of {} bytes", self.size),
        }
        if self.big_endian { write!(to, ", big-endian") } else { Ok(()) }
    }
}

/// The message of a datatype.
pub(super) fn parse(mut cursor: Cursor<'_>) -> Option<Datatype> {
    let (first, bits) = (cursor.byte()?, cursor.take(3)?);
    let size = cursor.four()?;
    let class = match first & 15 {
        0 => Class::Integer { signed: bits[0] & 8 != 0 },
        1 => Class::Float,
        2 => Class::Time,
        3 => Class::Text,
        4 => Class::Bits,
        5 => Class::Opaque,
        6 => Class::Compound,
        7 => Class::Reference,
        8 => Class::Enumeration,
        9 => Class::Variable,
        10 => Class::Array,
        11 => Class::Complex,
        _ => return None,
    };
    let ordered = matches!(class, Class::Integer { .. } | Class::Float | Class::Time | Class::Bits);
    let big_endian = ordered && bits[0] & 1 != 0;
    (size > 0 && (1..=5).contains(&(first >> 4))).then_some(Datatype { class, big_endian, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(class: Class, size: u32) -> Datatype {
        Datatype { class, big_endian: false, size }
    }

    #[test]
    fn numbers_are_shown_as_numbers_and_the_rest_as_bytes() {
        let signed = of(Class::Integer { signed: true }, 2);
        assert_eq!(signed.show(&[0xFE, 0xFF]), "-2");
        assert_eq!(Datatype { big_endian: true, ..signed }.show(&[0xFF, 0xFE]), "-2");
        assert_eq!(of(Class::Integer { signed: false }, 8).show(&[255; 8]), u64::MAX.to_string());
        assert_eq!(of(Class::Float, 4).show(&1.5_f32.to_le_bytes()), "1.5");
        assert_eq!(of(Class::Float, 8).show(&[1, 2]), "0x0102");
        assert_eq!(of(Class::Text, 3).show(b"abc"), "0x616263");
        assert_eq!(Datatype { big_endian: true, ..signed }.to_string(), "int16, big-endian");
    }
}
