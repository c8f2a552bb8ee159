//! The properties of a program file that decide whether preloading can reach it.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Why a program cannot be reached by preloading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It can.
    Preload,
    /// No dynamic linker runs.
    Static,
    /// It makes its system calls itself.
    Go,
    /// The dynamic linker ignores variables.
    Privileged,
    /// Not a program for this system: a script, or something else.
    Other,
}

/// Most program headers that are looked at.
const MOST_HEADERS: u16 = 256;

/// The file that a command name stands for.
pub(crate) fn find(command: &str) -> Option<PathBuf> {
    if command.contains('/') {
        return Some(PathBuf::from(command)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(command)).find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|found| found.is_file() && found.mode() & 0o111 != 0)
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Whether preloading can reach this program.
pub(crate) fn reach(path: &Path) -> std::io::Result<Reach> {
    let file = File::open(path)?;
    if file.metadata()?.mode() & 0o6000 != 0 {
        return Ok(Reach::Privileged);
    }
    let mut head = [0; 64];
    if file.read_at(&mut head, 0)? < head.len() || !head.starts_with(b"\x7fELF\x02\x01") {
        return Ok(Reach::Other);
    }
    if is_go(&file)? {
        return Ok(Reach::Go);
    }
    Ok(if has_interpreter(&file, &head)? { Reach::Preload } else { Reach::Static })
}

/// Whether a program header asks for a dynamic linker.
fn has_interpreter(file: &File, head: &[u8]) -> std::io::Result<bool> {
    let table = number(head, 32).map_or(0, u64::from_le_bytes);
    let size = number(head, 54).map_or(0, u16::from_le_bytes);
    let count = number(head, 56).map_or(0, u16::from_le_bytes).min(MOST_HEADERS);
    for index in 0..u64::from(count) {
        let mut kind = [0; 4];
        let at = table.checked_add(index * u64::from(size));
        let Some(at) = at.filter(|at| i64::try_from(*at).is_ok()) else { return Ok(false) };
        if file.read_at(&mut kind, at)? < kind.len() {
            return Ok(false);
        }
        if u32::from_le_bytes(kind) == 3 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Go's linker leaves this near the beginning of every program.
fn is_go(file: &File) -> std::io::Result<bool> {
    const MARK: &[u8] = b"\xff Go build";
    let mut start = Vec::new();
    file.take(64 << 10).read_to_end(&mut start)?;
    Ok(start.windows(MARK.len()).any(|bytes| bytes == MARK))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_preloading_does_not_reach_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        assert_eq!(reach(Path::new("/proc/self/exe")).unwrap(), Reach::Preload);
        std::fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        assert_eq!(reach(&path).unwrap(), Reach::Other);
        let mut elf = vec![0; 200];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32] = 64;
        (elf[54], elf[56], elf[64]) = (56, 1, 1);
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path).unwrap(), Reach::Static);
        elf[64] = 3;
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path).unwrap(), Reach::Preload);
        elf[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path).unwrap(), Reach::Static);
        elf[150..160].copy_from_slice(b"\xff Go build");
        std::fs::write(&path, &elf).unwrap();
        assert_eq!(reach(&path).unwrap(), Reach::Go);
    }
}
