#!/bin/bash
# Says, in one line, why this host cannot run real machines; says nothing if it can. $1 is a directory of the lab's.
set -u
no() { echo "$*"; exit 1; }

[ "$(id -u)" = 0 ] || no "needs root"
tools="unshare nsenter ip mount hostname"
[ -d "$1/containerd" ] || tools="$tools apt-get dpkg-deb"
for tool in $tools; do
    command -v "$tool" > /dev/null || no "needs $tool"
done
grep -q '^[^ ]* [^ ]* cgroup [^ ]*memory' /proc/mounts || no "needs cgroup v1 (tried with no other)"
group="$(awk '$3 == "cgroup" && $4 ~ /memory/ { print $2; exit }' /proc/mounts)/lab-probe-$$"
mkdir "$group" 2> /dev/null && rmdir "$group" || no "may not make control groups"
layers=$(mktemp -d "$1/probe-XXXXXX") || no "cannot write to $1"
trap 'rm -rf "$layers"' EXIT
mkdir "$layers"/{lower,upper,work,merged}
export layers
unshare --mount --pid --fork --uts --ipc --net true 2> /dev/null || no "may not make namespaces"
unshare --mount --net bash -c 'ip link add eth0 type veth peer name uplink' 2> /dev/null || no "may not make network devices"
unshare --mount bash -c 'cd "$layers" && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged' \
    2> /dev/null || no "cannot mount an overlay in $1"
route="unreachable 10.77.255.255 table local metric $$"
ip -4 route add $route 2> /dev/null && ip -4 route delete $route || no "may not make routes"
