#!/bin/sh
# Make a filesystem on a disk that has nothing on it, and on no other.
#
#   format-volume DEVICE FILESYSTEM LABEL
#
# Exit status 0: the disk had something on it and was left alone, or it was empty and has a filesystem now.
# Any other: it could not be told what the disk holds, and it was left alone; or mkfs failed.
set -u
export LC_ALL=C
device=$1
filesystem=$2
label=$3

refuse() {
    echo "$device is left as it is: $1" >&2
    exit 1
}

# Read 65 spots of 1 MiB, the start and the end among them.
look() {
    last=$((bytes / 4096 - 256))
    spot=0
    while [ "$spot" -le 64 ]; do
        dd if="$device" bs=4096 skip=$((last * spot / 64)) count=256 2>/dev/null
        spot=$((spot + 1))
    done
}

bytes=$(blockdev --getsize64 "$device") || refuse "it is no disk that can be read"
[ "$bytes" -ge 1048576 ] || refuse "it is too small"

# Status 2 is "nothing found", and "cannot be read" too: only what is read below tells them apart.
found=$(blkid -p "$device")
case $? in
0)
    echo "$device has something on it already: ${found#*: }"
    exit 0
    ;;
2) [ -z "$found" ] || refuse "blkid contradicts itself" ;;
*) refuse "blkid cannot tell what is on it" ;;
esac

# What no tool knows by name is data all the same, and a new disk is all zeros. A read that fails gives fewer zeros.
zeros=$(look | tr -d -c '\000' | wc -c)
[ "$zeros" -eq $((65 * 1048576)) ] || refuse "it is not empty, though it has no filesystem"

# Without a force option, mkfs looks for itself once more, and takes no disk that is in use.
exec "mkfs.$filesystem" -q -L "$label" "$device" </dev/null
