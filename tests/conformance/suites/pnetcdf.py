"""PnetCDF's `make check` (one process) and `make ptest` (four), the library itself built for each
MPI."""

import os
import re
import subprocess

from mpis import Test, sh, watch
from sources import debian_source


def build(mpi, name="pnetcdf", *options):
    """The build directory; also where the demonstration finds a PnetCDF for MPICH (folder
    `install`)."""
    source = debian_source("pnetcdf")
    directory = mpi.work(name)
    log = os.path.join(directory, "build.log")
    if os.path.exists(os.path.join(directory, "complete")):
        return directory
    print(f"building {name} for {mpi.name}", flush=True)
    if not os.path.exists(os.path.join(source, "configure")):
        sh(["autoreconf", "-i"], source, log)
    if not os.path.exists(os.path.join(directory, "config.status")):
        fortran = "-O1 -fallow-argument-mismatch"
        sh(
            [
                os.path.join(source, "configure"),
                *options,
                f"--prefix={directory}/install",
                "--enable-shared",
                "--disable-static",
                "CFLAGS=-O1",
                "CXXFLAGS=-O1",
                f"FFLAGS={fortran}",
                f"FCFLAGS={fortran}",
                f"MPICC={mpi.tool('mpicc')}",
                f"MPICXX={mpi.tool('mpicxx')}",
                f"MPIF77={mpi.tool('mpif77')}",
                f"MPIF90={mpi.tool('mpif90')}",
            ],
            directory,
            log,
        )
    jobs = f"-j{os.cpu_count()}"
    if not (sh(["make", jobs], directory, log) and sh(["make", "install"], directory, log)):
        raise SystemExit(f"PnetCDF cannot be built, see {log}")
    open(os.path.join(directory, "complete"), "w").close()
    return directory


def build_tests(mpi, *how):
    directory = build(mpi, *how)
    done = os.path.join(directory, "tests-complete")
    if not os.path.exists(done):
        print(f"building PnetCDF's tests in {directory}", flush=True)
        sh(
            ["make", "-k", f"-j{os.cpu_count()}", "tests"],
            directory,
            os.path.join(directory, "build.log"),
        )
        open(done, "w").close()
    return directory


class Folder(Test):
    """One folder's target; with `check`, each program of the folder is a result."""

    def run(self, mpi, server):
        directory, target = self.command
        watched = watch(["make", *self.overrides(mpi, server), "-k", "-C", directory, target],
                        directory, mpi, server, self.limit, self.variables)
        if target == "check":
            parts = {
                f"{self.name}/{name}": {
                    "result": "pass" if word in ("PASS", "XFAIL") else "fail",
                    "seconds": 0.0,
                }
                for word, name in re.findall(
                    r"^(PASS|FAIL|XFAIL|XPASS|ERROR): (\S+)", watched.output, re.M
                )
            }
            return {**parts, self.name: watched.record(watched.code == 0)}
        return {self.name: watched.record(watched.code == 0)}

    def overrides(self, mpi, server):
        launcher = " ".join(mpi.launch("NP", []))
        output = mpi.work("run", server.name, self.suite)
        return [f"TESTMPIRUN={launcher}", f"TESTOUTDIR={output}"]


def folders(top, *path):
    """The folders that this configuration tests: those below `SUBDIRS`, which are fewer than there
    are."""
    directory = os.path.join(top, *path)
    asked = subprocess.run(["make", "-s", "-C", directory, "--no-print-directory",
                            "--eval=aggio-subdirs:;@echo $(SUBDIRS)", "aggio-subdirs"],
                           stdout=subprocess.PIPE, text=True)
    names = asked.stdout.split() if asked.returncode == 0 else []
    if not names:
        return ["/".join(path)]
    return [folder for name in names for folder in folders(top, *path, name)]


class Target:
    """`check` or `ptest`, one test a folder that has one."""

    MPIS = ["openmpi", "mpich"]
    HOW = ()

    def __init__(self, target):
        self.target = target
        self.suite = f"pnetcdf-{target}"
        self.variables = None

    def prepare(self, mpi):
        top = build_tests(mpi, *self.HOW)
        names = [
            folder for part in ("test", "examples", "benchmarks") for folder in folders(top, part)
        ]
        return [self.test(top, name, self.target) for name in names if self.is_target_of(top, name)]

    def is_target_of(self, top, name):
        with open(os.path.join(top, name, "Makefile")) as stream:
            text = stream.read()
        return (
            "\nTESTS = " in text
            if self.target == "check"
            else re.search(r"^ptest\b.*:", text, re.M)
        )

    def test(self, top, folder, target, name=None):
        return Folder(
            name or folder,
            self.suite,
            4,
            [os.path.join(top, folder), target],
            None,
            limit=900,
            variables=self.variables,
        )


class Burst(Target):
    """`ptest` of a PnetCDF that writes into logs of its own first, with variables of aggio."""

    HOW = ("pnetcdf-burst", "--enable-burst-buffering", "--disable-fortran", "--disable-cxx")

    def __init__(self, suite, **variables):
        super().__init__("ptest")
        self.suite = suite
        self.variables = variables

    def prepare(self, mpi):
        tests = super().prepare(mpi)
        own = "test/burst_buffer"
        top = mpi.work(self.HOW[0])
        return [*tests, self.test(top, own, "ptest2", own + "-2")]
