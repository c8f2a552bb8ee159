//! Basic elements: the leaves of a datatype.

/// How the bytes of a basic element are to be understood when the representation changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BasicKind {
    /// Bytes without a meaning (`MPI_BYTE`, `MPI_PACKED`): copied, never converted.
    Opaque,
    /// A character of one byte; copied.
    Character,
    /// A signed integer in two's complement.
    SignedInt,
    /// An unsigned integer.
    UnsignedInt,
    /// An IEEE binary floating-point number of 2, 4, 8 or 16 bytes.
    Float,
    /// C's `long double` of the x86-64 ABI: 80 bits in 16 bytes; binary128 in `external32`.
    LongDouble,
    /// A truth value; any number other than 0 is true.
    Logical,
    /// A wide character; UTF-16 code unit in `external32`.
    WideChar,
}

impl BasicKind {
    /// Every kind; the position is the wire form.
    pub(crate) const ALL: [BasicKind; 8] = [
        BasicKind::Opaque,
        BasicKind::Character,
        BasicKind::SignedInt,
        BasicKind::UnsignedInt,
        BasicKind::Float,
        BasicKind::LongDouble,
        BasicKind::Logical,
        BasicKind::WideChar,
    ];
}

/// A basic element: its kind and its size in memory and in an `external32` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Basic {
    /// The meaning of the bytes.
    pub kind: BasicKind,
    /// Bytes in memory (or in a `native` file).
    pub size: u32,
    /// Bytes in an `external32` file (MPI-4.1, 14.5.2).
    pub external_size: u32,
}

impl Basic {
    /// One byte without a meaning.
    pub const BYTE: Basic = Basic::new(BasicKind::Opaque, 1, 1);

    /// An element of `kind` with `size` bytes in memory and `external_size` in `external32`.
    pub const fn new(kind: BasicKind, size: u32, external_size: u32) -> Self {
        Self { kind, size, external_size }
    }

    /// A signed integer that has the same size in both representations.
    pub const fn signed(size: u32) -> Self {
        Self::new(BasicKind::SignedInt, size, size)
    }

    /// An unsigned integer that has the same size in both representations.
    pub const fn unsigned(size: u32) -> Self {
        Self::new(BasicKind::UnsignedInt, size, size)
    }

    /// An IEEE floating-point number that has the same size in both representations.
    pub const fn float(size: u32) -> Self {
        Self::new(BasicKind::Float, size, size)
    }
}
