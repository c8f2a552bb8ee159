#!/usr/bin/python3
"""Runs other projects' unmodified test suites natively and with libaggio.so preloaded.

    tests/conformance/run.py [--mpi openmpi,mpich] [--only PATTERN] [--native | --quick | --stored]
                             [--fresh] [--resume] [--limit SECONDS] [--set NAME=VALUE]... [SUITE...]

Prints a table suite x MPI. Ends with 1 if a test that passes natively fails with aggio, or if a
suite's file calls were not all served by aggio. Everything fetched, built and written is below
build/conformance; results are stored after every test, so an interrupted run loses nothing.
"""

import argparse
import fnmatch
import json
import os
import sys
import zlib

from mpis import ROOT, WORK, Server, known_mpis
from suites import SUITES


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "suites", nargs="*", metavar="SUITE", help="default: all of " + " ".join(SUITES)
    )
    parser.add_argument(
        "--mpi", default="", help="names separated by commas; default: all the suite supports"
    )
    parser.add_argument("--only", default="*", help="only tests whose name matches this pattern")
    parser.add_argument("--native", action="store_true", help="only the native runs")
    parser.add_argument("--quick", action="store_true",
                        help="aggio first, then natively only the tests which aggio did not pass")
    parser.add_argument(
        "--stored", action="store_true", help="run nothing: the table of all stored results"
    )
    parser.add_argument("--resume", action="store_true", help="reuse stored results of aggio too")
    parser.add_argument(
        "--limit", type=float, default=1e9, help="no test gets more seconds than this"
    )
    parser.add_argument("--fresh", action="store_true", help="do not reuse stored native results")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help=(
            "a variable of the runs with aggio, as AGGIO_DEFER='*'; their results have a name of"
            " their own"
        ),
    )
    chosen = parser.parse_args()
    bad = [words for words in chosen.set if not (words.startswith("AGGIO_") and "=" in words)]
    if bad:
        parser.error(f"{bad[0]}: not a setting of aggio")
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


def results_file(suite, mpi, server):
    return os.path.join(WORK, "results", mpi, f"{suite}.{server}.json")


def run_suite(name, tests, mpi, server, chosen):
    """The results of all chosen tests of a suite under one server: {test: {result, seconds,
    ...}}."""
    path = results_file(name, mpi.name, server.name)
    results = load(path)
    reuse = (server.name == "native" or chosen.resume) and not chosen.fresh
    for test in tests:
        if not fnmatch.fnmatch(test.name, chosen.only):
            continue
        # What timed out may pass on a machine with less other work.
        if reuse and results.get(test.name, {}).get("result") in ("pass", "fail"):
            continue
        test.limit = min(test.limit, chosen.limit)
        for part, result in test.run(mpi, server).items():
            results[part] = result
            print(f"{mpi.name:10} {name:14} {server.name:7} {part:32} {result['result']:8} "
                  f"{result['seconds']:7.1f} s", flush=True)
        store(path, results)
    return results


def compare(native, aggio):
    """What became of the tests: counts and the lists that matter."""
    word = lambda results, test: results.get(test, {}).get("result", "not run")
    passes = lambda results, test: word(results, test) == "pass"
    names = sorted(set(native) | set(aggio))
    count = lambda results, *words: sum(word(results, test) in words for test in names)
    return {
        "native pass": count(native, "pass"),
        "native fail": count(native, "fail", "timeout"),
        "aggio pass": count(aggio, "pass"),
        "aggio fail": count(aggio, "fail", "timeout"),
        "not built": sum("no build" in (word(native, test), word(aggio, test)) for test in names),
        "regressions": [
            test
            for test in names
            if passes(native, test) and test in aggio and not passes(aggio, test)
        ],
        "improvements": [
            test
            for test in names
            if passes(aggio, test) and test in native and not passes(native, test)
        ],
        "served": sum(result.get("served", 0) for result in aggio.values()),
        "unserved": sum(result.get("unserved", 0) for result in aggio.values()),
    }


COLUMNS = ["native pass", "native fail", "aggio pass", "aggio fail", "not built"]


def print_table(table):
    print(
        "\n| suite | MPI | "
        + " | ".join(COLUMNS)
        + " | file calls served by aggio | by the MPI library |"
    )
    print("|---|---|" + "--:|" * (len(COLUMNS) + 2))
    for (suite, mpi), row in table.items():
        cells = [str(row[column]) for column in COLUMNS] + [
            str(row["served"]),
            str(row["unserved"]),
        ]
        print(f"| {suite} | {mpi} | " + " | ".join(cells) + " |")
    for title in ("improvements", "regressions"):
        lines = [
            f"  {suite} {mpi} {test}" for (suite, mpi), row in table.items() for test in row[title]
        ]
        print(f"\n{title}: {len(lines)}")
        print("\n".join(lines))


def servers(library, chosen):
    """Who serves the calls: natively, and with aggio as the settings say."""
    # Short: some tests have little room for names of files.
    name = f"aggio-{zlib.crc32(' '.join(chosen.set).encode()):08x}" if chosen.set else "aggio"
    return Server("native", None), Server(
        name, library, dict(words.split("=", 1) for words in chosen.set)
    )


def run_both(name, mpi, library, chosen):
    """Native and aggio results of one suite on one MPI."""
    tests = SUITES[name].prepare(mpi)
    native, aggio = servers(library, chosen)
    if chosen.native:
        return run_suite(name, tests, mpi, native, chosen), {}
    if not chosen.quick:
        before = run_suite(name, tests, mpi, native, chosen)
        return before, run_suite(name, tests, mpi, aggio, chosen)
    after = run_suite(name, tests, mpi, aggio, chosen)
    failed = {
        part for part, result in after.items() if result["result"] not in ("pass", "no build")
    }
    # A test can have parts, named after it.
    suspects = [test for test in tests
                if any(part == test.name or part.startswith(test.name + "/") for part in failed)]
    return run_suite(name, suspects, mpi, native, chosen), after


def main():
    chosen = arguments()
    library = os.environ.get("AGGIO_LIBRARY", os.path.join(ROOT, "target/release/libaggio.so"))
    if not (chosen.native or chosen.stored) and not os.path.exists(library):
        sys.exit(f"{library} has not been built (cargo build --release)")
    wanted = [name for name in chosen.mpi.split(",") if name]
    table, bad = {}, False
    for name in chosen.suites or SUITES:
        for mpi in known_mpis(SUITES[name].MPIS):
            if wanted and mpi.name not in wanted:
                continue
            if chosen.stored:
                native, aggio = (
                    load(results_file(name, mpi.name, server.name))
                    for server in servers(library, chosen)
                )
            else:
                native, aggio = run_both(name, mpi, library, chosen)
            row = table[name, mpi.name] = compare(native, aggio)
            bad |= bool(row["regressions"]) or row["unserved"] > 0
            bad |= bool(aggio) and row["served"] == 0
    print_table(table)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
