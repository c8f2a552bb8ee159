# Python: files, pickles, archives, databases of keys, mappings, children.
python3 - <<'END'
import csv, glob, gzip, io, json, mmap, os, pickle, shelve, shutil, struct, subprocess
import tempfile, zipfile
with open("p", "w+b") as f:
    pickle.dump(list(range(1000)), f); f.flush(); f.seek(0); print(len(pickle.load(f)), f.tell())
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ) as m:
        print(m.size(), m[:4], m.find(b"\xe7"))
    with mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY) as m:
        m[0] = 1; print(m[0], os.pread(f.fileno(), 1, 0))
g = open("t", "w")
for i in range(1000): print(i, file=g, flush=i % 3 == 0)
g.flush(); subprocess.run(["wc", "-l", "t"]); subprocess.run(["echo", "child"], stdout=g)
g.write("after ä€\n"); g.close()
print(open("t", encoding="utf-8").readlines()[-2:], os.path.getsize("t"))
with open("t", "r+") as f:
    f.seek(100); f.truncate(); f.write("end"); f.seek(0); print(len(f.read()))
with open("u", "xb", buffering=0) as f: print(f.write(b"unbuffered"))
END
python3 - <<'END'
import csv, dbm.dumb, glob, gzip, json, os, shelve, shutil, struct, tempfile, zipfile
try: open("u", "x")
except FileExistsError as error: print(error)
with zipfile.ZipFile("z.zip", "w") as z:
    z.writestr(zipfile.ZipInfo("name"), "x" * 1000); z.writestr(zipfile.ZipInfo("other"), "y")
with zipfile.ZipFile("z.zip", "a") as z:
    z.writestr(zipfile.ZipInfo("third"), "z"); print(z.testzip(), z.namelist())
with gzip.GzipFile("g.gz", "wb", mtime=0) as f: f.write(b"text" * 100)
print(len(gzip.open("g.gz").read()), json.dump({"a": [1, 2]}, open("j", "w")), json.load(open("j")))
with open("c.csv", "w", newline="") as f: csv.writer(f).writerows([[1, "a"], [2, "b,c"]])
print(list(csv.reader(open("c.csv", newline=""))))
os.mkdir("d"); [open(f"d/{i}", "w").write(str(i)) for i in range(3)]
print(sorted((e.name, e.is_file(), e.is_dir(), e.stat().st_size) for e in os.scandir("d")),
    sorted(glob.glob("d/*")), [sorted(f) for _, _, f in os.walk("d")])
shutil.copytree("d", "e"); shutil.move("e/0", "e/zero"); print(sorted(os.listdir("e")))
shutil.rmtree("d"); shutil.copy2("j", "k"); os.replace("k", "j2")
with tempfile.TemporaryDirectory(dir=".") as place, open(place + "/f", "w") as f: f.write("gone")
with tempfile.NamedTemporaryFile(dir=".") as f, tempfile.TemporaryFile(dir=".") as h:
    f.write(b"x"); h.write(b"y"); h.seek(0); print(h.read(), os.path.exists(f.name))
with shelve.Shelf(dbm.dumb.open("s")) as s: s["key"] = [1]; s["more"] = 2
with shelve.Shelf(dbm.dumb.open("s")) as s: print(sorted(s.items()))
[os.remove(name) for name in glob.glob("s*")]
fd = os.open("raw", os.O_RDWR | os.O_CREAT, 0o644); os.writev(fd, [b"abc", b"def"])
os.pwrite(fd, struct.pack("<q", 5), 100)
print(os.lseek(fd, 0, os.SEEK_END), os.preadv(fd, [bytearray(4)], 2))
copy = os.dup(fd); os.lseek(fd, 3, os.SEEK_SET); print(os.read(copy, 3)); os.ftruncate(fd, 50)
os.posix_fallocate(fd, 0, 60); os.fchmod(fd, 0o600); os.utime("raw", (1, 2)); s = os.fstat(fd)
print(s.st_size, oct(s.st_mode), s.st_mtime)
for tried in (lambda: os.open("raw/x", os.O_RDONLY), lambda: os.listdir("raw"),
    lambda: os.chdir("raw"), lambda: os.rmdir("raw"), lambda: os.mkdir("raw"),
    lambda: os.open("raw", os.O_DIRECTORY), lambda: os.execv("raw", ["raw"])):
    try: print(tried())
    except OSError as error: print(type(error).__name__)
os.chmod("raw", 0o400)
print(os.access("raw", os.X_OK), os.access("raw", os.R_OK), sorted(os.listdir(".")))
END
python3 - > daemon <<'END'
import os, sys
log = open("log", "w"); log.write("before "); log.flush(); print("printed"); sys.stdout.flush()
for fd in range(3, 1024):
    if fd != log.fileno():
        try: os.close(fd)
        except OSError: pass
other = open("other", "w"); log.write("after"); log.close(); other.write("other"); print("closed")
sys.stdout.flush()
os.closerange(3, 4096); last = open("last", "w"); last.write("last"); print("range")
END
cat log other last daemon
