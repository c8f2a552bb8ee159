//! Messages to users: one line each, to standard error or a file, never to standard output.
//!
//! Applications' standard output is parsed by others, so nothing is ever written there. Nothing is
//! allocated or opened before the first message; the log file is opened for each message, so that
//! no descriptor of ours can ever be confused with one of the application.

use crate::os;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How important a message is; a lower one is more important.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Nothing is written.
    Off,
    /// Something failed.
    Error,
    /// Something was ignored or is worse than it could be.
    Warn,
    /// Events of each file.
    Info,
    /// Events of each call.
    Debug,
    /// Everything.
    Trace,
}

impl Level {
    /// Every level, the most important first.
    pub const ALL: [Level; 6] =
        [Level::Off, Level::Error, Level::Warn, Level::Info, Level::Debug, Level::Trace];

    /// The word in `AGGIO_LOG` and in messages.
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
            Level::Trace => "trace",
        }
    }
}

/// Longest line in bytes; longer ones are cut. Up to `PIPE_BUF` a write to a pipe is never mixed
/// with that of another process.
const LINE_MAX: usize = 4096;
/// Most different messages that [`once`] records, against a flood of them.
const ONCE_MAX: usize = 4096;

static LEVEL: AtomicU8 = AtomicU8::new(Level::Warn as u8);
static ALL_RANKS: AtomicBool = AtomicBool::new(false);
static RANK: AtomicI64 = AtomicI64::new(-1);
static FILE: Mutex<String> = Mutex::new(String::new());
static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Writes a message if its level is enabled on this rank: `log!(Level::Warn, "{path}: ...")`.
/// Import the macro (`aggio_base::log`) and [`Level`].
#[macro_export]
macro_rules! log {
    ($level:expr, $($message:tt)+) => {
        if $crate::log::enabled($level) {
            $crate::log::write($level, format_args!($($message)+));
        }
    };
}

/// Waits until the reader of standard error has read everything, if it is a pipe; a second at most.
/// When a job aborts, MPICH's launcher drops unread output.
pub fn wait_for_reader() {
    let begun = Instant::now();
    let has_unread = || os::unread(libc::STDERR_FILENO).is_ok_and(|bytes| bytes > 0);
    while has_unread() && begun.elapsed() < Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Applies `AGGIO_LOG` and `AGGIO_LOG_FILE`; an empty `file` is standard error.
///
/// In the file's name `%h` stands for the host, `%p` for the process id, `%r` for the rank.
pub fn configure(level: Level, all_ranks: bool, file: &str) {
    LEVEL.store(level as u8, Relaxed);
    ALL_RANKS.store(all_ranks, Relaxed);
    file.clone_into(&mut FILE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
}

/// Why the file that `AGGIO_LOG_FILE` names cannot be written, if that is so. Nothing is made.
pub fn problem(file: &str) -> Option<io::Error> {
    let name = expand(file);
    let path = Path::new(&name);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let (asked, mode) = if file.is_empty() {
        return None;
    } else if path.is_dir() {
        return Some(io::Error::from_raw_os_error(libc::EISDIR));
    } else if path.exists() {
        (path, libc::W_OK)
    } else {
        (folder.unwrap_or(Path::new(".")), libc::W_OK | libc::X_OK)
    };
    let asked = match CString::new(asked.as_os_str().as_bytes()) {
        Ok(asked) => asked,
        Err(error) => return Some(error.into()),
    };
    // SAFETY: `asked` is a string that ends in NUL and lives until after the call.
    let answer = unsafe { libc::faccessat(libc::AT_FDCWD, asked.as_ptr(), mode, libc::AT_EACCESS) };
    (answer != 0).then(io::Error::last_os_error)
}

/// Sets the rank of this process; until then it counts as rank 0 with an unknown number.
pub fn set_rank(rank: usize) {
    RANK.store(i64::try_from(rank).unwrap_or(i64::MAX), Relaxed);
}

/// Whether a message of `level` would be written by this process.
#[inline]
pub fn enabled(level: Level) -> bool {
    level != Level::Off
        && level as u8 <= LEVEL.load(Relaxed)
        && (RANK.load(Relaxed) <= 0 || ALL_RANKS.load(Relaxed))
}

/// Writes a message of `level`, whether it is enabled or not; `errno` stays as it is.
pub fn write(level: Level, message: fmt::Arguments<'_>) {
    emit(&line(&format!("{}: {message}", level.name())));
}

/// Writes a message that the user requested (a report), at any level.
pub fn report(message: fmt::Arguments<'_>) {
    emit(&line(&message.to_string()));
}

/// Writes an object for programs that the user asked for: a line of its own, whole, with nothing
/// before it.
pub fn object(json: &str) {
    emit(&format!("{json}\n"));
}

/// Writes a message of `level` if it is enabled and was not written before in this process.
pub fn once(level: Level, message: &str) {
    if enabled(level) && remember(message) {
        write(level, format_args!("{message}"));
    }
}

/// As [`once`], also on ranks that otherwise are silent, for events that only this rank sees.
pub fn once_on_any_rank(level: Level, message: &str) {
    if level != Level::Off && level as u8 <= LEVEL.load(Relaxed) && remember(message) {
        write(level, format_args!("{message}"));
    }
}

/// Whether `message` is new to this process.
fn remember(message: &str) -> bool {
    let mut seen = SEEN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    seen.len() < ONCE_MAX && seen.insert(message.into())
}

/// The line for `message`: with its origin, control characters replaced, cut to `LINE_MAX`.
fn line(message: &str) -> String {
    let rank = RANK.load(Relaxed);
    let who = if rank < 0 { String::new() } else { format!("r{rank} ") };
    let mut line = format!("aggio[{who}{}]: {message}", host());
    line = line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.len() >= LINE_MAX {
        let mut end = LINE_MAX - 4;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push_str("...");
    }
    line.push('\n');
    line
}

/// Sends the bytes of one line where messages go.
fn emit(line: &str) {
    // SAFETY: the address of this thread's errno is valid for the thread's life.
    let errno = unsafe { *libc::__errno_location() };
    let name = FILE.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    match open_log(&name) {
        Some(fd) => {
            write_fully(fd, line.as_bytes());
            // SAFETY: `fd` was opened by `open_log` and is closed nowhere else.
            unsafe { libc::close(fd) };
        }
        None => write_fully(libc::STDERR_FILENO, line.as_bytes()),
    }
    // SAFETY: as above; the caller of an MPI function may look at errno afterwards.
    unsafe { *libc::__errno_location() = errno };
}

/// Opens the log file for one message; `None` if there is none, or it cannot be opened.
fn open_log(name: &str) -> Option<libc::c_int> {
    if name.is_empty() {
        return None;
    }
    let path = CString::new(expand(name)).ok()?;
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: `path` is a string that ends in NUL and lives until after the call.
    let fd = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
    (fd >= 0).then_some(fd)
}

/// Replaces `%h`, `%p`, `%r` and `%%` in the name of the log file.
fn expand(name: &str) -> String {
    let mut expanded = String::new();
    let mut rest = name.chars();
    while let Some(c) = rest.next() {
        match (c, (c == '%').then(|| rest.next()).flatten()) {
            ('%', Some('h')) => expanded.push_str(&host()),
            ('%', Some('p')) => expanded.push_str(&std::process::id().to_string()),
            ('%', Some('r')) => expanded.push_str(&RANK.load(Relaxed).max(0).to_string()),
            ('%', Some('%')) => expanded.push('%'),
            (c, next) => expanded.extend([Some(c), next].into_iter().flatten()),
        }
    }
    expanded
}

/// One write, repeated only if it was interrupted or cut short. Failures cannot be reported.
fn write_fully(fd: libc::c_int, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        // SAFETY: the pointer and length describe `bytes`.
        let n = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
        match usize::try_from(n) {
            Ok(0) => return,
            Ok(n) => bytes = &bytes[n.min(bytes.len())..],
            Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// The name of this host.
fn host() -> String {
    let name = crate::host::name();
    if name.is_empty() { "?".into() } else { String::from_utf8_lossy(&name).into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_pipe_is_unread_until_somebody_reads_it() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        let (mut reader, mut writer) = io::pipe().expect("a pipe");
        writer.write_all(b"message").expect("written");
        assert_eq!(os::unread(writer.as_raw_fd()).expect("a pipe"), 7);
        reader.read_exact(&mut [0; 7]).expect("read");
        assert_eq!(os::unread(writer.as_raw_fd()).expect("a pipe"), 0);
        let file = std::fs::File::open("Cargo.toml").expect("a file");
        assert!(os::unread(file.as_raw_fd()).is_err());
    }

    #[test]
    fn a_message_is_one_line_that_names_the_host() {
        let text = line("two\nlines\r\x1b[31m");
        assert!(text.starts_with("aggio[") && text.ends_with("two lines  [31m\n"), "{text:?}");
        assert!(text.contains(&host()));
    }

    #[test]
    fn a_long_message_is_cut_between_characters() {
        let text = line(&"é".repeat(LINE_MAX));
        assert!(text.len() <= LINE_MAX && text.ends_with("...\n"));
    }

    #[test]
    fn a_message_is_remembered_once() {
        assert!(remember("only in this test"));
        assert!(!remember("only in this test"));
    }

    #[test]
    fn the_log_file_name_expands_process_and_percent() {
        let expected = format!("/tmp/a.{}.%.%x%", std::process::id());
        assert_eq!(expand("/tmp/a.%p.%%.%x%"), expected);
    }

    #[test]
    fn a_log_file_that_cannot_be_written_is_known_before_and_nothing_is_made() {
        let folder = std::env::temp_dir().join(format!("aggio-log-problem-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let new = folder.join("new.%p");
        let kind = |path: &Path| problem(path.to_str().unwrap()).map(|error| error.kind());
        assert_eq!((problem("").is_none(), kind(&new)), (true, None));
        assert_eq!(kind(&folder.join("no/such")), Some(io::ErrorKind::NotFound));
        assert_eq!(kind(&folder), Some(io::ErrorKind::IsADirectory));
        // Fails if anything was made.
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn messages_are_appended_to_the_file_and_errno_stays() {
        let path = std::env::temp_dir().join(format!("aggio-log-{}", std::process::id()));
        configure(Level::Warn, false, path.to_str().unwrap_or_default());
        // SAFETY: the address of this thread's errno is valid for the thread's life.
        unsafe { *libc::__errno_location() = 77 };
        log!(Level::Warn, "first {}", 1);
        log!(Level::Info, "not wanted");
        report(format_args!("second"));
        assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(77));
        configure(Level::Warn, false, "");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(&path);
        // Other tests may write meanwhile.
        let told = |message: &str| text.lines().any(|line| line.ends_with(message));
        assert!(told("]: warn: first 1") && told("]: second") && !told("not wanted"), "{text}");
    }
}
