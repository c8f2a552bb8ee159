//! Whether two commands would find each other and exchange a file in memory.

use super::Finding;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that two commands may take.
const LIMIT: Duration = Duration::from_secs(5);
/// The text that one command sends to the other.
const TEXT: &str = "a file in memory";

/// Has one command read the output of another one; `None` if there is no library to do that with.
pub(super) fn check(library: &Result<PathBuf, String>) -> Option<Finding> {
    let library = library.as_ref().ok()?;
    let place = Place::make()?;
    let writes = format!("echo {TEXT} > {}", place.file.display());
    let reads = format!("exec cat {}", place.file.display());
    let couple = format!("AGGIO_COUPLE={}", place.file.display());
    let ran = format!("LD_PRELOAD={} {couple} sh -c '{reads}', '{writes}'", library.display());
    let fix = "make AGGIO_COUPLE_DIR a directory of yours with mode 0700 on this machine";
    let trouble = |found: String| Some(Finding::fail("coupling", found, fix));
    let both = (place.start(library, &reads, "reader"), place.start(library, &writes, "writer"));
    let (reader, writer) = match both {
        (Ok(reader), Ok(writer)) => (reader, writer),
        (Err(why), _) | (_, Err(why)) => return trouble(format!("sh: {why}")),
    };
    let (_, in_time) = (ends(writer), ends(reader));
    let [wrote, read, complaint] =
        ["writer.err", "reader.out", "reader.err"].map(|name| place.text(name));
    if place.file.exists() {
        return trouble(format!("the file came onto the disk. {wrote}{complaint}"));
    }
    match in_time.then_some(&*read) {
        Some(TEXT) => {
            let found = format!("two commands exchange a file in memory, by {}", meeting());
            Some(Finding::pass("coupling", ran, found))
        }
        Some(_) => trouble(format!("no file comes by {}: {wrote}{complaint}", meeting())),
        None => {
            let waits = format!("the reader waits in vain, by {}: {wrote}{complaint}", meeting());
            trouble(waits)
        }
    }
}

/// How messages name the directory in which programs find each other.
fn meeting() -> String {
    match std::env::var("AGGIO_COUPLE_DIR") {
        Ok(set) if !set.is_empty() => format!("AGGIO_COUPLE_DIR={set}"),
        _ => "the user's own directory".to_owned(),
    }
}

/// A directory for the file, removed at the end.
struct Place {
    folder: PathBuf,
    file: PathBuf,
}

impl Place {
    fn make() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("aggio-doctor-{}", std::process::id()));
        std::fs::create_dir(&folder).ok()?;
        let folder = folder.canonicalize().ok()?;
        Some(Self { file: folder.join("exchanged"), folder })
    }

    /// Starts a script; the names of its output files begin with `name`.
    fn start(&self, library: &Path, script: &str, name: &str) -> std::io::Result<Child> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_remove("AGGIO").env_remove("AGGIO_STRICT");
        command.env("LD_PRELOAD", library).env("AGGIO_COUPLE", &self.file);
        if let (None, Ok(own)) = (std::env::var_os("AGGIO_TEST_AGENT"), std::env::current_exe()) {
            command.env("AGGIO_TEST_AGENT", own);
        }
        let output = |suffix: &str| File::create(self.folder.join(format!("{name}.{suffix}")));
        command.stdin(Stdio::null()).stdout(output("out")?).stderr(output("err")?).spawn()
    }

    fn text(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        text.trim_end().to_owned()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Nothing can be done about a failure.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Whether a command ends in time; if not, it is ended.
fn ends(mut child: Child) -> bool {
    let end = Instant::now() + LIMIT;
    while matches!(child.try_wait(), Ok(None)) {
        if Instant::now() > end {
            // It may have ended just now.
            let _ = child.kill();
            let _ = child.wait();
            return false;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    true
}
