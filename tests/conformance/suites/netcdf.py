"""Parallel tests of netCDF-C (netCDF-4 on HDF5, classic files on PnetCDF), built on the system's
HDF5 and PnetCDF; that is for Open MPI alone, for another MPI it is the one that the PnetCDF suites
build.

The same programs four times: as they are, with writes that wait (`AGGIO_DEFER`), and with files
that are written as containers of blobs or as sets of E3SM-IO's subfiles and read back, by MPI-IO
and by POSIX calls (`AGGIO_BLOB`).
"""

import os
import shutil

from mpis import Test, sh, watch
from sources import debian_source

from . import pnetcdf

LIBRARIES = [
    "include",
    "libncpoco",
    "libncxml",
    "libdispatch",
    "libsrc",
    "libsrcp",
    "libsrc4",
    "libhdf5",
    "liblib",
]
# Program: its ranks, as in nc_test4/run_par_test.sh, nc_test/run_pnetcdf_tests.sh and
# h5_test/run_par_tests.sh; of the numbers that those list, the largest that is no more than eight.
PROGRAMS = {
    "nc_test4": {
        "tst_mode": 1,
        "tst_mpi_parallel": 4,
        "tst_parallel": 4,
        "tst_parallel3": 8,
        "tst_parallel4": 8,
        "tst_parallel5": 4,
        "tst_parallel6": 4,
        "tst_nc4perf": 4,
        "tst_simplerw_coll_r": 4,
        "tst_parallel_zlib": 4,
        "tst_parallel_compress": 4,
        "tst_quantize_par": 4,
    },
    "nc_test": {
        "tst_pnetcdf": 1,
        "tst_addvar": 1,
        "tst_parallel2": 2,
        "t_nc": 1,
        "tst_atts3": 1,
        "tst_nofill": 1,
        "nc_test": 1,
        "tst_default_format_pnetcdf": 1,
        "tst_small": 1,
        "tst_formatx_pnetcdf": 1,
        "tst_cdf5format": 1,
    },
    "h5_test": {"tst_h_par": 4, "tst_h_par_compress": 4},
}
# tst_addvar adds to the file that tst_pnetcdf wrote: program, its arguments, and what runs before
# it.
AFTER = {"tst_addvar": (["tst_pnetcdf.nc"], "tst_pnetcdf")}


def options_of_pnetcdf(mpi):
    """Where its headers and library are, for the preprocessor and the linker."""
    if mpi.name == "openmpi":
        return "", ""
    prefix = os.path.join(pnetcdf.build(mpi), "install")
    return f" -I{prefix}/include", f" -L{prefix}/lib -Wl,-rpath,{prefix}/lib"


def build(mpi):
    source = debian_source("netcdf")
    directory = mpi.work("netcdf")
    log = os.path.join(directory, "build.log")
    if os.path.exists(os.path.join(directory, "complete")):
        return directory
    print(f"building netCDF-C for {mpi.name}", flush=True)
    if not os.path.exists(os.path.join(directory, "config.status")):
        without = [f"--disable-{part}" for part in
                   ("shared", "dap", "byterange", "nczarr", "hdf4", "filter-testing", "plugins")]
        include, link = options_of_pnetcdf(mpi)
        sh(
            [
                os.path.join(source, "configure"),
                *without,
                "--enable-pnetcdf",
                "--enable-parallel-tests",
                f"CC={mpi.tool('mpicc')}",
                "CFLAGS=-O1",
                f"CPPFLAGS=-I/usr/include/hdf5/{mpi.name}{include}",
                f"LDFLAGS=-L/usr/lib/x86_64-linux-gnu/hdf5/{mpi.name}{link}",
            ],
            directory,
            log,
        )
    jobs = f"-j{os.cpu_count()}"
    if not sh(["make", jobs, f"SUBDIRS={' '.join(LIBRARIES)}"], directory, log):
        raise SystemExit(f"netCDF-C cannot be built, see {log}")
    for folder, programs in PROGRAMS.items():
        sh(["make", "-k", jobs, "-C", folder, *programs], directory, log)
    open(os.path.join(directory, "complete"), "w").close()
    return directory


class Sequence(Test):
    """Programs one after the other in the same directory; the last is judged."""

    def run(self, mpi, server):
        if not self.built:
            return super().run(mpi, server)
        directory = mpi.work("run", server.name, self.suite, self.name)
        shutil.rmtree(directory)
        os.makedirs(directory)
        for command in self.command:
            result = watch(
                mpi.launch(self.ranks, command), directory, mpi, server, self.limit, self.variables
            )
        shutil.rmtree(directory, ignore_errors=True)
        return {self.name: result.record(self.passed(result))}


class Programs:
    """All programs, with variables of aggio."""

    MPIS = ["openmpi", "mpich"]

    def __init__(self, suite, **variables):
        self.suite = suite
        self.variables = variables

    def prepare(self, mpi):
        top = build(mpi)
        return [self.test(os.path.join(top, folder), name, ranks)
                for folder, programs in PROGRAMS.items() for name, ranks in programs.items()]

    def test(self, folder, name, ranks):
        path = os.path.join(folder, name)
        arguments, before = AFTER.get(name, ([], None))
        commands = [[os.path.join(folder, before)]] if before else []
        return Sequence(
            name,
            self.suite,
            ranks,
            [*commands, [path, *arguments]],
            lambda run: run.code == 0,
            limit=600,
            built=os.path.exists(path),
            variables=self.variables,
        )
