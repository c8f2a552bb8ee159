#!/bin/sh
# Builds a newer HDF5 than Debian's, with subfiling, for one MPI: tests/hdf5.sh openmpi|mpich
# 1.14|2. Prints the folder that it is in. It takes minutes, once; the source is in a crate of
# crates.io.
set -eu

mpi=${1:-} version=${2:-}
case $mpi in openmpi | mpich) ;; *) mpi= ;; esac
case $version in 1.14) crate==0.9.5 ;; 2) crate==0.10.4 ;; *) mpi= ;; esac
[ -n "$mpi" ] || { echo "usage: $0 openmpi|mpich 1.14|2" >&2; exit 2; }

root=$(cd "$(dirname "$0")/.." && pwd)
folder=${CARGO_TARGET_DIR:-$root/target}/hdf5
place=$folder/$version-$mpi
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -e "$place/complete" ]; then
  source=$folder/source-$version
  if [ ! -d "$source/vendor" ]; then
    mkdir -p "$source/src"
    : >"$source/src/lib.rs"
    cat >"$source/Cargo.toml" <<END
[package]
name = "source"
version = "0.0.0"
edition = "2021"

[dependencies]
hdf5-metno-src = "$crate"

[workspace]
END
    (cd "$source" && cargo vendor --quiet vendor.new >/dev/null && mv vendor.new vendor) >&2
    # Debian 12 has 3.25, which does it as well.
    find "$source/vendor/hdf5-metno-src/ext/hdf5" -name CMakeLists.txt -exec sed -i \
      's/^\(cmake_minimum_required *(VERSION\) 3\.26/\1 3.25/' {} +
  fi
  rm -rf "$place"
  # A static library: programs need no path to it.
  cmake -S "$source/vendor/hdf5-metno-src/ext/hdf5" -B "$place" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_FLAGS_RELEASE=-O1 -DCMAKE_C_COMPILER="mpicc.$mpi" \
    -DMPI_C_COMPILER="mpicc.$mpi" -DCMAKE_INSTALL_PREFIX="$place/installed" \
    -DBUILD_SHARED_LIBS=OFF -DBUILD_TESTING=OFF -DHDF5_BUILD_TOOLS=OFF -DHDF5_BUILD_UTILS=OFF \
    -DHDF5_BUILD_EXAMPLES=OFF -DHDF5_BUILD_HL_LIB=OFF -DHDF5_BUILD_CPP_LIB=OFF \
    -DHDF5_ENABLE_PARALLEL=ON -DHDF5_ENABLE_SUBFILING_VFD=ON \
    -DHDF5_ENABLE_Z_LIB_SUPPORT=ON -DHDF5_ENABLE_ZLIB_SUPPORT=ON \
    -DHDF5_ENABLE_SZIP_SUPPORT=OFF >"$folder/build.log" 2>&1 &&
    cmake --build "$place" --parallel "$(nproc)" >>"$folder/build.log" 2>&1 &&
    cmake --install "$place" >>"$folder/build.log" 2>&1 ||
    { tail -20 "$folder/build.log" >&2; exit 1; }
  : >"$place/complete"
fi
echo "$place/installed"
