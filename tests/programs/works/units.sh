# Fortran input and output of every kind.
"$WORKS/units_f90"; echo "status $?"; rm -f asynchronous; for f in *; do echo "$f $(cksum < "$f")"
done; mkdir more; cd more; "$WORKS/units_f90" > printed; cat printed
