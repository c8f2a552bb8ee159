//! The data calls of a rank: blocking ones, and nonblocking ones with something between start and
//! wait.

use crate::datatype::{Datatype, count};
use crate::file::{Memory, MpiFile, Operation, check};
use aggio_patterns::{Access, Layout};
use mpi::ffi::*;
use std::mem::MaybeUninit;

/// Everything that the calls need, made before the clock starts.
pub(crate) struct Transfer<'a> {
    operation: Operation,
    access: &'a Access,
    /// For memory that is not contiguous.
    datatype: Option<Datatype>,
    data: &'a mut [u8],
}

impl<'a> Transfer<'a> {
    /// `data` begins where the memory layout of `access` begins and holds all of it.
    pub(crate) fn new(
        operation: Operation,
        access: &'a Access,
        data: &'a mut [u8],
    ) -> Result<Self, String> {
        assert!(data.len() as u64 >= access.memory.span(), "the memory holds the layout");
        let datatype = match access.memory {
            Layout::Contiguous { .. } => None,
            _ if access.memory.bytes() == 0 => None,
            _ => Some(Datatype::new(&access.memory)?),
        };
        Ok(Transfer { operation, access, datatype, data })
    }

    /// The position in the view and the memory of each call.
    fn calls(&mut self) -> Result<Vec<(u64, Memory)>, String> {
        if let (Some(datatype), [call]) = (&self.datatype, &self.access.calls[..]) {
            let (address, datatype) = (self.data.as_mut_ptr().cast(), datatype.handle());
            return Ok(vec![(call.position, Memory { address, count: 1, datatype })]);
        }
        let mut at = 0;
        let mut calls = Vec::with_capacity(self.access.calls.len());
        for call in &self.access.calls {
            let part = &mut self.data[at..at + call.bytes as usize];
            at += call.bytes as usize;
            // SAFETY: a constant of the MPI library, set when the program was loaded.
            let datatype = unsafe { RSMPI_UINT8_T };
            let address = part.as_mut_ptr().cast();
            calls.push((call.position, Memory { address, count: count(call.bytes)?, datatype }));
        }
        Ok(calls)
    }

    /// Blocking calls, one after another.
    pub(crate) fn blocking(&mut self, file: &mut MpiFile, collective: bool) -> Result<(), String> {
        let operation = self.operation;
        for (position, memory) in self.calls()? {
            // SAFETY: the memory is a part of `data`, which is borrowed for as long as `self` is.
            unsafe { file.transfer(operation, collective, position, &memory)? };
        }
        Ok(())
    }

    /// Starts all calls, runs `meanwhile` with their requests, waits for all of them.
    pub(crate) fn nonblocking(
        &mut self,
        file: &mut MpiFile,
        meanwhile: impl FnOnce(&mut Requests),
    ) -> Result<(), String> {
        let operation = self.operation;
        let mut requests = Requests(Vec::new());
        for (position, memory) in self.calls()? {
            // SAFETY: the memory is a part of `data`, which is borrowed until after the waits. An
            // error on the way ends the whole job.
            requests.0.push(unsafe { file.start(operation, position, &memory)? });
        }
        meanwhile(&mut requests);
        requests.wait()
    }
}

/// Requests under way.
pub(crate) struct Requests(Vec<MPI_Request>);

impl Requests {
    /// One `MPI_Test` of the first request that is not complete; its outcome shows in the wait.
    pub(crate) fn test(&mut self) {
        // SAFETY: a constant of the MPI library.
        let null = unsafe { RSMPI_REQUEST_NULL };
        let Some(request) = self.0.iter_mut().find(|request| **request != null) else { return };
        let (mut flag, mut status) = (0, MaybeUninit::<MPI_Status>::uninit());
        // SAFETY: the request is active; a complete one becomes the null request.
        let code = unsafe { MPI_Test(request, &mut flag, status.as_mut_ptr()) };
        if code != 0 {
            eprintln!("aggio-bench-ranks: MPI_Test: error {code}");
            std::process::abort();
        }
    }

    fn wait(mut self) -> Result<(), String> {
        for request in &mut self.0 {
            let mut status = MaybeUninit::<MPI_Status>::uninit();
            // SAFETY: the request is active or null.
            check("MPI_Wait", unsafe { MPI_Wait(request, status.as_mut_ptr()) })?;
        }
        Ok(())
    }
}
