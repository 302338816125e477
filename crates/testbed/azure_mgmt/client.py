"""Asks a cloud of Azure through Microsoft's own client, and says in JSON what that made of the answers.

The one argument is a JSON file with the address of Azure Resource Manager, a token, a subscription and what is to be done, in this order. The
client reads the CA from the environment.
"""

import json
import pathlib
import sys

from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.compute import ComputeManagementClient


class Known(SansIOHTTPPolicy):
    """Logs in with a token that is known already."""

    def __init__(self, token):
        self.token = token

    def on_request(self, request):
        request.http_request.headers["Authorization"] = f"Bearer {self.token}"


def machine(vm):
    """What a virtual machine, or an instance of a scale set, shows."""
    capabilities = vm.additional_capabilities
    return {
        "id": vm.id,
        "uuid": vm.vm_id,
        "codes": [it.code for it in vm.instance_view.statuses],
        "hibernation": capabilities and capabilities.hibernation_enabled,
        "size": vm.hardware_profile.vm_size if vm.hardware_profile else vm.sku.name,
    }


def do(client, what, names):
    """Does one thing. Three names are those of an instance of a scale set, two those of a virtual machine."""
    machines = client.virtual_machine_scale_set_vms if len(names) == 3 else client.virtual_machines
    if what == "read":
        return machine(machines.get(*names, expand="instanceView"))
    if what == "list":
        if len(names) == 3:
            return [it.id for it in machines.list(*names[:2], expand="instanceView")]
        return [it.id for it in machines.list_all(status_only="true")]
    if what == "off":
        return machines.begin_power_off(*names, skip_shutdown=True, polling_interval=0.1).status()
    if what == "off and wait":
        poller = machines.begin_power_off(*names, skip_shutdown=True, polling_interval=0.1)
        poller.result()
        return poller.status()
    if what == "on and wait":
        poller = machines.begin_start(*names, polling_interval=0.1)
        poller.result()
        return poller.status()
    raise ValueError(what)


def main(settings):
    known = Known(settings["token"])
    client = ComputeManagementClient(
        # It asks for one, and leaves it alone beside a policy.
        credential=known,
        authentication_policy=known,
        subscription_id=settings["subscription"],
        base_url=settings["url"],
        retry_total=0,
    )
    said = []
    for what, names in settings["do"]:
        try:
            said.append(do(client, what, names))
        except HttpResponseError as error:
            said.append({"status": error.status_code, "code": error.error and error.error.code})
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
