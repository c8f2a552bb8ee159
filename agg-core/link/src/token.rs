//! The secret that agents of one user share: a file that only this user can read.

use aggio_base::keyed::{Key, digest};
use std::ffi::CString;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of a token.
const BYTES: usize = 32;

/// 32 random bytes: two keys.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([Key; 2]);

/// Fills `bytes` with random ones.
pub(crate) fn random(bytes: &mut [u8]) -> io::Result<()> {
    // SAFETY: the kernel writes `bytes.len()` bytes at most.
    let n = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    match usize::try_from(n) {
        Ok(n) if n == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::other("getrandom: too few bytes")),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

fn fill(mut file: &File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives a file that has none a name.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let from = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let to = CString::new(path.as_os_str().as_bytes())?;
    let (at, flags) = (libc::AT_FDCWD, libc::AT_SYMLINK_FOLLOW);
    // SAFETY: both names are terminated strings.
    match unsafe { libc::linkat(at, from.as_ptr(), at, to.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

impl Token {
    /// The name of the file in the directory that agents meet in.
    pub const FILE: &'static str = "token";

    /// The token that is these bytes.
    pub fn from_bytes(bytes: &[u8; BYTES]) -> Self {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |at: usize| u64::from_le_bytes(words[at]);
        Self([[word(0), word(1)], [word(2), word(3)]])
    }

    /// Its bytes, for a caller that may have them.
    pub fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.0.as_flattened()) {
            *place = word.to_le_bytes();
        }
        bytes
    }

    /// A new one.
    ///
    /// # Errors
    /// The system's, if it has no random bytes.
    pub fn fresh() -> io::Result<Self> {
        let mut bytes = [0; BYTES];
        random(&mut bytes)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// The token of the directory `dir`, which is made if there is none. Agents that make one at
    /// the same time all get the same.
    ///
    /// # Errors
    /// `PermissionDenied` if another user owns the file or may read it, `InvalidData` if it is no
    /// token; the system's error.
    pub fn of(dir: &Path) -> io::Result<Self> {
        let path = dir.join(Self::FILE);
        match Self::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
        let mut token = [0; BYTES];
        random(&mut token)?;
        // The name appears with all bytes, and never replaces another token.
        let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let made = match Self::make(dir, &path, &token) {
            Err(error) if !is_there(&error) => Self::make_named(dir, &path, &token),
            made => made,
        };
        made.or_else(|error| if is_there(&error) { Ok(()) } else { Err(error) })?;
        Self::read(&path)
    }

    /// Makes the file; a process killed meanwhile leaves nothing behind.
    fn make(dir: &Path, path: &Path, token: &[u8; BYTES]) -> io::Result<()> {
        let mut how = OpenOptions::new();
        let file = how.write(true).mode(0o600).custom_flags(libc::O_TMPFILE).open(dir)?;
        fill(&file, token)?;
        give_name(&file, path)
    }

    /// The same where the file system has no files without names.
    fn make_named(dir: &Path, path: &Path, token: &[u8; BYTES]) -> io::Result<()> {
        let mut number = [0; 16];
        random(&mut number)?;
        let number = u128::from_le_bytes(number);
        let hidden = dir.join(format!(".{}.{number:032x}", Self::FILE));
        let mut how = OpenOptions::new();
        how.write(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let made = fill(&how.open(&hidden)?, token);
        let named = made.and_then(|()| std::fs::hard_link(&hidden, path));
        let removed = std::fs::remove_file(&hidden);
        named.and(removed)
    }

    /// The token in the file `path`.
    fn read(path: &Path) -> io::Result<Self> {
        let mut how = OpenOptions::new();
        how.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = how.open(path)?;
        let refused = |kind, why: String| Err(io::Error::new(kind, why));
        let (facts, name) = (file.metadata()?, path.display());
        // SAFETY: no memory is involved.
        let own = unsafe { libc::geteuid() };
        if !facts.is_file() || facts.len() != BYTES as u64 {
            let why = format!("{name}: not a file of {BYTES} bytes");
            return refused(io::ErrorKind::InvalidData, why);
        }
        if facts.uid() != own {
            let why = format!("{name}: belongs to user {}, not to {own}", facts.uid());
            return refused(io::ErrorKind::PermissionDenied, why);
        }
        if facts.mode() & 0o077 != 0 {
            let why = format!("{name}: mode {:03o}: others may use it", facts.mode() & 0o777);
            return refused(io::ErrorKind::PermissionDenied, why);
        }
        let mut bytes = [0; BYTES];
        (&file as &File).read_exact(&mut bytes)?;
        Ok(Self::from_bytes(&bytes))
    }

    /// A proof about `text` that cannot be made without the token.
    pub(crate) fn prove(&self, text: &[u8]) -> [u8; 16] {
        let mut proof = [0; 16];
        for (key, half) in self.0.iter().zip(proof.chunks_exact_mut(8)) {
            half.copy_from_slice(&digest(*key, text).to_le_bytes());
        }
        proof
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn agents_that_come_at_the_same_time_have_one_token_that_others_cannot_read() {
        let dir = tempfile::tempdir().unwrap();
        let tokens: Vec<Token> = std::thread::scope(|scope| {
            let make = || scope.spawn(|| Token::of(dir.path()).unwrap());
            let all: Vec<_> = (0..8).map(|_| make()).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert!(tokens.iter().all(|token| *token == tokens[0]));
        let names: Vec<_> = std::fs::read_dir(dir.path()).unwrap().collect();
        assert_eq!(names.len(), 1, "only the token is left");
        let facts = std::fs::metadata(dir.path().join(Token::FILE)).unwrap();
        assert_eq!((facts.mode() & 0o777, facts.len()), (0o600, 32));
    }

    #[test]
    fn a_token_survives_the_way_to_somebody_who_may_know_it() {
        let token = Token::fresh().unwrap();
        assert_eq!(Token::from_bytes(&token.to_bytes()), token);
        assert_ne!(Token::fresh().unwrap(), token);
    }

    #[test]
    fn a_token_is_made_where_files_have_to_have_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Token::FILE);
        Token::make_named(dir.path(), &path, &[5; BYTES]).unwrap();
        let again = Token::make_named(dir.path(), &path, &[6; BYTES]).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(Token::of(dir.path()).unwrap(), Token::from_bytes(&[5; BYTES]));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_token_that_others_may_read_or_that_is_cut_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(Token::FILE);
        Token::of(dir.path()).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Token::of(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("mode 640"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::fs::write(&path, [7; 31]).unwrap();
        assert_eq!(Token::of(dir.path()).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        Token::of(dir.path()).unwrap_err();
    }
}
