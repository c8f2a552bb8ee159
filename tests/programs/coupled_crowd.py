"""Opens COUNT connections to the agent of a directory. Prints whether the agent refuses any, and
whether it uses processor time while they are idle.

    coupled_crowd.py DIRECTORY COUNT [COMMAND...]

COMMAND runs while the connections are open.
"""

import glob
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import time


def ticks(process):
    """Returns the clock ticks of processor time that a process has used."""
    with open(f"/proc/{process}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def main():
    directory, count, command = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    path = glob.glob(os.path.join(directory, "*.sock"))[0]
    all = []
    for _ in range(count):
        one = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        one.connect(path)
        all.append(one)
    agent = struct.unpack("iII", all[0].getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    time.sleep(0.3)
    before = ticks(agent)
    time.sleep(1)
    used = (ticks(agent) - before) / os.sysconf("SC_CLK_TCK")
    refused = len(select.select(all, [], [], 0)[0])
    print("refused" if refused else "served", "idle" if used < 0.3 else f"busy for {used} s")
    sys.stdout.flush()
    if command:
        subprocess.run(command, check=True)


main()
