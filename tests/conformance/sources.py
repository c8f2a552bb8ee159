"""Fetches source packages by name: Debian's through apt, Python's through pip. Nothing outside
build/ changes."""

import glob
import os
import subprocess
import sys

from mpis import SOURCES, WORK

APT = os.path.join(WORK, "apt")
PYTHON = "/usr/bin/python3"


def quietly(command, **variables):
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **variables},
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{done.stdout}")
    return done.stdout


def this_release():
    """The name of the Debian that runs here."""
    with open("/etc/os-release") as stream:
        release = dict(line.strip().split("=", 1) for line in stream if "=" in line)
    return release.get("VERSION_CODENAME", "bookworm").strip('"')


def apt(release, *command):
    """apt with lists and sources of its own: the machine's configuration need not have deb-src
    lines."""
    place = os.path.join(APT, release)
    for folder in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(place, folder), exist_ok=True)
    with open(os.path.join(place, "sources.list"), "w") as stream:
        stream.write("deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] "
                     f"http://deb.debian.org/debian {release} main\n")
    return quietly(["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={place}/sources.list",
                    "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={place}/lists",
                    "-o", f"Dir::Cache={place}/cache", "-o", "Acquire::Retries=3",
                    "-o", "APT::Sandbox::User=root", *command])


def debian_source(package, release=""):
    """The unpacked source package of a release of Debian, this one by default; fetched once."""
    folder = os.path.join(SOURCES, f"{package}-{release}" if release else package)
    release = release or this_release()
    if not os.path.isdir(folder):
        print(f"fetching the source package {package}", flush=True)
        os.makedirs(SOURCES, exist_ok=True)
        here = os.getcwd()
        os.chdir(SOURCES)
        try:
            apt(release, "update")
            apt(release, "source", "--download-only", package)
            description = max(glob.glob(f"{package}_*.dsc"), key=os.path.getmtime)
            # Checking needs the keys of all Debian developers; apt has checked the archive's
            # signature already.
            quietly(["dpkg-source", "--no-check", "-x", description, folder + ".new"])
            os.rename(folder + ".new", folder)
        finally:
            os.chdir(here)
    return folder


def upstream_source(package):
    """The unpacked upstream part of a source package of this Debian, without Debian's patches;
    fetched once."""
    folder = os.path.join(SOURCES, f"{package}-upstream")
    if not os.path.isdir(folder):
        print(f"fetching the upstream part of the source package {package}", flush=True)
        os.makedirs(folder + ".new", exist_ok=True)
        here = os.getcwd()
        os.chdir(SOURCES)
        try:
            apt(this_release(), "update")
            apt(this_release(), "source", "--tar-only", "--download-only", package)
            archive = max(glob.glob(f"{package}_*.orig.tar.*"), key=os.path.getmtime)
            quietly(["tar", "-xf", archive, "-C", folder + ".new", "--strip-components=1"])
            os.rename(folder + ".new", folder)
        finally:
            os.chdir(here)
    return folder


def virtual_environment(name, *packages):
    """A Python environment with these packages of PyPI; made once."""
    folder = os.path.join(WORK, "venvs", name)
    if not os.path.exists(os.path.join(folder, "complete")):
        print(f"making the Python environment {name}: {' '.join(packages)}", flush=True)
        quietly([PYTHON, "-m", "venv", "--clear", folder])
        quietly([os.path.join(folder, "bin/pip"), "-q", "install", *packages])
        open(os.path.join(folder, "complete"), "w").close()
    return folder


def python_source(package):
    """The unpacked source distribution of a package of PyPI; fetched once."""
    folder = os.path.join(SOURCES, package)
    if not os.path.isdir(folder):
        print(f"fetching the source distribution {package}", flush=True)
        os.makedirs(folder + ".new", exist_ok=True)
        # Newest release, source only; building its metadata would need a compiler and an MPI.
        quietly(
            [
                PYTHON,
                "-m",
                "pip",
                "-q",
                "download",
                "--no-deps",
                "--no-build-isolation",
                "--no-binary",
                ":all:",
                "-d",
                folder + ".new",
                package,
            ]
        )
        archive = glob.glob(os.path.join(folder + ".new", "*.tar.gz"))[0]
        quietly(["tar", "-xzf", archive, "-C", folder + ".new", "--strip-components=1"])
        os.rename(folder + ".new", folder)
    return folder
