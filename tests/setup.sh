#!/bin/sh
# Installs the Debian packages that `make PURPOSE` needs:
#     setup.sh check|check-long|demo|conformance|bench
# Running it again costs a fraction of a second. Without root or sudo it prints the one command to
# run.
set -eu

purpose=${1:-check}

# A compiler for C, C++ and Fortran, both MPIs side by side (programs end in .openmpi and .mpich),
# and for simulated hosts ip and unshare.
packages="build-essential gfortran libopenmpi-dev openmpi-bin libmpich-dev mpich
  binutils ca-certificates e2fsprogs git hostname iproute2 python3 strace util-linux xz-utils"
# PnetCDF's Debian package is built for Open MPI only; for MPICH it is built from its source
# package.
netcdf="libpnetcdf-dev pnetcdf-bin libhdf5-openmpi-dev libhdf5-mpich-dev hdf5-tools netcdf-bin
  gmt-gshhg-low"
sources="dpkg-dev m4 autoconf automake libtool zlib1g-dev"
# What users run every day (tests/programs/works).
everyday="fuse3 gzip make mawk patch perl python3-h5py-mpi python3-mpi4py
  python3-netcdf4 python3-numpy rsync sqlite3 tar xxd"
suites="perl python3-dev python3-pip python3-setuptools python3-venv python3-wheel"
case $purpose in
  # Mounts of the tests are made by fusermount3 where the user is not root.
  check) packages="$packages $netcdf $everyday" ;;
  # A cluster file system, whose clients keep what other hosts have changed; and what newer HDF5 is
  # built with (hdf5.sh).
  check-long) packages="$packages $netcdf $everyday glusterfs-client glusterfs-server
    cmake zlib1g-dev" ;;
  bench) packages="$packages $netcdf $sources fuse3 libclang-dev" ;;
  demo) packages="$packages $netcdf fuse3" ;;
  conformance) packages="$packages $netcdf $sources $suites cmake" ;;
  *) echo "usage: $0 check|check-long|demo|conformance|bench" >&2; exit 2 ;;
esac

is_installed() {
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; needed are the equivalents of:" $packages >&2
  exit 1
fi

missing=
for package in $packages; do
  is_installed "$package" || missing="$missing $package"
done

if [ -n "$missing" ]; then
  if [ "$(id -u)" = 0 ]; then
    as_root=env
  elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
    as_root="sudo env"
  else
    echo "setup: packages are missing and this user may not install them. Run:" >&2
    echo "  sudo apt-get update && sudo apt-get install -y --no-install-recommends$missing" >&2
    exit 1
  fi
  echo "setup: installing$missing"
  # Another apt may be at work on a fresh machine, hence the wait for its lock.
  apt="$as_root DEBIAN_FRONTEND=noninteractive apt-get -qq
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3"
  # A third-party source that cannot be reached must not stop us; a missing package will.
  $apt update || echo "setup: apt-get update reported an error, going on" >&2
  $apt install -y --no-install-recommends $missing >/dev/null
fi

PATH=$PATH:$HOME/.cargo/bin
for tool in cargo rustc; do
  if ! command -v $tool >/dev/null; then
    echo "setup: no $tool found; install Rust, see https://rustup.rs" >&2
    exit 1
  fi
done
# Both in the form 1.85: the version there is, and the one the workspace asks for.
version=$(rustc --version | sed 's/^rustc \([0-9]*\.[0-9]*\).*/\1/')
needed=$(sed -n 's/^rust-version = "\([0-9]*\.[0-9]*\).*"/\1/p' "$(dirname "$0")/../Cargo.toml")
if [ "$(printf '%s\n' "$needed" "$version" | sort -V | head -1)" != "$needed" ]; then
  echo "setup: Rust $version is too old, $needed or newer is needed" >&2
  exit 1
fi
for tool in fmt clippy; do
  cargo $tool --version >/dev/null 2>&1 ||
    rustup component add "$(echo $tool | sed 's/^fmt/rustfmt/')"
done
