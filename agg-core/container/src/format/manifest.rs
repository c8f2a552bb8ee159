//! The manifest: the identity and attributes of a container, and the parts that were complete when
//! it was sealed. It is replaced as a whole, so a reader finds the old one or the new one.

use crate::directory::{Dir, MANIFEST, log_id, log_name, random};
use crate::errors::{at, damaged, damaged_at, failed};
use aggio_base::Result;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::str::FromStr;

/// The first line.
pub(crate) const FORMAT: &str = "format aggio-blob 1";
/// No manifest is longer: a million logs.
const LONGEST: u64 = 100 << 20;

/// A log that nobody will write any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealedLog {
    pub(crate) id: u64,
    /// Bytes of intact frames.
    pub(crate) length: u64,
    /// Number of frames.
    pub(crate) frames: u64,
    /// Checksum of the runs that it became in the index.
    pub(crate) crc: u32,
}

impl SealedLog {
    /// Whether the frames up to its length are those that it had when it was sealed.
    pub(crate) fn is_as_sealed(&self, frames: u64, crc: u32) -> bool {
        // A log without frames has no bytes. Such an entry records a lost log that another part
        // referred to.
        self.frames == 0 || (frames, crc) == (self.frames, self.crc)
    }
}

/// The merged index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IndexLine {
    pub(crate) name: String,
    pub(crate) length: u64,
    pub(crate) crc: u32,
}

/// The manifest's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) uuid: u128,
    pub(crate) generation: u64,
    /// Permission bits of the logical file.
    pub(crate) mode: u32,
    /// Whether frames carry a checksum of their data.
    pub(crate) data_crc: bool,
    /// Size of the logical file as far as the sealed logs tell.
    pub(crate) size: u64,
    /// Every sequence number in the sealed logs is smaller.
    pub(crate) epoch: u64,
    /// Sorted by id.
    pub(crate) logs: Vec<SealedLog>,
    pub(crate) index: Option<IndexLine>,
}

impl Manifest {
    /// The manifest of a new container.
    pub(crate) fn new(mode: u32, data_crc: bool) -> Result<Self> {
        let uuid = u128::from(random()?) << 64 | u128::from(random()?);
        let (generation, size, epoch) = (0, 0, 1);
        let logs = Vec::new();
        Ok(Self { uuid, generation, mode, data_crc, size, epoch, logs, index: None })
    }

    /// The sealed log with this id.
    pub(crate) fn log(&self, id: u64) -> Option<&SealedLog> {
        let at = self.logs.binary_search_by_key(&id, |log| log.id).ok()?;
        self.logs.get(at)
    }

    /// The text, checksum included.
    pub(crate) fn to_text(&self) -> String {
        let Self { uuid, generation, mode, size, epoch, .. } = self;
        let data_crc = u8::from(self.data_crc);
        let mut text = format!(
            "{FORMAT}\nuuid {uuid:032x}\ngeneration {generation}\nmode {mode:o}\n\
             data-crc {data_crc}\nsize {size}\nepoch {epoch}\n"
        );
        for SealedLog { id, length, frames, crc } in &self.logs {
            let name = log_name(*id);
            let _ = writeln!(text, "log {name} length {length} frames {frames} crc {crc:08x}");
        }
        if let Some(IndexLine { name, length, crc }) = &self.index {
            let _ = writeln!(text, "index {name} length {length} crc {crc:08x}");
        }
        let crc = aggio_base::checksum::crc32c(text.as_bytes());
        let _ = writeln!(text, "crc32c {crc:08x}");
        text
    }

    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// Names the line that is wrong.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self> {
        let body = verified(bytes)?;
        let mut lines = body.lines().enumerate();
        if lines.next().map(|(_, line)| line) != Some(FORMAT) {
            return Err(damaged(format!("the first line is not {FORMAT:?}")));
        }
        let mut fields = Fields::default();
        for (number, line) in lines {
            fields.take(line).ok_or_else(|| wrong(number + 1, line))?;
        }
        fields.finish()
    }

    /// Reads the manifest of `dir`.
    pub(crate) fn load(dir: &Dir) -> Result<Self> {
        dir.anew(MANIFEST, || Self::load_once(dir))
    }

    fn load_once(dir: &Dir) -> Result<Self> {
        let path = dir.path_of(MANIFEST);
        let file = dir.part(MANIFEST, false)?;
        let length = file.metadata().map_err(|error| failed("fstat", &error, &path))?.len();
        if length > LONGEST {
            return Err(damaged_at(&path, format!("a manifest of {length} bytes is too long")));
        }
        let mut bytes = vec![0; length as usize];
        file.read_exact_at(&mut bytes, 0).map_err(|error| failed("read", &error, &path))?;
        Self::parse(&bytes).map_err(|error| at(error, &path))
    }

    /// Makes this the manifest of `dir`: temporary file, `fsync`, `rename`, `fsync` of the
    /// directory.
    pub(crate) fn store(&self, dir: &Dir) -> Result<()> {
        let name = format!(".aggio-manifest.{:016x}", random()?);
        let stored = self.write_to(dir, &name).and_then(|()| dir.rename(&name, MANIFEST));
        if stored.is_err() {
            // Report the original error. A leftover file is ignored because of its name.
            let _ = dir.remove(&name);
        }
        stored.and_then(|()| dir.sync())
    }

    fn write_to(&self, dir: &Dir, name: &str) -> Result<()> {
        let path = dir.path_of(name);
        let mut file = dir.new_part(name, 0o600)?;
        let mode = std::fs::Permissions::from_mode(part_mode(self.mode));
        file.write_all(self.to_text().as_bytes())
            .and_then(|()| file.set_permissions(mode))
            .and_then(|()| file.sync_all())
            .map_err(|error| failed("write", &error, &path))
    }
}

/// The permissions of files inside a container: those of the logical file, without execution; the
/// owner may always write, or nobody could write to a new read-only file.
pub(crate) fn part_mode(mode: u32) -> u32 {
    mode & 0o666 | 0o600
}

/// The permissions of the directory: permission to read includes permission to search.
pub(crate) fn dir_mode(mode: u32) -> u32 {
    let mode = mode & 0o666 | 0o600;
    mode | (mode & 0o444) >> 2
}

/// Returns the text before the last line, verified with the checksum in that line.
fn verified(bytes: &[u8]) -> Result<&str> {
    let text = str::from_utf8(bytes).map_err(|_| damaged("it is not text"))?;
    let cut = || damaged("the last line is not a checksum; the file may be cut off");
    let body = text.strip_suffix('\n').ok_or_else(cut)?;
    let start = body.rfind('\n').ok_or_else(cut)? + 1;
    let digits = body[start..].strip_prefix("crc32c ").ok_or_else(cut)?;
    let crc = hex32(digits).ok_or_else(cut)?;
    let actual = aggio_base::checksum::crc32c(&bytes[..start]);
    if crc != actual {
        return Err(damaged(format!("checksum {actual:08x} is not {crc:08x} of the last line")));
    }
    Ok(&text[..start])
}

fn wrong(line: usize, text: &str) -> aggio_base::Error {
    let shown: String = text.chars().take(60).collect();
    damaged(format!("line {line} is wrong: {shown:?}"))
}

/// Eight hexadecimal digits.
fn hex32(digits: &str) -> Option<u32> {
    let plain = digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    plain.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

/// A decimal number without sign.
fn number<T: FromStr>(digits: &str) -> Option<T> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The lines read so far.
#[derive(Default)]
struct Fields {
    uuid: Option<u128>,
    generation: Option<u64>,
    mode: Option<u32>,
    data_crc: Option<bool>,
    size: Option<u64>,
    epoch: Option<u64>,
    logs: Vec<SealedLog>,
    index: Option<IndexLine>,
}

/// Fills a field that must not be filled yet.
fn once<T>(field: &mut Option<T>, value: Option<T>) -> Option<()> {
    let value = value?;
    field.replace(value).is_none().then_some(())
}

impl Fields {
    fn take(&mut self, line: &str) -> Option<()> {
        let (key, value) = line.split_once(' ')?;
        match key {
            "uuid" => {
                let right = value.len() == 32 && value.bytes().all(|b| b.is_ascii_hexdigit());
                let uuid = right.then(|| u128::from_str_radix(value, 16).ok()).flatten();
                once(&mut self.uuid, uuid)
            }
            "generation" => once(&mut self.generation, number(value)),
            "mode" => {
                let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o7777);
                once(&mut self.mode, mode)
            }
            "data-crc" => once(&mut self.data_crc, number::<u8>(value).map(|flag| flag != 0)),
            "size" => {
                once(&mut self.size, number(value).filter(|n| *n <= crate::format::frame::FILE_END))
            }
            "epoch" => once(
                &mut self.epoch,
                number(value).filter(|n| *n <= crate::format::frame::FILE_END),
            ),
            "log" => self.log(value),
            "index" => once(&mut self.index, index_line(value)),
            _ => None,
        }
    }

    fn log(&mut self, value: &str) -> Option<()> {
        let words: Vec<&str> = value.split(' ').collect();
        let [name, "length", length, "frames", frames, "crc", crc] = words[..] else { return None };
        let id = log_id(name)?;
        let length = number(length).filter(|n| *n <= crate::format::frame::FILE_END)?;
        let log = SealedLog { id, length, frames: number(frames)?, crc: hex32(crc)? };
        let ascending = self.logs.last().is_none_or(|last| last.id < log.id);
        ascending.then(|| self.logs.push(log))
    }

    fn finish(self) -> Result<Manifest> {
        let missing = |key: &str| damaged(format!("there is no line {key:?}"));
        Ok(Manifest {
            uuid: self.uuid.ok_or_else(|| missing("uuid"))?,
            generation: self.generation.ok_or_else(|| missing("generation"))?,
            mode: self.mode.ok_or_else(|| missing("mode"))?,
            data_crc: self.data_crc.ok_or_else(|| missing("data-crc"))?,
            size: self.size.ok_or_else(|| missing("size"))?,
            epoch: self.epoch.ok_or_else(|| missing("epoch"))?,
            logs: self.logs,
            index: self.index,
        })
    }
}

/// The index's name is `index.` and a number, so it is no other part.
fn index_line(value: &str) -> Option<IndexLine> {
    let words: Vec<&str> = value.split(' ').collect();
    let [name, "length", length, "crc", crc] = words[..] else { return None };
    number::<u64>(name.strip_prefix("index.")?)?;
    Some(IndexLine { name: name.to_owned(), length: number(length)?, crc: hex32(crc)? })
}

/// Whether `path` is a container: a directory, not a symlink to one, with a regular file of the
/// manifest's name that begins as a manifest does.
pub fn is_container(path: &Path) -> bool {
    let is_dir = std::fs::symlink_metadata(path).is_ok_and(|facts| facts.is_dir());
    is_dir && Dir::open(path).is_ok_and(|dir| begins(&dir).unwrap_or(false))
}

/// Whether there is a manifest that begins as one does.
pub(crate) fn begins(dir: &Dir) -> Result<bool> {
    dir.anew(MANIFEST, || {
        let mut bytes = [0; FORMAT.len() + 1];
        let file = dir.part(MANIFEST, false)?;
        let read = file.read_exact_at(&mut bytes, 0);
        read.map_err(|error| failed("read", &error, &dir.path_of(MANIFEST)))?;
        Ok(bytes.strip_suffix(b"\n").is_some_and(|line| line == FORMAT.as_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let mut manifest = Manifest::new(0o640, true).unwrap();
        manifest.logs = vec![
            SealedLog { id: 7, length: 100, frames: 2, crc: 0xab },
            SealedLog { id: 9, length: 0, frames: 0, crc: 0 },
        ];
        manifest.index = Some(IndexLine { name: "index.1".into(), length: 77, crc: 1 });
        manifest
    }

    #[test]
    fn what_was_written_is_read() {
        let text = manifest().to_text();
        assert_eq!(Manifest::parse(text.as_bytes()).unwrap().to_text(), text);
    }

    #[test]
    fn every_changed_byte_and_every_cut_is_noticed() {
        let text = manifest().to_text().into_bytes();
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(Manifest::parse(&changed).is_err(), "byte {at}");
            assert!(Manifest::parse(&text[..at]).is_err(), "{at} bytes");
        }
    }

    #[test]
    fn a_wrong_line_is_named_though_the_checksum_fits() {
        for (from, to) in [
            ("index.1", "../../etc/passwd"),
            ("0000000000000007.log", "/tmp/x"),
            ("0000000000000007.log", "00000000000000ff.log"),
            ("mode 640", "mode 99999999"),
            ("generation 0", "generation -1"),
            ("length 100", "length 99999999999999999999"),
        ] {
            let text = manifest().to_text();
            let body = text[..text.rfind("crc32c").unwrap()].replace(from, to);
            let crc = aggio_base::checksum::crc32c(body.as_bytes());
            let error = Manifest::parse(format!("{body}crc32c {crc:08x}\n").as_bytes());
            assert!(error.unwrap_err().to_string().contains("line "), "{to}");
        }
    }
}
