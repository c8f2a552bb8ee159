//! Numbers and texts in messages: little-endian, lengths in front, nothing beyond the message.

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

    /// Several yes or no, the first one the lowest bit.
    pub(crate) fn flags<const N: usize>(&mut self) -> io::Result<[bool; N]> {
        let byte = self.byte()?;
        if u32::from(byte) >> N != 0 {
            return Err(bad("it has unknown flags"));
        }
        Ok(std::array::from_fn(|bit| byte >> bit & 1 == 1))
    }

    /// Refuses bytes that nobody has read.
    pub(crate) fn end(&self) -> io::Result<()> {
        if self.0.is_empty() { Ok(()) } else { Err(bad("it is too long")) }
    }
}

/// The byte of several yes or no.
pub(crate) fn flags(values: &[bool]) -> u8 {
    values.iter().enumerate().fold(0, |byte, (bit, value)| byte | u8::from(*value) << bit)
}

pub(crate) fn bad(why: &str) -> io::Error {
    let text = format!("a message of the agent's protocol is malformed: {why}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
