! The fixed-form binding, with an error handler in Fortran.
      program main
      implicit none
      include 'mpif.h'
      integer ierr, rank, nranks, fh, i, errs, total, handler, code
      integer status(MPI_STATUS_SIZE), request, filetype, n
      integer buffer(100), calls
      integer(kind=MPI_OFFSET_KIND) disp, offset, fsize
      character*1024 path
      external failed
      common /handled/ calls

      errs = 0
      calls = 0
      call MPI_INIT(ierr)
      call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
      call MPI_COMM_SIZE(MPI_COMM_WORLD, nranks, ierr)
      call getarg(1, path)
      call MPI_FILE_OPEN(MPI_COMM_WORLD, path,
     &     MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, fh, ierr)
      if (ierr .ne. MPI_SUCCESS) errs = errs + 1
      do i = 1, 100
         buffer(i) = rank * 1000 + i
      end do
      call MPI_TYPE_VECTOR(10, 10, 10 * nranks, MPI_INTEGER, filetype,
     &     ierr)
      call MPI_TYPE_COMMIT(filetype, ierr)
      disp = rank * 40
      call MPI_FILE_SET_VIEW(fh, disp, MPI_INTEGER, filetype, 'native',
     &     MPI_INFO_NULL, ierr)
      if (ierr .ne. MPI_SUCCESS) errs = errs + 1
      call MPI_FILE_WRITE_ALL(fh, buffer, 100, MPI_INTEGER, status,
     &     ierr)
      if (ierr .ne. MPI_SUCCESS) errs = errs + 1
      call MPI_GET_COUNT(status, MPI_INTEGER, n, ierr)
      if (n .ne. 100) errs = errs + 1
      call MPI_FILE_GET_POSITION(fh, offset, ierr)
      if (offset .ne. 100) errs = errs + 1
      call MPI_FILE_GET_SIZE(fh, fsize, ierr)
      call MPI_BARRIER(MPI_COMM_WORLD, ierr)
      call MPI_FILE_GET_SIZE(fh, fsize, ierr)
      if (fsize .ne. 400 * nranks) errs = errs + 1
      do i = 1, 100
         buffer(i) = 0
      end do
      offset = 0
      call MPI_FILE_IREAD_AT(fh, offset, buffer, 100, MPI_INTEGER,
     &     request, ierr)
      call MPI_WAIT(request, status, ierr)
      call MPI_GET_COUNT(status, MPI_INTEGER, n, ierr)
      if (n .ne. 100) errs = errs + 1
      do i = 1, 100
         if (buffer(i) .ne. rank * 1000 + i) errs = errs + 1
      end do
      call MPI_FILE_CREATE_ERRHANDLER(failed, handler, ierr)
      call MPI_FILE_SET_ERRHANDLER(fh, handler, ierr)
      call MPI_ERRHANDLER_FREE(handler, ierr)
      offset = -5
      call MPI_FILE_READ_AT(fh, offset, buffer, 1, MPI_INTEGER, status,
     &     code)
      if (code .eq. MPI_SUCCESS) errs = errs + 1
      if (calls .ne. 1) errs = errs + 1
      call MPI_FILE_CLOSE(fh, ierr)
      if (fh .ne. MPI_FILE_NULL) errs = errs + 1
      call MPI_TYPE_FREE(filetype, ierr)
      call MPI_REDUCE(errs, total, 1, MPI_INTEGER, MPI_SUM, 0,
     &     MPI_COMM_WORLD, ierr)
      if (rank .eq. 0) then
         if (total .eq. 0) then
            print '(A)', 'ok'
         else
            print *, total, ' errors'
         end if
      end if
      call MPI_FINALIZE(ierr)
      end

      subroutine failed(fh, code)
      implicit none
      integer fh, code, calls
      common /handled/ calls
      if (fh .ne. 0 .and. code .ne. 0) calls = calls + 1
      end
