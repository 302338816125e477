"""Runs moto, a model of AWS from PyPI, with instances in one region and with IAM's checks.

Documents, errors, states, signatures, policies and roles are the package's own. An instance may have a machine of the lab, which it
switches through a socket of the lab; a machine that goes off by itself is one whose guest has shut the instance down. A line of JSON at
the control socket changes an instance: `["i-...", "reason", "Client.UserInitiatedHibernate"]` sets the reason of its last state,
`["i-...", "call", "modify_instance_attribute", {...}]` calls EC2 by boto3 with the ID of the instance; each is answered by `ok`.

The one argument is a JSON file with the settings. The keys and the IDs that were made are written to the file that it names.
"""

import json
import os
import pathlib
import socket
import sys
import threading
import time

os.environ["MOTO_EC2_LOAD_DEFAULT_AMIS"] = "false"

import boto3
from botocore.config import Config
from moto import settings as moto_settings
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.authorization import ActionAuthenticatorMixin
from moto.ec2.models import ec2_backends
from moto.ec2.models.instances import StateReason
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server


def policy(actions):
    """A policy that allows these actions."""
    return json.dumps({"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": actions, "Resource": "*"}]})


ALL = ["ec2:DescribeInstances", "ec2:StopInstances", "ec2:StartInstances"]
USERS = {"fence": ALL, "reader": ALL[:1], "stranger": ["s3:ListAllMyBuckets"]}


def judge_all_but_logins():
    """The package asks for a signature also where AWS has none: the token of a pod is what shows who takes a role."""
    judge = ActionAuthenticatorMixin._authenticate_and_authorize_normal_action

    def judge_signed(self, *arguments):
        if self._get_action() != "AssumeRoleWithWebIdentity":
            judge(self, *arguments)

    ActionAuthenticatorMixin._authenticate_and_authorize_normal_action = judge_signed


def users(iam):
    """A key for each user, by name."""
    keys = {}
    for name, actions in USERS.items():
        iam.create_user(UserName=name)
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=policy(actions))
        key = iam.create_access_key(UserName=name)["AccessKey"]
        keys[name] = [key["AccessKeyId"], key["SecretAccessKey"]]
    return keys


def role(iam):
    """The ARN of the role that the operator's pod has."""
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Principal": {"Federated": "*"}}]}
    made = iam.create_role(RoleName="fence", AssumeRolePolicyDocument=json.dumps(trust))
    iam.put_role_policy(RoleName="fence", PolicyName="own", PolicyDocument=policy(ALL))
    return made["Role"]["Arn"]


def instances(ec2, wanted):
    """IDs and private addresses of instances, which run: one for each that is wanted, at its address if it has one."""
    image = ec2.register_image(Name="lab", RootDeviceName="/dev/sda1")["ImageId"]
    made = []
    for one in wanted:
        at = {"PrivateIpAddress": one["address"]} if one else {}
        # EC2 shows of each instance whether it may hibernate.
        new = ec2.run_instances(
            ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, HibernationOptions={"Configured": False}, **at
        )["Instances"][0]
        made.append([new["InstanceId"], new["PrivateIpAddress"]])
    return made


def ask_lab(path, line):
    with socket.socket(socket.AF_UNIX) as lab:
        lab.connect(path)
        lab.sendall(line.encode() + b"\n")
        return lab.makefile().readline().strip()


def wire(instance, path):
    """Makes the machine behind this socket what runs as the instance."""
    lock = threading.Lock()
    start, stop = instance.start, instance.stop

    # What it shows has happened to the machine before.
    def started():
        with lock:
            before = start()
            ask_lab(path, "On")
            return before

    def stopped():
        with lock:
            ask_lab(path, "Off")
            return stop()

    instance.start, instance.stop = started, stopped

    def follow():
        while True:
            with lock:
                is_on = ask_lab(path, "read") == "On"
                if is_on and not instance.is_running():
                    start()
                elif not is_on and instance.is_running():
                    stop()
                    code = "Client.InstanceInitiatedShutdown"
                    instance.state_reason = StateReason(f"{code}: Instance initiated shutdown", code)
            time.sleep(0.1)

    threading.Thread(target=follow, daemon=True).start()


def change(ec2, region, line):
    """Does what a line of the control socket says."""
    instance, what, *rest = json.loads(line)
    if what == "reason":
        found = ec2_backends[DEFAULT_ACCOUNT_ID][region].get_instance(instance)
        found.state_reason.code = rest[0]
    else:
        name, arguments = rest
        getattr(ec2, name)(**{key: [instance] if value is None else value for key, value in arguments.items()})


def main(settings):
    server = make_server(
        settings["address"],
        settings["port"],
        DomainDispatcherApplication(create_backend_app),
        threaded=True,
        ssl_context=(settings["certificate"], settings["key"]),
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    own = {
        "endpoint_url": f"https://{settings['address']}:{settings['port']}",
        "region_name": settings["region"],
        "aws_access_key_id": "setup",
        "aws_secret_access_key": "setup",
        "verify": settings["ca"],
        "config": Config(retries={"total_max_attempts": 1}),
    }
    iam, ec2 = boto3.client("iam", **own), boto3.client("ec2", **own)
    made = {"users": users(iam), "role": role(iam), "instances": instances(ec2, settings["instances"])}
    for (name, _), wanted in zip(made["instances"], settings["instances"]):
        if wanted:
            wire(ec2_backends[DEFAULT_ACCOUNT_ID][settings["region"]].get_instance(name), wanted["socket"])
    pathlib.Path(settings["made"]).write_text(json.dumps(made))
    admin = iam.create_user(UserName="admin") and iam.create_access_key(UserName="admin")["AccessKey"]
    iam.put_user_policy(UserName="admin", PolicyName="own", PolicyDocument=policy(["ec2:*"]))
    own.update(aws_access_key_id=admin["AccessKeyId"], aws_secret_access_key=admin["SecretAccessKey"])
    ec2 = boto3.client("ec2", **own)
    # From here on each request is judged by its signature and by IAM.
    judge_all_but_logins()
    ActionAuthenticatorMixin.request_count = 0
    moto_settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    with socket.socket(socket.AF_UNIX) as control:
        control.bind(settings["control"])
        control.listen()
        while True:
            peer, _ = control.accept()
            with peer:
                change(ec2, settings["region"], peer.makefile().readline())
                peer.sendall(b"ok\n")


if __name__ == "__main__":
    main(json.loads(pathlib.Path(sys.argv[1]).read_text()))
