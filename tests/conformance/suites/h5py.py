"""h5py's own tests: all of them on two ranks, those that use MPI on four.

h5py is that of PyPI, built on Debian's parallel HDF5 for each MPI.
"""

import os
import xml.etree.ElementTree as Xml

from mpis import Test, sh
from sources import virtual_environment

from . import mpi4py_io

# The name of a module's results, its ranks and what it selects.
RUNS = {"all-2": (2, []), "mpi-4": (4, ["-m", "mpi"])}
TOOLS = ["cython", "pkgconfig", "pytest", "pytest-mpi", "setuptools>=77"]
# Each rank writes what became of its tests to a file of its own. None ends with an error, for
# which launchers end the others.
COMMAND = """
"$0" "$@" --junitxml="rank${OMPI_COMM_WORLD_RANK:-$PMI_RANK}.xml"
echo "ended with $?."
"""
# Those reach for servers in the internet.
LEFT_OUT = ["-k", "not ros3"]


def python(mpi):
    """The interpreter that has h5py for this MPI, building it if need be."""
    interpreter = mpi4py_io.python(mpi)
    folder = os.path.dirname(os.path.dirname(interpreter))
    log = mpi.work() + "/h5py.log"
    done = os.path.join(folder, "h5py-complete")
    if os.path.exists(done):
        return interpreter
    print(f"building h5py for {mpi.name}", flush=True)
    pip = [interpreter, "-m", "pip", "install", "--no-cache-dir"]
    built = sh([*pip, *TOOLS], folder, log) and sh(
        [*pip, "--no-deps", "--no-build-isolation", "--no-binary", "h5py", "h5py"], folder, log,
        CC=mpi.tool("mpicc"), CFLAGS="-O1", HDF5_MPI="ON",
        HDF5_INCLUDEDIR=f"/usr/include/hdf5/{mpi.name}",
        HDF5_LIBDIR=f"/usr/lib/x86_64-linux-gnu/hdf5/{mpi.name}")
    # Not in the folder: nothing but the installed package shall be found.
    check = "import h5py, sys; sys.exit(not h5py.get_config().mpi)"
    if not (built and sh([interpreter, "-c", check], "/", log)):
        raise SystemExit(f"h5py cannot be built, see {log}")
    open(done, "w").close()
    return interpreter


def outcomes(directory, ranks):
    """What became of each test: failed if it failed on any rank; nothing if a rank did not tell."""
    words = {}
    for rank in range(ranks):
        try:
            tree = Xml.parse(os.path.join(directory, f"rank{rank}.xml"))
        except (OSError, Xml.ParseError):
            return {}
        for case in tree.iter("testcase"):
            module = case.get("classname").removeprefix("h5py.").removeprefix("tests.")
            name = f"{module}.{case.get('name')}"
            kinds = {child.tag for child in case}
            word = (
                "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
            )
            words[name] = "fail" if "fail" in (word, words.get(name)) else word
    return {name: word for name, word in words.items() if word != "skip"}


class Tests(Test):
    """h5py's tests on a number of ranks; each of them is a result."""

    def parts(self, result, directory):
        parts = {f"{self.name}/{name}": {"result": word, "seconds": 0.0}
                 for name, word in outcomes(directory, self.ranks).items()}
        ended = result.output.count("ended with 0.") if parts else 0
        return {**parts, self.name: result.record(result.code == 0 and ended == self.ranks)}


class Modules:
    """All tests, with variables of aggio."""

    MPIS = ["openmpi", "mpich"]

    def __init__(self, suite, **variables):
        self.suite = suite
        self.variables = variables

    def prepare(self, mpi):
        interpreter = python(mpi)
        command = ["sh", "-c", COMMAND, interpreter, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                   "--with-mpi", *LEFT_OUT]
        return [Tests(name, self.suite, ranks, [*command, *selected, "--pyargs", "h5py"], None,
                      limit=900, variables=self.variables)
                for name, (ranks, selected) in RUNS.items()]
