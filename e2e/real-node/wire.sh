#!/bin/bash
# The far end of a wire: a network namespace with one network card, for as long as this process lives.
#
# The lab sets what cable.sh needs.
set -eu
. "${0%/*}/cable.sh"
echo laid
exec sleep infinity
