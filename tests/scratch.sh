#!/bin/sh
# Runs a command with its temporary files on an ext4 file system in memory.
#
#   tests/scratch.sh COMMAND [ARGUMENT]...
#
# Many tests make files durable, and on a disk they wait for that longer than they compute. Only the
# command sees the file system, by TMPDIR; it vanishes with the last process of the command. Without
# root, loop devices or 8 GiB of free memory, TMPDIR stays as it is.
set -u

# Memory is taken as files need it, and given back when they are removed.
SIZE=8G
NEEDED=8388608

plainly() {
	echo "tests/scratch.sh: temporary files stay on the disk, which takes longer: $1" >&2
	shift
	exec "$@"
}

[ "$(id -u)" -eq 0 ] || plainly "not root" "$@"
free=$(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo)
[ "$free" -ge $NEEDED ] || plainly "only $free KiB of memory are free" "$@"

# Short, because names of sockets below it have at most 107 characters.
place=$(mktemp -d /tmp/agXXXX) || exit 1
trap 'rmdir "$place"' EXIT
trap 'exit 130' INT TERM HUP

# Tests make mount namespaces of their own, and each has a copy of every mount that it finds. As
# mounts are shared here, what one test unmounts vanishes from the namespaces of the others, too.
# The image is hidden below the file system that it contains.
unshare --mount --propagation slave /bin/sh -c '
	place=$1 size=$2
	shift 2
	if mount --make-rshared / && mount -t tmpfs -o mode=0700 none "$place" &&
		truncate -s "$size" "$place/image" &&
		mkfs.ext4 -q -F -E nodiscard "$place/image" &&
		mount -o loop,discard "$place/image" "$place" && chmod 1777 "$place"; then
		TMPDIR=$place exec "$@"
	fi
	echo "tests/scratch.sh: temporary files stay on the disk, which takes longer" >&2
	exec "$@"
' scratch "$place" "$SIZE" "$@"
