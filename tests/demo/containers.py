"""What users do with a container: look at it through a mount, make a file of it, check it. All must
see one and the same file."""

import contextlib
import filecmp
import glob
import hashlib
import os
import shutil
import subprocess
import sys

#: ncmpidiff is an MPI program that one process runs by itself.
ALONE = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def checked(command, **more):
    """What a command printed; the end of everything if it failed."""
    environment = {**os.environ, **ALONE}
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, **more
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout.decode(errors='replace')}")
    return done.stdout


@contextlib.contextmanager
def view(aggio, folder, point):
    """Mounts a folder read-only; `None` where FUSE is not to be had."""
    os.makedirs(point, exist_ok=True)
    process = subprocess.Popen(
        [aggio, "mount", "--until-end-of-input", folder, point],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        if process.stdout.readline() == b"mounted\n":
            yield point
        else:
            process.stdin.close()
            complaint = process.stderr.read().decode(errors="replace").strip()
            if os.environ.get("AGGIO_TESTS") == "require":
                sys.exit(f"the containers cannot be shown: {complaint}")
            print(f"  the containers cannot be shown here: {complaint}")
            yield None
    finally:
        # The mount ends with its input, whatever happened.
        process.stdin.close()
        process.wait()


def seen(native, shown, text_tool, difference_tool):
    """The view of a container, and the file that the same program made natively."""
    for tool in text_tool:
        if checked([*tool, os.path.basename(native)], cwd=os.path.dirname(native)) != checked(
                [*tool, os.path.basename(shown)], cwd=os.path.dirname(shown)):
            sys.exit(f"{' '.join(tool)} {native} and {shown} print different things")
    checked([difference_tool, native, shown])
    checked(["cmp", native, shown])
    with open(native, "rb") as stream:
        wanted = hashlib.md5(stream.read()).hexdigest()
    if checked(["md5sum", shown]).decode().split()[0] != wanted:
        sys.exit(f"md5sum of {shown} is not {wanted}")


def read_whole(aggio, native, name):
    """What the commands make of a container or a set must be the file."""
    with open(native, "rb") as stream:
        if checked([aggio, "cat", name]) != stream.read():
            sys.exit(f"aggio cat {name} and {native} differ")
    merged = os.path.join(os.path.dirname(name), "merged-" + os.path.basename(name))
    checked([aggio, "merge", "--force", "--verify", name, merged])
    if not filecmp.cmp(native, merged, shallow=False):
        sys.exit(f"{merged} and {native} differ")
    os.remove(merged)


def compare(aggio, native, container, tools, point):
    """Compares a container with a file in every way; the words that tell about it."""
    if not os.path.exists(os.path.join(container, "aggio-manifest")):
        sys.exit(f"{container} is no container")
    logs = sum(name.endswith(".log") for name in os.listdir(container))
    checked([aggio, "fsck", container])
    read_whole(aggio, native, container)
    ways = ["aggio fsck", "cat", "merge"]
    with view(aggio, os.path.dirname(container), point) as shown:
        if shown:
            seen(native, os.path.join(shown, os.path.basename(container)), *tools)
            ways += ["mount", *(tool[0] for tool in tools[0]), tools[1], "cmp", "md5sum"]
    return f"a container of {logs} logs is that file for {', '.join(ways)}"


def compare_set(aggio, native, name, tools, point):
    """Compares what became blobs, or could not, with a file; the words that tell about it."""
    read_whole(aggio, native, name)
    blobs = sorted(glob.glob(glob.escape(name) + ".[0-9][0-9][0-9][0-9]"))
    for blob in blobs:
        checked(["ncvalidator", "-q", blob])
        checked(["ncdump", blob])
    ways = ["aggio cat", "merge"]
    with view(aggio, os.path.dirname(name), point) as shown:
        if shown:
            seen(native, os.path.join(shown, os.path.basename(name)), *tools)
            ways += ["mount", *(tool[0] for tool in tools[0]), tools[1], "cmp", "md5sum"]
    kind = "a container" if os.path.isdir(name) else f"a set of {len(blobs)} blobs"
    return f"{kind} is that file for {', '.join(ways)}"


def remove(path):
    """Removes a file, a container or a set, if there is one."""
    for blob in glob.glob(glob.escape(path) + ".[0-9][0-9][0-9][0-9]"):
        os.remove(blob)
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.exists(path):
        os.remove(path)
