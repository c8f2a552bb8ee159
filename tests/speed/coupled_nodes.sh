#!/bin/bash
# Hands steps of MIB mebibytes from a program on one simulated host to one on another, by turns
# through one plain TCP stream, by aggio over TCP, and over UCX where that is installed; prints
# medians in MiB/s. The hosts are network namespaces, so that it needs root.
#
#   coupled_nodes.sh LIBRARY [ROUNDS] [STEPS] [MIB] [REST]
#
# The reader rests REST milliseconds after each step, which does not count.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/medians.sh"
library=$1 rounds=${2:-5} steps=${3:-24} mib=${4:-64} rest=${5:-0}
work=$(mktemp -d) mark=aggio$$
clean() {
    for host in a b; do
        ip netns del "$mark$host" 2> /dev/null || true
        rm -rf "/etc/netns/$mark$host"
    done
    for _ in $(seq 50); do
        rm -rf "$work" 2> /dev/null && break
        sleep 0.1
    done
}
trap clean EXIT
cc -O2 -o "$work/steps" "$here/coupled_steps.c"
mkdir "$work/files"
for host in a b; do
    ip netns add "$mark$host"
    mkdir -p "/etc/netns/$mark$host"
    printf '127.0.0.1 localhost\n10.9.0.1 nodea\n10.9.0.2 nodeb\n' > "/etc/netns/$mark$host/hosts"
    ip -n "$mark$host" link set lo up
done
ip link add eth0 netns "${mark}a" type veth peer name eth0 netns "${mark}b"
ip -n "${mark}a" addr add 10.9.0.1/24 dev eth0
ip -n "${mark}b" addr add 10.9.0.2/24 dev eth0
for host in a b; do ip -n "$mark$host" link set eth0 up; done

# Runs a command on a host.
on() { # HOST COMMAND...
    local host=$1
    shift
    ip netns exec "$mark$host" unshare -u sh -c "hostname node$host; exec \"\$@\"" sh "$@"
}

cat > "$work/tcp.py" << 'END'
import socket, sys, time
piece, pieces = 4 << 20, int(sys.argv[2])
if sys.argv[1] == "read":
    stream, _ = socket.create_server(("10.9.0.2", 5555)).accept()
    memory, begun, count = bytearray(piece), None, 0
    while got := stream.recv_into(memory):
        begun, count = begun or time.time(), count + got
    print(round(count / (1 << 20) / (time.time() - begun)))
else:
    for _ in range(100):
        try:
            stream = socket.create_connection(("10.9.0.2", 5555))
            break
        except OSError:
            time.sleep(0.05)
    for _ in range(pieces):
        stream.sendall(bytes(piece))
END

one() { # KIND
    rm -rf "$work/files"/*
    if [ "$1" = stream ]; then
        on a python3 "$work/tcp.py" write "$((steps * mib / 4))" &
        on b timeout 120 python3 "$work/tcp.py" read 0
    else
        local aggio="env LD_PRELOAD=$library AGGIO_COUPLE=step.* AGGIO_COUPLE_LINK=$1"
        aggio="$aggio AGGIO_COUPLE_DIR=$work/$1"
        on a $aggio "$work/steps" write files "$work/files" "$steps" "$mib" > /dev/null &
        on b $aggio timeout 120 "$work/steps" read files "$work/files" "$steps" "$mib" "$rest"
    fi
    wait
}

kinds="stream tcp"
ldconfig -p | grep -q libucp.so.0 && kinds="$kinds ucx"
heading="medians of $rounds rounds, $steps steps of $mib MiB, $rest ms of rest after each:"
by_turns "$rounds" "$heading" $kinds
