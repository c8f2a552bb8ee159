//! Reads a spool file of a dead or living process: its owner, its slots and their pieces. Each
//! piece is as its owner left it, or an error names it.

use super::checks::{Owned, Owner, Run, guarded_short, unguarded, unguarded_short};
use super::layout::{
    FREE, HEAD, Head, MAGIC, MOST_DATA, PAGE, PATH, PIECES, Piece, SLOT_HEAD, SlotHead, UNCHECKED,
    USED, VERSION,
};
use super::stored;
use aggio_base::{Error, ErrorClass, Extent, Result};
use std::fs::File;
use std::mem::offset_of;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

fn damaged(text: String) -> Error {
    Error::new(ErrorClass::Io, text)
}

/// The head of a spool file, as it was when it was read.
pub(super) struct HeadCopy {
    bytes: [u8; HEAD],
    checked: bool,
}

impl HeadCopy {
    /// Reads the head of the spool file with the name `path`.
    ///
    /// # Errors
    /// If it cannot be read, is of a version that is not known here, or damaged.
    pub(super) fn read(file: &File, path: &Path) -> Result<Self> {
        let len = file.metadata().map_err(|error| Error::os("fstat", &error))?.len();
        if len < HEAD as u64 {
            let text = format!("the spool file is damaged: {len} bytes of it are there");
            return Err(damaged(text));
        }
        let mut bytes = [0; HEAD];
        file.read_exact_at(&mut bytes, 0).map_err(|error| Error::os("read", &error))?;
        if word(&bytes, offset_of!(Head, magic)) != MAGIC {
            return Err(damaged("the spool file is damaged: it does not begin as one".into()));
        }
        let version = word32(&bytes, offset_of!(Head, version));
        if version != VERSION && version != UNCHECKED {
            let text = format!(
                "version {version} of spool files is not known here, which writes {VERSION} and \
                 reads {UNCHECKED}, too: `aggio recover` of the version that made it finishes it"
            );
            return Err(Error::new(ErrorClass::UnsupportedOperation, text));
        }
        let head = Self { bytes, checked: version == VERSION };
        let check = word32(&head.bytes, offset_of!(Head, check));
        let name = path.file_name().unwrap_or_default().as_bytes();
        if head.checked && head.owner(name).check() != check {
            let text = "the spool file is damaged: its head is another's, or has changed";
            return Err(damaged(text.into()));
        }
        Ok(head)
    }

    /// The check that belongs in a head of these bytes.
    #[cfg(test)]
    pub(super) fn check_of(bytes: [u8; HEAD], path: &Path) -> u32 {
        let name = path.file_name().unwrap().as_bytes();
        Self { bytes, checked: true }.owner(name).check()
    }

    /// Its owner.
    pub(super) fn owner<'a>(&self, name: &'a [u8]) -> Owner<'a> {
        let field = |at| word(&self.bytes, at);
        let boot = offset_of!(Head, boot);
        Owner {
            name,
            pid: word32(&self.bytes, offset_of!(Head, pid)),
            started: field(offset_of!(Head, started)),
            boot: [field(boot), field(boot + 8)],
            host: field(offset_of!(Head, host)),
        }
    }

    /// How many slots it has; `None` if it does not say.
    fn slots(&self) -> Result<Option<u64>> {
        if !self.checked {
            return Ok(None);
        }
        let slots = unguarded(word(&self.bytes, offset_of!(Head, slots)));
        let text = || damaged("the spool file is damaged: the number of its slots".into());
        slots.map(Some).ok_or_else(text)
    }
}

/// The head of a slot in use, as it was when it was read.
#[derive(Clone, Debug)]
pub(super) struct SlotCopy {
    head: Vec<u8>,
    /// Which slot it is, counted from 0.
    number: u64,
    /// Where its data begin, and how many bytes they are.
    data: u64,
    room: u64,
    checked: bool,
}

/// Calls `with` with every slot in use.
pub(super) fn each_slot(file: &File, path: &Path, with: &mut dyn FnMut(&SlotCopy)) -> Result<()> {
    let head = HeadCopy::read(file, path)?;
    let slots = head.slots()?;
    let failed = |error| Error::os("read", &error);
    let len = file.metadata().map_err(failed)?.len();
    let (mut place, mut number) = (HEAD as u64, 0);
    while slots.map_or(place + SLOT_HEAD as u64 <= len, |slots| number < slots) {
        let mut bytes = vec![0; SLOT_HEAD];
        if place + SLOT_HEAD as u64 > len {
            let text = format!("the spool file is damaged: its slot {number} is not there");
            return Err(damaged(text));
        }
        file.read_exact_at(&mut bytes, place).map_err(failed)?;
        let data = place + SLOT_HEAD as u64;
        let room = room_of(&bytes, head.checked, (number, data, len))?;
        let used = word32(&bytes, offset_of!(SlotHead, used));
        match (used, head.checked) {
            (USED, true) | (1, false) => {
                with(&SlotCopy { head: bytes, number, data, room, checked: head.checked });
            }
            (FREE, true) => {}
            // Its owner died before it was one, and no other follows.
            (_, false) if room == 0 => break,
            (_, false) => {}
            (_, true) => {
                let text =
                    format!("slot {number} of the spool file is damaged: whether it is used");
                return Err(damaged(text));
            }
        }
        (place, number) = (data + room, number + 1);
    }
    Ok(())
}

/// The length of the data of the slot `number`, which begin at `data` of a spool file of `len`
/// bytes.
fn room_of(head: &[u8], checked: bool, (number, data, len): (u64, u64, u64)) -> Result<u64> {
    let told = word(head, offset_of!(SlotHead, room));
    let room = if checked { unguarded(told) } else { Some(told) };
    let is_whole = |room: &u64| {
        *room <= MOST_DATA as u64 && room.is_multiple_of(PAGE as u64) && data + room <= len
    };
    room.filter(is_whole).ok_or_else(|| {
        let text = format!(
            "slot {number} of the spool file is damaged: the length of its data, which begin at \
             byte {data} of {len}"
        );
        damaged(text)
    })
}

impl SlotCopy {
    /// The number at this place of its head.
    pub(super) fn word(&self, at: usize) -> u64 {
        word(&self.head, at)
    }

    /// Where a field of its head is in the spool file.
    pub(super) fn place_of(&self, field: usize) -> u64 {
        self.data - SLOT_HEAD as u64 + field as u64
    }

    /// Device, inode and birth of its file.
    pub(super) fn identity(&self) -> [u64; 3] {
        [offset_of!(SlotHead, device), offset_of!(SlotHead, inode), offset_of!(SlotHead, born)]
            .map(|at| self.word(at))
    }

    /// The name of its file.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(std::ffi::OsStr::from_bytes(self.name()))
    }

    fn name(&self) -> &[u8] {
        let len = (self.word(offset_of!(SlotHead, path_len)) as usize).min(PATH);
        &self.head[offset_of!(SlotHead, path)..][..len]
    }

    /// How many pieces were written to the file already, as its owner says.
    pub(super) fn stored(&self) -> usize {
        word32(&self.head, offset_of!(SlotHead, stored)) as usize
    }

    /// The number of its pieces, if that and the identity of its file are not damaged.
    pub(super) fn count(&self) -> Result<usize> {
        let (number, told) = (self.number, word32(&self.head, offset_of!(SlotHead, count)));
        let count = if self.checked { unguarded_short(told) } else { Some(told) };
        let count = count.map(|count| count as usize).filter(|count| *count <= PIECES);
        let count = count.ok_or_else(|| {
            damaged(format!("slot {number} of the spool file is damaged: the number of its pieces"))
        })?;
        let owned = Owned {
            data: self.data,
            room: self.room,
            identity: self.identity(),
            path: self.name(),
        };
        let check = word32(&self.head, offset_of!(SlotHead, check));
        if self.checked && count > 0 && owned.check() != check {
            let text = format!("slot {number} of the spool file is damaged: which file it is of");
            return Err(damaged(text));
        }
        Ok(count)
    }

    /// The bytes to store in place of `count` when its pieces are in their file.
    pub(super) fn no_pieces(&self) -> [u8; 4] {
        if self.checked { guarded_short(0).to_ne_bytes() } else { 0_u32.to_ne_bytes() }
    }

    /// Its pieces in the order in which they are written: where they belong, and their bytes.
    pub(super) fn pieces(&self, spool: &File) -> Result<Vec<(u64, Vec<u8>)>> {
        let (mut pieces, mut room) = (Vec::new(), self.room);
        for index in 0..self.count()? {
            let (extent, place, run) = self.piece(index)?;
            room = room.checked_sub(extent.len).ok_or_else(|| {
                let of = self.number;
                let text = format!(
                    "piece {index} of slot {of} of the spool file: more bytes than there is room"
                );
                damaged(text)
            })?;
            let mut bytes = vec![0; extent.len as usize];
            let read = spool.read_exact_at(&mut bytes, self.data + place);
            read.map_err(|error| Error::os("pread", &error))?;
            if self.checked && Run::begin(index, extent.offset, place).and(&bytes) != run {
                return Err(self.differs(index, extent, place));
            }
            pieces.push((extent.offset, bytes));
        }
        Ok(stored::sorted(pieces))
    }

    fn differs(&self, index: usize, extent: Extent, place: u64) -> Error {
        let (from, of) = (self.data + place, self.number);
        let text = format!(
            "piece {index} of slot {of} of the spool file, its bytes {from}..{}, is damaged: its \
             checksum differs; nothing of the slot is written",
            from + extent.len
        );
        damaged(text).with_extent(extent)
    }

    /// Piece `index`: where it belongs, where it is in the data, and its checksum.
    fn piece(&self, index: usize) -> Result<(Extent, u64, Run)> {
        let at = offset_of!(SlotHead, pieces) + index * size_of::<Piece>();
        let field = |offset| self.word(at + offset);
        let (offset, told) = (field(offset_of!(Piece, offset)), field(offset_of!(Piece, run)));
        let place = field(offset_of!(Piece, place));
        let run = if self.checked { Run::of(told) } else { Run { len: told, crc: 0 } };
        let is_inside = place.checked_add(run.len).is_some_and(|end| end <= self.room);
        let end = offset.checked_add(run.len).and_then(|end| i64::try_from(end).ok());
        if !is_inside || end.is_none() {
            let (of, len) = (self.number, run.len);
            let text = format!(
                "piece {index} of slot {of} of the spool file is damaged: {len} bytes at {place} \
                 of its data, for byte {offset} of the file"
            );
            return Err(damaged(text));
        }
        Ok((Extent::new(offset, run.len), place, run))
    }
}

pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_ne_bytes(value)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_ne_bytes(value)
}
