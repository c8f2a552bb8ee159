#!/usr/bin/env python3
"""How fast PnetCDF programs write a checkpoint: natively, through aggio, with writes that wait, and
into blobs.

    tests/netcdf_speed.py [--library target/release/libaggio.so] [--on tmpfs=/dev/shm ...]
                          [--mpi openmpi,mpich] [--ranks 4,8,16] [--rounds 3]

Runs tests/speed/checkpoint.c, all variants alternating, and prints a table in Markdown: medians as
ratios. Every file is compared with the native one. PnetCDF for MPICH is built once, below
build/conformance.
"""

import argparse
import collections
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(HERE, "conformance"))

from mpis import ROOT, helper, known_mpis  # noqa: E402
from suites import pnetcdf  # noqa: E402

HEAD = """# netCDF checkpoints

PnetCDF programs, unmodified (`tests/speed/checkpoint.c`, measured by `tests/netcdf_speed.py`), from
the creation of the file to the end of its closing. *Blocks*: 20 variables of 512 x 512 doubles in 5
records, 200 MiB, each rank a rectangle, one collective call a variable and record. *Cells*: 40
variables of 262,144 columns, 80 MiB, of which each rank has runs of 17 in turn, one collective call
a variable. *Blocking* is `put_var?_all`, *nonblocking* the same program with `iput` and one
`wait_all` a record. The limit is as many bytes without PnetCDF, each rank one part of the file in
requests of 4 MiB. Medians of {rounds} alternating rounds; 2 cores. Every file was compared with the
native one.

Wanted: blocking with `AGGIO_DEFER` at least 5 times native, and within 10 % of nonblocking; cells
at least 10 times native and 0.3 of the limit; blobs 0.6 of the limit.
"""

#: `way` is the program's argument; `aggio` the variables of the library, or `None` for native.
Variant = collections.namedtuple("Variant", "name way aggio")
VARIANTS = [
    Variant("limit", "limit", None),
    Variant("native, blocking", "blocking", None),
    Variant("native, nonblocking", "nonblocking", None),
    Variant("blocking", "blocking", {}),
    Variant("blocking, deferred", "blocking", {"AGGIO_DEFER": "*"}),
    Variant("nonblocking", "nonblocking", {}),
    # {folder} is that of the file: those below /dev are meant only by a pattern that begins with a
    # slash.
    Variant("blocking, blobs", "blocking", {"AGGIO_BLOB": "{folder}/**:e3sm"}),
    Variant(
        "blocking, blobs, deferred",
        "blocking",
        {"AGGIO_BLOB": "{folder}/**:e3sm", "AGGIO_DEFER": "*"},
    ),
]


def compiled(mpi, folder):
    """The program for this MPI, and the variables that it needs to find PnetCDF."""
    flags, variables = [], {}
    if mpi.name != "openmpi":
        # Debian builds PnetCDF for Open MPI only.
        with contextlib.redirect_stdout(sys.stderr):
            place = os.path.join(pnetcdf.build(mpi), "install")
        flags, variables = [f"-I{place}/include", f"-L{place}/lib"], {
            "LD_LIBRARY_PATH": f"{place}/lib"
        }
    program = os.path.join(folder, f"checkpoint-{mpi.name}")
    source = os.path.join(HERE, "speed/checkpoint.c")
    subprocess.run(
        [mpi.tool("mpicc"), "-O2", "-o", program, source, *flags, "-lpnetcdf"], check=True
    )
    return program, variables


def seconds(variant, mpi, program, variables, file, ranks, pattern, library):
    environment = {**os.environ, **mpi.environment, **variables}
    patient = [helper("patience")] if mpi.spins else []
    if variant.aggio is not None:
        folder = os.path.dirname(file)
        environment.update(
            {name: value.format(folder=folder) for name, value in variant.aggio.items()}
        )
    elif "PNETCDF_HINTS" not in environment:
        # Newer releases would use their own driver instead of MPI-IO.
        environment["PNETCDF_HINTS"] = "nc_driver=mpiio"
    environment["LD_PRELOAD"] = " ".join([library] * (variant.aggio is not None) + patient)
    command = mpi.launch(ranks, [program, file, variant.way, pattern])
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=600
    )
    return float(done.stdout.split()[0])


def names_of(file):
    folder = os.path.dirname(file)
    return [
        os.path.join(folder, name)
        for name in os.listdir(folder)
        if name.startswith(os.path.basename(file))
    ]


def remove(file):
    for name in names_of(file):
        shutil.rmtree(name) if os.path.isdir(name) else os.remove(name)


def is_right(aggio, native, file, wants_set):
    """Whether a file, or the set that is to stand for it, has the native bytes."""
    if os.path.isfile(file + ".0000") != wants_set:
        return False
    if not wants_set:
        return subprocess.run(["cmp", native, file]).returncode == 0
    cat = subprocess.Popen([aggio, "cat", file], stdout=subprocess.PIPE)
    same = subprocess.run(["cmp", native, "-"], stdin=cat.stdout).returncode == 0
    return cat.wait() == 0 and same


def measure(mpi, program, variables, folder, ranks, pattern, chosen):
    """Medians of all variants."""
    times = {variant.name: [] for variant in VARIANTS}
    native = os.path.join(folder, "native.nc")
    for turn in range(chosen.rounds):
        for variant in VARIANTS:
            file = (
                native if variant.name == "native, blocking" else os.path.join(folder, "other.nc")
            )
            times[variant.name].append(
                seconds(variant, mpi, program, variables, file, ranks, pattern, chosen.library)
            )
            wants_set = "AGGIO_BLOB" in (variant.aggio or {})
            if (
                turn == 0
                and variant.way != "limit"
                and file != native
                and not is_right(chosen.aggio, native, file, wants_set)
            ):
                sys.exit(
                    f"{mpi.name}, {variant.name}, {ranks} ranks, {pattern}: not the native bytes"
                )
            # The first native file is what the others of this round are compared with.
            if file != native:
                remove(file)
        remove(native)
    return {name: statistics.median(values) for name, values in times.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--library", default=os.path.join(ROOT, "target/release/libaggio.so"))
    parser.add_argument("--aggio", default=os.path.join(ROOT, "target/release/aggio"))
    parser.add_argument("--on", action="append", metavar="NAME=DIRECTORY")
    parser.add_argument("--mpi", default="openmpi,mpich")
    parser.add_argument("--ranks", default="4,8,16")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    chosen.library, chosen.aggio = os.path.abspath(chosen.library), os.path.abspath(chosen.aggio)
    print(HEAD.format(rounds=chosen.rounds))
    print(
        "| file system | MPI | ranks | pattern | native MiB/s | limit | blocking | deferred |"
        " nonblocking | blobs | deferred blobs | deferred beside nonblocking | best plain file of"
        " the limit | best blobs of the limit |"
    )
    print("|---|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    for place in chosen.on or ["tmpfs=/dev/shm"]:
        name, directory = place.split("=", 1)
        for mpi in known_mpis(chosen.mpi.split(",")):
            with tempfile.TemporaryDirectory(dir=directory) as folder:
                program, variables = compiled(mpi, folder)
                for pattern, mib in [("blocks", 200), ("cells", 80)]:
                    for ranks in map(int, chosen.ranks.split(",")):
                        found = measure(mpi, program, variables, folder, ranks, pattern, chosen)
                        print(row(name, mpi.name, ranks, pattern, mib, found), flush=True)
    print("\nRates of the variants are multiples of *native, blocking*; the limit, too.")


def row(place, mpi, ranks, pattern, mib, found):
    native, limit = found["native, blocking"], found["limit"]
    shown = [
        "limit",
        "blocking",
        "blocking, deferred",
        "nonblocking",
        "blocking, blobs",
        "blocking, blobs, deferred",
    ]
    times = [native / found[name] for name in shown]
    best, blobs = (min(found[name] for name in names) for names in (shown[1:3], shown[4:]))
    ratios = [found["nonblocking"] / found["blocking, deferred"], limit / best, limit / blobs]
    cells = [
        place,
        mpi,
        ranks,
        pattern,
        f"{mib / native:.0f}",
        *(f"{value:.1f}" for value in times),
        *(f"{value:.2f}" for value in ratios),
    ]
    return "| " + " | ".join(map(str, cells)) + " |"


if __name__ == "__main__":
    main()
