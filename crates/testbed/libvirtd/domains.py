"""Makes machines of the lab domains of libvirt's test driver, over one connection, as another client of that host.

States, reasons and what a command does to them are libvirt's own. A domain that was ended switches its machine off, and a machine that goes
off by itself is one whose guest has shut down. The host is reached through a relay, which knows nothing of what it passes on: before each piece
it sees to it that domains and machines agree, so that no answer tells of what has not happened to the machine yet. The domains live as long as
the connection of this program.

The one argument is a JSON file with the settings.
"""

import json
import pathlib
import socket
import socketserver
import sys
import threading
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


class Host:
    """All domains, over one connection."""

    def __init__(self, settings):
        connection = libvirt.open(settings["uri"])
        self.lock = threading.Lock()
        self.domains = [Domain(connection, it) for it in settings["domains"]]
        self.address = tuple(settings["host"])

    def follow(self):
        with self.lock:
            for domain in self.domains:
                domain.follow()

    def pass_on(self, source, sink):
        """Ends both ways when one has ended."""
        try:
            while data := source.recv(65536):
                self.follow()
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def relay(host):
    class Relay(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(host.address) as there:
                back = threading.Thread(target=host.pass_on, args=(there, self.request))
                back.start()
                host.pass_on(self.request, there)
                back.join()

    return Relay


def main(settings):
    host = Host(settings)
    socketserver.ThreadingTCPServer.daemon_threads = True
    # Whoever else looks for a free port binds it for a moment, which is in the way of none that says so, too.
    socketserver.ThreadingTCPServer.allow_reuse_address = True
    server = socketserver.ThreadingTCPServer(tuple(settings["relay"]), relay(host))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    pathlib.Path(settings["ready"]).touch()
    while True:
        host.follow()
        time.sleep(0.1)


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
