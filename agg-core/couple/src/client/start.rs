//! Starting an agent where there is none: which program, once, and until it answers.

use super::connection::connect_to;
use super::spawn::{self, Started};
use crate::place::Place;
use aggio_base::log;
use aggio_base::log::Level;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time that another process may take to start an agent.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often an agent is started, if it is killed before it is ready.
const STARTS: u32 = 5;

/// The name of the program.
const PROGRAM: &str = "aggio";

/// Starts an agent for the directory `dir` unless there is one; whether it was started. It stays
/// until the first program has come, and nothing is left to do then. `program` is what
/// `AGGIO_TEST_AGENT` says.
///
/// # Errors
/// The directory is not the user's alone; there is no program, or it does not become an agent.
pub fn start_agent(dir: &str, program: &str) -> io::Result<bool> {
    let place = Place::open(dir)?;
    let is_there = connect_to(&place)?.is_some();
    if !is_there {
        start_if_needed(&place, program, true)?;
    }
    Ok(!is_there)
}

/// Starts an agent unless another process has meanwhile.
///
/// With `stays` it waits for the first program.
pub(super) fn start_if_needed(place: &Place, program: &str, stays: bool) -> io::Result<()> {
    let began = Instant::now();
    let _lock = loop {
        if let Some(lock) = place.lock("start")? {
            break lock;
        }
        if began.elapsed() > PATIENCE {
            let seconds = PATIENCE.as_secs();
            let text = format!("another process has been starting an agent for {seconds} s");
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        std::thread::sleep(Duration::from_millis(2));
        // Another process may have started it.
        if connect_to(place)?.is_some() {
            return Ok(());
        }
    };
    if connect_to(place)?.is_some() {
        return Ok(());
    }
    let program = find(program)?;
    let why = match spawn_again(&program, place, stays)? {
        Started::Ready => return Ok(()),
        Started::Failed(error) => error.to_string(),
        Started::Said(text) => text,
        Started::Ended => format!("it ended at once, {STARTS} times"),
    };
    Err(io::Error::other(format!("{} cannot be started as agent: {why}", program.display())))
}

/// Removes the names of an agent that was killed, unless another one is there or starts.
///
/// # Errors
/// The directory cannot be used.
pub(super) fn remove_left(place: &Place) -> io::Result<()> {
    let locks = (place.lock("start")?, place.lock("lock")?);
    if matches!(locks, (Some(_), Some(_))) {
        ["agent", "sock", "lock", "start"].into_iter().for_each(|name| place.remove(name));
    }
    Ok(())
}

/// Starts the program, and starts it again if it ends without a word: it may have been killed, and
/// an agent that is killed is followed by another one.
fn spawn_again(program: &Path, place: &Place, stays: bool) -> io::Result<Started> {
    for _ in 1..STARTS {
        match spawn::spawn(program, place.path(), stays)? {
            Started::Ended => log!(Level::Warn, "{} ended at once", program.display()),
            started => return Ok(started),
        }
    }
    spawn::spawn(program, place.path(), stays)
}

/// The program that can be an agent.
fn find(named: &str) -> io::Result<PathBuf> {
    let candidates = candidates(named);
    if let Some(found) = candidates.iter().find(|path| is_program(path)) {
        return Ok(found.clone());
    }
    let tried: Vec<String> = candidates.iter().map(|path| path.display().to_string()).collect();
    let text = format!(
        "no program `{PROGRAM}` for the agent of coupled files, beside the library or in PATH; \
         tried: {}",
        tried.join(", ")
    );
    Err(io::Error::new(io::ErrorKind::NotFound, text))
}

fn candidates(named: &str) -> Vec<PathBuf> {
    if !named.is_empty() {
        return vec![named.into()];
    }
    let mut found = Vec::new();
    if let Some(library) = own_object()
        && let Some(dir) = library.parent()
    {
        found.push(dir.join(PROGRAM));
        found.extend(dir.parent().map(|above| above.join("bin").join(PROGRAM)));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let absolute = std::env::split_paths(&path).filter(|dir| dir.is_absolute());
    found.extend(absolute.map(|dir| dir.join(PROGRAM)));
    found
}

fn is_program(path: &Path) -> bool {
    path.is_file() && aggio_base::os::may_access(path, libc::X_OK).is_ok()
}

/// The file that this code was loaded from: the library, or the program itself.
fn own_object() -> Option<PathBuf> {
    // SAFETY: all-zero bytes are a valid `Dl_info`.
    let mut facts: libc::Dl_info = unsafe { std::mem::zeroed() };
    let address = own_object as *const libc::c_void;
    // SAFETY: the address is one of this code; the call fills the local value.
    if unsafe { libc::dladdr(address, &raw mut facts) } == 0 || facts.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the name is a terminated string that lives as long as the object is loaded.
    let name = unsafe { CStr::from_ptr(facts.dli_fname) };
    let path = Path::new(OsStr::from_bytes(name.to_bytes()));
    let path = if path.is_absolute() { path.into() } else { std::env::current_exe().ok()? };
    Some(std::fs::canonicalize(&path).unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::apart::make_program;

    #[test]
    fn what_was_looked_for_is_named() {
        let error = find("/no/such/agent").unwrap_err().to_string();
        assert!(error.contains("/no/such/agent") && error.contains("in PATH"), "{error}");
        let own = own_object().unwrap();
        let beside = own.parent().unwrap().join("aggio");
        assert_eq!(candidates("").first(), Some(&beside));
    }

    #[test]
    fn a_program_that_is_no_agent_is_an_error_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("d");
        let dir = dir.to_str().unwrap();
        let error = start_agent(dir, "/bin/true").unwrap_err().to_string();
        assert!(error.contains("/bin/true cannot be started as agent"), "{error}");
        let script = scratch.path().join("bad");
        make_program(&script, "#!/no/such/interpreter\n");
        let error = start_agent(dir, script.to_str().unwrap()).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn names_of_a_killed_agent_are_removed_and_those_of_a_live_one_stay() {
        let scratch = tempfile::tempdir().unwrap();
        let place = Place::open(scratch.path().join("d").to_str().unwrap()).unwrap();
        let names = ["agent", "lock", "sock", "start"].map(|name| place.visible(name));
        let are_there = || names.each_ref().map(|name| name.exists());
        for held in ["lock", "start"] {
            names.iter().for_each(|name| std::fs::write(name, "").unwrap());
            let lock = place.lock(held).unwrap().expect("it is free");
            remove_left(&place).unwrap();
            assert_eq!(are_there(), [true; 4], "{held}");
            drop(lock);
        }
        remove_left(&place).unwrap();
        assert_eq!(are_there(), [false; 4]);
    }

    #[test]
    fn an_agent_that_is_killed_before_it_is_ready_is_followed_by_another_one() {
        let scratch = tempfile::tempdir().unwrap();
        let [script, kills, count] =
            ["agent", "kills", "count"].map(|name| scratch.path().join(name));
        let dir = scratch.path().join("d");
        // It says that it is ready when it has been killed so often.
        let text = format!(
            "#!/bin/sh\ncd {}\necho >> count\n\
             [ $(wc -l < count) -gt $(cat kills) ] || kill -9 $$\nprintf R >&3\n",
            scratch.path().display()
        );
        make_program(&script, &text);
        let start = |times: u32| {
            std::fs::write(&kills, times.to_string()).unwrap();
            start_agent(dir.to_str().unwrap(), script.to_str().unwrap())
        };
        let starts = || {
            let text = std::fs::read(&count).unwrap();
            std::fs::remove_file(&count).unwrap();
            text.len() as u32
        };
        assert!(start(1).unwrap());
        assert_eq!(starts(), 2);
        assert!(start(STARTS - 1).unwrap());
        assert_eq!(starts(), STARTS);
        let error = start(STARTS).unwrap_err().to_string();
        assert!(error.contains("it ended at once, 5 times"), "{error}");
        assert_eq!(starts(), STARTS);
    }
}
