"""The MPI libraries, and how one watched run of a command is made."""

import glob
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WORK = os.environ.get("AGGIO_CONFORMANCE_DIR", os.path.join(ROOT, "build/conformance"))
SOURCES = os.path.join(WORK, "src")
MARK = "AGGIO_TEST_JOB"


class Server:
    """Who serves the file calls: `native`, or `aggio` with the library to preload and its
    settings."""

    def __init__(self, name, library, settings=None):
        self.name = name
        self.library = library
        self.settings = settings or {}

    def environment(self, mpi, log):
        patient = [helper("patience")] if mpi.spins else []
        if not self.library:
            return {"LD_PRELOAD": " ".join(patient)} if patient else {}
        preload = [self.library, helper("witness"), *patient]
        return {"LD_PRELOAD": " ".join(preload), "AGGIO_REPORT": "json", "AGGIO_LOG_FILE": log,
                "AGGIO_TEST_WITNESS": log + ".native", **self.settings}


class Mpi:
    """One installed MPI: names of its tools and the environment its jobs need."""

    def __init__(
        self,
        name,
        directory="/usr/bin",
        suffix="",
        environment=None,
        mpiexec="mpiexec",
        options=(),
        spins=False,
    ):
        self.name = name
        self.spins = spins  # waiting ranks never give up their core, and UCX carries the messages
        self.directory = directory
        self.suffix = suffix
        self.environment = environment or {}
        self.mpiexec = mpiexec
        self.options = list(options)

    def tool(self, tool):
        return os.path.join(self.directory, tool + self.suffix)

    def launch(self, ranks, command):
        return [self.tool(self.mpiexec), *self.options, "-n", str(ranks), *command]

    def work(self, *names):
        path = os.path.join(WORK, self.name, *names)
        os.makedirs(path, exist_ok=True)
        return path


OPENMPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_ALLOW_RUN_AS_ROOT": "1",
    "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "OMPI_MCA_btl_base_warn_component_unused": "0",
}


def known_mpis(names):
    """The named MPIs; those of PyPI live in virtual environments that suites make."""
    venv = lambda name: os.path.join(WORK, "venvs", name, "bin")
    intel = {
        "I_MPI_ROOT": os.path.dirname(venv("impi")),
        "FI_PROVIDER": "tcp",
        "I_MPI_FABRICS": "shm",
    }
    mpis = {
        "openmpi": Mpi("openmpi", suffix=".openmpi", environment=OPENMPI),
        "mpich": Mpi("mpich", suffix=".mpich", spins=True),
        "openmpi5": Mpi("openmpi5", venv("openmpi5"), environment=OPENMPI),
        "mpich5": Mpi(
            "mpich5",
            venv("mpich5"),
            environment={"MPI4PY_LIBMPI": venv("mpich5") + "/../lib/libmpi.so.12"},
        ),
        "mpich5-abi": Mpi(
            "mpich5-abi",
            venv("mpich5-abi"),
            environment={"LD_LIBRARY_PATH": venv("mpich5-abi") + "/../lib"},
        ),
        "impi": Mpi(
            "impi",
            venv("impi"),
            environment=intel,
            mpiexec="mpiexec.hydra",
            options=["-bootstrap", "fork"],
        ),
    }
    return [mpis[name] for name in names]


def sh(command, directory, log, **variables):
    """Runs a build step; its output goes to a file that the failure names."""
    with open(log, "a") as stream:
        code = subprocess.run(
            command,
            cwd=directory,
            stdout=stream,
            stderr=stream,
            stdin=subprocess.DEVNULL,
            env={**os.environ, **variables},
        ).returncode
    return code == 0


def available_gib():
    with open("/proc/meminfo") as stream:
        kib = next(int(line.split()[1]) for line in stream if line.startswith("MemAvailable"))
    return kib / 2**20


def helper(name):
    """Path of one of the small libraries beside this file that are preloaded into the tests, built
    on first use.

    `witness` counts the file calls that reach the MPI library. `patience` lets waiting ranks give
    up their core.
    """
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".c")
    library = os.path.join(WORK, name + ".so")
    if not os.path.exists(library) or os.path.getmtime(library) < os.path.getmtime(source):
        os.makedirs(WORK, exist_ok=True)
        subprocess.run(
            ["gcc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True
        )
    return library


def kill_marked(mark):
    """Launchers put ranks into process groups of their own, so the mark in the environment finds
    them."""
    needle = f"{MARK}={mark}".encode()
    for _ in range(1000):
        alive = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            try:
                with open(path, "rb") as stream:
                    if needle in stream.read().split(b"\0"):
                        alive.append(int(path.split("/")[2]))
            except OSError:
                continue
        if not alive:
            return
        for process in alive:
            try:
                os.kill(process, signal.SIGKILL)
            except OSError:
                pass
        time.sleep(0.01)


COUNTERS = [
    "files",
    "calls",
    "pieces_in",
    "bytes_read",
    "bytes_written",
    "reads_out",
    "writes_out",
    "bytes_read_out",
    "bytes_written_out",
]


def reports(log):
    """The sum of aggio's reports of all files of a run, and the calls that reached the MPI library
    instead."""
    total, unserved = dict.fromkeys(COUNTERS, 0), 0
    for path in glob.glob(log + "*"):
        with open(path, errors="replace") as stream:
            for line in stream:
                if path.startswith(log + ".native"):
                    unserved += int(line.split()[0])
                    continue
                try:
                    report = json.loads(line[line.index("{"):])
                except ValueError:
                    continue
                if report.get("interface") != "mpi":
                    continue
                total["files"] += 1
                for name in COUNTERS[1:]:
                    total[name] += int(report["sum"].get(name, 0))
    return total, unserved


class Run:
    """What came of one watched command."""

    def __init__(self, code, output, seconds, report, unserved):
        self.code = code  # None: killed by the watchdog
        self.output = output
        self.seconds = seconds
        self.report = report  # sums over all files
        self.unserved = unserved  # calls

    def record(self, passed, **more):
        word = "timeout" if self.code is None else "pass" if passed else "fail"
        record = {"result": word, "seconds": round(self.seconds, 2), 
                  # Opening a file is a call as well, even if nothing was read or written.
                  "served": self.report["files"] + self.report["calls"], "unserved": self.unserved}
        if word != "pass":
            record["output"] = self.output[-2000:]
        return {**record, **more}


def watch(command, directory, mpi, server, limit, variables=None):
    """Runs a command with a time limit, in its own temporary directory, and leaves no process
    behind."""
    temporary = tempfile.mkdtemp(prefix="ac", dir="/tmp")
    log, output = os.path.join(temporary, "aggio.log"), os.path.join(temporary, "output")
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AGGIO_", "LD_PRELOAD"))
    }
    environment = {**clean, **mpi.environment, "TMPDIR": temporary, MARK: temporary,
                   **server.environment(mpi, log), **(variables or {})}
    started = time.monotonic()
    with open(output, "wb") as stream:
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdout=stream,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
    seconds = time.monotonic() - started
    kill_marked(temporary)
    process.wait()
    with open(output, errors="replace") as stream:
        text = stream.read()
    run = Run(code, text, seconds, *reports(log))
    shutil.rmtree(temporary, ignore_errors=True)
    return run


class Test:
    """One program on a number of ranks; `passed` judges exit code and output."""

    def __init__(
        self,
        name,
        suite,
        ranks,
        command,
        passed,
        limit=120,
        built=True,
        prepare=None,
        variables=None,
    ):
        self.name = name
        self.suite = suite
        self.ranks = ranks
        self.command = command
        self.passed = passed
        self.limit = limit
        self.built = built
        self.prepare = prepare
        self.variables = variables

    def run(self, mpi, server):
        if not self.built:
            return {self.name: {"result": "no build", "seconds": 0.0}}
        directory = mpi.work("run", server.name, self.suite, self.name.replace("/", "_"))
        shutil.rmtree(directory)
        os.makedirs(directory)
        if self.prepare:
            self.prepare(directory)
        result = watch(
            mpi.launch(self.ranks, self.command), directory, mpi, server, self.limit, self.variables
        )
        parts = self.parts(result, directory)
        shutil.rmtree(directory, ignore_errors=True)
        return parts

    def parts(self, result, directory):
        """The results of the test and of what it consists of, by their names."""
        return {self.name: result.record(self.passed(result))}
