"""MPICH's own tests of its I/O chapter, test/mpi/io and its Fortran and C++ folders, and those of
errors of files."""

import os
import re

from mpis import Test, available_gib, sh
from sources import debian_source

# Seconds. MPICH with more ranks than cores spins: some programs take minutes on two cores.
LIMIT = 300
FOLDERS = ["io", "f77/io", "f90/io", "f08/io", "cxx/io"]
FOLDERS += ["errors/io", "errors/f77/io", "errors/f90/io", "errors/cxx/io"]


def configure(mpi, source, build):
    tools = {"CC": "mpicc", "CXX": "mpicxx", "F77": "mpif77", "FC": "mpif90",
             "MPICC": "mpicc", "MPICXX": "mpicxx", "MPIF77": "mpif77", "MPIFC": "mpif90"}
    fortran = "-O1 -fallow-argument-mismatch"
    command = [
        os.path.join(source, "configure"),
        "--with-mpi=/usr",
        "--enable-fortran=all",
        "--disable-dependency-tracking",
        *(f"{name}={mpi.tool(tool)}" for name, tool in tools.items()),
        # Open MPI hides what MPI-3 removed unless told not to; the tests name some of it.
        "CFLAGS=-O1 -DOMPI_OMIT_MPI1_COMPAT_DECLS=0",
        "CXXFLAGS=-O1 -std=c++98",
        f"FFLAGS={fortran}",
        f"FCFLAGS={fortran}",
    ]
    return sh(command, build, os.path.join(build, "build.log"))


def forget_windows(build):
    """Open MPI's C++ binding lacks constants of windows that the suite's C++ library names."""
    path = os.path.join(build, "include/mpitestconf.h")
    with open(path) as stream:
        text = stream.read()
    with open(path, "w") as stream:
        stream.write(
            text.replace("#define HAVE_MPI_WIN_CREATE 1", "/* #undef HAVE_MPI_WIN_CREATE */")
        )


def build(mpi):
    """Builds all programs that build; returns the build directory."""
    source = os.path.join(debian_source("mpich"), "test/mpi")
    directory = mpi.work("mpich-test")
    log, done = os.path.join(directory, "build.log"), os.path.join(directory, "complete")
    if os.path.exists(done):
        return source, directory
    print(f"building MPICH's tests for {mpi.name}", flush=True)
    # A configure that was interrupted leaves a config.status behind.
    configured = os.path.join(directory, "configured")
    if not os.path.exists(configured):
        if not configure(mpi, source, directory):
            raise SystemExit(f"MPICH's tests cannot be configured, see {log}")
        open(configured, "w").close()
    make = lambda *command: sh(["make", "-k", *command], directory, log)
    make("-C", "util")
    make("-C", "dtpools")
    # configure enables mpi_f08 inside MPICH's own tree only; the folder needs nothing but this file
    # of it.
    f08 = os.path.join(directory, "util/mtest_f08.o")
    sh(
        [mpi.tool("mpif90"), "-O1", "-c", "-o", f08, os.path.join(source, "util/mtest_f08.f90")],
        directory,
        log,
    )
    for folder in FOLDERS:
        if folder.endswith("cxx/io") and mpi.name.startswith("openmpi"):
            forget_windows(directory)
        make("-C", folder, *([f"LIBS={f08}"] if folder.endswith("f08/io") else []))
    make("-C", "f08/io", "c2f90multio")
    open(done, "w").close()
    return source, directory


def test_lines(source, directory, folder):
    for name in (
        os.path.join(directory, folder, "testlist"),
        os.path.join(source, folder, "testlist"),
        os.path.join(source, folder, "testlist.in"),
    ):
        if os.path.exists(name):
            with open(name) as stream:
                return [
                    line.split()
                    for line in stream
                    if line.strip() and not re.match(r"\s*[#@]", line)
                ]
    return []


def passed(run):
    """What MPICH's runtests demands: success, and `No Errors` said once."""
    return (
        run.code == 0
        and len(re.findall(r"no errors", run.output, re.I)) == 1
        and "Found" not in run.output
    )


class Folder:
    """One folder of the suite."""

    def __init__(self, folder, mpis=("openmpi", "mpich")):
        self.folder = folder
        self.MPIS = list(mpis)

    def prepare(self, mpi):
        source, directory = build(mpi)
        tests = []
        for name, ranks, *options in test_lines(source, directory, self.folder):
            program = os.path.join(directory, self.folder, name)
            values = dict(option.split("=", 1) for option in options if "=" in option)
            if float(values.get("mem", 0)) > available_gib():
                print(f"left out for want of memory: {self.folder}/{name}")
                continue
            arguments = [values["arg"]] if "arg" in values else []
            tests.append(
                Test(
                    name,
                    self.folder.replace("/", "-"),
                    int(ranks),
                    [program, *arguments],
                    passed,
                    limit=LIMIT,
                    built=os.path.exists(program),
                )
            )
        return tests
