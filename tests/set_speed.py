#!/usr/bin/env python3
"""How fast sets of E3SM-IO's blobs are read and merged, beside the same bytes in an ordinary file.

    tests/set_speed.py [--aggio target/release/aggio]
                       [--generator target/release/examples/blob_sets]
                       [--directory DIR] [--mib 1024] [--rounds 3] [--seed SET]

Prints tables in Markdown: seconds, medians of the rounds, and the ratio of the ordinary file's
seconds to them. Each measurement stands beside one of the ordinary file that was made just before;
what is below DIR is removed at the end.
"""

import argparse
import os
import resource
import statistics
import subprocess
import tarfile
import tempfile
import time

SETS = ["pnetcdf1", "pnetcdf4", "hdf5-1", "hdf5-4"]
MIB = 1 << 20

HEAD = """# Sets of blobs, read and merged

Sets of about {mib} MiB by `tests/set_speed.py`, on {directory}. *tiled* has the decompositions of a
small file of E3SM's F case (72 levels, requests of about two elements) for so many times its
columns, *wide* has them as they are, for 400 variables; both in PnetCDF's layout and in HDF5's,
with one subfile and with four. `merge` is beside `cp --reflink=never`, `cat` (`aggio cat`) and the
reads of the mounted file are beside `cat` of the ordinary file. *First* includes opening the set
and knows nothing, *again* finds the file in the page cache. Seconds are medians of {rounds} rounds,
in parentheses the least and the most; ratios are medians of those of a round; *processor* is the
ratio of seconds of processors, which says more on a busy machine. Wanted: 0.3, when read again 0.7.
"""


def run(command, **options):
    """Seconds of a command: of the clock, and of processors."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    subprocess.run(command, check=True, **options)
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def to_nothing(command):
    with open("/dev/null", "wb") as nothing:
        # A pipe, so that nobody can leave the copying out.
        reader = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=nothing)
        found = run(command, stdout=reader.stdin)
        reader.stdin.close()
        reader.wait()
        return found


class Mount:
    """A mount, and the process that serves it."""

    def __init__(self, aggio, backing, point):
        self.aggio, self.point = aggio, point
        subprocess.run([aggio, "mount", backing, point], check=True)
        self.pid = int(os.getxattr(point, "user.aggio.pid"))

    def processor(self):
        with open(f"/proc/{self.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def peak(self):
        with open(f"/proc/{self.pid}/status") as file:
            line = next(line for line in file if line.startswith("VmHWM"))
        return int(line.split()[1]) / 1024

    def files(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def read(self, name):
        before = self.processor()
        seconds, processor = to_nothing(["cat", os.path.join(self.point, name)])
        return seconds, processor + self.processor() - before

    def end(self):
        subprocess.run([self.aggio, "umount", self.point], check=True)


def merged(aggio, folder, name, made):
    command = [aggio, "merge", "--force", os.path.join(folder, name), made]
    found = run(command)
    return found


def check(plain, made):
    subprocess.run(["cmp", plain, made], check=True)


def measured(arguments, folder, name, first_round):
    """One round: pairs of (ours, the ordinary file's), and what the mount took."""
    plain, made = os.path.join(folder, "plain"), os.path.join(folder, "made")
    point = os.path.join(arguments.work, "point")
    found = {}
    copied = run(["cp", "--reflink=never", plain, made])
    os.remove(made)
    found["merge"] = merged(arguments.aggio, folder, name, made), copied
    if first_round:
        check(plain, made)
    os.remove(made)
    path = os.path.join(folder, name)
    found["cat"] = to_nothing([arguments.aggio, "cat", path]), to_nothing(["cat", plain])
    mount = Mount(arguments.aggio, folder, point)
    try:
        mounted = os.path.join(point, name)
        found["first"] = mount.read(name), to_nothing(["cat", plain])
        found["again"] = mount.read(name), to_nothing(["cat", plain])
        if first_round:
            check(plain, mounted)
        return found, mount.peak(), mount.files()
    finally:
        mount.end()


def cell(pairs):
    ours = [one[0] for one, _ in pairs]
    clock = statistics.median(plain[0] / one[0] for one, plain in pairs)
    # Times of processors come in hundredths of a second.
    processor = statistics.median(max(plain[1], 0.001) / max(one[1], 0.001) for one, plain in pairs)
    middle = statistics.median(ours)
    return (
        f"{middle:.2f} s ({min(ours):.2f}-{max(ours):.2f}), {clock:.2f}, processor {processor:.2f}"
    )


def table(arguments, shape):
    folder = os.path.join(arguments.work, shape)
    os.mkdir(folder)
    subprocess.run(
        [arguments.generator, arguments.seed, shape, str(arguments.mib), folder], check=True
    )
    print(f"\n## {shape}, {os.path.getsize(os.path.join(folder, 'plain')) / MIB:.0f} MiB\n")
    print(
        "| set | merge | cat | mounted, first | mounted, again | peak of the mount | its"
        " descriptors |"
    )
    print("|---|---|---|---|---|---|---|")
    for name in SETS:
        rounds = [
            measured(arguments, folder, name, number == 0) for number in range(arguments.rounds)
        ]
        cells = [
            cell([found[what] for found, _, _ in rounds])
            for what in ["merge", "cat", "first", "again"]
        ]
        peak, files = max(peak for _, peak, _ in rounds), max(files for _, _, files in rounds)
        print(f"| {name} | {' | '.join(cells)} | {peak:.0f} MiB | {files} |", flush=True)
    subprocess.run(["rm", "-r", folder], check=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aggio", default="target/release/aggio")
    parser.add_argument("--generator", default="target/release/examples/blob_sets")
    parser.add_argument("--directory", default="/dev/shm")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", help="a small set; without it the one in tests/golden")
    parser.add_argument("--shapes", default="tiled,wide")
    arguments = parser.parse_args()
    arguments.aggio, arguments.generator = map(
        os.path.abspath, [arguments.aggio, arguments.generator]
    )
    print(HEAD.format(**vars(arguments)))
    with tempfile.TemporaryDirectory(dir=arguments.directory) as work:
        arguments.work = work
        os.mkdir(os.path.join(work, "point"))
        if not arguments.seed:
            golden = os.path.join(
                os.path.dirname(os.path.abspath(__file__)), "golden/netcdf.tar.xz"
            )
            with tarfile.open(golden) as archive:
                archive.extractall(os.path.join(work, "seed"), filter="data")
            arguments.seed = os.path.join(work, "seed/e3sm/blob1_h1.nc")
        for shape in arguments.shapes.split(","):
            table(arguments, shape)


if __name__ == "__main__":
    main()
