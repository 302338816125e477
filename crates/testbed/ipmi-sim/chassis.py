"""What ipmi_sim runs to read and to switch the power of a machine of the lab.

Its arguments are the lab's socket, then what ipmi_sim adds: the address of the management controller, `get` or `set`, and
names or pairs of names and values. The answer to `get power` is `power:1` or `power:0`. Whatever else is wanted fails,
which the client sees as completion code 0xFF.
"""

import socket
import sys


def ask(path, line):
    with socket.socket(socket.AF_UNIX) as lab:
        lab.connect(path)
        lab.sendall(line.encode() + b"\n")
        return lab.makefile().readline().strip()


def run(path, _controller, *request):
    if request == ("get", "power"):
        print("power:1" if ask(path, "read") == "On" else "power:0")
    elif request == ("set", "power", "0"):
        ask(path, "Off")
    elif request == ("set", "power", "1"):
        ask(path, "On")
    else:
        return f"the lab's machines do not know {' '.join(request)}"


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
