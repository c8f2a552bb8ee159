! The `use mpi_f08` binding, with an error handler.
module handled
  use mpi_f08
  implicit none
  integer :: calls = 0
contains
  subroutine failed(file, code)
    type(MPI_File) :: file
    integer :: code
    if (file /= MPI_FILE_NULL .and. code /= MPI_SUCCESS) calls = calls + 1
  end subroutine failed
end module handled

program main
  use mpi_f08
  use handled
  implicit none
  type(MPI_File) :: fh
  type(MPI_Status) :: status, statuses(2)
  type(MPI_Request) :: requests(2)
  type(MPI_Datatype) :: column
  type(MPI_Errhandler) :: handler
  integer :: ierr, rank, nranks, i, errs, total, n
  integer, asynchronous :: out(40), in(40)
  integer(kind=MPI_OFFSET_KIND) :: offset, disp
  character(len=1024) :: path

  errs = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_Type_create_subarray(2, [10, 4 * nranks], [10, 4], [0, 4 * rank], MPI_ORDER_FORTRAN, MPI_INTEGER, column)
  call MPI_Type_commit(column)
  disp = 8
  call MPI_File_set_view(fh, disp, MPI_INTEGER, column, 'native', MPI_INFO_NULL, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  out = [(rank * 100 + i, i = 1, 40)]
  call MPI_File_write_all(fh, out, 40, MPI_INTEGER, status, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_Get_count(status, MPI_INTEGER, n)
  if (n /= 40) errs = errs + 1
  call MPI_Barrier(MPI_COMM_WORLD)
  in = 0
  offset = 0
  call MPI_File_iread_at(fh, offset, in(1:20), 20, MPI_INTEGER, requests(1), ierr)
  offset = 20
  call MPI_File_iread_at_all(fh, offset, in(21:40), 20, MPI_INTEGER, requests(2), ierr)
  call MPI_Waitall(2, requests, statuses, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  do i = 1, 40
    if (in(i) /= out(i)) errs = errs + 1
  end do
  call MPI_File_create_errhandler(failed, handler, ierr)
  call MPI_File_set_errhandler(fh, handler, ierr)
  call MPI_Errhandler_free(handler)
  offset = -1
  call MPI_File_read_at(fh, offset, in, 1, MPI_INTEGER, status, ierr)
  if (ierr == MPI_SUCCESS) errs = errs + 1
  if (calls /= 1) errs = errs + 1
  call MPI_File_close(fh, ierr)
  if (fh /= MPI_FILE_NULL) errs = errs + 1
  call MPI_Type_free(column)
  call MPI_Reduce(errs, total, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD)
  if (rank == 0) then
    if (total == 0) then
      print '(A)', 'ok'
    else
      print *, total, ' errors'
    end if
  end if
  call MPI_Finalize()
end program main
