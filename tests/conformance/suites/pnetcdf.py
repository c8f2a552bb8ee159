"""PnetCDF's `make check` (one process) and `make ptest` (four), the library itself built for each MPI."""

import os
import re

from mpis import Test, sh, watch
from sources import debian_source


def build(mpi):
    """The build directory; also where the demonstration finds a PnetCDF for MPICH (folder `install`)."""
    source = debian_source("pnetcdf")
    directory = mpi.work("pnetcdf")
    log = os.path.join(directory, "build.log")
    if os.path.exists(os.path.join(directory, "complete")):
        return directory
    print(f"building PnetCDF for {mpi.name}", flush=True)
    if not os.path.exists(os.path.join(source, "configure")):
        sh(["autoreconf", "-i"], source, log)
    if not os.path.exists(os.path.join(directory, "config.status")):
        fortran = "-O1 -fallow-argument-mismatch"
        sh([os.path.join(source, "configure"), f"--prefix={directory}/install", "--enable-shared",
            "--disable-static", "CFLAGS=-O1", "CXXFLAGS=-O1", f"FFLAGS={fortran}", f"FCFLAGS={fortran}",
            f"MPICC={mpi.tool('mpicc')}", f"MPICXX={mpi.tool('mpicxx')}", f"MPIF77={mpi.tool('mpif77')}",
            f"MPIF90={mpi.tool('mpif90')}"], directory, log)
    jobs = f"-j{os.cpu_count()}"
    if not (sh(["make", jobs], directory, log) and sh(["make", "install"], directory, log)):
        raise SystemExit(f"PnetCDF cannot be built, see {log}")
    open(os.path.join(directory, "complete"), "w").close()
    return directory


def build_tests(mpi):
    directory = build(mpi)
    done = os.path.join(directory, "tests-complete")
    if not os.path.exists(done):
        print(f"building PnetCDF's tests for {mpi.name}", flush=True)
        sh(["make", "-k", f"-j{os.cpu_count()}", "tests"], directory, os.path.join(directory, "build.log"))
        open(done, "w").close()
    return directory


class Folder(Test):
    """One folder's target; with `check`, each program of the folder is a result."""

    def run(self, mpi, server):
        directory, target = self.command
        watched = watch(["make", *self.overrides(mpi, server), "-k", "-C", directory, target],
                        directory, mpi, server, self.limit)
        if target == "check":
            parts = {f"{self.name}/{name}": {"result": "pass" if word in ("PASS", "XFAIL") else "fail", "seconds": 0.0}
                     for word, name in re.findall(r"^(PASS|FAIL|XFAIL|XPASS|ERROR): (\S+)", watched.output, re.M)}
            return {**parts, self.name: watched.record(watched.code == 0)}
        return {self.name: watched.record(watched.code == 0)}

    def overrides(self, mpi, server):
        launcher = " ".join(mpi.launch("NP", []))
        output = mpi.work("run", server.name, self.suite)
        return [f"TESTMPIRUN={launcher}", f"TESTOUTDIR={output}"]


class Target:
    """`check` or `ptest`, one test a folder that has one."""

    MPIS = ["openmpi", "mpich"]

    def __init__(self, target):
        self.target = target

    def prepare(self, mpi):
        top = build_tests(mpi)
        tests = []
        for folder, _, files in sorted(os.walk(top)):
            makefile = os.path.join(folder, "Makefile")
            name = os.path.relpath(folder, top)
            if "Makefile" not in files or not re.match(r"(test|examples|benchmarks)/", name):
                continue
            with open(makefile) as stream:
                text = stream.read()
            has = "\nTESTS = " in text if self.target == "check" else re.search(r"^ptest\b.*:", text, re.M)
            if has and "\nSUBDIRS" not in text:
                tests.append(Folder(name, f"pnetcdf-{self.target}", 4, [folder, self.target], None, limit=900))
        return tests
