"""ROMIO's own test programs: src/mpi/romio/test of the mpich source package, run as its `runtests`
does."""

import glob
import os
import re
import shutil

from mpis import Test, available_gib, sh
from sources import debian_source

MPIS = ["openmpi", "mpich"]

# What ROMIO's configure puts into its templates on a machine with 64-bit offsets and gfortran.
TEMPLATE = {"LL": "lld", "FORTRAN_MPI_OFFSET": "integer*8", "F77MPIOINC": "",
            "F77GETARG": "call getarg(i,str)", "F77IARGC": "iargc()"}

# Ranks that differ from 4, and arguments that differ from `-fname test`, both as in `runtests`.
RANKS = {
    "i_noncontig": 2,
    "noncontig": 2,
    "noncontig_coll": 2,
    "error": 1,
    "status": 1,
    "types_with_zeros": 2,
    "syshints": 1,
    "external32": 1,
    "large_file": 1,
    "big_extents": 1,
    "creat_excl": 4,
}
ARGUMENTS = {"aggregation1": ["-h", "-f", "test"], "aggregation2": ["test"], "hindexed": ["test"],
             "types_with_zeros": ["test"], "darray_read": ["test"], "syshints": ["test_hintfile"],
             "big_extents": ["test"], "external32": []}
# Its array of 14 GB is written once and then read into memory.
MEMORY = {"coll_perf": 32}
# These only report; the exit code is all they say.
SILENT = {"perf", "fperf", "coll_perf", "large_array", "large_file", "external32"}


def substituted(path, directory):
    output = os.path.join(directory, os.path.basename(path)[:-len(".in")])
    with open(path) as stream:
        text = re.sub(r"@(\w+)@", lambda match: TEMPLATE[match.group(1)], stream.read())
    with open(output, "w") as stream:
        stream.write(text)
    return output


def build(mpi):
    source = os.path.join(debian_source("mpich"), "src/mpi/romio/test")
    directory = mpi.work("romio-test")
    programs = glob.glob(os.path.join(source, "*.c"))
    programs += [
        substituted(path, directory) for path in glob.glob(os.path.join(source, "*.[cf].in"))
    ]
    for program in sorted(programs):
        name, suffix = os.path.splitext(os.path.basename(program))
        output = os.path.join(directory, name)
        if not os.path.exists(output):
            compiler = (
                [mpi.tool("mpicc")]
                if suffix == ".c"
                else [mpi.tool("mpif77"), "-fallow-argument-mismatch"]
            )
            # Open MPI has no MPI_LB and MPI_UB any more: the programs that name them cannot be
            # built for it.
            sh(
                [*compiler, "-O1", "-w", "-o", output, program],
                directory,
                os.path.join(directory, "build.log"),
            )
        yield source, name, output


def verdict(name):
    def passed(run):
        if run.code != 0 or re.search(r"found \d* *error|failed|mismatch", run.output, re.I):
            return False
        return name in SILENT or bool(re.search(r"no errors", run.output, re.I))
    return passed


def prepare(mpi):
    tests = []
    for source, name, program in build(mpi):
        if MEMORY.get(name, 0) > available_gib():
            print(f"left out for want of memory: romio/{name}")
            continue
        hints = os.path.join(source, "test_hintfile")
        tests.append(
            Test(
                name,
                "romio",
                RANKS.get(name, 4),
                [program, *ARGUMENTS.get(name, ["-fname", "test"])],
                verdict(name),
                limit=300 if name in SILENT else 120,
                built=os.path.exists(program),
                prepare=lambda directory, hints=hints: shutil.copy(hints, directory),
            )
        )
    return tests
