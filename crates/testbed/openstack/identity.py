"""Runs Keystone, OpenStack's identity service, which none of us wrote: over TLS, on SQLite, with what a cluster of the lab needs.

Made through Keystone's own API: the project `cluster`, its user `owner` with the role `member`, Nova in the catalog, and application
credentials of `owner` and of the administrator. The one argument is a JSON file with the settings; the ids and secrets go into its `facts`.
"""

import json
import pathlib
import sys
from unittest import mock

import keystone.conf
import served
import webob
from keystone.cmd import bootstrap
from keystone.common import fernet_utils
from keystone.common.sql import upgrades
from keystone.server.flask import core

REGION = "north"
RULES = [
    {"service": "compute", "method": "GET", "path": "/v2.1/servers/**"},
    {"service": "compute", "method": "POST", "path": "/v2.1/servers/*/action"},
]


def start(settings):
    """Keystone with an empty database, and its administrator."""
    directory = pathlib.Path(settings["directory"])
    config = directory / "keystone.conf"
    config.write_text(
        f"[database]\nconnection = sqlite:///{directory}/keystone.db\n"
        f"[fernet_tokens]\nkey_repository = {directory}/tokens\n"
        f"[fernet_receipts]\nkey_repository = {directory}/receipts\n"
        f"[credential]\nkey_repository = {directory}/credentials\n"
        "[cache]\nenabled = false\n"
        "[identity]\npassword_hash_rounds = 4\n"
    )

    def prepare():
        upgrades.offline_sync_database_to_version()
        conf = keystone.conf.CONF
        for name in ("fernet_tokens", "fernet_receipts"):
            keys = fernet_utils.FernetUtils(conf[name].key_repository, conf[name].max_active_keys, name)
            keys.create_key_directory()
            keys.initialize_key_repository()

    app = core.initialize_application("public", prepare, [str(config)])
    # The application has loaded them, and they may be loaded once.
    with mock.patch.object(bootstrap.backends, "load_backends"):
        made = bootstrap.Bootstrapper()
    made.admin_username = made.admin_role_name = made.project_name = "admin"
    made.admin_password = settings["password"]
    made.service_name = "keystone"
    made.public_url = made.internal_url = made.admin_url = settings["keystone"]
    made.region_id = REGION
    made.bootstrap()
    return app


def fill(settings, app):
    """The cluster's project with its user, Nova in the catalog, and the application credentials."""

    def ask(method, path, token=None, **body):
        headers = {"X-Auth-Token": token} if token else {}
        request = webob.Request.blank(f"/v3{path}", method=method, headers=headers, json_body=body)
        response = request.get_response(app)
        assert response.status_int < 300, (method, path, response.status, response.text)
        return response

    def login(user, project):
        who = {"name": user, "domain": {"id": "default"}, "password": settings["password"]}
        scope = {"project": {"name": project, "domain": {"id": "default"}}}
        identity = {"methods": ["password"], "password": {"user": who}}
        response = ask("POST", "/auth/tokens", auth={"identity": identity, "scope": scope})
        return response.headers["X-Subject-Token"], response.json["token"]["user"]["id"]

    admin, admin_id = login("admin", "admin")
    project = ask("POST", "/projects", admin, project={"name": "cluster", "domain_id": "default"}).json["project"]["id"]
    owner = {"name": "owner", "domain_id": "default", "password": settings["password"]}
    owner_id = ask("POST", "/users", admin, user=owner).json["user"]["id"]
    roles = {role["name"]: role["id"] for role in ask("GET", "/roles", admin).json["roles"]}
    for user, role in ((owner_id, "member"), (admin_id, "admin")):
        ask("PUT", f"/projects/{project}/users/{user}/roles/{roles[role]}", admin)
    service = ask("POST", "/services", admin, service={"type": "compute", "name": "nova"}).json["service"]["id"]
    for interface in ("public", "internal"):
        endpoint = {"service_id": service, "interface": interface, "region_id": REGION, "url": settings["nova"]}
        ask("POST", "/endpoints", admin, endpoint=endpoint)

    def credential(user, name, **more):
        token, user_id = login(user, "cluster")
        path = f"/users/{user_id}/application_credentials"
        made = ask("POST", path, token, application_credential={"name": name, **more}).json["application_credential"]
        return [made["id"], made["secret"]]

    return {
        "project": project,
        "owner": owner_id,
        "fence": credential("owner", "fence", access_rules=RULES),
        "revoked": credential("owner", "revoked", access_rules=RULES),
        "no_commands": credential("owner", "no-commands", access_rules=RULES[:1]),
        "no_instances": credential("owner", "no-instances", access_rules=RULES[1:]),
        "admin": credential("admin", "admin"),
    }


def main(settings):
    app = start(settings)
    facts = fill(settings, app)
    server = served.server(settings, app)
    # Whole, or not there.
    written = pathlib.Path(settings["directory"], "facts.new")
    written.write_text(json.dumps(facts))
    written.rename(settings["facts"])
    server.serve_forever()


if __name__ == "__main__":
    # Keystone reads arguments, too.
    main(json.loads(pathlib.Path(sys.argv.pop()).read_text()))
