! An error handler written in Fortran that says that nothing happened: what the calls return then.
! Usage: swallowed FILE. Prints "left" or "kept", and how often the handler was called.
module seen_swallowed
    implicit none
    integer :: calls = 0
contains
    subroutine forgive(fh, error)
        integer :: fh, error
        if (fh /= -12345) error = 0
        calls = calls + 1
    end subroutine
end module

program swallowed
    use seen_swallowed
    implicit none
    include 'mpif.h'
    integer :: fh, handler, ierr, amode, rank
    integer(kind=MPI_OFFSET_KIND) :: offset
    character(len=1000) :: path
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call get_command_argument(1, path)
    call MPI_File_create_errhandler(forgive, handler, ierr)
    call MPI_File_set_errhandler(MPI_FILE_NULL, handler, ierr)
    call MPI_File_open(MPI_COMM_WORLD, '/no/such/folder/f', MPI_MODE_RDONLY, MPI_INFO_NULL, fh, ierr)
    call tell('MPI_File_open')
    amode = ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE))
    call MPI_File_open(MPI_COMM_WORLD, trim(path), amode, MPI_INFO_NULL, fh, ierr)
    offset = -5
    call MPI_File_seek(fh, offset, MPI_SEEK_SET, ierr)
    call tell('MPI_File_seek')
    call MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN, ierr)
    call MPI_File_close(fh, ierr)
    call MPI_Errhandler_free(handler, ierr)
    call MPI_Finalize(ierr)
contains
    subroutine tell(call_name)
        character(len=*) :: call_name
        character(len=4) :: word
        word = 'kept'
        if (ierr == MPI_SUCCESS) word = 'left'
        if (rank == 0) print '(a,a,a,a,i0,a)', call_name, ': ', word, ', ', calls, ' called'
        calls = 0
    end subroutine
end program
