# The serial HDF5 tools: import, copy, repack, compare, change, dump.
seq 600 > numbers
printf 'PATH data/values\nINPUT-CLASS TEXTIN\nINPUT-SIZE 32\nRANK 2\n' > how
printf 'DIMENSION-SIZES 20 30\nOUTPUT-CLASS IN\nOUTPUT-SIZE 32\n' >> how
h5import numbers -c how -o a.h5; echo "status $?"; h5dump -H a.h5; h5ls -r a.h5
h5dump -d /data/values a.h5 | cksum
h5copy -i a.h5 -o b.h5 -s /data/values -d /copy; h5copy -p -i a.h5 -o b.h5 -s /data -d /deep/er/data
h5ls -r b.h5; h5diff a.h5 b.h5 /data/values /copy; echo "status $?"; h5diff -r a.h5 b.h5
echo "status $?"
h5repack -f GZIP=6 -l CHUNK=5x10 a.h5 packed.h5; h5diff a.h5 packed.h5; echo "status $?"
h5dump -p -H packed.h5 | grep -A 2 -E 'CHUNKED|FILTERS'; h5repack -S PAGE -G 4096 packed.h5 paged.h5
h5diff a.h5 paged.h5; echo "status $?"
h5repack -u numbers -b 1024 a.h5 headed.h5; h5unjam -i headed.h5 -u head -o plain.h5
cmp -n 10 head numbers && echo head; h5diff plain.h5 a.h5; echo "status $?"; h5stat a.h5 | grep -c :
h5dump -o out.txt -y -d /data/values a.h5 > /dev/null; tail -n 2 out.txt
h5dump -b LE -o raw -d /data/values a.h5 > /dev/null; cksum raw; h5mkgrp b.h5 /new; h5ls b.h5
h5diff missing.h5 a.h5 2> /dev/null; echo "status $?"
h5clear -s b.h5; echo "status $?"; h5debug a.h5 0 | head -n 3 | cut -c 1-40; echo no > broken.h5
h5ls broken.h5; echo "status $?"
rm -f *.h5 # h5import stores the time
