! An error handler written in Fortran with mpi_f08 is called with the file's own handle and the code; a file opened
! here is read and written. Usage: errhandler_f08 FILE
module seen_f08
    use mpi_f08
    implicit none
    type(MPI_File) :: file
    integer :: code = -77, calls = 0
contains
    subroutine remember(fh, error)
        type(MPI_File) :: fh
        integer :: error
        file = fh
        code = error
        calls = calls + 1
    end subroutine
end module

program errhandler_f08
    use mpi_f08
    use seen_f08
    implicit none
    type(MPI_File) :: fh
    type(MPI_Errhandler) :: handler
    integer :: ierr, class, errors, rank, amode
    integer(kind=MPI_OFFSET_KIND) :: offset, size
    character(len=1000) :: path
    errors = 0
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call get_command_argument(1, path)
    call MPI_File_create_errhandler(remember, handler, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 1
    amode = ior(MPI_MODE_CREATE, ior(MPI_MODE_RDWR, MPI_MODE_DELETE_ON_CLOSE))
    call MPI_File_open(MPI_COMM_WORLD, trim(path), amode, MPI_INFO_NULL, fh, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 10
    call MPI_File_set_errhandler(fh, handler, ierr)
    if (ierr /= MPI_SUCCESS) errors = errors + 100
    call MPI_Errhandler_free(handler)
    offset = -5
    call MPI_File_seek(fh, offset, MPI_SEEK_SET, ierr)
    call MPI_Error_class(ierr, class)
    if (class /= MPI_ERR_ARG) errors = errors + 1000
    if (calls /= 1) errors = errors + 10000
    if (file%MPI_VAL /= fh%MPI_VAL) errors = errors + 20000
    call MPI_Error_class(code, class)
    if (class /= MPI_ERR_ARG) errors = errors + 100000
    offset = 4096
    call MPI_File_set_size(fh, offset)
    call MPI_File_get_size(fh, size)
    if (size /= offset) errors = errors + 200000
    call MPI_File_close(fh, ierr)
    if (ierr /= MPI_SUCCESS .or. fh%MPI_VAL /= MPI_FILE_NULL%MPI_VAL) errors = errors + 1000000
    call MPI_Allreduce(MPI_IN_PLACE, errors, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    if (rank == 0 .and. errors == 0) print '(a)', 'ok'
    if (rank == 0 .and. errors /= 0) print *, 'errors', errors
    call MPI_Finalize()
end program
