"""Talks to the agent in the directory argv[1] as no program of aggio does.

hello: connects, sends what may be anything, and tells whether the connection was closed.
messages N: sends N messages: noise, cut ones, long ones, ones with descriptors, mutated ones.
"""
import os
import random
import socket
import stat
import sys


def agent(directory):
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if stat.S_ISSOCK(os.stat(path).st_mode):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(5)
            connection.connect(path)
            return connection
    sys.exit("there is no agent")


def is_closed(connection):
    try:
        while connection.recv(1 << 16):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


MARK = b"AGC\x01"
GOOD = [
    MARK + b"\x00\x03\x00\x00\x00job" + bytes(16) + b"\x01\x00\x00\x00x",
    MARK + b"\x0a",
    MARK + b"\x08" + (5).to_bytes(4, "little") + b"/ck.1" + bytes(16),
    MARK + b"\x03" + bytes(16),
    MARK + b"\x02" + bytes(17),
    MARK + b"\x09" + bytes(8),
]


def message(chance):
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 300))
    if kind == 1:
        return MARK + chance.randbytes(chance.randrange(1, 3000))
    if kind == 2:
        return MARK + bytes([chance.randrange(20)]) + b"\xff" * chance.randrange(200)
    good = bytearray(chance.choice(GOOD))
    if kind == 3:
        return bytes(good[: chance.randrange(1, len(good))])
    for _ in range(chance.randrange(1, 4)):
        good[chance.randrange(len(good))] = chance.randrange(256)
    return bytes(good)


directory, what = sys.argv[1:3]
if what == "hello":
    try:
        connection = agent(directory)
        connection.send(GOOD[0])
        print("closed" if is_closed(connection) else "open")
    except ConnectionError:
        print("closed")
else:
    chance = random.Random(7)
    count = int(sys.argv[3])
    connection, sent = agent(directory), 0
    while sent < count:
        try:
            if chance.randrange(10) == 0:
                ends = os.pipe()
                socket.send_fds(connection, [message(chance)], list(ends))
                [os.close(end) for end in ends]
            else:
                connection.send(message(chance))
            sent += 1
            if chance.randrange(4) == 0:
                connection.close()
                connection = agent(directory)
        except ConnectionError:
            connection = agent(directory)
    print(f"{sent} sent")
