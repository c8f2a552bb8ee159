! Writes records to a stream that is flushed after each, and prints how many seconds that took.
! usage: records FILE LENGTH COUNT
program records
  implicit none
  character(len=1024) :: path, word
  integer(8) :: length, count, i, start, finish, rate
  character(len=:), allocatable :: record
  integer :: unit
  call get_command_argument(1, path)
  call get_command_argument(2, word)
  read (word, *) length
  call get_command_argument(3, word)
  read (word, *) count
  record = repeat('r', int(length))
  call system_clock(start, rate)
  open (newunit=unit, file=trim(path), access='stream', form='unformatted', status='replace')
  do i = 1, count
    write (unit) record
    flush (unit)
  end do
  close (unit)
  call system_clock(finish)
  print *, real(finish - start, 8) / real(rate, 8)
end program records
