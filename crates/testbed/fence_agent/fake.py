#!/usr/bin/env python3
"""A fence agent that does what the file `manner` beside it says; `honest` is what the library of ClusterLabs' agents does.

Its machine is behind the socket `power.sock`. Each run adds a line of JSON to `runs`: its arguments, environment, input and number.
"""

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))


def path(name):
    return os.path.join(HERE, name)


def ask(word):
    with socket.socket(socket.AF_UNIX) as power:
        power.connect(path("power.sock"))
        power.sendall(word.encode() + b"\n")
        return power.makefile().readline().strip()


def end(code, line):
    sys.stdout.write(line)
    sys.stdout.flush()
    os._exit(code)


def fail(reason):
    sys.stderr.write("2026-11-29 00:00:00,000 ERROR: %s\n\n" % reason)
    sys.stderr.flush()
    os._exit(1)


def hang():
    while True:
        time.sleep(1000)


def children():
    """One of the same group, one of its own session: both hold the pipes, as what an agent starts does."""
    sleeper = [sys.executable, "-c", "import time; time.sleep(1000)"]
    started = [subprocess.Popen(sleeper), subprocess.Popen(sleeper, start_new_session=True)]
    with open(path("children.new"), "w") as file:
        file.write(" ".join(str(child.pid) for child in started))
    os.rename(path("children.new"), path("children"))


def count():
    with open(path("count"), "a+") as file:
        file.write(".")
        file.flush()
        return file.tell()


given = sys.stdin.read()
options = dict(line.split("=", 1) for line in given.splitlines() if "=" in line)
action = options.get("action", "reboot")
with open(path("runs"), "a") as runs:
    run = {"action": action, "arguments": sys.argv[1:], "environment": dict(os.environ), "input": given, "pid": os.getpid()}
    runs.write(json.dumps(run) + "\n")
with open(path("manner")) as file:
    manner = file.read().strip()

if manner == "hangs" or manner == "hangs at off" and action == "off":
    hang()
elif manner == "children":
    children()
    hang()
elif manner == "leaves children":
    children()
elif manner == "fails":
    fail("Failed: Unable to obtain correct plug status or plug is not available")
elif manner == "repeats the password":
    fail("Executing: /usr/bin/ipmitool -P %s chassis power status" % options["password"])
elif manner == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
elif manner == "empty":
    end(2, "")
elif manner == "html":
    end(0, "<html></html>\n")
elif manner == "half":
    end(2, "Status: OFF")
elif manner == "twice":
    end(2, "Status: OFF\nStatus: ON\n")
elif manner == "off with code 0":
    end(0, "Status: OFF\n")
elif manner == "huge":
    end(2, "Status: OFF\n" + "x" * 300000)
elif manner == "endless":
    while True:
        sys.stderr.write("x" * 4096)
elif manner == "slow":
    time.sleep(1)
elif manner == "alone":
    lock = open(path("lock"), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        fail("Failed: another session is open")
    time.sleep(0.2)

power = ask("read")
if manner == "lies":
    power = "Off"
elif manner == "flaps":
    power = "On" if count() % 3 == 0 else "Off"

if action == "status":
    end(2 if power == "Off" else 0, "Status: %s\n" % power.upper())
if action not in ("off", "on"):
    fail("Failed: Unrecognised action '%s'" % action)
if power.lower() == action or manner == "says already":
    end(0, "Success: Already %s\n" % action.upper())
if manner == "ignores":
    fail("Failed: Timed out waiting to power OFF")
ask(action.capitalize())
if manner == "fails after off":
    fail("Connection timed out")
end(0, "Success: Powered %s\n" % action.upper())
