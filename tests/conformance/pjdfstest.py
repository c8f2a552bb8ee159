#!/usr/bin/python3
"""Runs pjdfstest, the POSIX conformance tests of file systems, in a plain directory, in mounts of
it and preloaded.

    tests/conformance/pjdfstest.py [--aggio PROGRAM] [--library FILE] [PATTERN...]

Ends with 1 if a test that passes in the plain directory does not with aggio. PATTERNs select tests
by parts of their names, as for pjdfstest itself. The suite is the crate of that name, built once
below build/conformance. Only root can be the users that it needs: for anybody else nothing runs,
and that is said.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HOME = os.path.join(ROOT, "build", "conformance", "pjdfstest")
VERSION = "0.2.2"
SETTINGS = """
[features]
posix_fallocate = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.01
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["games", "games"], ["mail", "mail"]]
"""
# The name of a test, padded, and how it ended.
LINE = re.compile(r"^(\S+) +(ok|FAILED|skipped|.*expected.*)$")
# FUSE tells programs no limit of links, so that this test has nothing to try.
WITHOUT_LIMIT = {"link::link_count_max"}
# A container is a directory, and directories have one name (docs/containers.md).
WITH_LINKS = {
    "link::changed_ctime_success::regular",
    "link::remove_link::regular",
    "link::share_metadata::regular",
    "rename::preserve_metadata::regular",
    "rename::to_multiply_linked::regular",
    "unlink::unchanged_ctime_failed::regular",
    "unlink::update_ctime_success::regular",
}


def arguments():
    release = os.path.join(
        os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release"
    )
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "patterns", nargs="*", metavar="PATTERN", help="only tests with this in their names"
    )
    parser.add_argument(
        "--aggio", default=os.path.join(release, "aggio"), help="the command to mount with"
    )
    parser.add_argument(
        "--library", default=os.path.join(release, "libaggio.so"), help="the library to preload"
    )
    return parser.parse_args()


def suite():
    """The program, built if it is not there."""
    program = os.path.join(HOME, "bin", "pjdfstest")
    if not os.path.exists(program):
        command = [
            "cargo",
            "install",
            "--quiet",
            "--locked",
            "--root",
            HOME,
            "--version",
            VERSION,
            "pjdfstest",
        ]
        subprocess.run(command, check=True)
    return program


def run(program, folder, patterns, variables=()):
    """How each test ended in a directory."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as settings:
        settings.write(SETTINGS)
        settings.flush()
        command = [program, "-c", settings.name, "-p", folder, *patterns]
        environment = dict(os.environ, **dict(variables))
        result = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            timeout=1800,
        )
    found = [LINE.match(line) for line in result.stdout.splitlines()]
    ends = {match[1]: match[2] for match in found if match}
    if "Summary:" not in result.stdout or not ends:
        sys.exit(f"pjdfstest did not end as it should in {folder}:\n{result.stdout[-3000:]}")
    return ends


@contextlib.contextmanager
def place():
    """An empty directory that every user can reach."""
    with tempfile.TemporaryDirectory(prefix="aggio-pjd-") as folder:
        os.chmod(folder, 0o755)
        yield folder


@contextlib.contextmanager
def mounted(aggio, options):
    with place() as folder:
        backing, point = os.path.join(folder, "backing"), os.path.join(folder, "point")
        os.mkdir(backing)
        os.mkdir(point)
        os.chmod(backing, 0o755)
        subprocess.run(
            [aggio, "mount", "--rw", "--allow-other", *options, backing, point], check=True
        )
        try:
            yield point
        finally:
            subprocess.run([aggio, "umount", point], check=True)


def differences(reference, ends, known):
    """Tests that pass in the plain directory and not here, but those that are known to differ."""
    return sorted(name for name, end in reference.items()
                  if end == "ok" and ends.get(name) != "ok" and name not in known)


def main():
    chosen = arguments()
    if os.geteuid() != 0:
        print("pjdfstest: skipped: only root can be the users that it needs")
        return 0
    program = shutil.which("pjdfstest") or suite()
    with place() as folder:
        reference = run(program, folder, chosen.patterns)
    found = {"plain directory": (reference, [])}
    for options, known in [
        ([], WITHOUT_LIMIT),
        (["--no-passthrough"], WITHOUT_LIMIT),
        (["--new-files=container"], WITHOUT_LIMIT | WITH_LINKS),
    ]:
        with mounted(chosen.aggio, options) as point:
            ends = run(program, point, chosen.patterns)
        found[" ".join(["aggio mount --rw", *options])] = (
            ends,
            differences(reference, ends, known),
        )
    for mode in ["posix", "causal", "close"]:
        variables = {"LD_PRELOAD": os.path.abspath(chosen.library), "AGGIO_POSIX": f"**:{mode}"}
        with place() as folder:
            ends = run(program, folder, chosen.patterns, variables)
        found[f"AGGIO_POSIX=**:{mode}"] = (ends, differences(reference, ends, set()))
    worse = 0
    for what, (ends, names) in found.items():
        count = lambda end: sum(value == end for value in ends.values())
        print(
            f"{what:40} {count('ok'):4} ok {count('FAILED'):4} failed {count('skipped'):4} skipped"
            f" {len(names):4} worse than the plain directory"
        )
        for name in names:
            print(f"    {name}: {ends.get(name, 'did not run')}")
        worse += len(names)
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
