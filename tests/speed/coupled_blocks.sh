#!/bin/bash
# Hands steps of MIB mebibytes from 4 ranks, which have blocks, to READERS ranks, which have slabs,
# by PnetCDF: through files on tmpfs and on disk, each by turns without aggio, and by aggio; prints
# medians in MiB/s.
#
#   coupled_blocks.sh LIBRARY [ROUNDS] [STEPS] [MIB] [READERS...]
#
# DISK names a directory on a disk, MPICC and MPIRUN those of the MPI that PnetCDF was built for,
# whose settings for root and for more ranks than cores are the caller's.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
library=$1 rounds=${2:-5} steps=${3:-12} mib=${4:-32}
shift $(($# < 4 ? $# : 4))
readers=${*:-3 4}
work=$(mktemp -d) memory=$(mktemp -d -p /dev/shm) disk=$(mktemp -d -p "${DISK:-/var/tmp}")
# The agent leaves the directory when it ends, which is soon.
clean() {
    for _ in $(seq 50); do
        rm -rf "$work" "$memory" "$disk" 2> /dev/null && break
        sleep 0.1
    done
}
trap clean EXIT
${MPICC:-mpicc.openmpi} -O2 -o "$work/blocks" "$here/coupled_blocks.c" -lpnetcdf
mkdir -m 700 "$work/meeting" "$work/write" "$work/read"

# Runs a pair in a directory; what the reader prints. Launchers get directories of their own.
pair() { # RANKS DIRECTORY VARIABLE...
    local ranks=$1 place=$2
    shift 2
    rm -rf "${place:?}"/*
    env TMPDIR="$work/write" "$@" ${MPIRUN:-mpirun.openmpi} -n 4 "$work/blocks" write \
        "$place" "$steps" "$mib" > /dev/null &
    env TMPDIR="$work/read" "$@" timeout 120 ${MPIRUN:-mpirun.openmpi} -n "$ranks" \
        "$work/blocks" read "$place" "$steps" "$mib"
    wait
}

for round in $(seq "$rounds"); do
    for count in $readers; do
        echo "tmpfs.$count $(pair "$count" "$memory" A=)"
        echo "disk.$count $(pair "$count" "$disk" A=)"
        echo "aggio.$count $(pair "$count" "$disk" LD_PRELOAD="$library" \
            AGGIO_COUPLE='step.*' AGGIO_COUPLE_DIR="$work/meeting")"
    done
done | tee "$work/figures"
echo "medians of $rounds rounds, $steps steps of $mib MiB, 4 ranks to so many:"
cut -d ' ' -f 1 "$work/figures" | sort -u | while read -r kind; do
    grep "^$kind " "$work/figures" | sort -k 2 -n | sed -n "$(((rounds + 1) / 2))p"
done
