//! A mount from its beginning to its end.

use crate::filesystem::Adapter;
use crate::mounts::{self, SOURCE};
use crate::options::Options;
use crate::view::View;
use agg_core::log::Level;
use fuser::{BackgroundSession, Config, MountOption, Session, SessionACL};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Kilobytes that the kernel may read ahead.
const READ_AHEAD: &str = "4096";

/// Threads that answer the kernel.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).clamp(8, 16)
}

/// As many descriptors as this process may have; how many of them may be kept for files that nobody
/// uses.
fn descriptors() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(most / 2).unwrap_or(usize::MAX).clamp(64, 1 << 15)
}

fn config(options: &Options) -> Config {
    // Commas and backslashes mean something to the programs that mount for others.
    let backend = options.backend.display().to_string().replace([',', '\\'], "_");
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(format!("{SOURCE}{backend}")),
        MountOption::Subtype("aggio".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
        MountOption::DefaultPermissions,
        if options.write { MountOption::RW } else { MountOption::RO },
    ];
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(threads());
    config.clone_fd = true;
    config
}

/// A file system that is mounted and answers.
pub struct Mount {
    session: BackgroundSession,
    point: std::path::PathBuf,
}

impl Mount {
    /// Mounts; when this returns, the kernel and this process have agreed and programs may use it.
    ///
    /// # Errors
    ///
    /// A sentence that states the obstacle and a remedy.
    pub fn start(options: Options) -> Result<Self, String> {
        let point = options.point.clone();
        let config = config(&options);
        // A file for another user gets its mode when it is complete; until then nobody else may use
        // it.
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
        let at_backend = |why| format!("{}: {why}", options.backend.display());
        let view = View::new(options.clone(), descriptors()).map_err(at_backend)?;
        let session = Session::new(Adapter(view), &point, &config)
            .and_then(Session::spawn)
            .map_err(|why| explain(&options, &why))?;
        raise_read_ahead(&point);
        Ok(Mount { session, point })
    }

    /// Until `ends` says so or somebody else unmounts; then everything open is finished and
    /// unmounted.
    ///
    /// # Errors
    ///
    /// If it could not be unmounted.
    pub fn serve(self, ends: &Receiver<()>) -> Result<(), String> {
        while !self.session.guard.is_finished() {
            match ends.recv_timeout(Duration::from_millis(50)) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.end(ends)
    }

    /// A mount that is in use is detached and served until its last user is gone, or a second
    /// signal comes.
    fn end(self, ends: &Receiver<()>) -> Result<(), String> {
        if self.session.guard.is_finished() {
            return self.session.join().map_err(|why| format!("{}: {why}", self.point.display()));
        }
        if let Err(busy) = mounts::unmount(&self.point, false) {
            agg_core::log!(Level::Warn, "{}: {busy}; detached", self.point.display());
            mounts::unmount(&self.point, true)
                .map_err(|why| format!("{}: {why}", self.point.display()))?;
        }
        while !self.session.guard.is_finished() {
            match ends.recv_timeout(Duration::from_millis(20)) {
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    std::thread::sleep(Duration::from_millis(20))
                }
                Ok(()) => return Err(format!("{}: ended while in use", self.point.display())),
            }
        }
        self.session.join().map_err(|why| why.to_string())
    }
}

/// The obstacle to mounting, and a remedy.
fn explain(options: &Options, why: &std::io::Error) -> String {
    let point = options.point.display();
    let text = why.to_string();
    if !Path::new("/dev/fuse").exists() {
        return format!("{point}: {why}: there is no /dev/fuse; ask for the kernel module fuse");
    }
    if text.contains("user_allow_other") {
        return format!(
            "{point}: --allow-other needs the line `user_allow_other` in /etc/fuse.conf"
        );
    }
    if why.kind() == std::io::ErrorKind::NotFound {
        return format!("{point}: {why}: is the mount point there, and fusermount3 (fuse3)?");
    }
    format!("{point}: {}", text.trim())
}

/// The kernel reads 128 KiB ahead of a program unless somebody with the right says more.
fn raise_read_ahead(point: &Path) {
    let Ok(Some(mounted)) = mounts::at(point) else { return };
    let knob = format!("/sys/class/bdi/{}/read_ahead_kb", mounted.device);
    if let Err(why) = std::fs::write(&knob, READ_AHEAD) {
        agg_core::log!(Level::Info, "{knob}: {why}; reading ahead stays small");
    }
}

/// Something arrives when a signal asks this process to end, or at the end of its input if that is
/// wanted.
///
/// # Errors
///
/// If signals cannot be caught.
pub fn ends(at_end_of_input: bool) -> std::io::Result<Receiver<()>> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let (sender, receiver) = channel();
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let other: Sender<()> = sender.clone();
    std::thread::spawn(move || {
        for _ in signals.forever() {
            // The receiver is gone when the program is ending already.
            let _ = other.send(());
        }
    });
    if at_end_of_input {
        std::thread::spawn(move || {
            // An error is an end as well.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            let _ = sender.send(());
        });
    }
    Ok(receiver)
}
