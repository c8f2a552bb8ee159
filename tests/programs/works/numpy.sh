# numpy: arrays written, read and mapped.
/usr/bin/python3 - <<'END'
import numpy as n
a = n.arange(1000, dtype="<f8").reshape(10, 100)
a.tofile("raw"); print(n.fromfile("raw").sum(), n.fromfile("raw", count=3, offset=80))
n.save("a.npy", a); n.savez("a.npz", a=a, b=a[:2]); n.savetxt("a.txt", a[:2], fmt="%g")
print(n.load("a.npy").shape, sorted(n.load("a.npz")), n.loadtxt("a.txt").sum())
print(n.load("a.npy", mmap_mode="r")[3, 4], n.memmap("raw", dtype="<f8", mode="r", offset=800,
    shape=(3,)), n.memmap("raw", dtype="<f8", mode="c")[-1])
with open("raw", "r+b") as f:
    f.seek(8); n.array([-1.0]).tofile(f); f.seek(0); print(n.fromfile(f, count=3))
with open("raw", "ab") as f: a[0].tofile(f)
print(n.fromfile("raw").size)
END
rm -f a.npz
