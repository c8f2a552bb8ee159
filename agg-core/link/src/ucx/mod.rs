//! UCX, which is loaded where it is installed: its streams carry the same frames.
//!
//! UCX parses bytes that arrive at its ports before this crate can ask for a proof, so UCX relies
//! on the network more than [`crate::tcp`] does.

mod api;
mod endpoint;

use crate::wire::{Line, Piece, Read, Ready, Wire};
use api::{Api, Handle, OK};
use endpoint::{Endpoint, Tag, Told};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Environment variables with which a process that uses UCX should begin: UCX reads them when it is
/// loaded. It would write messages to standard output and handle signals.
pub const ENVIRONMENT: &[(&str, &str)] =
    &[("UCX_LOG_FILE", "stderr"), ("UCX_ERROR_SIGNALS", ""), ("UCX_LOG_LEVEL", "fatal")];

/// Rounds of UCX's progress before it is the turn of the others.
const ROUNDS: usize = 64;

/// How long the end of all connections may take when a wire is dropped.
const FAREWELL: Duration = Duration::from_secs(1);

/// Connections over UCX.
pub struct Ucx {
    api: Rc<Api>,
    context: Handle,
    worker: Handle,
    listener: Handle,
    descriptor: RawFd,
    address: SocketAddr,
    told: Rc<Told>,
    lines: BTreeMap<Line, Endpoint>,
    /// Connections that are ending, with the requests to end them.
    ending: Vec<(Handle, Endpoint)>,
    last: Line,
}

impl Ucx {
    /// Listens on `address`, on any port that is free, with the first of UCX's libraries that is
    /// found.
    ///
    /// # Errors
    /// `NotFound` if UCX is not installed; UCX's error.
    pub fn listen(address: IpAddr) -> io::Result<Self> {
        let api = Rc::new(Api::load()?);
        let context = api.context()?;
        let made = api.worker(context).and_then(|worker| {
            Self::begin(&api, context, worker, address)
                // SAFETY: the worker is destroyed once, and nothing of it is left.
                .inspect_err(|_| unsafe { (api.ucp_worker_destroy)(worker) })
        });
        // SAFETY: the context is released once, after its worker.
        made.inspect_err(|_| unsafe { (api.ucp_cleanup)(context) })
    }

    fn begin(api: &Rc<Api>, context: Handle, worker: Handle, at: IpAddr) -> io::Result<Self> {
        let told = Rc::new(Told::default());
        let descriptor = api.descriptor(worker)?;
        let listener = api.listener(worker, SocketAddr::new(at, 0), &told)?;
        let address = api.listens_at(listener).inspect_err(|_| {
            // SAFETY: the listener is destroyed once.
            unsafe { (api.ucp_listener_destroy)(listener) }
        })?;
        Ok(Self {
            api: Rc::clone(api),
            context,
            worker,
            listener,
            descriptor,
            address,
            told,
            lines: BTreeMap::new(),
            ending: Vec::new(),
            last: 0,
        })
    }

    fn add(&mut self, other: &endpoint::Other) -> io::Result<Line> {
        self.last += 1;
        let tag = Box::new(Tag { told: Rc::clone(&self.told), line: self.last });
        let endpoint = Endpoint::new(&self.api, self.worker, other, tag)?;
        self.lines.insert(self.last, endpoint);
        Ok(self.last)
    }

    /// Takes the results of UCX's callbacks.
    fn hear(&mut self, ready: &mut Vec<Ready>) {
        for request in self.told.incoming.take() {
            let other = endpoint::Other::Request(request);
            let from = self.api.address_of(request);
            ready.push(match self.add(&other) {
                Ok(line) => Ready::Accepted(line, from),
                Err(why) => Ready::Failed(why),
            });
        }
        for (line, bytes, status, request) in self.told.sent.take() {
            // SAFETY: each request is reported, and freed, once.
            unsafe { (self.api.ucp_request_free)(request) };
            let Some(endpoint) = self.lines.get_mut(&line) else { continue };
            endpoint.queued -= bytes;
            if status != OK {
                endpoint.failed.get_or_insert(status);
            }
            ready.push(Ready::Active(line));
        }
        for (line, status) in self.told.failed.take() {
            if let Some(endpoint) = self.lines.get_mut(&line) {
                endpoint.failed = Some(status);
                ready.push(Ready::Active(line));
            }
        }
    }

    fn end(&mut self) {
        let api = &self.api;
        self.ending.retain_mut(|(request, _)| {
            // SAFETY: the request is UCX's and not yet freed.
            let goes_on = unsafe { (api.ucp_request_check_status)(*request) } == api::IN_PROGRESS;
            if !goes_on {
                // SAFETY: it is freed once: it is forgotten below.
                unsafe { (api.ucp_request_free)(*request) };
            }
            goes_on
        });
    }

    fn progress(&self) -> bool {
        // SAFETY: the worker lives; its callbacks only store their arguments in `self.told`.
        (0..ROUNDS).all(|_| unsafe { (self.api.ucp_worker_progress)(self.worker) } != 0)
    }
}

impl Wire for Ucx {
    fn address(&self) -> String {
        self.address.to_string()
    }

    fn descriptor(&self) -> RawFd {
        self.descriptor
    }

    fn connect(&mut self, address: &str) -> io::Result<Line> {
        let parsed = address.parse::<SocketAddr>().map_err(|_| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("\"{address}\": no address"))
        })?;
        self.add(&endpoint::Other::Address(parsed))
    }

    fn poll(&mut self, ready: &mut Vec<Ready>) -> io::Result<bool> {
        let busy = self.progress();
        self.hear(ready);
        self.end();
        ready.extend(self.api.with_data(self.worker)?.into_iter().map(Ready::Active));
        // SAFETY: the worker lives.
        let armed = unsafe { (self.api.ucp_worker_arm)(self.worker) };
        match armed {
            OK => Ok(busy),
            api::BUSY => Ok(true),
            status => Err(self.api.error("ucp_worker_arm", status)),
        }
    }

    fn read(&mut self, line: Line, into: &mut [u8]) -> io::Result<Read> {
        match self.lines.get_mut(&line) {
            Some(endpoint) => endpoint.read(&self.api, into),
            None => Ok(Read::Ended),
        }
    }

    fn write(&mut self, line: Line, piece: Piece) {
        if let Some(endpoint) = self.lines.get_mut(&line) {
            endpoint.write(&self.api, piece);
        }
    }

    fn queued(&self, line: Line) -> usize {
        self.lines.get(&line).map_or(0, |endpoint| endpoint.queued)
    }

    fn close(&mut self, line: Line) {
        let Some(mut endpoint) = self.lines.remove(&line) else { return };
        if let Some(request) = endpoint.close(&self.api) {
            self.ending.push((request, endpoint));
        }
    }
}

impl Drop for Ucx {
    fn drop(&mut self) {
        // SAFETY: the listener is destroyed once; no callback of it comes afterwards.
        unsafe { (self.api.ucp_listener_destroy)(self.listener) };
        for line in self.lines.keys().copied().collect::<Vec<_>>() {
            self.close(line);
        }
        let start = Instant::now();
        while !self.ending.is_empty() && start.elapsed() < FAREWELL {
            self.progress();
            self.end();
        }
        if !self.ending.is_empty() {
            // UCX still uses the memory of these: a leak is better than a use after free.
            std::mem::forget(std::mem::take(&mut self.ending));
            std::mem::forget(Rc::clone(&self.told));
            return;
        }
        // SAFETY: each is released once, and all that was made of it is gone.
        unsafe {
            (self.api.ucp_worker_destroy)(self.worker);
            (self.api.ucp_cleanup)(self.context);
        }
    }
}
