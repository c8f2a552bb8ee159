! An error handler written in Fortran with mpif.h is called with the file's own handle and the code.
! Usage: errhandler_mpif FILE
module seen_mpif
    implicit none
    integer :: file = -77, code = -77, calls = 0
contains
    subroutine remember(fh, error)
        integer :: fh, error
        file = fh
        code = error
        calls = calls + 1
    end subroutine
end module

program errhandler_mpif
    use seen_mpif
    implicit none
    include 'mpif.h'
    integer :: fh, handler, ierr, class, errors, rank, amode
    integer(kind=MPI_OFFSET_KIND) :: offset
    character(len=1000) :: path
    errors = 0
    call MPI_Init(ierr)
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
    call get_command_argument(1, path)
    call MPI_File_create_errhandler(remember, handler, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 1
    amode = ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE))
    call MPI_File_open(MPI_COMM_WORLD, trim(path), amode, MPI_INFO_NULL, fh, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 10
    call MPI_File_set_errhandler(fh, handler, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 100
    call MPI_Errhandler_free(handler, ierr)
    offset = -5
    call MPI_File_seek(fh, offset, MPI_SEEK_SET, ierr)
    call MPI_Error_class(ierr, class, ierr)
    if (class /= MPI_ERR_ARG) errors = errors + 1000
    if (calls /= 1 .or. file /= fh) errors = errors + 10000
    call MPI_Error_class(code, class, ierr)
    if (class /= MPI_ERR_ARG) errors = errors + 100000
    call MPI_File_close(fh, ierr)
    if (ierr /= MPI_SUCCESS .or. fh /= MPI_FILE_NULL) errors = errors + 1000000
    call MPI_Allreduce(MPI_IN_PLACE, errors, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD, ierr)
    if (rank == 0 .and. errors == 0) print '(a)', 'ok'
    if (rank == 0 .and. errors /= 0) print *, 'errors', errors
    call MPI_Finalize(ierr)
end program
