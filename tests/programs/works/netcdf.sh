# The serial netCDF tools: text to file, file to text, every format to every other.
cat > c.cdl <<'END'
netcdf c {
dimensions: t = UNLIMITED ; y = 40 ; x = 50 ;
variables: float v(t, y, x) ; v:units = "K" ; double time(t) ; int flag(y) ; char name(x) ;
  :title = "a test" ;
data: time = 0, 1, 2 ; flag = 1, 2, 3, 4, 5 ; name = "letters" ;
END
echo " v = $(seq -s, 1 6000) ; }" >> c.cdl
for kind in classic 64-bit-offset 64-bit-data nc4 'nc7'; do
  ncgen -k "$kind" -o "$kind.nc" c.cdl; echo "$kind $?"; ncdump -k "$kind.nc"
  ncdump -n c "$kind.nc" | cksum; nccopy -k cdf5 "$kind.nc" back.nc; ncdump -n c back.nc | cksum
done
nccopy -k nc4 -d 5 -s -c t/1,y/10,x/50 classic.nc packed.nc; ncdump -h packed.nc
ncdump -n c packed.nc | cksum; nccopy -V time,flag -k classic packed.nc part.nc; ncdump part.nc
nccopy -w classic.nc whole.nc; cmp classic.nc whole.nc && echo whole
ncdump -h missing.nc; echo "status $?"; echo short > broken.nc; ncdump -h broken.nc
echo "status $?"; test "$(wc -c < classic.nc)" -gt 24000 && echo large
