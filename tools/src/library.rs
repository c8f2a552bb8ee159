//! Finds `libaggio.so`.

use std::path::{Path, PathBuf};

/// Its file name.
pub(crate) const NAME: &str = "libaggio.so";

/// Places beside the program, as `make install` and Cargo make them.
const BESIDE: [&str; 5] = ["../lib", "../lib64", "../lib/aggio", ".", "../release"];

/// The library: as the user says, `AGGIO_LIBRARY`, or the one that was installed with this program.
///
/// # Errors
///
/// A sentence with the places where it was looked for.
pub(crate) fn find(said: Option<&Path>) -> Result<PathBuf, String> {
    let from_variable = std::env::var_os("AGGIO_LIBRARY").map(PathBuf::from);
    if let Some(path) = said.map(Path::to_path_buf).or(from_variable) {
        let found = path.canonicalize().map_err(|why| format!("{}: {why}", path.display()))?;
        return if found.is_file() {
            Ok(found)
        } else {
            Err(format!("{}: no file", path.display()))
        };
    }
    let program = std::env::current_exe().map_err(|why| why.to_string())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = BESIDE.iter().map(|beside| folder.join(beside).join(NAME));
    places.filter_map(|path| path.canonicalize().ok()).find(|path| path.is_file()).ok_or_else(
        || format!("{NAME} is not beside {} (../lib); say --library FILE", program.display()),
    )
}

/// The value of `LD_PRELOAD` with our library, once and behind all others.
///
/// # Errors
///
/// If the library's path has characters that end a path there.
pub(crate) fn preload(before: &str, library: &Path) -> Result<String, String> {
    let library = library.to_str().ok_or("the path of the library is no UTF-8")?;
    if library.contains([':', ' ']) {
        return Err(format!("{library}: LD_PRELOAD cannot hold blanks and colons"));
    }
    let is_ours = |entry: &&str| Path::new(entry).file_name().is_some_and(|name| name == NAME);
    let others = before.split([':', ' ']).filter(|entry| !entry.is_empty() && !is_ours(entry));
    Ok(others.chain([library]).collect::<Vec<_>>().join(":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_preloaded_once_and_last() {
        let library = Path::new("/opt/lib/libaggio.so");
        let value = |before: &str| preload(before, library).unwrap();
        assert_eq!(value(""), "/opt/lib/libaggio.so");
        assert_eq!(value("/x/liba.so"), "/x/liba.so:/opt/lib/libaggio.so");
        assert_eq!(value("/old/libaggio.so a.so:b.so"), "a.so:b.so:/opt/lib/libaggio.so");
        assert!(preload("", Path::new("/my lib/libaggio.so")).is_err());
    }
}
