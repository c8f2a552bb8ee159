//! One connection of UCX, and the results of UCX's callbacks for all of them.

use super::api::{Address, Api, EndpointParams, Handle, OK, Param, Status};
use crate::tcp::raw;
use crate::wire::{Line, Piece, Read};
use std::cell::RefCell;
use std::ffi::c_void;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

/// Results of callbacks that have not been taken yet.
#[derive(Default)]
pub(super) struct Told {
    /// Requests for a connection.
    pub(super) incoming: RefCell<Vec<Handle>>,
    /// Requests that ended: bytes that were sent, or not, as the status says.
    pub(super) sent: RefCell<Vec<(Line, usize, Status, Handle)>>,
    /// Connections that are broken.
    pub(super) failed: RefCell<Vec<(Line, Status)>>,
}

/// The argument of the callbacks of one connection.
pub(super) struct Tag {
    pub(super) told: Rc<Told>,
    pub(super) line: Line,
}

/// A piece that UCX is sending.
struct Sending {
    told: Rc<Told>,
    line: Line,
    piece: Piece,
}

/// The other side of a connection.
pub(super) enum Other {
    Address(SocketAddr),
    Request(Handle),
}

/// One connection.
pub(super) struct Endpoint {
    handle: Handle,
    /// Its address is UCX's as long as the endpoint lives.
    tag: Box<Tag>,
    /// Bytes that UCX is sending.
    pub(super) queued: usize,
    pub(super) failed: Option<Status>,
    /// Bytes in UCX's memory that were not read yet: where, how many, and how many of them were.
    data: Option<(*mut c_void, usize, usize)>,
}

/// UCX calls this for each request for a connection.
pub(super) unsafe extern "C" fn incoming(request: Handle, argument: *mut c_void) {
    // SAFETY: the argument is the `Told` of the listener's owner, which outlives it.
    unsafe { &*argument.cast::<Told>() }.incoming.borrow_mut().push(request);
}

/// UCX calls this when a connection is broken.
unsafe extern "C" fn failed(tag: *mut c_void, _: Handle, status: Status) {
    // SAFETY: the argument is the tag of the endpoint, which lives until it has ended.
    let tag = unsafe { &*tag.cast::<Tag>() };
    tag.told.failed.borrow_mut().push((tag.line, status));
}

/// UCX calls this when a piece has been sent, or never will be.
unsafe extern "C" fn sent(request: Handle, status: Status, sending: *mut c_void) {
    // SAFETY: made by `Endpoint::write` for this call, the only one of this request.
    let sending = unsafe { Box::from_raw(sending.cast::<Sending>()) };
    let bytes = sending.piece.bytes().len();
    sending.told.sent.borrow_mut().push((sending.line, bytes, status, request));
}

impl Endpoint {
    /// Begins a connection.
    pub(super) fn new(api: &Api, worker: Handle, other: &Other, tag: Box<Tag>) -> io::Result<Self> {
        let null = std::ptr::null_mut();
        let none = || Address { at: std::ptr::null(), len: 0 };
        let place = (&raw const *tag).cast_mut().cast();
        let mut params = EndpointParams {
            // Error mode, callback, user data.
            mask: 1 << 1 | 1 << 2 | 1 << 3,
            address: 0,
            error_mode: 1,
            callback: failed,
            argument: place,
            user_data: place,
            flags: 0,
            other: none(),
            request: null,
            name: 0,
            local: none(),
        };
        let storage;
        match other {
            Other::Address(address) => {
                storage = raw(*address);
                params.other = Address { at: (&raw const storage.0).cast(), len: storage.1 };
                params.mask |= 1 << 4 | 1 << 5;
                params.flags = 1;
            }
            Other::Request(request) => {
                params.request = *request;
                params.mask |= 1 << 6;
            }
        }
        let mut handle = null;
        // SAFETY: UCX reads the parameters, and writes one pointer.
        let status = unsafe { (api.ucp_ep_create)(worker, &raw const params, &raw mut handle) };
        if status != OK {
            return Err(api.error("ucp_ep_create", status));
        }
        Ok(Self { handle, tag, queued: 0, failed: None, data: None })
    }

    /// Sends `piece` after all earlier ones.
    pub(super) fn write(&mut self, api: &Api, piece: Piece) {
        if self.failed.is_some() || piece.bytes().is_empty() {
            return;
        }
        let (at, len) = (piece.bytes().as_ptr(), piece.bytes().len());
        let sending =
            Box::into_raw(Box::new(Sending { told: self.told(), line: self.tag.line, piece }));
        let param = Param {
            // Callback and user data; bytes are the usual type.
            mask: 1 << 1 | 1 << 2,
            flags: 0,
            request: 0,
            callback: sent as *const () as usize,
            datatype: 0,
            user_data: sending.cast(),
            reply: 0,
            memory: 0,
            info: [0; 2],
        };
        // SAFETY: the bytes stay where they are until the callback has been called; it frees their
        // owner.
        let request =
            unsafe { (api.ucp_stream_send_nbx)(self.handle, at.cast(), len, &raw const param) };
        if let Some(status) = api.status_of(request) {
            // SAFETY: UCX calls no callback of a request that failed at once.
            drop(unsafe { Box::from_raw(sending) });
            self.failed = Some(status);
        } else if request.is_null() {
            // SAFETY: nor of one that was done at once.
            drop(unsafe { Box::from_raw(sending) });
        } else {
            self.queued += len;
        }
    }

    fn told(&self) -> Rc<Told> {
        Rc::clone(&self.tag.told)
    }

    /// Takes bytes that have arrived.
    pub(super) fn read(&mut self, api: &Api, into: &mut [u8]) -> io::Result<Read> {
        let (data, len, begun) = match self.data {
            Some(data) => data,
            None => {
                let mut len = 0;
                // SAFETY: the endpoint lives; UCX writes one number.
                let data = unsafe { (api.ucp_stream_recv_data_nb)(self.handle, &raw mut len) };
                if let Some(status) = api.status_of(data) {
                    return Err(api.error("ucp_stream_recv_data", self.failed.unwrap_or(status)));
                }
                if data.is_null() {
                    return match self.failed {
                        Some(status) => Err(api.error("the connection is broken", status)),
                        None => Ok(Read::Nothing),
                    };
                }
                (data, len, 0)
            }
        };
        let n = into.len().min(len - begun);
        // SAFETY: UCX gave `len` bytes there, which are this side's until they are released.
        let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>().add(begun), n) };
        into[..n].copy_from_slice(bytes);
        self.data = Some((data, len, begun + n)).filter(|_| begun + n < len);
        if self.data.is_none() {
            // SAFETY: each is released once.
            unsafe { (api.ucp_stream_data_release)(self.handle, data) };
        }
        Ok(Read::Bytes(n))
    }

    /// Ends the connection at once; returns a request if that takes longer.
    pub(super) fn close(&mut self, api: &Api) -> Option<Handle> {
        if let Some((data, ..)) = self.data.take() {
            // SAFETY: each is released once.
            unsafe { (api.ucp_stream_data_release)(self.handle, data) };
        }
        let null = std::ptr::null_mut();
        // By force: a flush would wait for a peer that may be dead.
        let (mask, flags) = (1 << 4, 1);
        let param = Param {
            mask,
            flags,
            request: 0,
            callback: 0,
            datatype: 0,
            user_data: null,
            reply: 0,
            memory: 0,
            info: [0; 2],
        };
        // SAFETY: the endpoint is used no more after this.
        let request = unsafe { (api.ucp_ep_close_nbx)(self.handle, &raw const param) };
        (!request.is_null() && api.status_of(request).is_none()).then_some(request)
    }
}
