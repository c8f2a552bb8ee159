//! A thread that serves a link until it is stopped.

use super::hub::Mail;
use crate::workers::Workers;
use aggio_link::tcp::Tcp;
use aggio_link::{Event, Frame, Framed, Limits, Link, Nowhere};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages are small. A peer that is silent for long may be stopped by a debugger; MPI reports
/// nodes that are gone.
pub(super) const LIMITS: Limits = Limits {
    head: super::message::BYTES,
    body: 0,
    queue: 1 << 20,
    strangers: 64,
    introduction: Duration::from_secs(5),
    patience: Duration::from_secs(24 * 3600),
};

/// Whether a thread is to stop.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

/// A thread of this process.
#[derive(Debug)]
pub(super) struct Thread {
    stop: Stop,
    /// Wakes the thread when it is dropped.
    bell: Mutex<Option<UnixStream>>,
    handle: Mutex<Option<JoinHandle<()>>>,
    /// A process made by `fork` has no such thread.
    process: u32,
}

impl Thread {
    /// Starts a thread that runs `work`, with a socket that becomes readable when it is to stop.
    pub(super) fn start(
        workers: &Workers,
        work: impl FnOnce(&UnixStream, &Stop) + Send + 'static,
    ) -> io::Result<Self> {
        let (bell, rung) = UnixStream::pair()?;
        let stop = Stop::default();
        let stopped = stop.clone();
        let handle = workers.thread(move || work(&rung, &stopped))?;
        let (bell, handle) = (Mutex::new(Some(bell)), Mutex::new(Some(handle)));
        Ok(Self { stop, bell, handle, process: std::process::id() })
    }

    /// The thread has ended when this returns.
    pub(super) fn stop(&self) {
        self.stop.0.store(true, Ordering::Release);
        drop(self.bell.lock().unwrap_or_else(PoisonError::into_inner).take());
        let handle = self.handle.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(handle) = handle.filter(|_| self.process == std::process::id()) {
            drop(handle.join());
        }
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Answers events of `link` with `take`, until `bell` is rung or the link fails.
pub(super) fn serve(
    link: &mut Framed<Tcp>,
    bell: &UnixStream,
    stop: &Stop,
    mut take: impl FnMut(Event) -> Mail,
) -> io::Result<()> {
    let mut events = Vec::new();
    while !stop.is_set() {
        let more = link.progress(&mut Nowhere, &mut events)?;
        let mail: Mail = events.drain(..).flat_map(&mut take).collect();
        for (peer, message) in &mail {
            let frame = Frame { head: message.to_bytes().to_vec(), ..Frame::default() };
            // A peer that has ended, or takes no messages, causes an event later.
            drop(link.send(*peer, frame));
        }
        if !more && mail.is_empty() {
            wait([link.descriptor(), bell.as_raw_fd()], link.timeout())?;
        }
    }
    Ok(())
}

/// Waits until one of the descriptors is readable, at most for `most`.
///
/// # Errors
/// If the program has closed one, which is not its own.
fn wait(descriptors: [RawFd; 2], most: Option<Duration>) -> io::Result<()> {
    let mut polled = descriptors.map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    let milliseconds = most.map_or(-1, |most| i32::try_from(most.as_millis()).unwrap_or(i32::MAX));
    // SAFETY: the kernel reads and writes the local entries.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, milliseconds) };
    match polled.iter().any(|polled| polled.revents & libc::POLLNVAL != 0) {
        true => Err(io::ErrorKind::NotConnected.into()),
        false => Ok(()),
    }
}
