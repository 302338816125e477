"""Runs pyghmi's BMC, the one under fakebmc and virtualbmc, over a machine of the lab.

Sessions, messages and manners are the package's own: suite 3 whatever is asked for, the UUID in another byte order before
the login than after it, nothing but silence for a wrong user or password, sessions that never end. Only the power is the
machine's, read and switched through a socket of the lab.

The one argument is a JSON file with the settings.
"""

import json
import pathlib
import socket
import sys
import uuid

from pyghmi.ipmi import bmc


class MachineBmc(bmc.Bmc):
    """The package's BMC, on a machine that is not its own."""

    def __init__(self, settings):
        users = {settings["username"]: settings["password"]}
        self._guid = uuid.UUID(settings["uuid"])
        super().__init__(
            users,
            port=settings["port"],
            bmcuuid=self._guid,
            address=settings["address"],
        )
        self._socket = settings["socket"]

    def _ask_lab(self, line):
        with socket.socket(socket.AF_UNIX) as lab:
            lab.connect(self._socket)
            lab.sendall(line.encode() + b"\n")
            return lab.makefile().readline().strip()

    def get_system_guid(self):
        return self._guid

    def get_power_state(self):
        return self._ask_lab("read").lower()

    def power_off(self):
        self._ask_lab("Off")

    def power_on(self):
        self._ask_lab("On")


if __name__ == "__main__":
    MachineBmc(json.loads(pathlib.Path(sys.argv[1]).read_text())).listen()
