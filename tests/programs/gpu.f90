! Memory of a device in Fortran, from the stand-in of a driver's library (gpu_driver.c).
program main
  use, intrinsic :: iso_c_binding
  use mpi
  implicit none
  interface
    function gpu_allocate(size, kind) bind(C)
      import :: c_ptr, c_size_t, c_int
      integer(c_size_t), value :: size
      integer(c_int), value :: kind
      type(c_ptr) :: gpu_allocate
    end function
    subroutine gpu_put(device, host, size) bind(C)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: device, host
      integer(c_size_t), value :: size
    end subroutine
    subroutine gpu_get(host, device, size) bind(C)
      import :: c_ptr, c_size_t
      type(c_ptr), value :: device, host
      integer(c_size_t), value :: size
    end subroutine
  end interface
  integer, parameter :: length = 1000
  integer(c_size_t), parameter :: bytes = 4 * length
  integer :: ierr, rank, nranks, fh, i, errs, total, request, n
  integer :: status(MPI_STATUS_SIZE)
  integer(c_int), target :: host(length)
  integer(c_int), pointer, contiguous :: device(:)
  type(c_ptr) :: address
  integer(kind=MPI_OFFSET_KIND) :: offset
  character(len=1024) :: path

  errs = 0
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call get_command_argument(1, path)
  call MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, ierr)
  offset = 0
  call MPI_File_set_view(fh, offset, MPI_INTEGER, MPI_INTEGER, 'native', MPI_INFO_NULL, ierr)
  address = gpu_allocate(bytes, 0)
  call c_f_pointer(address, device, [length])
  host = [(rank * length + i, i = 1, length)]
  call gpu_put(address, c_loc(host), bytes)
  offset = rank * length
  call MPI_File_write_at_all(fh, offset, device, length, MPI_INTEGER, status, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_File_sync(fh, ierr)
  call MPI_Barrier(MPI_COMM_WORLD, ierr)
  call MPI_File_sync(fh, ierr)
  host = 0
  call gpu_put(address, c_loc(host), bytes)
  offset = mod(rank + 1, nranks) * length
  call MPI_File_iread_at(fh, offset, device, length, MPI_INTEGER, request, ierr)
  if (ierr /= MPI_SUCCESS) errs = errs + 1
  call MPI_Wait(request, status, ierr)
  call MPI_Get_count(status, MPI_INTEGER, n, ierr)
  if (n /= length) errs = errs + 1
  call gpu_get(c_loc(host), address, bytes)
  do i = 1, length
    if (host(i) /= mod(rank + 1, nranks) * length + i) errs = errs + 1
  end do
  call MPI_File_close(fh, ierr)
  call MPI_Allreduce(errs, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. total == 0) print *, 'ok'
  if (rank == 0 .and. total /= 0) print *, total, ' errors'
  call MPI_Finalize(ierr)
end program
