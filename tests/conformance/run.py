#!/usr/bin/python3
"""Runs other projects' unmodified test suites natively and with libaggio.so preloaded.

    tests/conformance/run.py [--mpi openmpi,mpich] [--only PATTERN] [--native] [--fresh] [SUITE...]

Prints a table suite x MPI. Ends with 1 if a test that passes natively fails with aggio, or if a suite's
file calls were not all served by aggio. Everything fetched, built and written is below build/conformance.
"""

import argparse
import fnmatch
import json
import os
import sys

from mpis import ROOT, WORK, Server, known_mpis
from suites import SUITES


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="default: all of " + " ".join(SUITES))
    parser.add_argument("--mpi", default="", help="names separated by commas; default: all the suite supports")
    parser.add_argument("--only", default="*", help="only tests whose name matches this pattern")
    parser.add_argument("--native", action="store_true", help="only the native runs")
    parser.add_argument("--fresh", action="store_true", help="do not reuse stored native results")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.suites if name not in SUITES]
    if unknown:
        parser.error(f"unknown suite {unknown[0]}; there are: {' '.join(SUITES)}")
    return chosen


def load(path):
    try:
        with open(path) as stream:
            return json.load(stream)
    except (OSError, ValueError):
        return {}


def store(path, results):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".new", "w") as stream:
        json.dump(results, stream, indent=1, sort_keys=True)
    os.replace(path + ".new", path)


def run_suite(name, tests, mpi, server, chosen):
    """The results of all chosen tests of a suite under one server: {test: {result, seconds, ...}}."""
    path = os.path.join(WORK, "results", mpi.name, f"{name}.{server.name}.json")
    results = load(path)
    reuse = server.name == "native" and not chosen.fresh
    for test in tests:
        if not fnmatch.fnmatch(test.name, chosen.only):
            continue
        # What timed out may pass on a machine with less other work.
        if reuse and results.get(test.name, {}).get("result") in ("pass", "fail"):
            continue
        for part, result in test.run(mpi, server).items():
            results[part] = result
            print(f"{mpi.name:10} {name:14} {server.name:7} {part:32} {result['result']:8} "
                  f"{result['seconds']:7.1f} s", flush=True)
        store(path, results)
    return results


def compare(native, aggio):
    """What became of the tests: counts and the lists that matter."""
    passes = lambda results, test: results.get(test, {}).get("result") == "pass"
    names = sorted(set(native) | set(aggio))
    return {
        "native pass": sum(passes(native, test) for test in names),
        "native fail": sum(test in native and not passes(native, test) for test in names),
        "aggio pass": sum(passes(aggio, test) for test in names),
        "aggio fail": sum(test in aggio and not passes(aggio, test) for test in names),
        "regressions": [test for test in names if passes(native, test) and test in aggio and not passes(aggio, test)],
        "improvements": [test for test in names if passes(aggio, test) and test in native and not passes(native, test)],
        "served": sum(result.get("served", 0) for result in aggio.values()),
        "unserved": sum(result.get("unserved", 0) for result in aggio.values()),
    }


COLUMNS = ["native pass", "native fail", "aggio pass", "aggio fail"]


def print_table(table):
    print("\n| suite | MPI | " + " | ".join(COLUMNS) + " | file calls served by aggio | by the MPI library |")
    print("|---|---|" + "--:|" * (len(COLUMNS) + 2))
    for (suite, mpi), row in table.items():
        cells = [str(row[column]) for column in COLUMNS] + [str(row["served"]), str(row["unserved"])]
        print(f"| {suite} | {mpi} | " + " | ".join(cells) + " |")
    for title in ("improvements", "regressions"):
        lines = [f"  {suite} {mpi} {test}" for (suite, mpi), row in table.items() for test in row[title]]
        print(f"\n{title}: {len(lines)}")
        print("\n".join(lines))


def main():
    chosen = arguments()
    library = os.environ.get("AGGIO_LIBRARY", os.path.join(ROOT, "target/release/libaggio.so"))
    if not chosen.native and not os.path.exists(library):
        sys.exit(f"{library} has not been built (cargo build --release)")
    wanted = [name for name in chosen.mpi.split(",") if name]
    table, bad = {}, False
    for name in chosen.suites or SUITES:
        suite = SUITES[name]
        for mpi in known_mpis(suite.MPIS):
            if wanted and mpi.name not in wanted:
                continue
            tests = suite.prepare(mpi)
            native = run_suite(name, tests, mpi, Server("native", None), chosen)
            aggio = {} if chosen.native else run_suite(name, tests, mpi, Server("aggio", library), chosen)
            row = table[name, mpi.name] = compare(native, aggio)
            bad |= bool(row["regressions"]) or row["unserved"] > 0
            bad |= bool(aggio) and row["served"] == 0
    print_table(table)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
