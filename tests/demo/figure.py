"""The end of the demonstration: the same programs natively and under aggio, for seconds and on a
full disk.

Times are medians of rounds in which both take turns. Requests are the system calls that write to
the output file, counted by strace in a run of their own, in the same way for both.
"""

import collections
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

from mpis import watch

ROUNDS = 3
#: Characters of the longest bar.
WIDTH = 44
#: Seconds after which a program that has not ended counts as one that does not end.
PATIENCE = 60
WRITES = "write,pwrite64,writev,pwritev,pwritev2"

#: A program and what it is an example of.
Example = collections.namedtuple("Example", "mpi library program suffix title")
EXAMPLES = [
    Example("openmpi", "pnetcdf", "coast_climate_pnetcdf", "nc",
            "PnetCDF, Open MPI: 24 fields on cells that lie scattered over the ranks"),
    Example("mpich", "hdf5", "coast_steps_hdf5", "h5",
            "HDF5, MPICH: 24 time steps appended to a chunked dataset"),
]
#: The one that meets a full disk, and the size of that disk.
FULL, FULL_SIZE = EXAMPLES[0], "8m"

Side = collections.namedtuple("Side", "name seconds requests bytes")


class Stage:
    """Where programs run: how one is started, watched and measured."""

    def __init__(self, mpi, folder, variables, source, ranks):
        self.mpi, self.folder, self.variables = mpi, folder, variables
        self.source, self.ranks = source, ranks

    def run(self, example, server, output, tool=()):
        """One run of the program below `tool`."""
        program = [os.path.join(self.folder, example.program), self.source, output]
        command = [*tool, *self.mpi.launch(self.ranks, program)]
        return watch(command, self.folder, self.mpi, server, PATIENCE, self.variables)

    def seconds(self, example, server, output):
        if os.path.exists(output):
            os.unlink(output)
        result = self.run(example, server, output)
        told = re.search(r"\d+ points, ([\d.]+) s", result.output)
        if result.code != 0 or not told:
            sys.exit(f"{example.program}, {server.name}: {result.code}\n{result.output}")
        return float(told.group(1))

    def requests(self, example, server, output):
        """System calls that write to the output; `None` where strace may not trace."""
        os.unlink(output)
        with tempfile.TemporaryDirectory() as folder:
            trace = os.path.join(folder, "trace")
            tool = [
                "strace",
                "-f",
                "--seccomp-bpf",
                "-qq",
                "-e",
                f"trace={WRITES}",
                "-P",
                output,
                "-o",
                trace,
            ]
            result = self.run(example, server, output, tool)
            if result.code != 0 or not os.path.exists(trace):
                return None
            with open(trace, errors="replace") as stream:
                return sum(1 for line in stream if re.match(r"\d+ +p?write", line))


def show(example, sides):
    """The bars of one program."""
    native, served = sides
    print(f"\n{example.title}")
    longest = max(side.seconds for side in sides)
    for side in sides:
        bar = "█" * max(1, round(WIDTH * side.seconds / longest))
        requests = "" if side.requests is None else f"{side.requests:>9,} requests"
        print(
            f"  {side.name:<7}{bar:<{WIDTH}} {side.seconds:6.2f} s{requests} "
            f" {side.bytes / 2**20:.0f} MiB"
        )
    print(f"  the same bytes, {native.seconds / served.seconds:.1f} times as fast", flush=True)


def compare(stage, example, servers, outputs):
    """Both servers take turns; the files that they leave must be equal."""
    times = [[], []]
    for turn in range(ROUNDS):
        for which in (0, 1) if turn % 2 == 0 else (1, 0):
            times[which].append(stage.seconds(example, servers[which], outputs[which]))
    with open(outputs[0], "rb") as one, open(outputs[1], "rb") as other:
        if one.read() != other.read():
            sys.exit(f"{outputs[0]} and {outputs[1]} differ")
    counted = [stage.requests(example, server, output) for server, output in zip(servers, outputs)]
    sizes = [os.path.getsize(output) for output in outputs]
    show(example, [Side(server.name, statistics.median(taken), count, size)
                   for server, taken, count, size in zip(servers, times, counted, sizes)])


def can_mount(tool):
    return subprocess.run([*tool, "true"], capture_output=True).returncode == 0


def fill_disk(stage, servers, whole):
    """The program on a disk that has room for a third of its output. `whole` is the size of that
    output."""
    point = tempfile.mkdtemp(prefix="full", dir=stage.folder)
    # What an MPI that ends by a crash leaves in shared memory goes with the name space.
    mount = (
        f'mount -t tmpfs -o size={FULL_SIZE} none "{point}" && mount -t tmpfs none /dev/shm && exec'
        ' "$@"'
    )
    tool = (
        ["unshare", "--user", "--map-root-user", "--mount"]
        if os.geteuid()
        else ["unshare", "--mount"]
    )
    tool += ["sh", "-c", mount, "sh"]
    try:
        if not can_mount(tool):
            print("\nA full disk: left out, this machine does not let a user mount one")
            return
        print(
            f"\nA full disk: room for {FULL_SIZE[:-1]} MiB, the program writes"
            f" {whole / 2**20:.0f} MiB"
        )
        for server in servers:
            result = stage.run(FULL, server, os.path.join(point, "coast.nc"), tool)
            print(f"  {server.name:<7}{verdict(result)}", flush=True)
            if server.library and (
                result.code in (0, None) or "Not enough space" not in result.output
            ):
                sys.exit(f"{server.name}: {result.code}\n{result.output}")
    finally:
        shutil.rmtree(point, ignore_errors=True)


def verdict(result):
    """What a user is told."""
    if result.code is None:
        return f"does not end (stopped after {PATIENCE} s)"
    if result.code == 0:
        return "exit status 0: the program believes that its data are stored; most of them are lost"
    first = next(
        (line for line in result.output.splitlines() if "space" in line), "no word about space"
    )
    return f"exit status {result.code}: \"{first.strip()}\""


def demonstrate(mpis, servers, sources, ranks, work, compile_program):
    """Everything; `compile_program(mpi, library, program)` gives the variables that the program
    needs."""
    print("\nThe same unmodified programs, natively and with aggio preloaded", flush=True)
    for mpi in mpis:
        for example in (one for one in EXAMPLES if one.mpi == mpi.name):
            variables = compile_program(mpi, example.library, example.program)
            folder = os.path.join(work, mpi.name)
            stage = Stage(mpi, folder, variables, sources[example.library], ranks)
            outputs = [
                os.path.join(folder, f"figure.{server.name}.{example.suffix}") for server in servers
            ]
            compare(stage, example, servers, outputs)
            if example == FULL:
                fill_disk(stage, servers, os.path.getsize(outputs[0]))
            for output in outputs:
                os.unlink(output)
