#!/bin/sh
# A PDU behind net-snmp's `pass`: pdu.sh DIRECTORY -g OID | -n OID | -s OID TYPE VALUE. Each outlet is a file in the directory, called
# like its number, with the word `on` or `off`; a file `deaf` there makes it accept commands and ignore them, `mute` leaves states out.
# Five tables show the same outlets: three of APC's PowerNet-MIB, one of Raritan's PDU2-MIB, and the ports of RFC 3621, with the numbers of
# each; of a port a file `searching` says that it is off and enabled.
directory=$1 verb=$2 oid=$3 value=$5
column=${oid%.*} outlet=$directory/${oid##*.}
apc=.1.3.6.1.4.1.318.1.1 raritan=.1.3.6.1.4.1.13742.6.4.1.2.1 poe=.1.3.6.1.2.1.105.1.1.1

if [ ! -f "$outlet" ]; then
    [ "$verb" != -s ] || echo not-writable
    exit 0
fi
word=$(cat "$outlet")

# What a column says of an outlet that is on, and of one that is off.
state() {
    [ ! -e "$directory/mute" ] || exit 0
    echo "$oid"
    echo integer
    if [ "$word" = on ]; then echo "$1"; else echo "$2"; fi
}

# Which numbers of a column switch an outlet on and off.
switch() {
    case $value in
    "$1") word=on ;;
    "$2") word=off ;;
    *) echo wrong-value && exit 0 ;;
    esac
    [ ! -e "$directory/deaf" ] || exit 0
    # In one step: whoever reads the file finds a word in it.
    echo "$word" >"$outlet.new"
    mv "$outlet.new" "$outlet"
}

case $verb$column in
# No command is ever waiting.
-g$apc.26.9.2.3.1.6 | -g$apc.12.3.5.1.1.5 | -g$apc.4.4.2.1.2) state 2 2 ;;
-g$apc.26.9.2.3.1.5) state 2 1 ;;
-g$apc.12.3.5.1.1.4 | -g$apc.4.4.2.1.3) state 1 2 ;;
-g$raritan.3.1) state 7 8 ;;
# snmpd asks for the old value before it sets a new one.
-g$apc.26.9.2.4.1.5 | -g$apc.12.3.3.1.1.4) state 1 2 ;;
-g$raritan.2.1) state 1 0 ;;
# pethPsePortAdminEnable and pethPsePortDetectionStatus of group 1.
-g$poe.3.1) if [ -e "$directory/searching" ]; then state 1 1; else state 1 2; fi ;;
-g$poe.6.1) if [ -e "$directory/searching" ]; then state 3 2; else state 3 1; fi ;;
-s$poe.3.1) switch 1 2 ;;
-s$apc.26.9.2.4.1.5 | -s$apc.12.3.3.1.1.4 | -s$apc.4.4.2.1.3) switch 1 2 ;;
-s$raritan.2.1) switch 1 0 ;;
-s*) echo not-writable ;;
esac
