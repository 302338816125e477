"""Makes machines of the lab domains of libvirt's test driver, over one connection, as somebody else who manages that host.

States, reasons and what a command does to them are libvirt's own. A domain follows its machine and a machine its domain, within a tenth of a
second: a domain that was ended switches its machine off, and a machine that goes off by itself is one whose guest has shut down. The domains
live as long as this connection.

The one argument is a JSON file with the settings.
"""

import json
import pathlib
import socket
import sys
import time

import libvirt

XML = "<domain type='test'><name>{name}</name><uuid>{uuid}</uuid><memory>8192</memory><os><type>hvm</type></os></domain>"


def ask_lab(path, line):
    with socket.socket(socket.AF_UNIX) as lab:
        lab.connect(path)
        lab.sendall(line.encode() + b"\n")
        return lab.makefile().readline().strip()


class Domain:
    """A domain with the machine behind it."""

    def __init__(self, host, settings):
        self.machine = settings["socket"]
        self.domain = host.defineXML(XML.format(**settings))
        self.domain.create()
        self.ran = True

    def follow(self):
        runs = bool(self.domain.isActive())
        if runs != self.ran:
            # By a command of somebody.
            ask_lab(self.machine, "On" if runs else "Off")
        elif (ask_lab(self.machine, "read") == "On") != runs:
            runs = not runs
            self.domain.create() if runs else self.domain.shutdown()
        self.ran = runs


def main(settings):
    host = libvirt.open(settings["uri"])
    domains = [Domain(host, it) for it in settings["domains"]]
    pathlib.Path(settings["ready"]).touch()
    while True:
        for domain in domains:
            domain.follow()
        time.sleep(0.1)


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
