"""Asks a Prism Central through Nutanix' own clients, and says in JSON what those made of the answers.

The one argument is a JSON file with host, port, CA, what opens it, and what is to be done, in this order.
"""

import json
import pathlib
import sys
import time

import ntnx_prism_py_client as prism
import ntnx_vmm_py_client as vmm
from ntnx_prism_py_client.rest import ApiException as PrismError
from ntnx_vmm_py_client.rest import ApiException as VmmError


def configured(library, settings):
    """A client of one of the two libraries."""
    configuration = library.Configuration()
    configuration.host = settings["host"]
    configuration.port = settings["port"]
    configuration.root_ca_certificate_file = settings["ca"]
    configuration.max_retry_attempts = 0
    if settings.get("apiKey"):
        configuration.set_api_key(settings["apiKey"])
    else:
        configuration.username = settings["username"]
        configuration.password = settings["password"]
    return library.ApiClient(configuration=configuration)


def shown(vm):
    """What a VM shows."""
    return {
        "id": vm.ext_id,
        "name": vm.name,
        "state": vm.power_state,
        "bios": vm.bios_uuid,
        "agent": vm.is_agent_vm,
        "moves": vm.is_cross_cluster_migration_in_progress,
    }


def ended(tasks, task):
    """Follows a task to its end."""
    while True:
        now = tasks.get_task_by_id(task.data.ext_id).data
        if now.status not in ("QUEUED", "RUNNING"):
            errors = now.error_messages or []
            return {"status": now.status, "errors": [it.message for it in errors]}
        time.sleep(0.05)


def do(vms, tasks, what, name):
    """Does one thing."""
    if what == "read":
        return shown(vms.get_vm_by_id(name).data)
    if what == "list":
        pages = [vms.list_vms(_page=page, _limit=100, _select=name).data for page in (0, 1)]
        return [it.ext_id for page in pages for it in page or []]
    if what == "named":
        found = vms.list_vms(_limit=100, _filter=f"name eq '{name}'").data
        return [shown(it) for it in found]
    act = {"off": vms.power_off_vm, "on": vms.power_on_vm}[what]
    tag = vmm.ApiClient.get_etag(vms.get_vm_by_id(name))
    return ended(tasks, act(name, if_match=tag))


def main(settings):
    vms = vmm.VmApi(api_client=configured(vmm, settings))
    tasks = prism.TasksApi(api_client=configured(prism, settings))
    said = []
    for what, name in settings["do"]:
        try:
            said.append(do(vms, tasks, what, name))
        except (VmmError, PrismError) as error:
            said.append({"status": error.status})
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
