"""Runs fakepve, a Proxmox VE cluster from PyPI, with the machines of the lab as its VMs.

Documents, errors, locks, HA, quorum and tasks are the package's own. Only the state of a VM is the machine's, read and
switched through a socket of the lab. A line of JSON at the control socket changes what fakepve has a name for:
`["vm", 101, "lock", "suspended"]` sets a field of a VM, `["call", "lose_quorum"]` calls a method; each is answered by `ok`.

The one argument is a JSON file with the settings. The package has the AGPL: this is a process of its own, and no part of what is released.
"""

import asyncio
import json
import pathlib
import socket
import sys

from fakepve import FakePve
from fakepve.model import FakeVm


class Machine(FakeVm):
    """A VM whose process runs as long as the machine has power."""

    power = None

    @property
    def status(self):
        return "running" if self._ask_lab("read") == "On" else "stopped"

    @status.setter
    def status(self, status):
        # What the package makes of a new VM is no command.
        if self.power is not None:
            self._ask_lab("On" if status == "running" else "Off")

    @property
    def qmpstatus(self):
        return self.status

    @qmpstatus.setter
    def qmpstatus(self, _):
        pass

    def _ask_lab(self, line):
        if self.power is None:
            return "On"
        with socket.socket(socket.AF_UNIX) as lab:
            lab.connect(self.power)
            lab.sendall(line.encode() + b"\n")
            return lab.makefile().readline().strip()


def add(cluster, machine):
    """Adds a machine of the lab to the cluster."""
    smbios = f"uuid={machine['uuid']}"
    vm = Machine(machine["vmid"], machine["name"], node=machine["node"], config={"smbios1": smbios})
    vm.power = machine["socket"]
    cluster.vms.append(vm)


def change(cluster, line):
    """Does what a line of standard input says."""
    what, *rest = json.loads(line)
    if what == "vm":
        vmid, field, value = rest
        setattr(cluster.vm(vmid), field, value)
    else:
        name, *arguments = rest
        getattr(cluster, name)(*arguments)


async def main(settings):
    cluster = FakePve("root@pam", "unused", host=settings["address"], port=settings["port"])
    cluster.apitokens[settings["token"]] = settings["secret"]
    # A cluster of three: one that is offline leaves it its quorum.
    for node in ("pve1", "pve2", "pve3"):
        cluster.add_node(node)
    for machine in settings["machines"]:
        add(cluster, machine)
    await cluster.start(settings["certificate"], settings["key"])

    async def control(reader, writer):
        change(cluster, await reader.readline())
        writer.write(b"ok\n")
        writer.close()

    server = await asyncio.start_unix_server(control, settings["control"])
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(json.loads(pathlib.Path(sys.argv[1]).read_text())))
