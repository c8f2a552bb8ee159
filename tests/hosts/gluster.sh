#!/bin/sh
# A GlusterFS of one brick in memory on the first simulated host, and a client on each.
#     gluster.sh serve ADDRESS               makes and starts the volume
#     gluster.sh mount ADDRESS DIRECTORY     mounts it
# It runs on a host of its own (host.sh), whose end takes the daemons and mounts with it. What the
# daemons keep lies in memory that only the host sees.
set -eu
what=$1 address=$2
mount -t tmpfs tmpfs /var/log
mount -t tmpfs tmpfs /run
mkdir -p /var/log/glusterfs /run/gluster
case $what in
  serve)
    mount -t tmpfs tmpfs /var/lib/glusterd
    mkdir /dev/shm/brick
    glusterd
    tries=0
    until gluster --mode=script volume create shared "$address:/dev/shm/brick" force; do
      tries=$((tries + 1))
      [ $tries -lt 40 ] || exit 1
      sleep 0.25
    done
    gluster --mode=script volume start shared
    ;;
  mount) ;;
esac >/dev/null
mount -t glusterfs "$address:/shared" "${3:?}" >/dev/null
