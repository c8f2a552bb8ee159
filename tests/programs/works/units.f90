! Fortran units: formatted, unformatted, stream and direct access, namelists, positions, inquiries, internal errors.
program units
  implicit none
  integer :: i, n, status, unit, record(4)
  real(8) :: x, values(100)
  character(40) :: word, text
  logical :: there
  namelist /settings/ n, x, word

  open (newunit=unit, file='formatted', action='readwrite', status='new')
  do i = 1, 500
    write (unit, '(i5, f10.3, 1x, a)') i, i * 0.25d0, 'word'
  end do
  backspace (unit)
  read (unit, '(i5)') n
  print *, 'last', n
  rewind (unit)
  read (unit, *) n, x, word
  print *, n, x, trim(word)
  write (unit, '(a)') 'everything behind is cut'
  endfile (unit)
  close (unit)
  open (newunit=unit, file='formatted', position='append', status='old')
  write (unit, '(a)', advance='no') 'half a '
  write (unit, '(a)') 'line'
  inquire (unit, size=n, position=word)
  flush (unit)
  close (unit)
  open (newunit=unit, file='formatted', status='old', action='read')
  do
    read (unit, '(a)', iostat=status) text
    if (status /= 0) exit
    print *, trim(text)
  end do
  print *, 'end', is_iostat_end(status)
  close (unit)

  values = [(i * 1.5d0, i=1, 100)]
  open (newunit=unit, file='unformatted', form='unformatted')
  do i = 1, 20
    write (unit) i, values(:i)
  end do
  rewind (unit)
  read (unit)
  read (unit) n, values(1:2)
  print *, n, values(1:2)
  backspace (unit)
  backspace (unit)
  read (unit) n
  print *, n
  close (unit)
  open (newunit=unit, file='unformatted', form='unformatted', access='stream', status='old')
  read (unit) record(1:2)
  inquire (unit, pos=n, size=i)
  print *, record(1:2), n, i
  read (unit, pos=5) n
  print *, n
  write (unit, pos=i + 100) 77
  close (unit)

  open (newunit=unit, file='direct', access='direct', recl=16, form='unformatted')
  do i = 50, 1, -1
    write (unit, rec=i) i, i * 2, i * 3, i * 4
  end do
  read (unit, rec=7) record
  print *, record
  write (unit, rec=7) -record
  read (unit, rec=51, iostat=status) record
  print *, 'no record', status /= 0
  close (unit)
  open (newunit=unit, file='lines', access='direct', recl=10, form='formatted')
  write (unit, '(a)', rec=3) 'third'
  write (unit, '(i6)', rec=1) 123456
  read (unit, '(a)', rec=3) word
  print *, trim(word)
  close (unit)

  n = 5; x = 2.5d0; word = 'name'
  open (newunit=unit, file='namelist', delim='apostrophe')
  write (unit, settings)
  n = 0; x = 0; word = ' '
  rewind (unit)
  read (unit, settings)
  print *, n, x, trim(word)
  close (unit)
  open (newunit=unit, file='scratch', status='replace')
  write (unit, *) 'gone'
  close (unit, status='delete')
  inquire (file='scratch', exist=there)
  print *, 'there', there
  open (newunit=unit, status='scratch', form='unformatted')
  write (unit) values
  rewind (unit)
  read (unit) x
  print *, x
  open (newunit=unit, file='formatted', status='new', iostat=status)
  print *, 'exists', status /= 0
  open (newunit=unit, file='asynchronous', asynchronous='yes', encoding='UTF-8')
  write (unit, *, asynchronous='yes') 'later'
  wait (unit)
  write (*, '(a)') 'standard output'
end program units
