//! The content of the header of a netCDF classic file.

use std::fmt;

/// The variant of the format: how wide its numbers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// CDF-1: sizes and offsets of 32 bits.
    Classic,
    /// CDF-2: offsets of 64 bits.
    Offset64,
    /// CDF-5: everything of 64 bits, and more types.
    Data64,
}

impl Version {
    /// The byte behind `CDF`.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Version::Classic => 1,
            Version::Offset64 => 2,
            Version::Data64 => 5,
        }
    }

    /// Bytes of a count.
    #[must_use]
    pub fn count_bytes(self) -> usize {
        if self == Version::Data64 { 8 } else { 4 }
    }

    /// Bytes of an offset.
    #[must_use]
    pub fn offset_bytes(self) -> usize {
        if self == Version::Classic { 4 } else { 8 }
    }
}

/// The external type of a variable or an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Type {
    Byte = 1,
    Char,
    Short,
    Int,
    Float,
    Double,
    UByte,
    UShort,
    UInt,
    Int64,
    UInt64,
}

impl Type {
    /// All types in the order of their numbers.
    pub const ALL: [Type; 11] = [
        Type::Byte,
        Type::Char,
        Type::Short,
        Type::Int,
        Type::Float,
        Type::Double,
        Type::UByte,
        Type::UShort,
        Type::UInt,
        Type::Int64,
        Type::UInt64,
    ];

    /// The type of a number in a file of this version.
    #[must_use]
    pub fn from_number(number: u32, version: Version) -> Option<Self> {
        let most = if version == Version::Data64 { 11 } else { 6 };
        let index = usize::try_from(number).ok()?.checked_sub(1)?;
        Self::ALL.get(index).copied().filter(|_| index < most)
    }

    /// Bytes of an element.
    #[must_use]
    pub fn size(self) -> u64 {
        match self {
            Type::Byte | Type::Char | Type::UByte => 1,
            Type::Short | Type::UShort => 2,
            Type::Int | Type::Float | Type::UInt => 4,
            Type::Double | Type::Int64 | Type::UInt64 => 8,
        }
    }

    /// Its name in the language of `ncdump`.
    #[must_use]
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 11] = [
            "byte", "char", "short", "int", "float", "double", "ubyte", "ushort", "uint", "int64",
            "uint64",
        ];
        NAMES[self as usize - 1]
    }

    /// The bytes of an element that was never written, unless its variable says otherwise
    /// (`NC_FILL_*`).
    #[must_use]
    pub fn fill(self) -> Vec<u8> {
        match self {
            Type::Byte => vec![(-127_i8).cast_unsigned()],
            Type::Char => vec![0],
            Type::Short => (-32767_i16).to_be_bytes().to_vec(),
            Type::Int => (-2_147_483_647_i32).to_be_bytes().to_vec(),
            Type::Float => 9.969_21e36_f32.to_be_bytes().to_vec(),
            Type::Double => 9.969_209_968_386_869e36_f64.to_be_bytes().to_vec(),
            Type::UByte => vec![255],
            Type::UShort => 65535_u16.to_be_bytes().to_vec(),
            Type::UInt => 4_294_967_295_u32.to_be_bytes().to_vec(),
            Type::Int64 => (-9_223_372_036_854_775_806_i64).to_be_bytes().to_vec(),
            Type::UInt64 => 18_446_744_073_709_551_614_u64.to_be_bytes().to_vec(),
        }
    }
}

/// A name: UTF-8 by the standard, any bytes in practice.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub Vec<u8>);

/// Control characters, which no writer may use, are shown as escapes: a name commands no terminal
/// and ends no line.
impl fmt::Display for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).chars().try_for_each(|one| match one.is_control() {
            true => write!(to, "{}", one.escape_default()),
            false => fmt::Write::write_char(to, one),
        })
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Name(text.into())
    }
}

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: Name,
    /// Its length; zero for the one that has no limit.
    pub length: u64,
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// Its name.
    pub name: Name,
    /// The type of its values.
    pub kind: Type,
    /// Its values in the file's representation, without the padding to four bytes; always
    /// big-endian.
    pub values: Vec<u8>,
}

impl Attribute {
    /// Its values if they are integers of 32 bits.
    #[must_use]
    pub fn ints(&self) -> Option<Vec<i32>> {
        (self.kind == Type::Int).then(|| {
            self.values.as_chunks().0.iter().map(|value| i32::from_be_bytes(*value)).collect()
        })
    }

    /// An attribute of integers.
    #[must_use]
    pub fn of_ints(name: &str, values: &[i32]) -> Self {
        let values = values.iter().flat_map(|value| value.to_be_bytes()).collect();
        Attribute { name: name.into(), kind: Type::Int, values }
    }
}

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: Name,
    /// Its dimensions, the slowest first, as positions in the header's list.
    pub dimensions: Vec<usize>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// The type of its elements.
    pub kind: Type,
    /// The size in the header. Some writers store wrong ones: nothing depends on it.
    pub told_size: u64,
    /// Where its data begin, those of the first record if it has records.
    pub begin: u64,
}

impl Variable {
    /// The attribute of this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == *name)
    }
}

/// How many records there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// So many.
    Known(u64),
    /// As many as the file's size allows.
    Streaming,
}

/// The header of a netCDF classic file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The variant of the format.
    pub version: Version,
    /// The number of records.
    pub records: Records,
    /// All dimensions.
    pub dimensions: Vec<Dimension>,
    /// Attributes of the whole file.
    pub attributes: Vec<Attribute>,
    /// All variables in the order of their definition.
    pub variables: Vec<Variable>,
}

impl Header {
    /// The attribute of the file that has this name.
    #[must_use]
    pub fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == *name)
    }

    /// Whether a variable has records: its first dimension has no limit.
    #[must_use]
    pub fn has_records(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first().and_then(|id| self.dimensions.get(*id));
        first.is_some_and(|first| first.length == 0)
    }

    /// The lengths of a variable's dimensions without that of records.
    #[must_use]
    pub fn shape(&self, variable: &Variable) -> Vec<u64> {
        let skip = usize::from(self.has_records(variable));
        let lengths = variable.dimensions.iter().skip(skip);
        lengths.map(|id| self.dimensions.get(*id).map_or(0, |found| found.length)).collect()
    }

    /// Elements of a variable, in one record if it has records; `None` if that is no number of 64
    /// bits.
    #[must_use]
    pub fn elements(&self, variable: &Variable) -> Option<u64> {
        self.shape(variable).into_iter().try_fold(1_u64, u64::checked_mul)
    }
}
