# shellcheck shell=bash
# Sourced in a network namespace: gives it one network card, whose cable ends in the host and leads no further. There is no default route.
#
# The lab sets: ADDRESS HOST_ADDRESS HOST_DEVICE HOST_NETWORK.
ip link set lo up
ip link add eth0 type veth peer name "$HOST_DEVICE" netns "$HOST_NETWORK"
ip address add "$ADDRESS/31" dev eth0
ip link set eth0 up
nsenter --net="$HOST_NETWORK" ip address add "$HOST_ADDRESS/31" dev "$HOST_DEVICE"
nsenter --net="$HOST_NETWORK" ip link set "$HOST_DEVICE" up
