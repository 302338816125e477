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
from sushy_tools.emulator.resources.systems import fakedriver, libvirtdriver

TEST_DRIVER = "test:///default"


def ask_lab(config, line):
    with socket.socket(socket.AF_UNIX) as lab:
        lab.connect(config["LAB_SOCKET"])
        lab.sendall(line.encode() + b"\n")
        return lab.makefile().readline().strip()


class MachineDriver(fakedriver.FakeDriver):
    """The package's fake driver, on a machine that is not its own."""

    def __init__(self):
        super().__init__()
        # Requests and timers each have a thread; a change takes effect in one of them.
        self._lock = threading.RLock()

    def _ask_lab(self, line):
        return ask_lab(self._config, line)

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


class SavedDomainDriver(libvirtdriver.LibvirtDriver):
    """The package's libvirt driver, on a domain of libvirt's test driver that stands for the machine.

    What the driver does with a domain is its own: how it reads its power, that an off of one that is not active does
    nothing, and that an on restores what was saved. The hypervisor's part is played here: when the machine has lost its
    power, its domain has been saved (`virsh managedsave`, or libvirt-guests with ON_SHUTDOWN=suspend).
    """

    _lock = threading.RLock()

    def _get_domain(self, identity, readonly=False):
        # A connection for reading may not save a domain, and the package keeps the first one that it got.
        domain = super()._get_domain(identity)
        with self._lock:
            if domain.isActive() and ask_lab(self._config, "read") == "Off":
                domain.managedSave()
        return domain

    def set_power_state(self, identity, state):
        with self._lock:
            domain = self._get_domain(identity)
            was_active = domain.isActive()
            super().set_power_state(identity, state)
            if domain.isActive() != was_active:
                ask_lab(self._config, "Off" if was_active else "On")


def saved_domain(settings):
    """A domain that is active. It is there for as long as the returned connection is: the test driver keeps no files."""
    import libvirt

    connection = libvirt.open(TEST_DRIVER)
    # The test driver begins with a domain of its own.
    for domain in connection.listAllDomains():
        domain.destroy()
        domain.undefine()
    connection.defineXML(
        f"<domain type='test'><name>{settings['name']}</name><uuid>{settings['uuid']}</uuid>"
        "<memory unit='MiB'>64</memory><os><type arch='x86_64'>hvm</type><boot dev='hd'/></os></domain>"
    ).create()
    return connection


def run(settings):
    password = bcrypt.hashpw(settings["password"].encode(), bcrypt.gensalt(rounds=5))
    users = pathlib.Path(settings["directory"], "htpasswd")
    users.write_text(f"{settings['username']}:{password.decode()}\n")
    fakedriver.FakeDriver = MachineDriver
    libvirtdriver.LibvirtDriver = SavedDomainDriver
    _domain = saved_domain(settings) if settings["libvirt"] else None
    main.app.config.update(
        LAB_SOCKET=settings["socket"],
        SUSHY_EMULATOR_AUTH_FILE=str(users),
        SUSHY_EMULATOR_FAKE_DRIVER=not settings["libvirt"],
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
    sys.argv = ["sushy-emulator", *(["--libvirt-uri", TEST_DRIVER] if settings["libvirt"] else ["--fake"])]
    return main.main()


if __name__ == "__main__":
    sys.exit(run(json.loads(pathlib.Path(sys.argv[1]).read_text())))
