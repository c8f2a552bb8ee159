//! The configuration and the subfiles of a stub: by its inode, or by names if it is a copy.

use crate::MOST_FILES;
use crate::error::{Error, Kind, Result};
use crate::files::Folder;
use crate::hdf5::SIGNATURE;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

/// A stub has the superblock and nothing else.
const MOST_STUB: u64 = 4096;
/// A configuration has a few lines and the names of the subfiles.
const MOST_CONFIGURATION: u64 = 64 << 20;
/// The common part of the names of configuration and subfiles.
const MARK: &str = ".subfile_";
const CONFIGURATION: &str = ".config";

/// The files of a set, by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Members {
    /// Bytes of a stripe.
    pub(crate) stripe: u64,
    /// How many subfiles there are.
    pub(crate) count: usize,
    /// The stub, the subfiles in their order, the configuration.
    pub(crate) names: Arc<[String]>,
}

/// The stub that a file's name says it belongs to, and the number that the name has in it.
pub(crate) fn named_after(name: &str) -> Option<(&str, u64)> {
    let (stub, rest) = name.rsplit_once(MARK)?;
    let digits = rest.split_once(['_', '.'])?.0;
    let (_, file) = rest.split_at(digits.len());
    let is_part = file == CONFIGURATION || part(file).is_some();
    let number = digits.parse().ok().filter(|_| is_part && !stub.is_empty())?;
    Some((stub, number))
}

/// The numbers in `_2_of_10`.
fn part(text: &str) -> Option<(usize, usize)> {
    let (part, of) = text.strip_prefix('_')?.split_once("_of_")?;
    let (part, of) = (part.parse().ok()?, of.parse().ok()?);
    (1..=of).contains(&part).then_some((part, of))
}

/// The inode of a file that may be a stub: it is short, and begins like HDF5. A file that may not
/// be read is none.
fn may_be(folder: &Folder, name: &str) -> std::io::Result<Option<u64>> {
    let found = folder.look(name)?;
    if !found.is_file() || !(1..=MOST_STUB).contains(&found.len()) {
        return Ok(None);
    }
    let (stub, found) = folder.open(name)?;
    let mut bytes = Vec::new();
    stub.take(MOST_STUB).read_to_end(&mut bytes)?;
    Ok(bytes.starts_with(&SIGNATURE).then_some(found.ino()))
}

/// Whether nothing can be there for this user, as for a program that opens the file.
fn is_closed(why: &std::io::Error) -> bool {
    use std::io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(why.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// The set of the stub `name`.
///
/// # Errors
///
/// If its configuration is missing or malformed, or there are several that may be meant.
pub(crate) fn find(folder: &Folder, name: &str) -> Result<Option<Members>> {
    let failed = |why: std::io::Error| Error::system(folder.shown(name), &why);
    let number = match may_be(folder, name) {
        Err(why) if !is_closed(&why) => return Err(failed(why)),
        Err(_) | Ok(None) => return Ok(None),
        Ok(Some(number)) => number,
    };
    let own = format!("{name}{MARK}{number}{CONFIGURATION}");
    if folder.path.join(&own).symlink_metadata().is_ok() {
        return read(folder, name, &own).map(Some);
    }
    let told = |kind, what: String| Err(Error::new(folder.shown(name), kind, what));
    let entries =
        fs::read_dir(&folder.path).map_err(|why| Error::system(folder.shown(""), &why))?;
    let (mut renamed, mut copied, mut parts) = (Vec::new(), Vec::new(), false);
    for entry in entries {
        let entry = entry.map_err(|why| Error::system(folder.shown(""), &why))?;
        let Ok(other) = entry.file_name().into_string() else { continue };
        let Some((stub, inode)) = named_after(&other) else { continue };
        match other.ends_with(CONFIGURATION) {
            // The stub was renamed, or it was copied with all its files.
            true if inode == number => renamed.push(other),
            true if stub == name => copied.push(other),
            _ => parts |= stub == name,
        }
    }
    let candidates = if renamed.is_empty() { copied } else { renamed };
    match &candidates[..] {
        [one] => read(folder, name, one).map(Some),
        [] if parts => told(
            Kind::Missing,
            format!("its configuration {name}{MARK}N{CONFIGURATION} is missing"),
        ),
        [] => Ok(None),
        _ => {
            let mut all = candidates.clone();
            all.sort_unstable();
            told(Kind::Mismatch, format!("which configuration is its own? {}", all.join(", ")))
        }
    }
}

/// The content of a configuration.
struct Configuration {
    stripe: u64,
    directory: String,
    names: Vec<String>,
}

fn parse(text: &str) -> Option<Configuration> {
    let value = |key: &str| {
        let lines = text.lines();
        lines.filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).next()
    };
    let stripe = value("stripe_size")?.parse().ok().filter(|size| (1..1 << 62).contains(size))?;
    let count = value("subfile_count")?.parse().ok()?;
    let directory = value("subfile_dir")?.to_owned();
    let behind = text.lines().skip_while(|line| !line.starts_with("subfile_dir="));
    let names: Vec<String> =
        behind.skip(1).filter(|line| !line.is_empty()).map(Into::into).collect();
    let fits = (1..=MOST_FILES).contains(&count) && names.len() == count;
    let is_plain = |name: &String| !name.contains('/') && name.contains(MARK);
    let all = fits && names.iter().all(is_plain);
    all.then_some(Configuration { stripe, directory, names })
}

fn read(folder: &Folder, stub: &str, name: &str) -> Result<Members> {
    let failed = |why: std::io::Error| Error::system(folder.shown(name), &why);
    let malformed = || Error::corrupt(folder.shown(name), "no configuration of HDF5's subfiling");
    let (file, found) = folder.open(name).map_err(failed)?;
    if found.len() > MOST_CONFIGURATION {
        return Err(malformed());
    }
    let mut text = Vec::new();
    file.take(MOST_CONFIGURATION).read_to_end(&mut text).map_err(failed)?;
    let found = std::str::from_utf8(&text).ok().and_then(parse).ok_or_else(malformed)?;
    let there = |name: &String| folder.path.join(name).symlink_metadata().is_ok();
    // Subfiles that were renamed with their configuration have its new name.
    let base = name.strip_suffix(CONFIGURATION).unwrap_or(name);
    let renamed: Vec<String> = found
        .names
        .iter()
        .map(|listed| {
            let numbers = listed.rsplit_once(MARK).and_then(|(_, rest)| rest.split_once('_'));
            numbers.map_or_else(|| listed.clone(), |(_, rest)| format!("{base}_{rest}"))
        })
        .collect();
    let names = if renamed.iter().any(there) { renamed } else { found.names };
    if !names.iter().any(there) {
        let what =
            format!("none of its subfiles is there; they were written to {}", found.directory);
        return Err(Error::new(folder.shown(name), Kind::Missing, what));
    }
    let count = names.len();
    let all = std::iter::once(stub.to_owned()).chain(names).chain([name.to_owned()]);
    Ok(Members { stripe: found.stripe, count, names: all.collect() })
}
