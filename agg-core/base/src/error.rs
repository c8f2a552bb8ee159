//! An error: its class in the MPI standard, the rank, the place and the reason.

use crate::Extent;
use std::fmt;

pub use crate::error_class::ErrorClass;

/// `std::result::Result` with this crate's error.
pub type Result<T> = std::result::Result<T, Error>;

/// One failed operation: the class that the caller acts on, and the words that the user reads.
///
/// Context is added on the way out with the `with_*` methods; existing context stays: the first
/// (innermost) value of each field wins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<Fields>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    class: ErrorClass,
    errno: i32,
    rank: Option<u32>,
    extent: Option<Extent>,
    operation: String,
    path: String,
    detail: String,
}

impl Error {
    /// An error of `class` with a sentence that names the offending value.
    pub fn new(class: ErrorClass, detail: impl Into<String>) -> Self {
        Self(Box::new(Fields {
            class,
            errno: 0,
            rank: None,
            extent: None,
            operation: String::new(),
            path: String::new(),
            detail: detail.into(),
        }))
    }

    /// The error that the operating system reported for `operation` (a system call's name).
    pub fn os(operation: &str, cause: &std::io::Error) -> Self {
        let errno = cause.raw_os_error().unwrap_or(libc::EIO);
        let mut error = Self::new(ErrorClass::of_errno(errno), format!("{operation}: {cause}"));
        error.0.errno = errno;
        error
    }

    /// Gives the operating system's code that a caller of system calls is to see, where none
    /// reported one.
    pub fn with_errno(mut self, errno: i32) -> Self {
        if self.0.errno == 0 {
            self.0.errno = errno;
        }
        self
    }

    /// Names the MPI function or engine step that failed.
    pub fn with_operation(mut self, operation: &str) -> Self {
        if self.0.operation.is_empty() {
            self.0.operation = operation.into();
        }
        self
    }

    /// Names the file.
    pub fn with_path(mut self, path: &str) -> Self {
        if self.0.path.is_empty() {
            self.0.path = path.into();
        }
        self
    }

    /// Names the rank, in the communicator that opened the file.
    pub fn with_rank(mut self, rank: usize) -> Self {
        self.0.rank.get_or_insert(u32::try_from(rank).unwrap_or(u32::MAX));
        self
    }

    /// Names the file bytes concerned.
    pub fn with_extent(mut self, extent: Extent) -> Self {
        self.0.extent.get_or_insert(extent);
        self
    }

    /// The class that the caller acts on.
    #[inline]
    pub fn class(&self) -> ErrorClass {
        self.0.class
    }

    /// The operating system's code, 0 if it was not asked.
    #[inline]
    pub fn errno(&self) -> i32 {
        self.0.errno
    }

    /// The `errno` for a caller of the system's functions: that of its class if the operating
    /// system gave none.
    pub fn number(&self) -> i32 {
        match self.0.errno {
            0 => self.0.class.errno(),
            errno => errno,
        }
    }

    /// As functions of the standard library report it: the number, without the words.
    pub fn to_io(&self) -> std::io::Error {
        std::io::Error::from_raw_os_error(self.number())
    }

    /// The rank on which it happened, if known.
    pub fn rank(&self) -> Option<usize> {
        self.0.rank.map(|rank| rank as usize)
    }

    /// The file bytes concerned, if known.
    pub fn extent(&self) -> Option<Extent> {
        self.0.extent
    }

    /// The bytes that carry this error to the other ranks.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Fields { class, errno, rank, extent, operation, path, detail } = &*self.0;
        let mut bytes = vec![*class as u8];
        bytes.extend_from_slice(&errno.to_le_bytes());
        bytes.extend_from_slice(&rank.unwrap_or(u32::MAX).to_le_bytes());
        bytes.push(u8::from(extent.is_some()));
        let extent = extent.unwrap_or_default();
        bytes.extend_from_slice(&extent.offset.to_le_bytes());
        bytes.extend_from_slice(&extent.len.to_le_bytes());
        for text in [operation, path, detail] {
            bytes.extend_from_slice(&(text.len() as u32).to_le_bytes());
            bytes.extend_from_slice(text.as_bytes());
        }
        bytes
    }

    /// As [`Error::to_bytes`], with texts cut so that there are at most `room` bytes; `room` is at
    /// least 64.
    pub fn to_bytes_within(&self, room: usize) -> Vec<u8> {
        let mut bytes = self.to_bytes();
        let mut cut = self.clone();
        while bytes.len() > room {
            let Fields { operation, path, detail, .. } = &mut *cut.0;
            let longest = [operation, path, detail].into_iter().max_by_key(|text| text.len());
            let Some(longest) = longest.filter(|text| !text.is_empty()) else { break };
            let mut keep = longest.len().saturating_sub(bytes.len() - room);
            while !longest.is_char_boundary(keep) {
                keep -= 1;
            }
            longest.truncate(keep);
            bytes = cut.to_bytes();
        }
        bytes
    }

    /// The error that another rank put into `bytes`; `None` if they are not one.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let mut take = |n: usize| -> Option<&[u8]> {
            let (head, tail) = rest.split_at_checked(n)?;
            rest = tail;
            Some(head)
        };
        let class = *ErrorClass::ALL.get(usize::from(take(1)?[0]))?;
        let errno = i32::from_le_bytes(take(4)?.try_into().ok()?);
        let rank = u32::from_le_bytes(take(4)?.try_into().ok()?);
        let has_extent = take(1)?[0] == 1;
        let offset = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let len = u64::from_le_bytes(take(8)?.try_into().ok()?);
        let mut text = || -> Option<String> {
            let n = u32::from_le_bytes(take(4)?.try_into().ok()?);
            Some(String::from_utf8_lossy(take(n as usize)?).into_owned())
        };
        let (operation, path, detail) = (text()?, text()?, text()?);
        Some(Self(Box::new(Fields {
            class,
            errno,
            rank: (rank != u32::MAX).then_some(rank),
            extent: has_extent.then(|| Extent::new(offset, len)),
            operation,
            path,
            detail,
        })))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = &*self.0;
        if !e.operation.is_empty() {
            write!(f, "{}: ", e.operation)?;
        }
        if !e.path.is_empty() {
            write!(f, "{}: ", e.path)?;
        }
        if let Some(rank) = e.rank {
            write!(f, "rank {rank}: ")?;
        }
        if let Some(extent) = e.extent {
            write!(f, "bytes {extent}: ")?;
        }
        write!(f, "{} (MPI_{}", e.detail, e.class.name())?;
        if e.errno != 0 {
            write!(f, ", errno {}", e.errno)?;
        }
        write!(f, ")")
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_way_to_another_rank() {
        let error = Error::os("pwrite", &std::io::Error::from_raw_os_error(libc::ENOSPC))
            .with_operation("MPI_File_write_all")
            .with_path("/data/out.nc")
            .with_rank(3)
            .with_extent(Extent::new(4096, 512));
        assert_eq!(Error::from_bytes(&error.to_bytes()), Some(error));
    }

    #[test]
    fn a_message_names_operation_file_rank_bytes_and_errno() {
        let error = Error::os("pwrite", &std::io::Error::from_raw_os_error(libc::ENOSPC))
            .with_operation("MPI_File_write_all")
            .with_path("/data/out.nc")
            .with_rank(3)
            .with_extent(Extent::new(4096, 512));
        assert_eq!(
            error.to_string(),
            "MPI_File_write_all: /data/out.nc: rank 3: bytes 4096..4608: pwrite: No space left on \
             device (os error 28) (MPI_ERR_NO_SPACE, errno 28)"
        );
    }

    #[test]
    fn damaged_bytes_are_no_error_value() {
        let bytes = Error::new(ErrorClass::Io, "x").to_bytes();
        for n in 0..bytes.len() {
            assert_eq!(Error::from_bytes(&bytes[..n]), None);
        }
    }
}
