! The `use mpi` binding: shared pointer, ordered and split collective calls.
program main
  use mpi
  implicit none
  integer :: ierr, rank, nranks, fh, i, errs, total, n, amode
  integer :: status(MPI_STATUS_SIZE)
  integer :: buffer(50)
  integer(kind=MPI_OFFSET_KIND) :: offset
  character(len=1024) :: path
  logical :: flag

  errs = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_File_get_amode(fh, amode, ierr)
  if (amode /= MPI_MODE_CREATE + MPI_MODE_RDWR) errs = errs + 1
  offset = 0
  call MPI_File_set_view(fh, offset, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierr)
  buffer = [(rank * 100 + i, i = 1, 50)]
  call MPI_File_write_ordered(fh, buffer, 50, MPI_INTEGER, status, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_get_position_shared(fh, offset, ierr)
  if (offset /= 50 * nranks) errs = errs + 1
  buffer = 0
  offset = 50 * mod(rank + 1, nranks)
  call MPI_File_read_at_all_begin(fh, offset, buffer, 50, MPI_INTEGER, ierr)
  call MPI_File_read_at_all_end(fh, buffer, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  if (n /= 50) errs = errs + 1
  do i = 1, 50
    if (buffer(i) /= mod(rank + 1, nranks) * 100 + i) errs = errs + 1
  end do
  call MPI_File_set_atomicity(fh, .true., ierr)
  call MPI_File_get_atomicity(fh, flag, ierr)
  if (.not. flag) errs = errs + 1
  call MPI_File_close(fh, ierr)
  call MPI_Reduce(errs, total, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0) then
    if (total == 0) then
      print '(A)', 'ok'
    else
      print *, total, ' errors'
    end if
  end if
  call MPI_Finalize(ierr)
end program main
