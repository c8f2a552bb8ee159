//! Waiting for answers of an agent: not for ever where nobody asked to wait, and never without a
//! word.

use crate::fd::checked;
use crate::poll::poll;
use crate::protocol::{Packet, Packets};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

/// Time that an agent may take for an answer that does not depend on other programs.
pub(super) const ANSWERS: Duration = Duration::from_secs(5);

/// Silence after which the log of a program reports that it waits. A running agent reports waits
/// itself, every minute.
pub(super) const SILENCE: Duration = Duration::from_secs(62);

/// Nearly all answers come within this time, for which signals can wait as well.
const SOON: Duration = Duration::from_millis(50);

/// The highest number of a signal.
const SIGNALS: i32 = 64;

/// The next packet, which must come within `limit`.
///
/// # Errors
/// `TimedOut`; as [`Packets::receive`].
pub(super) fn receive_within(packets: &Packets, limit: Duration) -> io::Result<Option<Packet>> {
    let end = Instant::now() + limit;
    loop {
        match packets.receive(false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            received => return received,
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        readable([packets.fd(), -1], left);
    }
}

/// The next packet, however long it takes; `tell` is called whenever nothing came for `silence`.
///
/// # Errors
/// `Interrupted` after a signal handler that does not let calls go on; as [`Packets::receive`].
pub(super) fn receive(
    packets: &Packets,
    silence: Duration,
    mut tell: impl FnMut(),
) -> io::Result<Option<Packet>> {
    let mut held = Held::all();
    readable([packets.fd(), -1], SOON.min(silence));
    match packets.receive(false) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        received => return received,
    }
    let Ok(signals) = held.descriptor() else {
        // Nobody can tell the cause of an interruption of a wait that ends after a while.
        drop(held);
        return packets.receive_once(true);
    };
    let mut due = Instant::now() + silence;
    loop {
        let left = due.saturating_duration_since(Instant::now());
        let [answered, signalled] = readable([packets.fd(), signals.as_raw_fd()], left);
        if answered {
            match packets.receive(false) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => return received,
            }
        }
        if signalled && held.deliver() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        if Instant::now() >= due {
            tell();
            due = Instant::now() + silence;
        }
    }
}

/// Waits until one of two descriptors is readable, for `limit` at most, or until a signal comes;
/// says which are.
fn readable(fds: [RawFd; 2], limit: Duration) -> [bool; 2] {
    let ready = poll(fds.into_iter().enumerate(), Some(limit + Duration::from_millis(1)));
    let ready = ready.unwrap_or_default();
    [0, 1].map(|which| ready.contains(&which))
}

/// While it lives this thread gets no signals, so that it can be said which ones come.
struct Held {
    /// Signals that the thread did not get before either.
    before: libc::sigset_t,
}

impl Held {
    fn all() -> Self {
        Self { before: hold() }
    }

    /// Signals that come now and would have come before.
    fn waited_for(&self) -> libc::sigset_t {
        // SAFETY: all-zero bytes are a valid set; the calls read and write local sets.
        unsafe {
            let mut set: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut set);
            for number in 1..=SIGNALS {
                if libc::sigismember(&raw const self.before, number) != 0 {
                    libc::sigdelset(&raw mut set, number);
                }
            }
            set
        }
    }

    /// Readable when a signal waits for this thread.
    fn descriptor(&self) -> io::Result<OwnedFd> {
        let set = self.waited_for();
        // SAFETY: the kernel reads the local set.
        checked(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC) })
    }

    /// Lets the signals come that wait, and says whether the handler of one of them is to end the
    /// call.
    fn deliver(&mut self) -> bool {
        let waited = self.waited_for();
        let mut ends = false;
        // SAFETY: all-zero bytes are valid sets and actions, which the calls fill.
        unsafe {
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            for number in 1..=SIGNALS {
                let comes = libc::sigismember(&raw const pending, number) == 1
                    && libc::sigismember(&raw const waited, number) == 1;
                let mut action: libc::sigaction = std::mem::zeroed();
                if comes && libc::sigaction(number, std::ptr::null(), &raw mut action) == 0 {
                    let handler = action.sa_sigaction;
                    let is_handled = handler != libc::SIG_DFL && handler != libc::SIG_IGN;
                    ends |= is_handled && action.sa_flags & libc::SA_RESTART == 0;
                }
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
        // Changes by handlers hold.
        self.before = hold();
        ends
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the kernel reads a set that it has written.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

/// Lets this thread get no signals; those that it did not get before.
fn hold() -> libc::sigset_t {
    // SAFETY: all-zero bytes are a valid set, which the calls fill.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        before
    }
}

/// Names the agent that a program waits for, for messages.
pub(super) fn agent_of(packets: &Packets) -> String {
    match packets.peer() {
        Ok((process, _)) => format!("the agent of coupled files (process {process})"),
        Err(_) => "the agent of coupled files".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::pair;
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicU32, Ordering};

    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn who_is_asked_what_can_be_answered_at_once_has_so_long() {
        let (one, other) = pair().unwrap();
        let began = Instant::now();
        let error = receive_within(&one, SHORT).unwrap_err();
        assert!(error.kind() == io::ErrorKind::TimedOut && began.elapsed() >= SHORT);
        other.send(b"late", None, true).unwrap();
        assert_eq!(receive_within(&one, SHORT).unwrap().unwrap().0, b"late");
        drop(other);
        assert!(receive_within(&one, SHORT).unwrap().is_none());
    }

    #[test]
    fn silence_is_told_again_and_again_until_an_answer_comes() {
        let (one, other) = pair().unwrap();
        let mut told = 0;
        let received = receive(&one, SHORT, || {
            told += 1;
            if told == 3 {
                other.send(b"answer", None, true).unwrap();
            }
        });
        assert_eq!(received.unwrap().unwrap().0, b"answer");
        assert_eq!(told, 3);
        drop(one);
        assert!(receive(&other, SHORT, || ()).unwrap().is_none());
    }

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn handle(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    fn handler(number: i32, flags: i32) {
        // SAFETY: all-zero bytes are a valid action, and its handler does as handlers may.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = flags;
            libc::sigaction(number, &raw const action, std::ptr::null_mut());
        }
    }

    #[test]
    fn only_handlers_that_do_not_let_calls_go_on_end_a_wait_and_all_run_at_once() {
        let (ends, goes_on) = (libc::SIGRTMIN() + 4, libc::SIGRTMIN() + 5);
        handler(ends, 0);
        handler(goes_on, libc::SA_RESTART);
        let (one, other) = pair().unwrap();
        let bytes = |packet: Option<Packet>| packet.map(|(bytes, _)| bytes);
        let twice = move || [(); 2].map(|()| receive(&one, SILENCE, || ()).map(bytes));
        let waits = std::thread::spawn(twice);
        let send = |number| {
            std::thread::sleep(SHORT);
            let (before, began) = (HANDLED.load(Ordering::Relaxed), Instant::now());
            // SAFETY: the thread has not been joined.
            unsafe { libc::pthread_kill(waits.as_pthread_t(), number) };
            while HANDLED.load(Ordering::Relaxed) == before {
                assert!(began.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        send(goes_on);
        send(ends);
        send(goes_on);
        std::thread::sleep(SHORT);
        other.send(b"answer", None, true).unwrap();
        let all = waits.join().unwrap();
        assert_eq!(all[0].as_ref().unwrap_err().kind(), io::ErrorKind::Interrupted);
        assert_eq!(all[1].as_ref().unwrap().as_deref(), Some(&b"answer"[..]));
    }
}
