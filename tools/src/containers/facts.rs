//! Facts about a path: a container, a set of netCDF files, or a file as it is.

use super::{at, hdf5, netcdf, sets};
use agg_core::blob::{Container, is_container};
use aggio_formats::hdf5::Contents;
use aggio_formats::{Logical, Set};
use serde_json::{Value, json};
use std::fs::FileType;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file, or an object that looks like one.
pub(super) struct Facts {
    pub(super) path: PathBuf,
    pub(super) kind: &'static str,
    /// The letter in front of the mode in `ls`; containers and sets are ordinary files there.
    letter: char,
    pub(super) size: u64,
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) modified: SystemTime,
    /// Bytes that it takes in the file system.
    pub(super) stored: u64,
    /// Bytes that the file system moves at a time, as far as it says so.
    pub(super) unit: u64,
    pub(super) blob: Option<Blob>,
    /// Its content, if it is a set of netCDF files, or was looked into.
    pub(super) netcdf: Option<Logical>,
    /// Its content, if it is an HDF5 file and was looked into.
    pub(super) hdf5: Option<Contents>,
}

/// Facts that only containers have.
pub(super) struct Blob {
    pub(super) generation: u64,
    pub(super) sealed: bool,
    pub(super) logs: usize,
}

impl Facts {
    /// The facts of the object at `path`; a symbolic link is itself.
    pub(super) fn of(path: &Path) -> Result<Self, String> {
        Self::with(path, sets::Flags::default())
    }

    /// As [`Facts::of`], of sets that are read so.
    pub(super) fn with(path: &Path, flags: sets::Flags) -> Result<Self, String> {
        if let Some(set) = sets::find(path)? {
            return Self::of_set(path, &set, flags);
        }
        let found = std::fs::symlink_metadata(path).map_err(|why| at(path, why))?;
        if found.is_dir() && is_container(path) {
            return Self::of_container(path);
        }
        let kind = match found.file_type() {
            kind if kind.is_dir() => "directory",
            kind if kind.is_file() => "file",
            kind if kind.is_symlink() => "link",
            _ => "special",
        };
        Ok(Facts {
            path: path.into(),
            kind,
            letter: letter(found.file_type()),
            size: found.len(),
            mode: found.mode() & 0o7777,
            uid: found.uid(),
            gid: found.gid(),
            modified: found.modified().unwrap_or(UNIX_EPOCH),
            stored: found.blocks() * 512,
            unit: found.blksize(),
            blob: None,
            netcdf: None,
            hdf5: None,
        })
    }

    fn of_container(path: &Path) -> Result<Self, String> {
        let container = Container::open(path).map_err(|why| at(path, why))?;
        let found = container.attributes().map_err(|why| at(path, why))?;
        let names = std::fs::read_dir(path).map_err(|why| at(path, why))?;
        let is_log =
            |name: &std::ffi::OsStr| Path::new(name).extension().is_some_and(|end| end == "log");
        let logs = names.flatten().filter(|entry| is_log(&entry.file_name())).count();
        let blob = Blob { generation: found.generation, sealed: found.sealed, logs };
        Ok(Facts {
            path: path.into(),
            kind: "container",
            letter: '-',
            size: found.size,
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
            modified: found.mtime,
            stored: found.blocks * 512,
            unit: 0,
            blob: Some(blob),
            netcdf: None,
            hdf5: None,
        })
    }

    /// A set has the attributes of its first file.
    fn of_set(path: &Path, set: &Set, flags: sets::Flags) -> Result<Self, String> {
        let file = sets::open(path, flags)?.ok_or_else(|| at(path, "not a set any more"))?;
        let found = set.files().map(|name| std::fs::metadata(path.with_file_name(name)));
        let found: Vec<std::fs::Metadata> = found.flatten().collect();
        let first = found.first().ok_or_else(|| at(path, "not a set any more"))?;
        Ok(Facts {
            path: path.into(),
            kind: "set",
            letter: '-',
            size: file.size(),
            mode: first.mode() & 0o7777,
            uid: first.uid(),
            gid: first.gid(),
            modified: first.modified().unwrap_or(UNIX_EPOCH),
            stored: found.iter().map(|found| found.blocks() * 512).sum(),
            unit: 0,
            blob: None,
            netcdf: Some(file),
            hdf5: None,
        })
    }

    /// Seconds since 1970.
    fn seconds(&self) -> f64 {
        match self.modified.duration_since(UNIX_EPOCH) {
            Ok(after) => after.as_secs_f64(),
            Err(before) => -before.duration().as_secs_f64(),
        }
    }

    /// The facts; `chunks` says whether to list each chunk of an HDF5 file.
    pub(super) fn as_json(&self, chunks: bool) -> Value {
        let mut object = json!({
            "path": self.path.display().to_string(),
            "kind": self.kind,
            "size": self.size,
            "mode": format!("{:04o}", self.mode),
            "uid": self.uid,
            "gid": self.gid,
            "mtime": self.seconds(),
            "stored": self.stored,
        });
        if let (Some(blob), Some(map)) = (&self.blob, object.as_object_mut()) {
            map.insert("generation".into(), blob.generation.into());
            map.insert("sealed".into(), blob.sealed.into());
            map.insert("logs".into(), blob.logs.into());
        }
        if let (Some(file), Some(map)) = (&self.netcdf, object.as_object_mut()) {
            map.insert("netcdf".into(), netcdf::object(file));
        }
        if let (Some(found), Some(map)) = (&self.hdf5, object.as_object_mut()) {
            map.insert("hdf5".into(), hdf5::object(found, self.unit, chunks));
        }
        object
    }

    /// The mode as `ls` writes it.
    pub(super) fn mode_in_letters(&self) -> String {
        let mut text = String::from(self.letter);
        for (shift, special, [with, without]) in
            [(6, 0o4000, ['s', 'S']), (3, 0o2000, ['s', 'S']), (0, 0o1000, ['t', 'T'])]
        {
            let has = |bit: u32| self.mode & (bit << shift) != 0;
            text.push(if has(4) { 'r' } else { '-' });
            text.push(if has(2) { 'w' } else { '-' });
            text.push(match (self.mode & special != 0, has(1)) {
                (true, true) => with,
                (true, false) => without,
                (false, true) => 'x',
                (false, false) => '-',
            });
        }
        text
    }
}

/// The letter of a kind of file.
fn letter(kind: FileType) -> char {
    match kind {
        kind if kind.is_dir() => 'd',
        kind if kind.is_symlink() => 'l',
        kind if kind.is_fifo() => 'p',
        kind if kind.is_socket() => 's',
        kind if kind.is_char_device() => 'c',
        kind if kind.is_block_device() => 'b',
        _ => '-',
    }
}

/// Facts as a document.
pub(super) fn document(files: &[Facts], chunks: bool) -> String {
    let files: Vec<Value> = files.iter().map(|facts| facts.as_json(chunks)).collect();
    format!("{:#}\n", json!({ "schema": 1, "files": files }))
}
