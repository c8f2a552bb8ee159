//! The stripes that hints ask for, given to a new file of Lustre.
//!
//! Lustre lays a file out when it is created, unless the open asks it to wait; then one request
//! says how, before there are data. Flag, request and structure are those of Lustre's public header
//! (`lustre_user.h`). No other file system takes such a request from a program.

use super::{facts, os};
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `O_LOV_DELAY_CREATE`: two flags that mean nothing for files anywhere else.
const DELAYED: i32 = libc::O_NOCTTY | libc::O_ASYNC;
/// `LL_IOC_LOV_SETSTRIPE`, `_IOW('f', 154, long)`.
const SET_STRIPES: libc::c_ulong = 0x4008_669A;
/// `LOV_USER_MAGIC_V1`.
const MAGIC: u32 = 0x0BD1_0BD0;
/// Bytes of `struct lov_user_md_v1` without targets.
pub(super) const REQUEST: usize = 32;
/// The length of a stripe is a multiple of this number of bytes.
const GRAIN: u64 = 64 << 10;
/// `LOV_MAX_STRIPE_COUNT`.
const MOST: u32 = 2000;

/// The stripes that hints request for a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe; 0 leaves them to the file system.
    pub unit: u64,
    /// Storage targets; 0 leaves their number to the file system.
    pub factor: u32,
    /// The first target; -1 leaves it to the file system.
    pub first: i64,
}

impl Default for Striping {
    fn default() -> Self {
        Self { unit: 0, factor: 0, first: -1 }
    }
}

/// The result of a request for stripes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Striped {
    /// Nothing was asked for, or this process did not create the file.
    #[default]
    Untouched,
    /// The new file has them.
    Set,
    /// It has those of the file system, for this reason.
    Refused(String),
}

/// The system calls of this file; tests have others.
pub(super) trait System {
    /// The type of the file system of a directory.
    fn file_system(&self, directory: &Path) -> io::Result<u32>;

    /// Asks for the stripes of an open file without data.
    fn lay_out(&self, fd: RawFd, request: &[u8; REQUEST]) -> io::Result<()>;
}

/// The system itself.
#[derive(Debug)]
pub(super) struct Real;

impl System for Real {
    fn file_system(&self, directory: &Path) -> io::Result<u32> {
        let name = CString::new(directory.as_os_str().as_bytes())?;
        let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
        let fd = os::open(&name, flags, 0)?;
        let found = os::fstatfs(fd).map(|facts| facts.f_type as u32);
        os::close(fd)?;
        found
    }

    fn lay_out(&self, fd: RawFd, request: &[u8; REQUEST]) -> io::Result<()> {
        os::ioctl_with(fd, SET_STRIPES, request)
    }
}

impl Striping {
    /// Whether anything is asked for.
    pub(super) fn is_wanted(self) -> bool {
        self != Self::default()
    }

    /// The bytes of the request; in words why there can be none.
    fn request(self) -> Result<[u8; REQUEST], String> {
        let unit = u32::try_from(self.unit).ok().filter(|unit| u64::from(*unit) % GRAIN == 0);
        let unit = unit.ok_or("a stripe has a multiple of 64 KiB, and less than 4 GiB")?;
        let factor = u16::try_from(self.factor).ok().filter(|_| self.factor <= MOST);
        let factor = factor.ok_or_else(|| format!("a file has at most {MOST} stripes"))?;
        let first = match self.first {
            -1 => u16::MAX,
            first => u16::try_from(first).map_err(|_| format!("there is no target {first}"))?,
        };
        let mut request = [0; REQUEST];
        // Magic, pattern (0 is the usual one), 16 bytes of an identity that Lustre gives, stripe
        // size, stripes, first target.
        request[..4].copy_from_slice(&MAGIC.to_ne_bytes());
        request[24..28].copy_from_slice(&unit.to_ne_bytes());
        request[28..30].copy_from_slice(&factor.to_ne_bytes());
        request[30..32].copy_from_slice(&first.to_ne_bytes());
        Ok(request)
    }
}

/// The directory of a file.
fn directory_of(path: &CStr) -> &Path {
    let path = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Opens a file as [`os::open`] does, with flags that create it, and gives it the stripes that are
/// asked for if it is new and the file system takes such a request.
///
/// # Errors
/// Those of the open. That there are other stripes is none.
pub(super) fn create(
    path: &CStr,
    flags: i32,
    permissions: u32,
    wish: Striping,
    system: &dyn System,
) -> io::Result<(RawFd, Striped)> {
    let refused =
        |why: String| os::open(path, flags, permissions).map(|fd| (fd, Striped::Refused(why)));
    let kind = match system.file_system(directory_of(path)) {
        Ok(facts::LUSTRE) => facts::LUSTRE,
        Ok(kind) => {
            let name = facts::name_of(kind);
            return refused(format!("programs cannot choose the stripes of a file on {name}"));
        }
        Err(error) => return refused(format!("the file system is unknown: {error}")),
    };
    let request = match wish.request() {
        Ok(request) => request,
        Err(why) => return refused(why),
    };
    match os::open(path, flags | libc::O_CREAT | libc::O_EXCL | DELAYED, permissions) {
        Ok(fd) => {
            let Err(error) = system.lay_out(fd, &request) else { return Ok((fd, Striped::Set)) };
            let why = format!("{} refuses the request: {error}", facts::name_of(kind));
            // A file with a delayed layout takes no data through this descriptor; another one gives
            // it the usual layout.
            let opened = os::reopen(fd, flags & !(libc::O_CREAT | libc::O_EXCL));
            os::close(fd)?;
            Ok((opened?, Striped::Refused(why)))
        }
        Err(error) if error.raw_os_error() == Some(libc::EEXIST) && flags & libc::O_EXCL == 0 => {
            refused("the file was there before".into())
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::scratch::Scratch;
    use std::cell::RefCell;

    /// A file system that pretends to be of type `kind`, and the requests that it received.
    struct Told {
        kind: u32,
        answer: Option<i32>,
        asked: RefCell<Vec<[u8; REQUEST]>>,
    }

    impl Told {
        fn of(kind: u32, answer: Option<i32>) -> Self {
            Told { kind, answer, asked: RefCell::default() }
        }
    }

    impl System for Told {
        fn file_system(&self, directory: &Path) -> io::Result<u32> {
            Real.file_system(directory).map(|_| self.kind)
        }

        fn lay_out(&self, fd: RawFd, request: &[u8; REQUEST]) -> io::Result<()> {
            assert_eq!(os::fstat(fd)?.st_size, 0, "before there are data");
            self.asked.borrow_mut().push(*request);
            self.answer.map_or(Ok(()), |errno| Err(io::Error::from_raw_os_error(errno)))
        }
    }

    const WISH: Striping = Striping { unit: 4 << 20, factor: 300, first: -1 };
    const CREATES: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC;

    fn created(name: &str, flags: i32, wish: Striping, system: &Told) -> io::Result<Striped> {
        let (fd, striped) = create(&CString::new(name).unwrap(), flags, 0o600, wish, system)?;
        os::pwrite(fd, b"data", 0)?;
        os::close(fd)?;
        Ok(striped)
    }

    #[test]
    fn the_request_has_the_bytes_of_lustres_structure() {
        let [unit, factor] = [4_u32 << 20, 300].map(u32::to_ne_bytes);
        let half = |word: [u8; 4]| u16::from_ne_bytes([word[0], word[1]]).to_ne_bytes();
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&0x0BD1_0BD0_u32.to_ne_bytes());
        bytes[24..28].copy_from_slice(&unit);
        bytes[28..30].copy_from_slice(&300_u16.to_ne_bytes());
        bytes[30..].copy_from_slice(&[0xFF, 0xFF]);
        assert_eq!(WISH.request(), Ok(bytes));
        if cfg!(target_endian = "little") {
            assert_eq!(bytes[28..30], half(factor));
            let words = b"\xD0\x0B\xD1\x0B\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
                          \0\0\x40\0\x2C\x01\xFF\xFF";
            assert_eq!(&bytes, words);
        }
        assert_eq!(Striping { first: 7, ..WISH }.request().unwrap()[30..], 7_u16.to_ne_bytes());
        // The file system's answer has the same layout.
        assert_eq!(facts::stripes(&bytes), Some((4 << 20, 300)));
    }

    #[test]
    fn what_lustre_has_not_is_not_asked_for() {
        for (wish, word) in [
            (Striping { unit: 100_000, ..WISH }, "64 KiB"),
            (Striping { unit: 1 << 32, ..WISH }, "4 GiB"),
            (Striping { factor: 2001, ..WISH }, "2000"),
            (Striping { first: 70_000, ..WISH }, "70000"),
            (Striping { first: -2, ..WISH }, "-2"),
        ] {
            let why = wish.request().unwrap_err();
            assert!(why.contains(word), "{why}");
            let (scratch, system) = (Scratch::new(), Told::of(facts::LUSTRE, None));
            let striped = created(&scratch.file("f"), CREATES, wish, &system).unwrap();
            assert_eq!(striped, Striped::Refused(why));
            assert!(system.asked.borrow().is_empty());
        }
    }

    #[test]
    fn a_new_file_is_laid_out_once_and_before_it_has_data() {
        let (scratch, system) = (Scratch::new(), Told::of(facts::LUSTRE, None));
        let name = scratch.file("f");
        assert_eq!(created(&name, CREATES, WISH, &system).unwrap(), Striped::Set);
        let again = Striped::Refused("the file was there before".into());
        assert_eq!(created(&name, CREATES, WISH, &system).unwrap(), again);
        assert_eq!(*system.asked.borrow(), [WISH.request().unwrap()]);
        let only_new = created(&name, CREATES | libc::O_EXCL, WISH, &system).unwrap_err();
        assert_eq!(only_new.raw_os_error(), Some(libc::EEXIST));
        assert_eq!(std::fs::read(&name).unwrap(), b"data");
        let nowhere = scratch.file("no/f");
        let missing = created(&nowhere, CREATES, WISH, &system).unwrap_err();
        assert_eq!(missing.raw_os_error(), Some(libc::ENOENT));
    }

    #[test]
    fn a_refusal_is_told_and_the_file_is_there() {
        let scratch = Scratch::new();
        const REFUSED: &str = "lustre refuses the request: ";
        let system = Told::of(facts::LUSTRE, Some(libc::ERANGE));
        let why = created(&scratch.file("f"), CREATES, WISH, &system).unwrap();
        assert!(matches!(&why, Striped::Refused(why) if why.starts_with(REFUSED)), "{why:?}");
        let name = CString::new(scratch.file("h")).unwrap();
        let (fd, _) = create(&name, CREATES | libc::O_EXCL, 0o600, WISH, &system).unwrap();
        // SAFETY: no memory is involved.
        let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
        assert_eq!(flags & libc::O_ASYNC, 0, "through a descriptor without a delay");
        os::close(fd).unwrap();
        let system = Told::of(0xEF53, None);
        let why = created(&scratch.file("g"), CREATES, WISH, &system).unwrap();
        let words = "programs cannot choose the stripes of a file on ext4";
        assert_eq!(why, Striped::Refused(words.into()));
        assert!(system.asked.borrow().is_empty());
    }

    #[test]
    fn this_kernel_refuses_the_real_request_for_a_file_that_is_not_on_lustre() {
        let scratch = Scratch::new();
        let file = std::fs::File::create(scratch.file("f")).unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let kind = Real.file_system(Path::new(&scratch.file(""))).unwrap();
        if kind != facts::LUSTRE {
            let error = Real.lay_out(fd, &WISH.request().unwrap()).unwrap_err();
            assert!(matches!(
                error.raw_os_error(),
                Some(libc::ENOTTY | libc::EINVAL | libc::EOPNOTSUPP)
            ));
        }
    }
}
