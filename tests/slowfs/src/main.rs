//! A slow file system: shows a directory, with a price on every request.
//!
//! ```text
//! kernel -> FUSE thread: done at once in the backing directory
//!        -> cost model: when -> delay thread: the answer
//! ```
//!
//! A local disk at the speed of memory hides the benefit of aggregating requests. Here the number
//! of requests, their size and their alignment decide, as on a parallel file system: a request
//! takes `--latency-us`, its bytes pass one line of `--bandwidth`, and a file consists of lock
//! units of `--lock-unit` bytes that go from one client to the next for `--lock-latency-us`. A
//! client is a process. Files are opened with direct I/O, so that each call of a program arrives as
//! it was made (cut into pieces of 1 MiB); requests of different clients overlap. Shared mappings
//! are refused.
//!
//! `.requests` in the root has the number of requests of each kind; reading it costs and counts
//! nothing. Regular files and directories are supported, links are not. Runs in the foreground,
//! says `mounted` when it is, and unmounts at SIGTERM, SIGINT, SIGHUP, and with
//! `--until-end-of-input` when standard input ends.

mod attributes;
mod client;
mod cost;
mod counts;
mod delay;
mod filesystem;
mod handles;
mod inodes;
mod operations;

use clap::Parser;
use fuser::{BackgroundSession, Config, MountOption, Session};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Threads that take requests; the waiting is done elsewhere, so few suffice.
const THREADS: usize = 4;

/// How long the end of the session may take.
const TIME_TO_END: Duration = Duration::from_secs(2);

/// Shows a directory as a file system on which every request has a price.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    /// Microseconds that each request takes.
    #[arg(long, default_value_t = 1000)]
    latency_us: u64,
    /// Bytes a second that all clients together can move; takes K, M and G. 0 is no limit.
    #[arg(long, default_value = "0", value_parser = size)]
    bandwidth: u64,
    /// Bytes of a lock unit; takes K, M and G. 0 is no locks.
    #[arg(long, default_value = "0", value_parser = size)]
    lock_unit: u64,
    /// Microseconds that a lock unit takes from one client to another.
    #[arg(long, default_value_t = 1000)]
    lock_latency_us: u64,
    /// Ends when standard input ends, so that the mount does not outlive the program that wanted
    /// it.
    #[arg(long)]
    until_end_of_input: bool,
    /// The directory that holds the data.
    backing: PathBuf,
    /// Where to mount.
    mount_point: PathBuf,
}

/// A number with K, M or G behind it.
fn size(text: &str) -> Result<u64, String> {
    let shift = match text.bytes().last() {
        Some(b'K') => 10,
        Some(b'M') => 20,
        Some(b'G') => 30,
        _ => 0,
    };
    let digits = if shift == 0 { text } else { &text[..text.len() - 1] };
    let number: u64 = digits.parse().map_err(|_| format!("{text} is no number"))?;
    number.checked_mul(1 << shift).ok_or(format!("{text} is too large"))
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("aggio-slowfs: {why}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), String> {
    let prices = cost::Prices {
        latency: Duration::from_micros(arguments.latency_us),
        bandwidth: arguments.bandwidth,
        lock_unit: arguments.lock_unit,
        lock_latency: Duration::from_micros(arguments.lock_latency_us),
    };
    let ends = listen(arguments.until_end_of_input).map_err(|why| why.to_string())?;
    let at_backing = |why| format!("{}: {why}", arguments.backing.display());
    let filesystem = filesystem::SlowFs::new(&arguments.backing, prices).map_err(at_backing)?;
    let session = mount(filesystem, &arguments.mount_point)
        .map_err(|why| format!("{} cannot be mounted: {why}", arguments.mount_point.display()))?;
    // If nobody reads this, nobody waits for it.
    let _ = writeln!(std::io::stdout(), "mounted");
    wait(&session, &ends);
    unmount(session, &arguments.mount_point)
}

fn mount(filesystem: filesystem::SlowFs, mount_point: &Path) -> std::io::Result<BackgroundSession> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("aggio-slowfs".into()),
        MountOption::Subtype("slowfs".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
    ];
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    Session::new(filesystem, mount_point, &config)?.spawn()
}

/// Something arrives when the file system is to end.
fn listen(until_end_of_input: bool) -> std::io::Result<Receiver<()>> {
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
    if until_end_of_input {
        std::thread::spawn(move || {
            // An error is an end as well.
            let _ = std::io::copy(&mut std::io::stdin().lock().by_ref(), &mut std::io::sink());
            let _ = sender.send(());
        });
    }
    Ok(receiver)
}

/// Waits for a signal to end, or until the file system was unmounted from outside.
fn wait(session: &BackgroundSession, ends: &Receiver<()>) {
    while !session.guard.is_finished() {
        match ends.recv_timeout(Duration::from_millis(100)) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// A mount that is in use is detached: it ends with this process.
///
/// A mount namespace that was made meanwhile has a copy of the mount, and the session lives as long
/// as the copy. This process does not wait for it: when it ends, the copy is dead.
fn unmount(session: BackgroundSession, mount_point: &Path) -> Result<(), String> {
    let (sender, ended) = channel();
    std::thread::spawn(move || sender.send(session.umount_and_join()));
    match ended.recv_timeout(TIME_TO_END) {
        Ok(Ok(())) | Err(_) => Ok(()),
        Ok(Err(busy)) => {
            eprintln!("aggio-slowfs: {busy}; detached while in use");
            let detached = nix::mount::umount2(mount_point, nix::mount::MntFlags::MNT_DETACH);
            detached.map_err(|why| format!("{}: {why}", mount_point.display()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_take_units() {
        assert_eq!(size("500M"), Ok(500 << 20));
        assert_eq!(size("7"), Ok(7));
        assert!(size("M").is_err() && size("").is_err() && size("99999999999G").is_err());
    }
}
