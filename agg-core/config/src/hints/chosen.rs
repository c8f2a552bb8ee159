//! The hint for the format of a file.

use super::size;
use std::fmt;

/// Files cannot be larger.
const LARGEST: u64 = i64::MAX as u64;

/// Records of one size from a byte of the file on. Each record is a slab of one variable; its
/// elements are bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Records {
    record: u64,
    header: u64,
}

impl Records {
    /// Records of `record` bytes behind a header of `header` bytes; `None` if no file has a
    /// single one.
    pub fn new(record: u64, header: u64) -> Option<Self> {
        let fits = header.checked_add(record).is_some_and(|end| end <= LARGEST);
        (record > 0 && fits).then_some(Self { record, header })
    }

    /// Bytes of a record; not zero.
    #[inline]
    pub fn record(&self) -> u64 {
        self.record
    }

    /// Bytes before the first record.
    #[inline]
    pub fn header(&self) -> u64 {
        self.header
    }
}

impl fmt::Display for Records {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "records:{}", self.record)?;
        if self.header > 0 { write!(to, ":{}", self.header) } else { Ok(()) }
    }
}

/// Which format a file has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Chosen {
    /// The format detected by the file's first bytes.
    #[default]
    Automatic,
    /// None: bytes.
    Bytes,
    /// Records of one size.
    Records(Records),
}

impl Chosen {
    /// The accepted form.
    pub const FORM: &'static str = "automatic, bytes or records:SIZE[:HEADER]";

    /// Reads a value of the accepted form.
    pub fn read(text: &str) -> Option<Self> {
        let mut words = text.split(':').map(str::trim);
        let chosen = match words.next()?.to_ascii_lowercase().as_str() {
            "automatic" | "auto" => Self::Automatic,
            "bytes" => Self::Bytes,
            "records" => {
                let record = size(words.next()?).filter(|size| *size > 0)?;
                let header = words.next().map_or(Some(0), size)?;
                Self::Records(Records::new(record, header)?)
            }
            _ => return None,
        };
        words.next().is_none().then_some(chosen)
    }
}

impl fmt::Display for Chosen {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Automatic => to.write_str("automatic"),
            Self::Bytes => to.write_str("bytes"),
            Self::Records(records) => records.fmt(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_format_is_read_as_it_is_shown() {
        for (text, shown) in [
            ("automatic", "automatic"),
            ("AUTO", "automatic"),
            ("bytes", "bytes"),
            ("records:4096", "records:4096"),
            ("records: 4K :512", "records:4096:512"),
        ] {
            let chosen = Chosen::read(text).expect(text);
            assert_eq!(chosen.to_string(), shown);
            assert_eq!(Chosen::read(shown), Some(chosen));
        }
    }

    #[test]
    fn what_is_no_format_is_refused() {
        for text in [
            "",
            "netcdf",
            "records",
            "records:0",
            "records:x",
            "records:4:5:6",
            "bytes:1",
            "records:9:-1",
        ] {
            assert_eq!(Chosen::read(text), None, "{text}");
        }
        assert_eq!(Chosen::read("records:9223372036854775808"), None, "larger than any file");
    }
}
