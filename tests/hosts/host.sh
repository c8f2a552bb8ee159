#!/bin/sh
# One simulated host: the first process of its PID namespace.
#     host.sh AGENT DIRECTORY NAME COVERED
# It has its own name, network, System V and shared memory, and processes. COVERED, if not empty, is
# a directory in whose place this host sees an empty one. AGENT then starts what others ask for.
set -eu
agent=$1 directory=$2 name=$3 covered=$4

hostname "$name"
mount -t sysfs sysfs /sys
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount --bind "$directory/addresses" /etc/hosts
if [ -n "$covered" ]; then mount -t tmpfs tmpfs "$covered"; fi
# Nothing but the job may send: no router discovery, no address detection.
for family in all default; do
  switch=/proc/sys/net/ipv6/conf/$family/disable_ipv6
  if [ -e $switch ]; then echo 1 >$switch; fi
done
ip link set lo up
exec "$agent" serve "$directory/$name"
