#!/bin/bash
# Hands steps of MIB mebibytes from one program to another, by turns through memory that is used
# again, through files on tmpfs and on disk, by aggio, and by SST; prints medians in MiB/s.
#
#   coupled.sh LIBRARY [ROUNDS] [STEPS] [MIB]
#
# WRITER and READER are put before the commands, such as "taskset -c 0": without, where the kernel
# runs the two decides over a factor of three. DISK names a directory on a disk, PYTHON a Python
# that has adios2 (without, SST is left out).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/medians.sh"
library=$1 rounds=${2:-5} steps=${3:-12} mib=${4:-64}
work=$(mktemp -d) memory=$(mktemp -d -p /dev/shm) disk=$(mktemp -d -p "${DISK:-/var/tmp}")
# The agent leaves the directory when it ends, which is soon.
clean() {
    for _ in $(seq 50); do
        rm -rf "$work" "$memory" "$disk" 2> /dev/null && break
        sleep 0.1
    done
}
trap clean EXIT
program=$work/coupled_steps
cc -O2 -o "$program" "$here/coupled_steps.c"
mkdir -m 700 "$work/meeting"

# Runs a pair in a directory; what the reader prints.
pair() { # DIRECTORY COMMAND...
    local place=$1
    shift
    rm -rf "${place:?}"/*
    ${WRITER:-} "${@/#WHAT/write}" > /dev/null &
    ${READER:-} timeout 120 "${@/#WHAT/read}"
    wait
}

one() {
    case $1 in
        memory) pair "$memory" "$program" WHAT memory "$memory" "$steps" "$mib" ;;
        tmpfs) pair "$memory" "$program" WHAT files "$memory" "$steps" "$mib" ;;
        disk) pair "$disk" "$program" WHAT files "$disk" "$steps" "$mib" ;;
        aggio) pair "$disk" env LD_PRELOAD="$library" AGGIO_COUPLE='step.*' \
            AGGIO_COUPLE_DIR="$work/meeting" "$program" WHAT files "$disk" "$steps" "$mib" ;;
        sst) pair "$disk" "$PYTHON" "$here/coupled_sst.py" WHAT "$disk" "$steps" "$mib" ;;
    esac
}

kinds="memory tmpfs disk aggio"
[ -z "${PYTHON:-}" ] || kinds="$kinds sst"
by_turns "$rounds" "medians of $rounds rounds, $steps steps of $mib MiB:" $kinds
