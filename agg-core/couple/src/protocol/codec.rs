//! Numbers and texts in messages: little-endian, lengths in front, nothing beyond the message.

use aggio_base::Extent;
use std::io;

/// A message that is being made.
#[derive(Debug, Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn number(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.number(value.len() as u64);
        self.0.extend_from_slice(value);
        self
    }
}

/// Seven bits of a short number; the highest bit of a byte says that more follow.
const BITS: u32 = 7;

impl Writer {
    /// A number of as few bytes as it needs, seven bits each, the lowest first.
    pub(crate) fn short(&mut self, mut number: u64) -> &mut Self {
        while number >> BITS != 0 {
            self.0.push(number as u8 | 1 << BITS);
            number >>= BITS;
        }
        self.0.push(number as u8);
        self
    }

    pub(crate) fn text(&mut self, value: &str) -> &mut Self {
        self.bytes(value.as_bytes())
    }

    pub(crate) fn list<T>(&mut self, all: &[T], mut each: impl FnMut(&mut Self, &T)) {
        self.number(all.len() as u64);
        all.iter().for_each(|one| each(self, one));
    }
}

/// A message that is being read.
#[derive(Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| bad("it is cut short"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn byte(&mut self) -> io::Result<u8> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn number(&mut self) -> io::Result<u64> {
        let mut value = [0; 8];
        value.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(value))
    }

    /// A [short](Writer::short) number, which has no byte more than it needs.
    pub(crate) fn short(&mut self) -> io::Result<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(BITS as usize) {
            let byte = self.byte()?;
            let bits = u64::from(byte & !(1 << BITS));
            number |= bits << shift;
            if byte >> BITS == 0 {
                let is_shortest = shift == 0 || byte != 0;
                let fits = bits << shift >> shift == bits;
                let is_right = is_shortest && fits;
                return if is_right { Ok(number) } else { Err(bad("a number is too long")) };
            }
        }
        Err(bad("a number is too long"))
    }

    /// So many bytes.
    pub(crate) fn slice(&mut self, len: u64) -> io::Result<&'a [u8]> {
        self.take(usize::try_from(len).map_err(|_| bad("a length is too large"))?)
    }

    pub(crate) fn bytes(&mut self) -> io::Result<Vec<u8>> {
        let len = usize::try_from(self.number()?).map_err(|_| bad("a length is too large"))?;
        self.take(len).map(<[u8]>::to_vec)
    }

    pub(crate) fn text(&mut self) -> io::Result<String> {
        String::from_utf8(self.bytes()?).map_err(|_| bad("a text is no UTF-8"))
    }

    pub(crate) fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> io::Result<T>,
    ) -> io::Result<Vec<T>> {
        let count = self.number()?;
        // Each takes bytes, so that no count is too large.
        (0..count).map(|_| each(self)).collect()
    }

    /// Refuses bytes that nobody has read.
    pub(crate) fn end(&self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(bad("it is too long")) }
    }
}

/// A value in a message.
pub(crate) trait Field: Sized {
    fn write(&self, out: &mut Writer);

    /// Reads a value.
    ///
    /// # Errors
    /// `InvalidData` for bytes that [`write`](Self::write) does not make.
    fn read(from: &mut Reader<'_>) -> io::Result<Self>;
}

impl Field for bool {
    fn write(&self, out: &mut Writer) {
        out.byte((*self).into());
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        match from.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(bad("it is neither yes nor no")),
        }
    }
}

/// Values that are written as a number.
macro_rules! numbers {
    ($($type:ty: $to:expr, $from:expr;)*) => {$(
        impl Field for $type {
            fn write(&self, out: &mut Writer) {
                out.number($to(*self));
            }

            fn read(from: &mut Reader<'_>) -> io::Result<Self> {
                $from(from.number()?).map_err(|_| bad("a number is too large"))
            }
        }
    )*};
}

numbers! {
    u64: u64::from, u64::try_from;
    u32: u64::from, u32::try_from;
    i64: i64::cast_unsigned, |number: u64| Ok::<_, ()>(number.cast_signed());
    // The number of an error.
    i32: |number: i32| u64::from(number.unsigned_abs()), i32::try_from;
}

/// Values that are written as bytes.
macro_rules! texts {
    ($($type:ty: $read:ident;)*) => {$(
        impl Field for $type {
            fn write(&self, out: &mut Writer) {
                out.bytes(self.as_ref());
            }

            fn read(from: &mut Reader<'_>) -> io::Result<Self> {
                from.$read().map(Into::into)
            }
        }
    )*};
}

texts! {
    Vec<u8>: bytes;
    String: text;
}

impl<T: Field> Field for Vec<T> {
    fn write(&self, out: &mut Writer) {
        out.list(self, |out, one| one.write(out));
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        from.list(T::read)
    }
}

impl<T: Field> Field for Option<T> {
    fn write(&self, out: &mut Writer) {
        self.is_some().write(out);
        self.iter().for_each(|one| one.write(out));
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        if bool::read(from)? { T::read(from).map(Some) } else { Ok(None) }
    }
}

impl<T: Field, U: Field> Field for (T, U) {
    fn write(&self, out: &mut Writer) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        Ok((T::read(from)?, U::read(from)?))
    }
}

impl<T: Field + Copy + Default, const N: usize> Field for [T; N] {
    fn write(&self, out: &mut Writer) {
        self.iter().for_each(|one| one.write(out));
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        let mut all = [T::default(); N];
        all.iter_mut().try_for_each(|one| T::read(from).map(|read| *one = read))?;
        Ok(all)
    }
}

impl Field for Extent {
    fn write(&self, out: &mut Writer) {
        out.number(self.offset).number(self.len);
    }

    fn read(from: &mut Reader<'_>) -> io::Result<Self> {
        let (offset, len) = (from.number()?, from.number()?);
        let extent = Extent::new(offset, len);
        if extent.len == len { Ok(extent) } else { Err(bad("a range is longer than any file")) }
    }
}

/// A structure is written field after field, in this order.
macro_rules! fields {
    ($type:ident { $($field:ident),* $(,)? }) => {
        impl $crate::protocol::Field for $type {
            fn write(&self, out: &mut $crate::protocol::Writer) {
                $(self.$field.write(out);)*
            }

            fn read(from: &mut $crate::protocol::Reader<'_>) -> std::io::Result<Self> {
                Ok(Self { $($field: $crate::protocol::Field::read(from)?),* })
            }
        }
    };
}

/// A variant is written as its number, and its values in their order.
macro_rules! variants {
    ($type:ident {
        $($number:literal $variant:ident $(($($value:ident),*))? $({ $($field:ident),* })?,)*
    }) => {
        impl $crate::protocol::Field for $type {
            fn write(&self, out: &mut $crate::protocol::Writer) {
                match self {
                    $(Self::$variant $(($($value),*))? $({ $($field),* })? => {
                        out.byte($number);
                        $($($value.write(out);)*)?
                        $($($field.write(out);)*)?
                    })*
                }
            }

            fn read(from: &mut $crate::protocol::Reader<'_>) -> std::io::Result<Self> {
                Ok(match from.byte()? {
                    $($number => {
                        $($(let $value = $crate::protocol::Field::read(from)?;)*)?
                        $($(let $field = $crate::protocol::Field::read(from)?;)*)?
                        Self::$variant $(($($value),*))? $({ $($field),* })?
                    })*
                    _ => return Err($crate::protocol::bad("it is of no known kind")),
                })
            }
        }
    };
}

pub(crate) use {fields, variants};

pub(crate) fn bad(why: &str) -> io::Error {
    let text = format!("a message of the agent's protocol is malformed: {why}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
