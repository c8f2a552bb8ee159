#!/usr/bin/env python3
"""How fast files are below a mount point of aggio, beside the same bytes in an ordinary file.

    tests/mount_speed.py [--aggio target/release/aggio] [--directory DIR] [--mib 512]

Prints a table in Markdown: sequential reads of 1 MiB, cold and warm, and random reads of 4 KiB,
warm; GB/s or requests a second, and the ratio to the ordinary file. `cold` means that the kernel
keeps nothing of the file below the mount point; the backing files are in the page cache, so that
the way through the file system is measured and no disk.
"""

import argparse
import os
import random
import subprocess
import tempfile
import time

MIB = 1 << 20

HEAD = """# Files below a mount point

{mib} MiB of one file: read in requests of 1 MiB from its beginning, and 60,000 requests of 4 KiB at
random places, by `tests/mount_speed.py`. *Cold* means that the kernel keeps nothing of the file
below the mount point; the backing files are in the page cache (tmpfs), so no disk is measured. The
best of five (random: three) counts; in parentheses the ratio to the ordinary file. Wanted: a
container at least 0.35 cold, 0.7 warm and 0.8 random; a plain file with passthrough 0.95.
"""


def sequential(path, size):
    """GB/s of reading all of it in requests of 1 MiB."""
    buffer = bytearray(MIB)
    with open(path, "rb", buffering=0) as file:
        begin = time.perf_counter()
        while file.readinto(buffer):
            pass
        return size / (time.perf_counter() - begin) / 1e9


def scattered(path, size, count=60_000):
    """Requests of 4 KiB a second, at random places."""
    places = random.Random(1)
    with open(path, "rb", buffering=0) as file:
        number = file.fileno()
        begin = time.perf_counter()
        for _ in range(count):
            os.pread(number, 4096, places.randrange(size // 4096) * 4096)
        return count / (time.perf_counter() - begin)


def drop(path):
    """Lets the kernel forget the pages of this file."""
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)



def best(measure, repeats=5):
    return max(measure() for _ in range(repeats))


def measure(path, size):
    sequential(path, size)

    def cold():
        drop(path)
        return sequential(path, size)

    return best(cold), best(lambda: sequential(path, size)), best(lambda: scattered(path, size), 3)


def rows(arguments, folder):
    backing, point = os.path.join(folder, "backing"), os.path.join(folder, "mount")
    os.mkdir(backing)
    os.mkdir(point)
    size = arguments.mib * MIB
    plain = os.path.join(backing, "plain")
    with open(plain, "wb") as file:
        block = random.Random(2).randbytes(MIB)
        for index in range(arguments.mib):
            file.write(index.to_bytes(8, "little") + block[8:])
    container = os.path.join(backing, "container")
    subprocess.run([arguments.aggio, "split", plain, container], check=True)
    sequential(plain, size)
    warm, scatter = best(lambda: sequential(plain, size)), best(lambda: scattered(plain, size), 3)
    # A plain file that was read before is in the page cache: what there is to compare with, cold or
    # warm.
    yield "ordinary file", (warm, warm, scatter), (warm, scatter)
    for name, options, file in [
        ("container", [], "container"),
        ("plain file, passthrough", [], "plain"),
        ("plain file, no passthrough", ["--no-passthrough"], "plain"),
    ]:
        subprocess.run([arguments.aggio, "mount", *options, backing, point], check=True)
        try:
            found = measure(os.path.join(point, file), size)
        finally:
            subprocess.run([arguments.aggio, "umount", point], check=True)
        yield name, found, (warm, scatter)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aggio", default="target/release/aggio")
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--mib", type=int, default=512)
    arguments = parser.parse_args()
    arguments.aggio = os.path.abspath(arguments.aggio)
    print(HEAD.format(mib=arguments.mib))
    print("| | cold GB/s | warm GB/s | random 4 KiB warm, 1/s |")
    print("|---|---|---|---|")
    with tempfile.TemporaryDirectory(dir=arguments.directory) as folder:
        for name, (cold, warm, scatter), (plain, random_plain) in rows(arguments, folder):
            print(
                f"| {name} | {cold:.2f} ({cold / plain:.2f}) | {warm:.2f} ({warm / plain:.2f}) "
                f"| {scatter:.0f} ({scatter / random_plain:.2f}) |"
            )


if __name__ == "__main__":
    main()
