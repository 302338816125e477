"""Runs Nova, OpenStack's compute service, which none of us wrote: its API over TLS, conductor, scheduler and one compute host in one process.

What Nova's own functional tests start is served here, with their stand-ins for Neutron, Glance and the message queue. Tokens are checked by
Keystone. The hypervisor is Nova's fake driver; only what it takes for the power of an instance is replaced: that is the machine's, read and
switched through a socket of the lab. A line at the control socket, `down` or `up`, ends and starts the compute host's service; answered by `ok`.

The one argument is a JSON file with the settings.
"""

from nova import monkey_patch

# Before anything that has a socket or a thread is imported.
monkey_patch.patch()

import json
import os
import pathlib
import socket
import socketserver
import sys
import threading
import time
import types
import unittest

# A test of Nova ends after some time, unless this says otherwise.
os.environ["OS_TEST_TIMEOUT"] = "0"

import nova.compute.api
import nova.conf
import requests
import served
import urllib3.connectionpool
import webob
from nova.compute import power_state
from nova.tests import fixtures
from nova.tests.functional import integrated_helpers
from nova.virt import event as virtevent
from nova.virt import fake

# What Nova's fixtures have one of.
IMAGE = "155d900f-4e14-4e4c-a73d-069cbf4541e6"
HTTPS = urllib3.connectionpool.HTTPSConnectionPool.ConnectionCls
SETTINGS = json.loads(pathlib.Path(sys.argv.pop()).read_text()) if len(sys.argv) > 1 else {}
MACHINES = {machine["uuid"]: machine["socket"] for machine in SETTINGS.get("machines", [])}
# Those that a command turned off: a hypervisor tells of no stop that Nova asked for, and one told late would stop what has started since.
COMMANDED_OFF = set()


def ask_lab(uuid, line):
    with socket.socket(socket.AF_UNIX) as lab:
        lab.connect(MACHINES[uuid])
        lab.sendall(line.encode() + b"\n")
        return lab.makefile().readline().strip()


class MachineDriver(fake.MediumFakeDriver):
    """Nova's fake driver, on machines that are not its own."""

    memory_mb = 65536

    def spawn(self, context, instance, *arguments, **more):
        super().spawn(context, instance, *arguments, **more)
        COMMANDED_OFF.discard(instance.uuid)
        # A machine of the lab runs before there is an instance of it.
        if ask_lab(instance.uuid, "read") == "Off":
            ask_lab(instance.uuid, "On")

    def power_off(self, instance, timeout=0, retry_interval=0):
        super().power_off(instance, timeout, retry_interval)
        COMMANDED_OFF.add(instance.uuid)
        ask_lab(instance.uuid, "Off")

    def power_on(self, context, instance, *arguments, **more):
        super().power_on(context, instance, *arguments, **more)
        ask_lab(instance.uuid, "On")
        COMMANDED_OFF.discard(instance.uuid)

    def get_info(self, instance, use_cache=True):
        info = super().get_info(instance, use_cache)
        info.state = power_state.RUNNING if ask_lab(instance.uuid, "read") == "On" else power_state.SHUTDOWN
        return info


class Serve(integrated_helpers.ProviderUsageBaseTestCase):
    """What is started for a functional test, for as long as the lab wants."""

    compute_driver = "fake.MediumFakeDriver"

    def runTest(self):
        # Calls to Placement stay in this process, and those to Keystone go out.
        urllib3.connectionpool.HTTPSConnectionPool.ConnectionCls = HTTPS
        self.compute = self._start_compute("host-1")
        app = self.api_fixture.app()
        self.add_instances(app)
        server = served.server(SETTINGS, app)
        threading.Thread(target=self.notice_stops, daemon=True).start()
        control = socketserver.UnixStreamServer(SETTINGS["control"], self.control())
        threading.Thread(target=control.serve_forever, daemon=True).start()
        server.serve_forever()

    def control(self):
        case = self

        class Control(socketserver.StreamRequestHandler):
            def handle(self):
                case.change(self.rfile.readline().decode().strip())
                self.wfile.write(b"ok\n")

        return Control

    def notice_stops(self):
        """Sends the event that a hypervisor sends when a machine goes off by itself; libvirt's driver waits 15 s with it, this one does not."""
        were_on = set(MACHINES)
        while True:
            are_on = {uuid for uuid in MACHINES if ask_lab(uuid, "read") == "On"}
            for uuid in were_on - are_on - COMMANDED_OFF:
                self.compute.driver.emit_event(virtevent.LifecycleEvent(uuid, virtevent.EVENT_LIFECYCLE_STOPPED))
            were_on = are_on
            time.sleep(0.2)

    def change(self, line):
        """Does what a line at the control socket says."""
        if line == "down":
            self.compute.stop()
        elif line == "up":
            self.compute = self.restart_compute_service(self.compute)
        else:
            raise ValueError(line)

    def add_instances(self, app):
        """Creates an instance for each machine, of its UUID, as the owner of the project does."""
        who = {"name": "owner", "domain": {"id": "default"}, "password": SETTINGS["password"]}
        scope = {"project": {"name": "cluster", "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": who}}
        login = {"auth": {"identity": identity, "scope": scope}}
        token = requests.post(f"{SETTINGS['keystone']}/auth/tokens", json=login, verify=SETTINGS["ca"], timeout=60)
        headers = {"X-Auth-Token": token.headers["X-Subject-Token"], "OpenStack-API-Version": "compute 2.84"}

        def ask(path, **more):
            response = webob.Request.blank(f"/v2.1{path}", headers=headers, **more).get_response(app)
            assert response.status_int < 300, (path, response.status, response.text)
            return response.json["server"]

        for machine in SETTINGS["machines"]:
            server = {"name": machine["name"], "imageRef": IMAGE, "flavorRef": "1", "networks": "none"}
            # An instance gets an id that nothing has yet; here it is the machine's.
            ids.generate_uuid = lambda: machine["uuid"]
            made = ask("/servers", method="POST", json_body={"server": server})
            while ask(f"/servers/{made['id']}")["status"] != "ACTIVE":
                time.sleep(0.05)


def main():
    # The tests' configuration is a default, below the state path, of which a wheel has none.
    state = pathlib.Path(SETTINGS["directory"])
    paste = pathlib.Path(sys.prefix, "etc/nova/api-paste.ini").read_text()
    (state / "etc/nova").mkdir(parents=True)
    (state / "etc/nova/api-paste.ini").write_text(
        f"{paste}\nauth_type = password\nauth_url = {SETTINGS['keystone']}\nwww_authenticate_uri = {SETTINGS['keystone']}\n"
        f"cafile = {SETTINGS['ca']}\nusername = admin\npassword = {SETTINGS['password']}\nproject_name = admin\n"
        "user_domain_id = default\nproject_domain_id = default\nservice_type = compute\ninterface = public\n"
    )
    nova.conf.CONF.set_default("state_path", str(state))
    fake.MediumFakeDriver = MachineDriver
    stubbed = fixtures.OSAPIFixture.__init__
    fixtures.OSAPIFixture.__init__ = lambda self, **more: stubbed(self, **more, stub_keystone=False)
    result = unittest.TextTestRunner().run(Serve())
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    ids = types.SimpleNamespace(**vars(nova.compute.api.uuidutils))
    nova.compute.api.uuidutils = ids
    sys.exit(main())
