"""Runs Ironic, OpenStack's bare metal service, which none of us wrote: its API over TLS and its conductor in one process, on SQLite, without logins.

It is set up as Metal3's image sets it up, as far as the power goes; only times are a test's. The one argument is a JSON file with the settings.
"""

import json
import pathlib
import subprocess
import sys

from ironic.command import dbsync, singleprocess


def configured(settings):
    """The arguments that name the configuration."""
    directory = pathlib.Path(settings["directory"])
    config = directory / "ironic.conf"
    config.write_text(
        "[DEFAULT]\nauth_strategy = noauth\nrpc_transport = none\nuse_stderr = true\nhost = lab\n"
        f"my_ip = {settings['address']}\nstate_path = {directory}\ntempdir = {directory}\nhash_ring_algorithm = sha256\n"
        "enabled_hardware_types = redfish\nenabled_power_interfaces = redfish\nenabled_management_interfaces = redfish\n"
        "enabled_boot_interfaces = ipxe\nenabled_deploy_interfaces = direct\nenabled_inspect_interfaces = agent\n"
        "enabled_network_interfaces = noop\ndefault_network_interface = noop\nenabled_bios_interfaces = no-bios\n"
        "enabled_firmware_interfaces = no-firmware\nenabled_raid_interfaces = no-raid\nenabled_vendor_interfaces = no-vendor\n"
        f"[api]\nhost_ip = {settings['address']}\nport = {settings['port']}\nenable_ssl_api = true\napi_workers = 1\n"
        f"cert_file = {settings['certificate']}\nkey_file = {settings['key']}\n"
        f"[database]\nconnection = sqlite:///{directory}/ironic.db\nsqlite_synchronous = false\n"
        f"[oslo_concurrency]\nlock_path = {directory}\n"
        "[conductor]\nautomated_clean = false\nnode_history = false\npower_state_change_timeout = 120\n"
        # A BMC that does not answer is given up after eight minutes by default, and asked again every five.
        f"sync_power_state_interval = {settings['sync_seconds']}\npower_failure_recovery_interval = {settings['sync_seconds']}\n"
        "power_state_sync_max_retries = 1\n"
        "[redfish]\nconnect_timeout = 10\nread_timeout = 10\nconnection_attempts = 1\n"
        f"[deploy]\nhttp_root = {directory}\n[pxe]\ntftp_root = {directory}\n"
        "[dhcp]\ndhcp_provider = none\n[nova]\nsend_power_notifications = false\n"
    )
    return ["--config-file", str(config)]


def main(settings):
    arguments = configured(settings)
    # A process of its own: both read arguments into one place.
    subprocess.run([sys.executable, __file__, *arguments, "create_schema"], check=True)
    sys.argv[1:] = arguments
    return singleprocess.main()


if __name__ == "__main__":
    if "create_schema" in sys.argv:
        sys.exit(dbsync.main())
    sys.exit(main(json.loads(pathlib.Path(sys.argv.pop()).read_text())))
