"""Parallel tests of netCDF-Fortran, built on the netCDF-C that the suite `netcdf` builds.

The same programs twice: as they are, and with writes that wait (`AGGIO_DEFER`).
"""

import os

from mpis import sh
from sources import debian_source, upstream_source

from . import netcdf

RANKS = 4
# As in nf_test4/run_f77_par_test.sh, run_f77_par_test_03.sh and nf03_test4/run_f90_par_test.sh.
PROGRAMS = {
    "nf_test4": ["ftst_parallel", "ftst_parallel_nasa", "f03tst_parallel"],
    "nf03_test4": [
        "f90tst_parallel",
        "f90tst_parallel2",
        "f90tst_parallel3",
        "f90tst_nc4_par",
        "f90tst_parallel_fill",
        "f90tst_parallel_compressed",
    ],
}


def libraries_of(netcdf_c):
    """What a program that uses a static netCDF-C is linked with, as that tells."""
    with open(os.path.join(netcdf_c, "netcdf.pc")) as stream:
        line = next(line for line in stream if line.startswith("Libs:"))
    return [word for word in line.split() if word.startswith("-l")]


def variables_of_configure(mpi, netcdf_c):
    """Compilers, and where netCDF-C and the libraries that it was built on are."""
    _, link = netcdf.options_of_pnetcdf(mpi)
    headers = f"-I{debian_source('netcdf')}/include -I{netcdf_c}/include"
    return [
        f"CC={mpi.tool('mpicc')}",
        f"FC={mpi.tool('mpif90')}",
        f"F77={mpi.tool('mpif77')}",
        "CFLAGS=-O1",
        f"CPPFLAGS={headers}",
        f"LDFLAGS=-L{netcdf_c}/liblib/.libs -L/usr/lib/x86_64-linux-gnu/hdf5/{mpi.name}{link}",
        f"LIBS={' '.join(libraries_of(netcdf_c))}",
    ]


def build(mpi):
    source = upstream_source("netcdf-fortran")
    netcdf_c = netcdf.build(mpi)
    directory = mpi.work("netcdf-fortran")
    log = os.path.join(directory, "build.log")
    if os.path.exists(os.path.join(directory, "complete")):
        return directory
    print(f"building netCDF-Fortran for {mpi.name}", flush=True)
    if not os.path.exists(os.path.join(directory, "config.status")):
        options = ["--disable-shared", "--enable-parallel-tests"]
        command = [os.path.join(source, "configure"), *options]
        sh([*command, *variables_of_configure(mpi, netcdf_c)], directory, log)
    # The modules depend on each other in ways that its makefiles do not tell.
    if not sh(["make", "SUBDIRS=libsrc fortran"], directory, log):
        raise SystemExit(f"netCDF-Fortran cannot be built, see {log}")
    for folder, programs in PROGRAMS.items():
        sh(["make", "-k", "-C", folder, *programs], directory, log)
    open(os.path.join(directory, "complete"), "w").close()
    return directory


class Programs(netcdf.Programs):
    """All programs, with variables of aggio."""

    def prepare(self, mpi):
        top = build(mpi)
        return [self.test(os.path.join(top, folder), name, RANKS)
                for folder, programs in PROGRAMS.items() for name in programs]
