//! What a node alone has written, on its way to the owner.

use super::{Copies, Key};
use aggio_base::Extent;
use aggio_base::os;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

/// The bytes of a copy on their way to the owner.
#[derive(Debug)]
pub(crate) struct Sending {
    /// What is still to be sent, the last first.
    rest: Vec<Extent>,
    file: OwnedFd,
}

impl Copies {
    /// Begins to send what was written; how many bytes the file has, and which time it is.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn send(&mut self, key: Key) -> io::Result<(u64, u64)> {
        let gone = || io::Error::from_raw_os_error(libc::ESTALE);
        let file = self.open(key, (true, false, false))?;
        let copy = self.all.get_mut(&key).ok_or_else(gone)?;
        let size = os::fstat(file.as_raw_fd())?.st_size.unsigned_abs();
        let mut rest = Vec::new();
        crate::areas::data(file.as_raw_fd(), |offset, len| {
            rest.push(Extent::new(offset, len as u64));
            Ok(())
        })?;
        rest.reverse();
        (copy.dirty, copy.sending) = (false, Some(Sending { rest, file }));
        copy.writers.clear();
        copy.sent = copy.granted;
        copy.times += 1;
        Ok((size, copy.times))
    }

    /// The next bytes of what is sent, and where they belong; `None` if there are no more.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn next_to_send(&mut self, key: Key) -> io::Result<Option<(u64, u64, Vec<u8>)>> {
        let Some(copy) = self.all.get_mut(&key) else { return Ok(None) };
        let Some(sending) = &mut copy.sending else { return Ok(None) };
        let Some(extent) = sending.rest.pop() else {
            copy.sending = None;
            return Ok(None);
        };
        let mut bytes = vec![0; extent.len as usize];
        crate::areas::read_all(sending.file.as_raw_fd(), &mut bytes, extent.offset)?;
        Ok(Some((extent.offset, copy.times, bytes)))
    }
}
