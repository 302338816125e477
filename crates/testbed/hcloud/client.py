"""Asks a project of Hetzner Cloud through Hetzner's own client, and says in JSON what that made of the answers.

The one argument is a JSON file with the API's URL, a token and what is to be done, in this order. The client reads the CA from the environment.
"""

import json
import pathlib
import sys

from hcloud import APIException, Client


def action(bound):
    """What an action shows."""
    return {"id": bound.id, "command": bound.command, "status": bound.status}


def server(bound):
    """What a server shows."""
    return {
        "id": bound.id,
        "name": bound.name,
        "status": bound.status,
        "locked": bound.locked,
        "rescue_enabled": bound.rescue_enabled,
        "address": bound.private_net[0].ip,
        "ipv6": bound.public_net.ipv6.ip,
        "type": bound.server_type.name,
    }


def ended(bound):
    """Follows an action to its end."""
    bound.wait_until_finished()
    bound.reload()
    return action(bound)


def do(client, what, number):
    """Does one thing."""
    servers = client.servers
    if what == "read":
        return server(servers.get_by_id(number))
    if what == "list":
        return [it.id for it in servers.get_all()]
    if what == "actions":
        return [action(it) for it in servers.get_by_id(number).get_actions(sort=["id:desc"])]
    if what == "off":
        return ended(servers.get_by_id(number).power_off())
    if what == "on":
        return ended(servers.get_by_id(number).power_on())
    raise ValueError(what)


def main(settings):
    client = Client(token=settings["token"], api_endpoint=settings["url"], poll_interval=0.1)
    said = []
    for what, number in settings["do"]:
        try:
            said.append(do(client, what, number))
        except APIException as error:
            said.append({"code": error.code})
    print(json.dumps(said))


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
