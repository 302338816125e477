#!/bin/bash
# PID 1 of a real machine of the lab: powers up its network, mounts, container runtime, CSI driver and kubelet.
#
# Runs in mount, PID, UTS, IPC and network namespaces of its own, so the SIGKILL of this process is a power cut: the
# kernel takes every process and mount with it. Whatever lies in $MACHINE/disk survives, as a disk does; /run does not.
#
# The lab sets: NODE LABELS ADDRESS HOST_ADDRESS HOST_DEVICE HOST_NETWORK MACHINE BOOT_LOGS BIN VOLUMES ATTACHMENTS DRIVER
# IMAGE KUBECONFIG NETWORK KUBELET_DELAY PATH LD_LIBRARY_PATH.
set -eu

# /proc still is the host's here, so this is the process ID by which the host can pull the plug.
read -r host_pid _ < /proc/self/stat
hostname "$NODE"

# The API server is not reached by this cable, but through a socket of the lab's on 127.0.0.1, which is how a partition can swallow
# every packet and still close no connection.
. "${0%/*}/cable.sh"

# What the kubelet reads to know which machine this is and which boot of it.
mount -t proc proc /proc
mount --bind "$MACHINE/boot_id" /proc/sys/kernel/random/boot_id
mount --bind "$MACHINE/machine-id" /etc/machine-id
mount -t overlay overlay -o "lowerdir=$MACHINE/class:/sys/class" /sys/class

mkdir -p "$MACHINE"/disk/{kubelet,containerd,log}
mount --bind "$MACHINE/disk/log" /var/log
mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/disk /run/cni /run/containerd
mount --bind "$MACHINE/disk" /run/disk
cp "$MACHINE/boot_id" /run/boot_id
mount --make-rshared /

# The lab waits for this file: from here on the machine has a network, and what can fail for want of privileges has not.
echo "$host_pid" > "$MACHINE/init.pid.new"
mv "$MACHINE/init.pid.new" "$MACHINE/init.pid"

containerd --config "$MACHINE/containerd.toml" > "$BOOT_LOGS/containerd.log" 2>&1 &
"$BIN/csi-node" -driver "$DRIVER" -node "$NODE" -volumes "$VOLUMES" -attachments "$ATTACHMENTS" \
    -hang-file "$MACHINE/unmount-hung" -kubelet-root /run/disk/kubelet > "$BOOT_LOGS/csi-node.log" 2>&1 &

# The first boot of a machine finds an empty image store.
if [ ! -e "$MACHINE/disk/imported" ]; then
    until ctr version > /dev/null 2>&1; do sleep 0.02; done
    ctr --namespace k8s.io images import "$IMAGE"
    touch "$MACHINE/disk/imported"
fi

# A pod that needs no network runs once there are two tasks: its sandbox and its container.
pod_runs() {
    set -- /run/containerd/io.containerd.runtime.v2.task/k8s.io/*
    [ $# -ge 2 ]
}

# The network plugin: there from the start, some seconds after the first pod, or brought by a DaemonSet's pod.
case "$NETWORK" in
    ready) cp "$MACHINE/network.conflist" /run/cni/ ;;
    late:*) { until pod_runs; do sleep 0.1; done; sleep "${NETWORK#late:}"; cp "$MACHINE/network.conflist" /run/cni/; } & ;;
    daemonset) ;;
esac

sleep "$KUBELET_DELAY"
# A kubelet that dies is started again, as systemd would.
while true; do
    "$BIN/control-plane" kubelet --config "$MACHINE/kubelet.json" --kubeconfig "$KUBECONFIG" \
        --hostname-override "$NODE" --node-ip "$ADDRESS" --root-dir /run/disk/kubelet --cert-dir /run/disk/kubelet/pki \
        --node-labels "$LABELS" --v 2 >> "$BOOT_LOGS/kubelet.log" 2>&1 &
    wait $! || echo "kubelet ended: $?"
    sleep 0.2
done
