"""h5py's own tests, h5py of PyPI built on the parallel HDF5 of Debian for each MPI: all on two ranks, those with MPI on more."""

import os
import xml.etree.ElementTree as Xml

from mpis import Test, sh
from sources import virtual_environment

from . import mpi4py_io

# The name of a module's results, its ranks and what it selects.
RUNS = {"all-2": (2, []), "mpi-4": (4, ["-m", "mpi"])}
TOOLS = ["cython", "pkgconfig", "pytest", "pytest-mpi", "setuptools"]
# Each rank writes what became of its tests to a file of its own.
RANK = "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}"


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
        CC=mpi.tool("mpicc"), HDF5_MPI="ON", HDF5_INCLUDEDIR=f"/usr/include/hdf5/{mpi.name}",
        HDF5_LIBDIR=f"/usr/lib/x86_64-linux-gnu/hdf5/{mpi.name}")
    # Not in the folder: nothing but the installed package shall be found.
    check = "import h5py, sys; sys.exit(not h5py.get_config().mpi)"
    if not (built and sh([interpreter, "-c", check], "/", log)):
        raise SystemExit(f"h5py cannot be built, see {log}")
    open(done, "w").close()
    return interpreter


def outcomes(directory, ranks):
    """What became of each test; one that fails on any rank has failed. Nothing if a rank did not tell."""
    words = {}
    for rank in range(ranks):
        try:
            cases = Xml.parse(os.path.join(directory, f"rank{rank}.xml")).getroot().iter("testcase")
        except (OSError, Xml.ParseError):
            return {}
        for case in cases:
            name = f"{case.get('classname').removeprefix('h5py.tests.')}.{case.get('name')}"
            kinds = {child.tag for child in case}
            word = "fail" if kinds & {"failure", "error"} else "skip" if "skipped" in kinds else "pass"
            words[name] = "fail" if "fail" in (word, words.get(name)) else word
    return {name: word for name, word in words.items() if word != "skip"}


class Tests(Test):
    """h5py's tests on a number of ranks; each of them is a result."""

    def parts(self, result, directory):
        parts = {f"{self.name}/{name}": {"result": word, "seconds": 0.0}
                 for name, word in outcomes(directory, self.ranks).items()}
        return {**parts, self.name: result.record(result.code == 0 and bool(parts))}


class Modules:
    """All tests, with variables of aggio."""

    MPIS = ["openmpi", "mpich"]

    def __init__(self, suite, **variables):
        self.suite = suite
        self.variables = variables

    def prepare(self, mpi):
        interpreter = python(mpi)
        command = ["sh", "-c", f'exec "$0" "$@" --junitxml=rank{RANK}.xml', interpreter, "-m", "pytest", "-q",
                   "-p", "no:cacheprovider", "--with-mpi"]
        return [Tests(name, self.suite, ranks, [*command, *selected, "--pyargs", "h5py"], None, limit=900,
                      variables=self.variables)
                for name, (ranks, selected) in RUNS.items()]
