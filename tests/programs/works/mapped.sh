# Files that are changed by stores to memory: written, grown and cut beside that, remapped,
# inherited, and mapped after their last descriptor was closed.
/usr/bin/python3 - <<'END'
import mmap, os

with open("made", "w+b") as f:
    f.write(bytes(range(256)) * 40)
    f.flush()
    m = mmap.mmap(f.fileno(), 0)
    m[100:105] = b"first"
    os.pwrite(f.fileno(), b"written", 4090)
    print(m[4085:4100], os.pread(f.fileno(), 8, 99))
    m.resize(30000)
    m[29990:30000] = b"at the end"
    f.seek(0, 2)
    print(f.tell())
    m.flush()
    m.resize(9000)
    print(os.fstat(f.fileno()).st_size, m[8990:])
    child = os.fork()
    if child == 0:
        m[200:205] = b"child"
        os._exit(0)
    os.waitpid(child, 0)
    print(m[198:207], os.pread(f.fileno(), 7, 199))
m[300:305] = b"after"
print(open("made", "rb").read()[298:307])
m.close()

with open("both", "w+b") as f:
    f.truncate(20000)
    one, other = mmap.mmap(f.fileno(), 0), mmap.mmap(f.fileno(), 8192, offset=4096)
    one[5000:5003] = b"one"
    other[8000:8005] = b"other"
    print(other[904:907], one[12096:12101])
    os.ftruncate(f.fileno(), 6000)
    os.ftruncate(f.fileno(), 20000)
    print(one[4999:5004], one[12096:12101])
    one[12000:12003] = b"new"
    print(other[7904:7907], f.read().replace(b"\0", b""))
    os.unlink("both")
    one[1:4] = b"far"
    f.seek(0)
    print(f.read(5))
END
sha256sum made
