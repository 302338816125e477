"""Asks a project of Compute Engine through Google's own client, and says in JSON what that made of the answers.

The one argument is a JSON file with the API's host, a key of a service account, a project, a zone and what is to be done, in this order. The client
signs its tokens with the key, and reads the CA from the environment.
"""

import json
import pathlib
import sys

from google.api_core.exceptions import GoogleAPICallError
from google.cloud import compute_v1
from google.cloud.compute_v1.services.instances.transports.rest import InstancesRestTransport
from google.cloud.compute_v1.services.zone_operations.transports.rest import ZoneOperationsRestTransport
from google.oauth2 import service_account


def instance(it):
    """What an instance shows."""
    return {
        "id": str(it.id),
        "name": it.name,
        "status": it.status,
        "address": it.network_interfaces[0].network_i_p,
        "disks": [disk.type_ for disk in it.disks],
        "restarts": it.scheduling.automatic_restart,
        "metadata": [item.key for item in it.metadata.items],
    }


class Zone:
    """The clients of one zone."""

    def __init__(self, settings):
        credentials = service_account.Credentials.from_service_account_info(settings["key"])
        given = {"host": settings["host"], "credentials": credentials, "always_use_jwt_access": True}
        self.where = {"project": settings["project"], "zone": settings["zone"]}
        self.instances = compute_v1.InstancesClient(transport=InstancesRestTransport(**given))
        self.operations = compute_v1.ZoneOperationsClient(transport=ZoneOperationsRestTransport(**given))

    def ended(self, taken):
        """Follows an operation to its end."""
        name = taken.name
        done = self.operations.get(request={**self.where, "operation": name})
        return {"type": done.operation_type, "status": done.status.name, "target": str(done.target_id)}

    def do(self, what, name):
        """Does one thing."""
        request = {**self.where, "instance": name}
        if what == "read":
            return instance(self.instances.get(request=request))
        if what == "list":
            return [it.name for it in self.instances.list(request={**self.where, "max_results": 50})]
        if what == "may":
            asked = {"permissions": ["compute.instances.stop", "compute.instances.delete"]}
            body = {"test_permissions_request_resource": asked}
            return list(self.instances.test_iam_permissions(request={**self.where, "resource": name, **body}).permissions)
        if what == "off":
            stop = {"no_graceful_shutdown": True, "discard_local_ssd": True}
            return self.ended(self.instances.stop_unary(request={**request, **stop}))
        if what == "on":
            return self.ended(self.instances.start_unary(request=request))
        raise ValueError(what)


def main(settings):
    zone = Zone(settings)
    said = []
    for what, name in settings["do"]:
        try:
            said.append(zone.do(what, name))
        except GoogleAPICallError as error:
            reasons = [it.get("reason") for it in error.errors]
            said.append({"code": error.code, "reasons": reasons})
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
