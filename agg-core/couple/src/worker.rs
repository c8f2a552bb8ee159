//! Threads beside the agent's: their orders and results.

use crate::fd::checked;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Results of threads, and a descriptor that is readable when there are any.
#[derive(Debug)]
pub(crate) struct Results<D> {
    tell: Sender<D>,
    done: Receiver<D>,
    bell: File,
}

impl<D: Send + 'static> Results<D> {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no memory is involved.
        let bell = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        let (tell, done) = channel();
        Ok(Self { tell, done, bell: bell.into() })
    }

    /// Readable when something is done.
    pub(crate) fn events(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// Returns the results since the last call.
    pub(crate) fn take(&self) -> Vec<D> {
        let _ = (&self.bell).read(&mut [0; 8]);
        self.done.try_iter().collect()
    }

    /// Starts a thread that does all of `work`.
    ///
    /// # Errors
    /// There are no more threads or descriptors.
    pub(crate) fn start(
        &self,
        name: &str,
        work: impl Iterator<Item = D> + Send + 'static,
    ) -> io::Result<()> {
        let (tell, mut bell) = (self.tell.clone(), self.bell.try_clone()?);
        let run = move || {
            for done in work {
                // An agent that has ended needs no word.
                if tell.send(done).is_err() {
                    return;
                }
                // The counter cannot overflow: taking the results empties it.
                let _ = bell.write_all(&1u64.to_ne_bytes());
            }
        };
        std::thread::Builder::new().name(name.into()).spawn(run).map(drop)
    }
}

/// A thread that carries out one order after the other.
#[derive(Debug)]
pub(crate) struct Worker<O, D> {
    orders: Sender<O>,
    pub(crate) results: Results<D>,
}

impl<O: Send + 'static, D: Send + 'static> Worker<O, D> {
    pub(crate) fn start(name: &str, work: fn(O) -> D) -> io::Result<Self> {
        let (orders, all) = channel();
        let results = Results::new()?;
        results.start(name, all.into_iter().map(work))?;
        Ok(Self { orders, results })
    }

    /// Gives the thread another order; false if it has ended.
    pub(crate) fn order(&self, order: O) -> bool {
        self.orders.send(order).is_ok()
    }
}
