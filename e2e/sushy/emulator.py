"""Runs sushy-tools' Redfish emulator over a machine of the lab.

The emulator is the package's own, with its answers, its errors and its delays: a reset is answered with 204 and takes
effect up to 11 seconds later. Only what its fake driver takes for power is replaced: it asks the machine, and switches
it, through a socket of the lab, so that it sees what others did to the machine, too.

The one argument is a JSON file with the settings.
"""

import json
import pathlib
import socket
import sys
import threading
import time

import bcrypt
from sushy_tools.emulator import main
from sushy_tools.emulator.resources.systems import fakedriver


class MachineDriver(fakedriver.FakeDriver):
    """The package's fake driver, on a machine that is not its own."""

    def __init__(self):
        super().__init__()
        # Requests and timers each have a thread; a change takes effect in one of them.
        self._lock = threading.RLock()

    def _ask_lab(self, line):
        with socket.socket(socket.AF_UNIX) as lab:
            lab.connect(self._config["LAB_SOCKET"])
            lab.sendall(line.encode() + b"\n")
            return lab.makefile().readline().strip()

    def _get(self, identity):
        with self._lock:
            system = super()._get(identity)
            system["power_state"] = self._ask_lab("read")
            return system

    def _update(self, system, **changes):
        if "power_state" in changes:
            self._ask_lab(changes["power_state"])
        super()._update(system, **changes)

    def set_power_state(self, identity, state):
        with self._lock:
            if "Restart" in state:
                self._ask_lab("Off")
            super().set_power_state(identity, state)
            pending = self._systems[self.uuid(identity)].get("pending_power")
        # The fake driver lets a change take effect when somebody looks. A machine changes whoever looks.
        if pending:
            delay = max(0, pending["apply_time"] - time.time()) + 0.01
            timer = threading.Timer(delay, self._get, [self.uuid(identity)])
            timer.daemon = True
            timer.start()


def run(settings):
    password = bcrypt.hashpw(settings["password"].encode(), bcrypt.gensalt(rounds=5))
    users = pathlib.Path(settings["directory"], "htpasswd")
    users.write_text(f"{settings['username']}:{password.decode()}\n")
    fakedriver.FakeDriver = MachineDriver
    main.app.config.update(
        LAB_SOCKET=settings["socket"],
        SUSHY_EMULATOR_AUTH_FILE=str(users),
        SUSHY_EMULATOR_FAKE_DRIVER=True,
        SUSHY_EMULATOR_FAKE_SYSTEMS=[
            # Its power state is not looked at.
            {"uuid": settings["uuid"], "name": settings["name"], "power_state": "On", "nics": []}
        ],
        SUSHY_EMULATOR_LISTEN_IP=settings["address"],
        SUSHY_EMULATOR_LISTEN_PORT=settings["port"],
        SUSHY_EMULATOR_SSL_CERT=settings["certificate"],
        SUSHY_EMULATOR_SSL_KEY=settings["key"],
        SUSHY_EMULATOR_STATE_DIR=settings["directory"],
    )
    sys.argv = ["sushy-emulator", "--fake"]
    return main.main()


if __name__ == "__main__":
    sys.exit(run(json.loads(pathlib.Path(sys.argv[1]).read_text())))
