//! The functions and structures of UCX that are used, as libucp 1.13 declares them.
//!
//! Structures begin with a mask of the members that are set, and calls pass their version, so that
//! a newer library can interpret them.

use super::endpoint::{Tag, Told, incoming};
use crate::tcp::raw;
use crate::wire::Line;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::io;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

/// Something that belongs to UCX.
pub(super) type Handle = *mut c_void;

/// `ucs_status_t`.
pub(super) type Status = i8;
pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const BUSY: Status = -15;
/// The lowest status that a pointer may stand for.
const LAST: isize = -100;

/// The interface that the structures below are of.
const MAJOR: c_uint = 1;
const MINOR: c_uint = 13;

const FEATURES: u64 = 1 << 0;
const FEATURE_STREAM: u64 = 1 << 5;
const FEATURE_WAKEUP: u64 = 1 << 4;

/// Connections that are reported at once.
const READY: usize = 64;

macro_rules! api {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, and the library that they are of, which stays loaded.
        pub(super) struct Api {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Api {
            /// Loads UCX.
            ///
            /// # Errors
            /// `NotFound` if it is not installed, or not one that this fits to.
            pub(super) fn load() -> io::Result<Self> {
                let library = open(c"libucp.so.0")?;
                // SAFETY: the types are those of UCX's header.
                unsafe {
                    Ok(Self { $($name: std::mem::transmute::<
                        *mut c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?,
                    >(symbol(library, concat!(stringify!($name), "\0"))?),)* })
                }
            }
        }
    };
}

api! {
    ucp_init_version: fn(c_uint, c_uint, *const Params, Handle, *mut Handle) -> Status;
    ucp_config_read: fn(*const c_char, *const c_char, *mut Handle) -> Status;
    ucp_config_release: fn(Handle);
    ucp_cleanup: fn(Handle);
    ucp_worker_create: fn(Handle, *const WorkerParams, *mut Handle) -> Status;
    ucp_worker_destroy: fn(Handle);
    ucp_worker_progress: fn(Handle) -> c_uint;
    ucp_worker_get_efd: fn(Handle, *mut c_int) -> Status;
    ucp_worker_arm: fn(Handle) -> Status;
    ucp_listener_create: fn(Handle, *const ListenerParams, *mut Handle) -> Status;
    ucp_listener_destroy: fn(Handle);
    ucp_listener_query: fn(Handle, *mut ListenerFacts) -> Status;
    ucp_conn_request_query: fn(Handle, *mut RequestFacts) -> Status;
    ucp_ep_create: fn(Handle, *const EndpointParams, *mut Handle) -> Status;
    ucp_ep_close_nbx: fn(Handle, *const Param) -> Handle;
    ucp_stream_send_nbx: fn(Handle, *const c_void, usize, *const Param) -> Handle;
    ucp_stream_recv_data_nb: fn(Handle, *mut usize) -> Handle;
    ucp_stream_data_release: fn(Handle, *mut c_void);
    ucp_stream_worker_poll: fn(Handle, *mut Poll, usize, c_uint) -> isize;
    ucp_request_check_status: fn(Handle) -> Status;
    ucp_request_free: fn(Handle);
    ucs_status_string: fn(Status) -> *const c_char;
}

fn open(name: &CStr) -> io::Result<Handle> {
    // SAFETY: a terminated string; constructors of the library run, as with any program of UCX.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        let why = format!("UCX is not installed: {} is not found", name.to_string_lossy());
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(library)
}

/// The function `name`, which ends in NUL.
fn symbol(library: Handle, name: &'static str) -> io::Result<*mut c_void> {
    // SAFETY: the string ends in NUL, the library is loaded.
    let found = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
    if found.is_null() {
        let why = format!("UCX is too old: it has no {}", name.trim_end_matches('\0'));
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(found)
}

/// `ucp_params_t`.
#[repr(C)]
pub(super) struct Params {
    mask: u64,
    features: u64,
    rest: [u64; 8],
}

/// `ucp_worker_params_t`.
#[repr(C)]
pub(super) struct WorkerParams {
    mask: u64,
    rest: [u64; 24],
}

/// `ucs_sock_addr_t`.
#[repr(C)]
pub(super) struct Address {
    pub(super) at: *const c_void,
    pub(super) len: libc::socklen_t,
}

/// `ucp_listener_params_t`.
#[repr(C)]
pub(super) struct ListenerParams {
    mask: u64,
    address: Address,
    accept: [usize; 2],
    callback: unsafe extern "C" fn(Handle, *mut c_void),
    argument: *const c_void,
}

/// `ucp_listener_attr_t`.
#[repr(C)]
pub(super) struct ListenerFacts {
    mask: u64,
    address: libc::sockaddr_storage,
}

/// `ucp_conn_request_attr_t`.
#[repr(C)]
pub(super) struct RequestFacts {
    mask: u64,
    address: libc::sockaddr_storage,
    client: u64,
}

/// `ucp_ep_params_t`.
#[repr(C)]
pub(super) struct EndpointParams {
    pub(super) mask: u64,
    pub(super) address: usize,
    pub(super) error_mode: c_uint,
    pub(super) callback: unsafe extern "C" fn(*mut c_void, Handle, Status),
    pub(super) argument: *mut c_void,
    pub(super) user_data: *mut c_void,
    pub(super) flags: c_uint,
    pub(super) other: Address,
    pub(super) request: Handle,
    pub(super) name: usize,
    pub(super) local: Address,
}

/// `ucp_request_param_t`.
#[repr(C)]
pub(super) struct Param {
    pub(super) mask: u32,
    pub(super) flags: u32,
    pub(super) request: usize,
    pub(super) callback: usize,
    pub(super) datatype: u64,
    pub(super) user_data: *mut c_void,
    pub(super) reply: usize,
    pub(super) memory: u64,
    pub(super) info: [usize; 2],
}

/// `ucp_stream_poll_ep_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Poll {
    endpoint: Handle,
    tag: *mut c_void,
    rest: [u64; 3],
}

// Where UCX looks for each member.
const _: () = {
    assert!(size_of::<Params>() == 80 && size_of::<WorkerParams>() == 200);
    assert!(size_of::<ListenerParams>() == 56 && offset_of!(ListenerParams, callback) == 40);
    assert!(size_of::<ListenerFacts>() == 136 && size_of::<RequestFacts>() == 144);
    assert!(size_of::<EndpointParams>() == 104 && offset_of!(EndpointParams, callback) == 24);
    assert!(offset_of!(EndpointParams, other) == 56 && offset_of!(EndpointParams, request) == 72);
    assert!(size_of::<Param>() == 72 && offset_of!(Param, callback) == 16);
    assert!(offset_of!(Param, user_data) == 32 && size_of::<Poll>() == 40);
};

impl Api {
    /// UCX's description of a failure of `call`.
    pub(super) fn error(&self, call: &str, status: Status) -> io::Error {
        // SAFETY: UCX gives a terminated string for every status, which lives for ever.
        let words = unsafe { CStr::from_ptr((self.ucs_status_string)(status)) };
        io::Error::other(format!("{call}: {}", words.to_string_lossy()))
    }

    fn checked(&self, call: &str, status: Status) -> io::Result<()> {
        if status == OK { Ok(()) } else { Err(self.error(call, status)) }
    }

    /// The failure that a pointer of UCX stands for.
    pub(super) fn status_of(&self, pointer: Handle) -> Option<Status> {
        let number = pointer as isize;
        (LAST..0).contains(&number).then_some(number as Status)
    }

    /// UCX as configured by the environment, for streams and for waiting by a descriptor.
    pub(super) fn context(&self) -> io::Result<Handle> {
        let (mut config, mut context) = (std::ptr::null_mut(), std::ptr::null_mut());
        let none = std::ptr::null();
        // SAFETY: UCX writes one pointer; nulls stand for the usual names.
        let status = unsafe { (self.ucp_config_read)(none, none, &raw mut config) };
        self.checked("ucp_config_read", status)?;
        let features = FEATURE_STREAM | FEATURE_WAKEUP;
        let params = Params { mask: FEATURES, features, rest: [0; 8] };
        // SAFETY: UCX reads the parameters and the configuration, and writes one pointer.
        let status = unsafe {
            (self.ucp_init_version)(MAJOR, MINOR, &raw const params, config, &raw mut context)
        };
        // SAFETY: the configuration is released once.
        unsafe { (self.ucp_config_release)(config) };
        self.checked("ucp_init", status).map(|()| context)
    }

    /// A worker for one thread.
    pub(super) fn worker(&self, context: Handle) -> io::Result<Handle> {
        let mut worker = std::ptr::null_mut();
        // Nothing but zeros: one thread, every event.
        let params = WorkerParams { mask: 1, rest: [0; 24] };
        // SAFETY: UCX reads the parameters and writes one pointer.
        let status =
            unsafe { (self.ucp_worker_create)(context, &raw const params, &raw mut worker) };
        self.checked("ucp_worker_create", status).map(|()| worker)
    }

    pub(super) fn descriptor(&self, worker: Handle) -> io::Result<RawFd> {
        let mut descriptor = -1;
        // SAFETY: UCX writes one number.
        let status = unsafe { (self.ucp_worker_get_efd)(worker, &raw mut descriptor) };
        self.checked("ucp_worker_get_efd", status).map(|()| descriptor)
    }

    /// Listens; requests go to `told`, which outlives the listener.
    pub(super) fn listener(
        &self,
        worker: Handle,
        address: SocketAddr,
        told: &Told,
    ) -> io::Result<Handle> {
        let (storage, len) = raw(address);
        let (mut listener, at) = (std::ptr::null_mut(), (&raw const storage).cast());
        let params = ListenerParams {
            mask: 1 << 0 | 1 << 2,
            address: Address { at, len },
            accept: [0; 2],
            callback: incoming,
            argument: (&raw const *told).cast(),
        };
        // SAFETY: UCX reads the parameters and writes one pointer.
        let status =
            unsafe { (self.ucp_listener_create)(worker, &raw const params, &raw mut listener) };
        self.checked("ucp_listener_create", status).map(|()| listener)
    }

    /// The address that a listener has got.
    pub(super) fn listens_at(&self, listener: Handle) -> io::Result<SocketAddr> {
        // SAFETY: all-zero bytes are a valid address of no family.
        let mut facts = ListenerFacts { mask: 1, address: unsafe { std::mem::zeroed() } };
        // SAFETY: UCX writes the members that the mask names.
        let status = unsafe { (self.ucp_listener_query)(listener, &raw mut facts) };
        self.checked("ucp_listener_query", status)?;
        let none = || io::Error::other("ucp_listener_query: an address of an unknown family");
        parsed(&facts.address).ok_or_else(none)
    }

    /// The address of the process that requests a connection.
    pub(super) fn address_of(&self, request: Handle) -> String {
        // SAFETY: all-zero bytes are a valid address of no family.
        let mut facts = RequestFacts { mask: 1, address: unsafe { std::mem::zeroed() }, client: 0 };
        // SAFETY: UCX writes the members that the mask names.
        let status = unsafe { (self.ucp_conn_request_query)(request, &raw mut facts) };
        let known = parsed(&facts.address).filter(|_| status == OK);
        known.map_or_else(|| String::from("an unknown address"), |address| address.to_string())
    }

    /// The connections that have bytes to read.
    pub(super) fn with_data(&self, worker: Handle) -> io::Result<Vec<Line>> {
        let null = std::ptr::null_mut();
        let mut found = [Poll { endpoint: null, tag: null, rest: [0; 3] }; READY];
        // SAFETY: UCX fills at most as many as there is room for.
        let n = unsafe { (self.ucp_stream_worker_poll)(worker, found.as_mut_ptr(), READY, 0) };
        let n =
            usize::try_from(n).map_err(|_| self.error("ucp_stream_worker_poll", n as Status))?;
        // SAFETY: the user data of every endpoint is its tag, which lives as long as it does.
        Ok(found[..n].iter().map(|one| unsafe { (*one.tag.cast::<Tag>()).line }).collect())
    }
}

/// Parses the system's form of an address.
fn parsed(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let place = &raw const *storage;
    match libc::c_int::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: of this family, and `sockaddr_storage` has room for all.
            let address = unsafe { place.cast::<libc::sockaddr_in>().read() };
            let ip = IpAddr::from(address.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddr::new(ip, u16::from_be(address.sin_port)))
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let address = unsafe { place.cast::<libc::sockaddr_in6>().read() };
            let ip = IpAddr::from(address.sin6_addr.s6_addr);
            Some(SocketAddr::new(ip, u16::from_be(address.sin6_port)))
        }
        _ => None,
    }
}
