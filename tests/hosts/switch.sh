#!/bin/sh
# The network between simulated hosts: the first process of a PID namespace that holds all of them.
#     switch.sh AGENT DIRECTORY HOSTS HIDDEN SIGHTED PROCESSES
# PROCESSES is "own" if each host has a PID namespace of its own, or "shared".
# It says "ready" when every host answers, and ends when its standard input does. The kernel then
# kills every process of the namespace, and with the last process of a namespace its devices and
# mounts go.
set -eu
agent=$1 directory=$2 hosts=$3 hidden=$4 sighted=$5 processes=$6
here=$(dirname "$0")

echo "127.0.0.1 localhost" >"$directory/addresses"
for i in $(seq "$hosts"); do
  echo "10.77.0.$i node$i" >>"$directory/addresses"
done

case $processes in
  shared) namespace= ;;
  *) namespace="--pid" ;;
esac
ip link add switch type bridge mcast_snooping 0
ip link set switch up
for i in $(seq "$hosts"); do
  covered=
  if [ -n "$hidden" ] && [ "$i" != "$sighted" ]; then covered=$hidden; fi
  unshare --net --uts --ipc --mount --propagation slave $namespace --fork --kill-child \
    --mount-proc sh "$here/host.sh" "$agent" "$directory" "node$i" "$covered" \
    </dev/null >/dev/null &
  eval "process$i=$!"
done
for i in $(seq "$hosts"); do
  eval "process=\$process$i"
  until [ -S "$directory/node$i" ]; do
    kill -0 "$process" 2>/dev/null || { echo "node$i does not start" >&2; exit 1; }
    sleep 0.02
  done
  ip link add "port$i" type veth peer name eth0 netns "$process"
  ip link set "port$i" master switch up
  nsenter --net="/proc/$process/ns/net" ip address add "10.77.0.$i/24" dev eth0
  nsenter --net="/proc/$process/ns/net" ip link set eth0 up
done

echo ready
read -r _ || :
