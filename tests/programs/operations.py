"""Random operations on files, and what each of them returned.

    operations.py SEED OPERATIONS DIRECTORY

The same arguments give the same operations; what differs between two runs is the file system's
doing.
"""

import os
import random
import sys

SEED, OPERATIONS, DIRECTORY = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
draw = random.Random(SEED)
os.chdir(DIRECTORY)
NAMES = ["a", "b", "c"]
slots = [None] * 6


def told(what, act):
    try:
        value = act()
    except OSError as error:
        value = error.errno
    if isinstance(value, bytes):
        value = (len(value), hash_of(value))
    print(what, value)


def hash_of(data):
    value = 2166136261
    for byte in data:
        value = ((value ^ byte) * 16777619) & 0xFFFFFFFF
    return value


def some_bytes():
    length = draw.choice([0, 1, 7, 100, 4096, 70000]) or draw.randrange(1, 3000)
    return bytes([draw.randrange(256)]) * length


def place():
    return draw.choice([draw.randrange(200), draw.randrange(200000)])


def open_one(slot):
    if slots[slot] is not None:
        told("close", lambda: os.close(slots[slot]))
        slots[slot] = None
    flags = draw.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR])
    for flag, chance in [(os.O_CREAT, 2), (os.O_TRUNC, 8), (os.O_APPEND, 5), (os.O_EXCL, 9)]:
        if draw.randrange(chance) == 0:
            flags |= flag
    name = draw.choice(NAMES)
    try:
        slots[slot] = os.open(name, flags, 0o640)
        print("open", name, flags, "ok")
    except OSError as error:
        print("open", name, flags, error.errno)


def in_child(fd):
    sys.stdout.flush()
    data, at = some_bytes(), place()
    child = os.fork()
    if child == 0:
        try:
            os.lseek(fd, at, os.SEEK_SET)
            os.write(fd, data)
        except OSError:
            pass
        os._exit(0)
    os.waitpid(child, 0)
    told("after child", lambda: os.lseek(fd, 0, os.SEEK_CUR))


def stream():
    name, mode = draw.choice(NAMES), draw.choice(["rb", "r+b", "wb", "ab", "a+b", "w+b"])
    data, at = some_bytes(), place()
    try:
        with open(name, mode) as file:
            if "+" in mode or mode != "rb":
                file.seek(at)
                file.write(data)
            if "+" in mode or mode == "rb":
                file.seek(at // 2)
                told("stream " + mode, lambda: file.read(5000))
    except OSError as error:
        print("stream", name, mode, error.errno)


def names():
    one, two = draw.choice(NAMES), draw.choice(NAMES)
    what = draw.randrange(5)
    if what == 0:
        told("rename", lambda: os.rename(one, two))
    elif what == 1:
        told("unlink", lambda: os.unlink(one))
    elif what == 2:
        told("truncate", lambda: os.truncate(one, place()))
    elif what == 3:
        told("chmod", lambda: os.chmod(one, draw.choice([0o600, 0o644, 0o664])))
    told("size", lambda: os.stat(one).st_size)
    told("mode", lambda: oct(os.lstat(two).st_mode))


def on_descriptor(fd):
    what, data, at = draw.randrange(14), some_bytes(), place()
    if what == 0:
        told("read", lambda: os.read(fd, len(data)))
    elif what in (1, 2):
        told("write", lambda: os.write(fd, data))
    elif what == 3:
        told("pread", lambda: os.pread(fd, len(data), at))
    elif what == 4:
        told("pwrite", lambda: os.pwrite(fd, data, at))
    elif what == 5:
        told("seek", lambda: os.lseek(fd, at, os.SEEK_SET))
    elif what == 6:
        told("end", lambda: os.lseek(fd, -min(at, 50), os.SEEK_END))
    elif what == 7:
        told("ftruncate", lambda: os.ftruncate(fd, at))
    elif what == 8:
        told("fstat", lambda: os.fstat(fd).st_size)
    elif what == 9:
        told("fsync", lambda: os.fsync(fd))
    elif what == 10:
        told("writev", lambda: os.writev(fd, [data, b"and more"]))
    elif what == 11:
        into = bytearray(len(data))
        told("preadv", lambda: os.preadv(fd, [into, bytearray(9)], at))
        print(hash_of(into))
    elif what == 12:
        in_child(fd)
    else:
        other = draw.randrange(len(slots))
        if slots[other] is None:
            slots[other] = os.dup(fd)
            print("dup")
        elif slots[other] != fd:
            told("dup2", lambda: os.dup2(fd, slots[other]) and None)


for _ in range(OPERATIONS):
    slot = draw.randrange(len(slots))
    kind = draw.randrange(20)
    if kind < 2 or slots[slot] is None and kind < 12:
        open_one(slot)
    elif kind == 2:
        names()
    elif kind == 3:
        stream()
    elif slots[slot] is not None:
        on_descriptor(slots[slot])
for slot in slots:
    if slot is not None:
        os.close(slot)
for name in NAMES:
    try:
        with open(name, "rb") as file:
            content = file.read()
            print(name, len(content), hash_of(content))
    except OSError as error:
        print(name, error.errno)
