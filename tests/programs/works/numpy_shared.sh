# numpy: an array that is a shared mapping of its file.
/usr/bin/python3 - <<'END'
import numpy as n
m = n.memmap("made", dtype="<i4", mode="w+", shape=(1000,)); m[:] = n.arange(1000); m.flush()
print(n.fromfile("made", dtype="<i4").sum()); del m
m = n.memmap("made", dtype="<i4", mode="r+"); m[5] = -5; del m
print(n.fromfile("made", dtype="<i4")[:7])
END
