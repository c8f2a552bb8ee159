#!/usr/bin/python3
"""Real data through PnetCDF and parallel HDF5 on 4 ranks: natively, with libaggio.so preloaded, and
into containers.

Reads the coastlines of Debian's gmt-gshhg, writes derived fields, then changes that file; compares
the outputs byte for byte and with the formats' own tools, and prints a table: time, requests in
(data calls and pieces), requests out (system calls).

PnetCDF on MPICH takes part if `make conformance SUITES=pnetcdf` has built it.

At its end two programs that run for seconds are compared, and one of them on a full disk
(figure.py).

    run.py [--quick]    --quick: without that end
"""

import collections
import filecmp
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "conformance"))

import containers  # noqa: E402
import figure  # noqa: E402
from containers import checked  # noqa: E402
from mpis import ROOT, Server, known_mpis, watch  # noqa: E402
from suites import pnetcdf  # noqa: E402

WORK = os.environ.get("AGGIO_DEMO_DIR", os.path.join(ROOT, "build/demo"))
COAST = "/usr/share/gmt-gshhg/binned_GSHHS_i.nc"
RANKS = 4

#: A library's two programs: one makes a file, one changes it. `compare` are tools that print and
#: compare such files.
Work = collections.namedtuple("Work", "library suffix compare")
WORKS = [
    Work("pnetcdf", "nc", ([["ncdump"]], "ncmpidiff")),
    Work("hdf5", "h5", ([["h5dump"], ["h5ls", "-rv"]], "h5diff")),
]


def convert():
    """PnetCDF reads the classic formats; Debian's file is netCDF-4."""
    classic = os.path.join(WORK, "coast.cdf5.nc")
    if not os.path.exists(classic):
        checked(["nccopy", "-k", "cdf5", COAST, classic + ".new"])
        os.rename(classic + ".new", classic)
    return classic


def library_for(mpi, library):
    """The compiler, its options and the variables that programs of a library need; `None` if there
    is none for this MPI."""
    if library != "pnetcdf":
        return [mpi.tool("h5pcc"), "-shlib"], ["-lm"], {}
    flags, variables = ["-lpnetcdf", "-lm"], {}
    if mpi.name == "mpich":
        # Debian builds PnetCDF for Open MPI only.
        if not os.path.exists(os.path.join(mpi.work("pnetcdf"), "complete")):
            return None
        place = os.path.join(pnetcdf.build(mpi), "install")
        flags = [f"-I{place}/include", f"-L{place}/lib", *flags]
        variables = {"LD_LIBRARY_PATH": f"{place}/lib"}
    return [mpi.tool("mpicc")], flags, variables


def compile_program(mpi, library, name):
    """Compiles a program; the variables it needs to find its library, or `None` if there is none
    for this MPI."""
    folder = os.path.join(WORK, mpi.name)
    os.makedirs(folder, exist_ok=True)
    found = library_for(mpi, library)
    if found is None:
        return None
    compiler, flags, variables = found
    source, output = os.path.join(HERE, name + ".c"), os.path.join(folder, name)
    checked([*compiler, "-O2", "-Wall", "-o", output, source, *flags], cwd=folder)
    return variables


def compile_programs(mpi, library):
    """Compiles the two programs of a library."""
    return [
        compile_program(mpi, library, f"{what}_{library}") for what in ("coast", "coast_density")
    ][0]


def run(mpi, server, variables, command):
    """One program on all ranks."""
    folder = os.path.join(WORK, mpi.name)
    program = [os.path.join(folder, command[0]), *command[1:]]
    result = watch(
        mpi.launch(RANKS, program), folder, mpi, server, 300, {**variables, **server.more}
    )
    told = re.search(r"\d+ (?:points|cells), ([\d.]+) s", result.output)
    if result.code != 0 or not told:
        sys.exit(f"{command[0]} on {mpi.name}, {server.name}: {result.code}\n{result.output}")
    return command[0], mpi.name, server.name, float(told.group(1)), result.report


def serve(mpi, server, variables, work, source):
    """Both programs; the file, or container, that they leave, and what the table tells."""
    folder = os.path.join(WORK, mpi.name, server.name)
    os.makedirs(folder, exist_ok=True)
    output = os.path.join(folder, "coast." + work.suffix)
    containers.remove(output)
    commands = [f"coast_{work.library}", source, output], [f"coast_density_{work.library}", output]
    return output, [run(mpi, server, variables, command) for command in commands]


def demonstrate(mpi, work, source, servers, aggio):
    """All ways to run the programs of one library; all must leave the same file."""
    variables = compile_programs(mpi, work.library)
    if variables is None:
        print(
            f"{work.library} on {mpi.name}: left out; make conformance SUITES=pnetcdf builds it",
            flush=True,
        )
        return []
    fit = [server for server in servers if server.name != "blobs" or work.suffix == "nc"]
    outputs, rows = zip(*(serve(mpi, server, variables, work, source) for server in fit))
    native, served, container = outputs[:3]
    if not filecmp.cmp(native, served, shallow=False):
        sys.exit(f"{native} and {served} differ")
    checked([work.compare[1], native, served])
    print(
        f"{work.library} on {mpi.name}: outputs are equal, {os.path.getsize(native)} bytes",
        flush=True,
    )
    point = os.path.join(WORK, mpi.name, "view")
    print("  " + containers.compare(aggio, native, container, work.compare, point), flush=True)
    for more in outputs[3:]:
        print("  " + containers.compare_set(aggio, native, more, work.compare, point), flush=True)
    return [row for of_server in rows for row in of_server]


def table(rows):
    print(
        "\n| program | MPI | MPI-IO by | seconds | calls in | pieces in | bytes in | requests out |"
        " bytes out |"
    )
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for program, mpi, server, seconds, report in rows:
        numbers = [
            report["calls"],
            report["pieces_in"],
            report["bytes_read"] + report["bytes_written"],
            report["reads_out"] + report["writes_out"],
            report["bytes_read_out"] + report["bytes_written_out"],
        ]
        cells = numbers if server != "native" else ["-"] * 5
        print(
            f"| {program} | {mpi} | {server} | {seconds:.3f} | "
            + " | ".join(map(str, cells))
            + " |"
        )
    if any(server != "native" and report["calls"] == 0 for _, _, server, _, report in rows):
        sys.exit("a program's calls were not served by aggio")


def main():
    library = os.environ.get("AGGIO_LIBRARY", os.path.join(ROOT, "target/release/libaggio.so"))
    aggio = os.path.join(os.path.dirname(library), "aggio")
    for built in (library, aggio):
        if not os.path.exists(built):
            sys.exit(f"{built} has not been built (cargo build --release)")
    os.makedirs(WORK, exist_ok=True)
    servers = [
        Server("native", None),
        Server("aggio", library),
        Server("container", library),
        Server("blobs", library),
    ]
    rules = {"container": "*.nc, *.h5", "blobs": "*.nc:e3sm:blobs=2"}
    for server in servers:
        server.more = {"AGGIO_BLOB": rules[server.name]} if server.name in rules else {}
    sources = {"pnetcdf": convert(), "hdf5": COAST}
    rows = []
    for mpi in known_mpis(["openmpi", "mpich"]):
        for work in WORKS:
            rows += demonstrate(mpi, work, sources[work.library], servers, aggio)
    table(rows)
    if "--quick" not in sys.argv:
        figure.demonstrate(
            known_mpis(["openmpi", "mpich"]), servers[:2], sources, RANKS, WORK, compile_program
        )


if __name__ == "__main__":
    main()
