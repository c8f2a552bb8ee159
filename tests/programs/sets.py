"""Reads a set of files by every call that Python has for it, beside the file that it stands for.

usage: sets.py SET CANONICAL SEED
"""
import ctypes
import errno
import mmap
import os
import random
import subprocess
import sys
import threading

name, canonical, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
expected = open(canonical, "rb").read()
size = len(expected)
chance = random.Random(seed)


def same(found, at, how):
    if found != expected[at:at + len(found)]:
        sys.exit(f"{how}: other bytes from {at} on")


def some():
    """An offset, sometimes behind the end, and a length."""
    at = chance.choice(
        [0, size - 1, size, size + 7, chance.randrange(size), chance.randrange(size)]
    )
    return at, chance.choice([0, 1, 4096, chance.randrange(1, 300000)])


def positioned(fd):
    for _ in range(200):
        at, length = some()
        found = os.pread(fd, length, at)
        assert len(found) == max(0, min(length, size - at)), (at, length, len(found))
        same(found, at, "pread")
        rooms = [bytearray(chance.randrange(1, 5000)) for _ in range(3)]
        count = os.preadv(fd, rooms, at)
        assert count == max(0, min(sum(map(len, rooms)), size - at))
        same(b"".join(rooms)[:count], at, "preadv")


def moving(fd):
    place = os.lseek(fd, 0, os.SEEK_SET)
    for _ in range(200):
        at, length = some()
        way = chance.randrange(4)
        if way == 0:
            place = os.lseek(fd, at, os.SEEK_SET)
        elif way == 1:
            place = os.lseek(fd, max(0, at - place) - place, os.SEEK_CUR) if at > place else place
        elif way == 2:
            place = os.lseek(fd, at - size, os.SEEK_END)
        else:
            found = os.read(fd, length)
            assert len(found) == max(0, min(length, size - place))
            same(found, place, "read")
            place += len(found)
        assert os.lseek(fd, 0, os.SEEK_CUR) == place
    assert os.lseek(fd, 11, os.SEEK_DATA) == 11 and os.lseek(fd, 11, os.SEEK_HOLE) == size
    try:
        os.lseek(fd, size, os.SEEK_DATA)
        sys.exit("data behind the end")
    except OSError as error:
        assert error.errno == errno.ENXIO


def shared(fd):
    """What `dup`, a child and another program share of it."""
    other = os.dup(fd)
    os.lseek(fd, 100, os.SEEK_SET)
    same(os.read(other, 50), 100, "the duplicate")
    os.close(fd)
    child = os.fork()
    if child == 0:
        same(os.read(other, 50), 150, "the child")
        same(os.pread(other, 1000, size - 1000), size - 1000, "the child at the end")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.lseek(other, 0, os.SEEK_CUR) == 200
    os.set_inheritable(other, True)
    same(
        subprocess.run(
            ["head", "-c", "70000"], stdin=other, stdout=subprocess.PIPE, check=True
        ).stdout,
        200,
        "head",
    )
    os.close(other)


def threads(fd):
    wrong = []

    def work(number):
        chance = random.Random(number)
        for _ in range(50):
            at, length = chance.randrange(size), chance.randrange(1, 100000)
            if os.pread(fd, length, at) != expected[at:at + length]:
                wrong.append(at)

    all_of_them = [threading.Thread(target=work, args=(seed + number,)) for number in range(4)]
    for thread in all_of_them:
        thread.start()
    children = []
    for _ in range(5):
        child = os.fork()
        if child == 0:
            os._exit(os.pread(fd, 5000, 12345) != expected[12345:17345])
        children.append(child)
    for thread in all_of_them:
        thread.join()
    assert not wrong, wrong
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)


def elsewhere(fd):
    # A program that closes whatever it finds, before anything of the set was read.
    os.closerange(100, 4096)
    same(os.read(fd, size), 0, "after closing all others")
    with mmap.mmap(fd, size, prot=mmap.PROT_READ, flags=mmap.MAP_PRIVATE) as memory:
        same(memory[:], 0, "mmap")
    reading, writing = os.pipe()
    assert os.sendfile(writing, fd, size - 3000, 5000) == 3000
    same(os.read(reading, 5000), size - 3000, "sendfile")
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    same(os.read(again, 5000), 0, "another descriptor of it")
    os.close(again)


def facts(fd):
    for told in (os.stat(name), os.lstat(name), os.fstat(fd), os.stat(fd)):
        first = os.stat(name + ".0000")
        assert (told.st_size, told.st_nlink) == (size, 1)
        assert (told.st_mode, told.st_mtime_ns) == (first.st_mode, first.st_mtime_ns)
        assert told.st_ino == os.stat(name).st_ino != first.st_ino
    assert os.access(name, os.R_OK) and not os.access(name, os.W_OK) and os.path.isfile(name)
    assert os.listxattr(name) == []
    for call in (os.listdir, os.chdir):
        try:
            call(name)
            sys.exit("a set is no directory")
        except NotADirectoryError:
            pass


def refused(fd):
    calls = [
        lambda: os.open(name, os.O_WRONLY),
        lambda: os.open(name, os.O_RDWR),
        lambda: os.open(name, os.O_RDONLY | os.O_TRUNC),
        lambda: os.open(name, os.O_CREAT | os.O_WRONLY, 0o600),
        lambda: os.unlink(name),
        lambda: os.truncate(name, 0),
        lambda: os.rename(name, "other"),
        lambda: os.rename(canonical, name),
        lambda: os.link(name, "other"),
        lambda: os.link(canonical, name),
        lambda: os.chmod(name, 0o600),
        lambda: os.chown(name, 0, 0),
        lambda: os.utime(name),
        lambda: os.setxattr(name, "user.x", b"y"),
        lambda: os.fchmod(fd, 0o600),
        lambda: os.utime(fd),
    ]
    for number, call in enumerate(calls):
        try:
            call()
            sys.exit(f"change {number} was possible")
        except OSError as error:
            assert error.errno == errno.EROFS, (number, error)
    for number, call, wanted in [
        (0, lambda: os.write(fd, b"x"), errno.EBADF),
        (1, lambda: os.pwrite(fd, b"x", 0), errno.EBADF),
        (2, lambda: os.ftruncate(fd, 0), errno.EINVAL),
        (3, lambda: os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY), errno.EEXIST),
    ]:
        try:
            call()
            sys.exit(f"write {number} was possible")
        except OSError as error:
            assert error.errno == wanted, (number, error)


def stream():
    with open(name, "rb") as file:
        same(file.read(), 0, "the stream")
    library = ctypes.CDLL(None, use_errno=True)
    library.fopen.restype = ctypes.c_void_p
    library.fopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p]
    library.fseek.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
    library.fread.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p]
    library.fclose.argtypes = [ctypes.c_void_p]
    file, room = library.fopen(name.encode(), b"r"), ctypes.create_string_buffer(10000)
    for _ in range(20):
        at = chance.randrange(size - 10000)
        assert library.fseek(file, at, 0) == 0 and library.fread(room, 1, 10000, file) == 10000
        same(room.raw, at, "fread")
    assert library.fclose(file) == 0
    assert library.fopen(name.encode(), b"w") is None and ctypes.get_errno() == errno.EROFS
    library.freopen.restype = ctypes.c_void_p
    library.freopen.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_void_p]
    for mode, wanted in [(b"w", errno.EROFS), (b"r+", errno.EROFS), (b"r", errno.ENOTSUP)]:
        file = library.fopen(b"/dev/null", b"r")
        assert library.freopen(name.encode(), mode, file) is None and ctypes.get_errno() == wanted


def opened():
    return os.open(name, os.O_RDONLY)


for part in (positioned, moving, threads, elsewhere, facts, refused):
    descriptor = opened()
    part(descriptor)
    os.close(descriptor)
shared(opened())
stream()
print("ok")
