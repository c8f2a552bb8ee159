"""HDF5's parallel tests: testpar of the hdf5 source packages of Debian 12 (1.10) and 13 (1.14), the
library itself built for each MPI.

The same programs twice: as they are, and with writes that wait (`AGGIO_DEFER`): HDF5 is linked into
them, so that no library tells by its name who opens the files.
"""

import os
import shutil

from mpis import Test, sh, watch
from sources import debian_source

PROGRAMS = [
    "t_mpi",
    "t_bigio",
    "testphdf5",
    "t_cache",
    "t_cache_image",
    "t_pread",
    "t_pshutdown",
    "t_prestart",
    "t_init_term",
    "t_shapesame",
    "t_filters_parallel",
    "t_pflush1",
    "t_pflush2",
]
#: Those that HDF5 1.14 has besides. `t_2Gio` writes files of 2 GiB and more.
NEWER = ["t_pmulti_dset", "t_select_io_dset", "t_vfd", "t_subfiling_vfd"]
RANKS = 4
# t_prestart reads what t_pshutdown wrote, t_pflush2 what t_pflush1 left when it aborted: they share
# a directory.
FIRST = {"t_prestart": "t_pshutdown", "t_pflush2": "t_pflush1"}


def build(mpi, release):
    """The folder that HDF5 of a release of Debian is built in, for an MPI."""
    source = debian_source("hdf5", release)
    directory = mpi.work(os.path.basename(source))
    log = os.path.join(directory, "build.log")
    if os.path.exists(os.path.join(directory, "complete")):
        return directory
    print(f"building {os.path.basename(source)} for {mpi.name}", flush=True)
    newer = ["--enable-subfiling-vfd"] if release else []
    if not os.path.exists(os.path.join(directory, "config.status")):
        sh(
            [
                os.path.join(source, "configure"),
                "--enable-parallel",
                "--disable-shared",
                "--disable-hl",
                "--disable-fortran",
                "--disable-cxx",
                "--enable-build-mode=production",
                f"CC={mpi.tool('mpicc')}",
                "CFLAGS=-O1",
                *newer,
            ],
            directory,
            log,
        )
    jobs = f"-j{os.cpu_count()}"
    for command in (
        ["-C", "src"],
        ["-C", "test", "libh5test.la"],
        ["-k", "-C", "testpar", *PROGRAMS, *(NEWER if release else [])],
    ):
        sh(["make", jobs, *command], directory, log)
    open(os.path.join(directory, "complete"), "w").close()
    return directory


class Chain(Test):
    """A program that needs the files of an earlier one, which is run first in the same
    directory."""

    def __init__(self, first, *arguments, **more):
        super().__init__(*arguments, **more)
        self.first = first

    def run(self, mpi, server):
        directory = mpi.work("run", server.name, self.suite, self.name)
        shutil.rmtree(directory)
        os.makedirs(directory)
        # t_cache_image starts itself again, from the directory it is in.
        os.symlink(self.command[0], os.path.join(directory, os.path.basename(self.command[0])))
        for program in filter(None, [self.first, self.command[0]]):
            result = watch(mpi.launch(self.ranks, [program]), directory, mpi, server, self.limit,
                           {**self.variables, "HDF5_PARAPREFIX": directory})
        shutil.rmtree(directory, ignore_errors=True)
        return {self.name: result.record(self.passed(result))}


def verdict(name):
    if name == "t_pflush1":
        # It ends without closing anything, on purpose: some launchers call that a failure.
        return lambda run: "PASSED" in run.output
    return lambda run: run.code == 0 and "FAILED" not in run.output


class Programs:
    """All programs of the HDF5 of a release of Debian, with variables of aggio."""

    MPIS = ["openmpi", "mpich"]

    def __init__(self, suite, release="", **variables):
        self.suite = suite
        self.release = release
        self.variables = variables

    def prepare(self, mpi):
        folder = os.path.join(build(mpi, self.release), "testpar")
        names = [*PROGRAMS, *NEWER] if self.release else PROGRAMS
        return [self.test(folder, name) for name in names]

    def test(self, folder, name):
        program, first = os.path.join(folder, name), FIRST.get(name)
        if not os.path.exists(program):
            return Test(name, self.suite, RANKS, [program], verdict(name), built=False)
        return Chain(
            first and os.path.join(folder, first),
            name,
            self.suite,
            RANKS,
            [program],
            verdict(name),
            limit=900,
            variables=self.variables,
        )
