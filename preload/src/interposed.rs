//! The table of all interposed MPI functions; everything else about them is derived from it.
//!
//! One row is: kind, C name, arguments (the open file is implied), and the delegate that does the
//! work. Each row becomes two exported functions (`MPI_x` and `PMPI_x`, because Fortran layers call
//! either) and one line of `aggio_interposed` ([`symbols`](crate::symbols)), and one way to the
//! real function ([`forward`](crate::forward)). Delegates are named as `symbols` sees them.
//!
//! * `file`: the first argument is a file by value. Files that this library does not manage go to
//!   the real function. The delegate gives a `Result`, which the file's error handler sees.
//! * `large x => twin`: as `file`, but where the real library lacks `x`, foreign files go to
//!   `twin`, which takes counts as C ints.
//! * `free`: the delegate decides everything itself and returns the code; with aggio switched off
//!   the call goes to the real function.

/// Hands all rows to the macro `$then`.
macro_rules! interposed {
    ($then:ident) => { $then! {
    // Opening, closing, deleting (MPI-4.1, 14.2.1 to 14.2.3).
    free MPI_File_open(abi; comm: Handle, name: *const c_char, amode: c_int, info: Handle,
        fh: *mut FileHandle)
        = open::open(abi, comm, name, amode, info, fh);
    free MPI_File_close(abi; fh: *mut FileHandle) = close::close(abi, fh);
    free MPI_File_delete(abi; name: *const c_char, info: Handle) = delete::delete(abi, name, info);

    // Size, mode, group, hints (14.2.4 to 14.2.8), consistency (14.6).
    file MPI_File_set_size(call; size: Offset) = manage::set_size(&call, size);
    file MPI_File_preallocate(call; size: Offset) = manage::preallocate(&call, size);
    file MPI_File_get_size(call; size: *mut Offset) = manage::get_size(&call, size);
    file MPI_File_get_group(call; group: Opaque) = manage::get_group(&call, group);
    file MPI_File_get_amode(call; amode: *mut c_int) = manage::get_amode(&call, amode);
    file MPI_File_set_info(call; info: Handle) = manage::set_info(&call, info);
    file MPI_File_get_info(call; info: Opaque) = manage::get_info(&call, info);
    file MPI_File_set_atomicity(call; flag: c_int) = manage::set_atomicity(&call, flag);
    file MPI_File_get_atomicity(call; flag: *mut c_int) = manage::get_atomicity(&call, flag);
    file MPI_File_sync(call;) = manage::sync(&call);

    // Views (14.3) and file pointers (14.4.3, 14.4.4).
    file MPI_File_set_view(call; disp: Offset, etype: Handle, filetype: Handle,
        datarep: *const c_char, info: Handle)
        = view::set_view(&call, disp, etype, filetype, datarep, info);
    file MPI_File_get_view(call; disp: *mut Offset, etype: Opaque, filetype: Opaque,
        datarep: *mut c_char)
        = view::get_view(&call, disp, etype, filetype, datarep);
    file MPI_File_seek(call; offset: Offset, whence: c_int) = pointer::seek(&call, offset, whence);
    file MPI_File_get_position(call; offset: *mut Offset) = pointer::position(&call, offset);
    file MPI_File_get_byte_offset(call; offset: Offset, disp: *mut Offset)
        = pointer::byte_offset(&call, offset, disp);
    file MPI_File_seek_shared(call; offset: Offset, whence: c_int)
        = pointer::seek_shared(&call, offset, whence);
    file MPI_File_get_position_shared(call; offset: *mut Offset)
        = pointer::position_shared(&call, offset);

    // Data representations (14.5).
    file MPI_File_get_type_extent(call; datatype: Handle, extent: *mut i64)
        = datarep::type_extent(&call, datatype, extent);
    large MPI_File_get_type_extent_c => MPI_File_get_type_extent (call; datatype: Handle,
        extent: *mut i64)
        = datarep::type_extent(&call, datatype, extent);
    free MPI_Register_datarep(abi; name: *const c_char, read: Opaque, write: Opaque,
        extent: Opaque, state: Opaque)
        = datarep::register(abi, name, read, write, extent, state);
    free MPI_Register_datarep_c(abi; name: *const c_char, read: Opaque, write: Opaque,
        extent: Opaque, state: Opaque)
        = datarep::register_c(abi, name, read, write, extent, state);

    // Error handlers (9.3) and handle conversion (19.3.4).
    free MPI_File_create_errhandler(abi; function: Opaque, errhandler: Opaque)
        = errhandler::create(abi, function, errhandler);
    free MPI_File_set_errhandler(abi; fh: FileHandle, errhandler: Handle)
        = errhandler::set(abi, fh, errhandler);
    free MPI_File_get_errhandler(abi; fh: FileHandle, errhandler: Opaque)
        = errhandler::get(abi, fh, errhandler);
    free MPI_File_call_errhandler(abi; fh: FileHandle, code: c_int)
        = errhandler::call(abi, fh, code);
    free MPI_Error_string(abi; code: c_int, text: *mut c_char, length: *mut c_int)
        = errors::string(abi, code, text, length);
    free MPI_Errhandler_free(abi; errhandler: Opaque) = errhandler::free(abi, errhandler);
    free MPI_File_c2f(abi; fh: FileHandle) -> c_int = fortran::c2f(abi, fh);
    free MPI_File_f2c(abi; fh: c_int) -> FileHandle = fortran::f2c(abi, fh);
    free MPI_File_toint(abi; fh: FileHandle) -> c_int = fortran::toint(abi, fh);
    free MPI_File_fromint(abi; fh: c_int) -> FileHandle = fortran::fromint(abi, fh);

    // Explicit offsets (14.4.2), individual file pointers (14.4.3), shared ones (14.4.4).
    file MPI_File_read_at(call; offset: Offset, buffer: Opaque, count: c_int, datatype: Handle,
        status: Opaque)
        = data::blocking(&call, Read, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), status);
    large MPI_File_read_at_c => MPI_File_read_at (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), status);
    file MPI_File_iread_at(call; offset: Offset, buffer: Opaque, count: c_int, datatype: Handle,
        request: Opaque)
        = requests::start(&call, Read, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), request);
    large MPI_File_iread_at_c => MPI_File_iread_at (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), request);
    file MPI_File_read_at_all(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), status);
    large MPI_File_read_at_all_c => MPI_File_read_at_all (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), status);
    file MPI_File_iread_at_all(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), request);
    large MPI_File_iread_at_all_c => MPI_File_iread_at_all (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), request);
    file MPI_File_read(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Individual, false, Buffer::new(buffer, count, datatype),
            status);
    large MPI_File_read_c => MPI_File_read (call; buffer: Opaque, count: Count, datatype: Handle,
        status: Opaque)
        = data::blocking(&call, Read, Individual, false, Buffer::new(buffer, count, datatype),
            status);
    file MPI_File_iread(call; buffer: Opaque, count: c_int, datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Individual, false, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iread_c => MPI_File_iread (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Individual, false, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_read_all(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Individual, true, Buffer::new(buffer, count, datatype),
            status);
    large MPI_File_read_all_c => MPI_File_read_all (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Individual, true, Buffer::new(buffer, count, datatype),
            status);
    file MPI_File_iread_all(call; buffer: Opaque, count: c_int, datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Individual, true, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iread_all_c => MPI_File_iread_all (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Individual, true, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_read_shared(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Shared, false, Buffer::new(buffer, count, datatype), status);
    large MPI_File_read_shared_c => MPI_File_read_shared (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Shared, false, Buffer::new(buffer, count, datatype), status);
    file MPI_File_iread_shared(call; buffer: Opaque, count: c_int, datatype: Handle,
        request: Opaque)
        = requests::start(&call, Read, Shared, false, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iread_shared_c => MPI_File_iread_shared (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Read, Shared, false, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_read_ordered(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Ordered, true, Buffer::new(buffer, count, datatype), status);
    large MPI_File_read_ordered_c => MPI_File_read_ordered (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Read, Ordered, true, Buffer::new(buffer, count, datatype), status);
    file MPI_File_write_at(call; offset: Offset, buffer: Opaque, count: c_int, datatype: Handle,
        status: Opaque)
        = data::blocking(&call, Write, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), status);
    large MPI_File_write_at_c => MPI_File_write_at (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), status);
    file MPI_File_iwrite_at(call; offset: Offset, buffer: Opaque, count: c_int, datatype: Handle,
        request: Opaque)
        = requests::start(&call, Write, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), request);
    large MPI_File_iwrite_at_c => MPI_File_iwrite_at (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Explicit(offset), false, Buffer::new(buffer, count,
            datatype), request);
    file MPI_File_write_at_all(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), status);
    large MPI_File_write_at_all_c => MPI_File_write_at_all (call; offset: Offset, buffer: Opaque,
        count: Count, datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), status);
    file MPI_File_iwrite_at_all(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), request);
    large MPI_File_iwrite_at_all_c => MPI_File_iwrite_at_all (call; offset: Offset,
        buffer: Opaque, count: Count, datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Explicit(offset), true, Buffer::new(buffer, count,
            datatype), request);
    file MPI_File_write(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Individual, false, Buffer::new(buffer, count, datatype),
            status);
    large MPI_File_write_c => MPI_File_write (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Individual, false, Buffer::new(buffer, count, datatype),
            status);
    file MPI_File_iwrite(call; buffer: Opaque, count: c_int, datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Individual, false, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iwrite_c => MPI_File_iwrite (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Individual, false, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_write_all(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Individual, true, Buffer::new(buffer, count, datatype),
            status);
    large MPI_File_write_all_c => MPI_File_write_all (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Individual, true, Buffer::new(buffer, count, datatype),
            status);
    file MPI_File_iwrite_all(call; buffer: Opaque, count: c_int, datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Individual, true, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iwrite_all_c => MPI_File_iwrite_all (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Individual, true, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_write_shared(call; buffer: Opaque, count: c_int, datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Shared, false, Buffer::new(buffer, count, datatype), status);
    large MPI_File_write_shared_c => MPI_File_write_shared (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Shared, false, Buffer::new(buffer, count, datatype), status);
    file MPI_File_iwrite_shared(call; buffer: Opaque, count: c_int, datatype: Handle,
        request: Opaque)
        = requests::start(&call, Write, Shared, false, Buffer::new(buffer, count, datatype),
            request);
    large MPI_File_iwrite_shared_c => MPI_File_iwrite_shared (call; buffer: Opaque, count: Count,
        datatype: Handle, request: Opaque)
        = requests::start(&call, Write, Shared, false, Buffer::new(buffer, count, datatype),
            request);
    file MPI_File_write_ordered(call; buffer: Opaque, count: c_int, datatype: Handle,
        status: Opaque)
        = data::blocking(&call, Write, Ordered, true, Buffer::new(buffer, count, datatype), status);
    large MPI_File_write_ordered_c => MPI_File_write_ordered (call; buffer: Opaque, count: Count,
        datatype: Handle, status: Opaque)
        = data::blocking(&call, Write, Ordered, true, Buffer::new(buffer, count, datatype), status);

    // Split collectives (14.4.5).
    file MPI_File_read_at_all_begin(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle)
        = split::begin(&call, Read, Explicit(offset), Buffer::new(buffer, count, datatype));
    large MPI_File_read_at_all_begin_c => MPI_File_read_at_all_begin (call; offset: Offset,
        buffer: Opaque, count: Count, datatype: Handle)
        = split::begin(&call, Read, Explicit(offset), Buffer::new(buffer, count, datatype));
    file MPI_File_read_at_all_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Read, SplitPointer::Explicit, buffer, status);
    file MPI_File_read_all_begin(call; buffer: Opaque, count: c_int, datatype: Handle)
        = split::begin(&call, Read, Individual, Buffer::new(buffer, count, datatype));
    large MPI_File_read_all_begin_c => MPI_File_read_all_begin (call; buffer: Opaque,
        count: Count, datatype: Handle)
        = split::begin(&call, Read, Individual, Buffer::new(buffer, count, datatype));
    file MPI_File_read_all_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Read, SplitPointer::Individual, buffer, status);
    file MPI_File_read_ordered_begin(call; buffer: Opaque, count: c_int, datatype: Handle)
        = split::begin(&call, Read, Ordered, Buffer::new(buffer, count, datatype));
    large MPI_File_read_ordered_begin_c => MPI_File_read_ordered_begin (call; buffer: Opaque,
        count: Count, datatype: Handle)
        = split::begin(&call, Read, Ordered, Buffer::new(buffer, count, datatype));
    file MPI_File_read_ordered_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Read, SplitPointer::Ordered, buffer, status);
    file MPI_File_write_at_all_begin(call; offset: Offset, buffer: Opaque, count: c_int,
        datatype: Handle)
        = split::begin(&call, Write, Explicit(offset), Buffer::new(buffer, count, datatype));
    large MPI_File_write_at_all_begin_c => MPI_File_write_at_all_begin (call; offset: Offset,
        buffer: Opaque, count: Count, datatype: Handle)
        = split::begin(&call, Write, Explicit(offset), Buffer::new(buffer, count, datatype));
    file MPI_File_write_at_all_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Write, SplitPointer::Explicit, buffer, status);
    file MPI_File_write_all_begin(call; buffer: Opaque, count: c_int, datatype: Handle)
        = split::begin(&call, Write, Individual, Buffer::new(buffer, count, datatype));
    large MPI_File_write_all_begin_c => MPI_File_write_all_begin (call; buffer: Opaque,
        count: Count, datatype: Handle)
        = split::begin(&call, Write, Individual, Buffer::new(buffer, count, datatype));
    file MPI_File_write_all_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Write, SplitPointer::Individual, buffer, status);
    file MPI_File_write_ordered_begin(call; buffer: Opaque, count: c_int, datatype: Handle)
        = split::begin(&call, Write, Ordered, Buffer::new(buffer, count, datatype));
    large MPI_File_write_ordered_begin_c => MPI_File_write_ordered_begin (call; buffer: Opaque,
        count: Count, datatype: Handle)
        = split::begin(&call, Write, Ordered, Buffer::new(buffer, count, datatype));
    file MPI_File_write_ordered_end(call; buffer: Opaque, status: Opaque)
        = split::end(&call, Write, SplitPointer::Ordered, buffer, status);

    // Calls that complete requests (3.7, 14.4): file operations proceed and report their errors.
    free MPI_Wait(abi; request: Opaque, status: Opaque) = hooks::wait(abi, request, status);
    free MPI_Test(abi; request: Opaque, flag: *mut c_int, status: Opaque)
        = hooks::test(abi, request, flag, status);
    free MPI_Waitall(abi; count: c_int, requests: Opaque, statuses: Opaque)
        = hooks::waitall(abi, count, requests, statuses);
    free MPI_Testall(abi; count: c_int, requests: Opaque, flag: *mut c_int, statuses: Opaque)
        = hooks::testall(abi, count, requests, flag, statuses);
    free MPI_Waitany(abi; count: c_int, requests: Opaque, index: *mut c_int, status: Opaque)
        = hooks::waitany(abi, count, requests, index, status);
    free MPI_Testany(abi; count: c_int, requests: Opaque, index: *mut c_int, flag: *mut c_int,
        status: Opaque)
        = hooks::testany(abi, count, requests, index, flag, status);
    free MPI_Waitsome(abi; count: c_int, requests: Opaque, completed: *mut c_int,
        indices: *mut c_int, statuses: Opaque)
        = hooks::waitsome(abi, count, requests, completed, indices, statuses);
    free MPI_Testsome(abi; count: c_int, requests: Opaque, completed: *mut c_int,
        indices: *mut c_int, statuses: Opaque)
        = hooks::testsome(abi, count, requests, completed, indices, statuses);
    free MPI_Request_get_status(abi; request: Handle, flag: *mut c_int, status: Opaque)
        = inquiry::get_status(abi, request, flag, status);
    free MPI_Request_get_status_all(abi; count: c_int, requests: Opaque, flag: *mut c_int,
        statuses: Opaque)
        = inquiry::get_status_all(abi, count, requests, flag, statuses);
    free MPI_Request_get_status_any(abi; count: c_int, requests: Opaque, index: *mut c_int,
        flag: *mut c_int, status: Opaque)
        = inquiry::get_status_any(abi, count, requests, index, flag, status);
    free MPI_Request_get_status_some(abi; count: c_int, requests: Opaque, completed: *mut c_int,
        indices: *mut c_int, statuses: Opaque)
        = inquiry::get_status_some(abi, count, requests, completed, indices, statuses);
    free MPI_Request_free(abi; request: Opaque) = hooks::request_free(abi, request);

    // Calls that block (3.2, 3.8, chapter 6): file operations proceed meanwhile.
    free MPI_Send(abi; buffer: Opaque, count: c_int, datatype: Handle, to: c_int, tag: c_int,
        comm: Handle)
        = if pending::any_work() { blocking::by_twin(abi, blocking::ignored(abi),
            |request| mpi::Isend(buffer, count, datatype, to, tag, comm,
            request)) } else { forward::MPI_Send(buffer, count, datatype.into(), to, tag,
            comm.into()) };
    free MPI_Ssend(abi; buffer: Opaque, count: c_int, datatype: Handle, to: c_int, tag: c_int,
        comm: Handle)
        = if pending::any_work() { blocking::by_twin(abi, blocking::ignored(abi),
            |request| mpi::Issend(buffer, count, datatype, to, tag, comm,
            request)) } else { forward::MPI_Ssend(buffer, count, datatype.into(), to, tag,
            comm.into()) };
    free MPI_Rsend(abi; buffer: Opaque, count: c_int, datatype: Handle, to: c_int, tag: c_int,
        comm: Handle)
        = if pending::any_work() { blocking::by_twin(abi, blocking::ignored(abi),
            |request| mpi::Irsend(buffer, count, datatype, to, tag, comm,
            request)) } else { forward::MPI_Rsend(buffer, count, datatype.into(), to, tag,
            comm.into()) };
    free MPI_Recv(abi; buffer: Opaque, count: c_int, datatype: Handle, from: c_int, tag: c_int,
        comm: Handle, status: Opaque)
        = if pending::any_work() { blocking::by_twin(abi, status, |request| mpi::Irecv(buffer,
            count, datatype, from, tag, comm, request)) } else { forward::MPI_Recv(buffer, count,
            datatype.into(), from, tag, comm.into(), status) };
    free MPI_Mrecv(abi; buffer: Opaque, count: c_int, datatype: Handle, message: Opaque,
        status: Opaque)
        = if pending::any_work() { blocking::by_twin(abi, status, |request| mpi::Imrecv(buffer,
            count, datatype, message, request)) } else { forward::MPI_Mrecv(buffer, count,
            datatype.into(), message, status) };
    free MPI_Probe(abi; from: c_int, tag: c_int, comm: Handle, status: Opaque)
        = if pending::any_work() { blocking::by_asking(|flag| mpi::Iprobe(from, tag, comm, flag,
            status)) } else { forward::MPI_Probe(from, tag, comm.into(), status) };
    free MPI_Mprobe(abi; from: c_int, tag: c_int, comm: Handle, message: Opaque, status: Opaque)
        = if pending::any_work() { blocking::by_asking(|flag| mpi::Improbe(from, tag, comm, flag,
            message, status)) } else { forward::MPI_Mprobe(from, tag, comm.into(), message,
            status) };
    free MPI_Sendrecv(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, to: c_int,
        sent_tag: c_int, buffer: Opaque, count: c_int, datatype: Handle, from: c_int, tag: c_int,
        comm: Handle, status: Opaque)
        = if pending::any_work() {
            blocking::by_twins(
                abi,
                status,
                |request| mpi::Irecv(buffer, count, datatype, from, tag, comm, request),
                |request| mpi::Isend(sent, sent_count, sent_type, to, sent_tag, comm, request),
            )
        } else {
            forward::MPI_Sendrecv(sent, sent_count, sent_type.into(), to, sent_tag, buffer, count,
                datatype.into(), from, tag, comm.into(), status)
        };
    free MPI_Barrier(abi; comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Barrier(comm.into()) };
    free MPI_Bcast(abi; buffer: Opaque, count: c_int, datatype: Handle, root: c_int, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Bcast(buffer, count, datatype.into(),
            root, comm.into()) };
    free MPI_Reduce(abi; sent: Opaque, buffer: Opaque, count: c_int, datatype: Handle, op: Handle,
        root: c_int, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Reduce(sent, buffer, count,
            datatype.into(), op.into(), root, comm.into()) };
    free MPI_Allreduce(abi; sent: Opaque, buffer: Opaque, count: c_int, datatype: Handle,
        op: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Allreduce(sent, buffer, count,
            datatype.into(), op.into(), comm.into()) };
    free MPI_Scan(abi; sent: Opaque, buffer: Opaque, count: c_int, datatype: Handle, op: Handle,
        comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Scan(sent, buffer, count,
            datatype.into(), op.into(), comm.into()) };
    free MPI_Exscan(abi; sent: Opaque, buffer: Opaque, count: c_int, datatype: Handle, op: Handle,
        comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Exscan(sent, buffer, count,
            datatype.into(), op.into(), comm.into()) };
    free MPI_Reduce_scatter(abi; sent: Opaque, buffer: Opaque, counts: Opaque, datatype: Handle,
        op: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Reduce_scatter(sent, buffer, counts,
            datatype.into(), op.into(), comm.into()) };
    free MPI_Reduce_scatter_block(abi; sent: Opaque, buffer: Opaque, count: c_int,
        datatype: Handle, op: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Reduce_scatter_block(sent, buffer,
            count, datatype.into(), op.into(), comm.into()) };
    free MPI_Gather(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        count: c_int, datatype: Handle, root: c_int, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Gather(sent, sent_count,
            sent_type.into(), buffer, count, datatype.into(), root, comm.into()) };
    free MPI_Gatherv(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        counts: Opaque, displacements: Opaque, datatype: Handle, root: c_int, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Gatherv(sent, sent_count,
            sent_type.into(), buffer, counts, displacements, datatype.into(), root, comm.into()) };
    free MPI_Scatter(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        count: c_int, datatype: Handle, root: c_int, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Scatter(sent, sent_count,
            sent_type.into(), buffer, count, datatype.into(), root, comm.into()) };
    free MPI_Scatterv(abi; sent: Opaque, sent_counts: Opaque, sent_displacements: Opaque,
        sent_type: Handle, buffer: Opaque, count: c_int, datatype: Handle, root: c_int,
        comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Scatterv(sent, sent_counts,
            sent_displacements, sent_type.into(), buffer, count, datatype.into(), root,
            comm.into()) };
    free MPI_Allgather(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        count: c_int, datatype: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Allgather(sent, sent_count,
            sent_type.into(), buffer, count, datatype.into(), comm.into()) };
    free MPI_Allgatherv(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        counts: Opaque, displacements: Opaque, datatype: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Allgatherv(sent, sent_count,
            sent_type.into(), buffer, counts, displacements, datatype.into(), comm.into()) };
    free MPI_Alltoall(abi; sent: Opaque, sent_count: c_int, sent_type: Handle, buffer: Opaque,
        count: c_int, datatype: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Alltoall(sent, sent_count,
            sent_type.into(), buffer, count, datatype.into(), comm.into()) };
    free MPI_Alltoallv(abi; sent: Opaque, sent_counts: Opaque, sent_displacements: Opaque,
        sent_type: Handle, buffer: Opaque, counts: Opaque, displacements: Opaque,
        datatype: Handle, comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Alltoallv(sent, sent_counts,
            sent_displacements, sent_type.into(), buffer, counts, displacements, datatype.into(),
            comm.into()) };
    free MPI_Alltoallw(abi; sent: Opaque, sent_counts: Opaque, sent_displacements: Opaque,
        sent_types: Opaque, buffer: Opaque, counts: Opaque, displacements: Opaque, types: Opaque,
        comm: Handle)
        = { blocking::before_collective(abi); forward::MPI_Alltoallw(sent, sent_counts,
            sent_displacements, sent_types, buffer, counts, displacements, types, comm.into()) };
    free MPI_Comm_dup(abi; comm: Handle, new: Opaque) = { blocking::before_collective(abi);
        forward::MPI_Comm_dup(comm.into(), new) };
    free MPI_Comm_split(abi; comm: Handle, color: c_int, key: c_int,
        new: Opaque) = { blocking::before_collective(abi); forward::MPI_Comm_split(comm.into(),
        color, key, new) };
    free MPI_Comm_split_type(abi; comm: Handle, kind: c_int, key: c_int, info: Handle,
        new: Opaque) = { blocking::before_collective(abi);
        forward::MPI_Comm_split_type(comm.into(), kind, key, info.into(), new) };
    free MPI_Comm_create(abi; comm: Handle, group: Handle,
        new: Opaque) = { blocking::before_collective(abi); forward::MPI_Comm_create(comm.into(),
        group.into(), new) };
    free MPI_Comm_disconnect(abi; comm: Opaque) = { blocking::before_collective(abi);
        forward::MPI_Comm_disconnect(comm) };
    free MPI_Win_fence(abi; assert: c_int, window: Handle) = { blocking::before_collective(abi);
        forward::MPI_Win_fence(assert, window.into()) };
    free MPI_Win_free(abi; window: Opaque) = { blocking::before_collective(abi);
        forward::MPI_Win_free(window) };
    free MPI_Win_create(abi; base: Opaque, size: i64, unit: c_int, info: Handle, comm: Handle,
        window: Opaque) = { blocking::before_collective(abi); forward::MPI_Win_create(base, size,
        unit, info.into(), comm.into(), window) };
    free MPI_Win_allocate(abi; size: i64, unit: c_int, info: Handle, comm: Handle, base: Opaque,
        window: Opaque) = { blocking::before_collective(abi); forward::MPI_Win_allocate(size,
        unit, info.into(), comm.into(), base, window) };

    // The life of the process and of its sessions (11.2 to 11.4).
    free MPI_Init(abi; argc: Opaque, argv: Opaque) = process::init(abi, argc, argv);
    free MPI_Init_thread(abi; argc: Opaque, argv: Opaque, required: c_int, provided: *mut c_int)
        = process::init_thread(abi, argc, argv, required, provided);
    free MPI_Finalize(abi;) = process::finalize(abi);
    free MPI_Session_init(abi; info: Handle, errhandler: Handle, session: Opaque)
        = process::session_init(abi, info, errhandler, session);
    free MPI_Session_finalize(abi; session: Opaque) = process::session_finalize(abi, session);
    free MPI_Abort(abi; comm: Handle, code: c_int) = process::abort(abi, comm, code);
    } };
}
pub(crate) use interposed;
