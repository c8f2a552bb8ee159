"""Sends messages to the agent in the directory argv[1] that no program of aggio sends.

hello: connects, says hello, and prints whether the agent closed the connection.
good: prints the valid messages that the agent rejects, to check that they are of its version.
messages N [SEED [DIRECTORY]]: sends N messages: random, truncated and long ones, ones with
descriptors, mutated ones, and valid ones for files of its own. Generations survive in DIRECTORY.
"""
import os
import random
import socket
import stat
import sys
import time


def agent(directory):
    for name in os.listdir(directory):
        path = os.path.join(directory, name)
        if stat.S_ISSOCK(os.stat(path).st_mode):
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            connection.settimeout(5)
            # The listen backlog may be full.
            for _ in range(5000):
                try:
                    connection.connect(path)
                    return connection
                except BlockingIOError:
                    time.sleep(0.002)
            sys.exit("the agent takes no connections")
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


def number(value):
    return value.to_bytes(8, "little")


def text(value):
    return number(len(value)) + value


CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "corpus", "requests")


def seed(name):
    with open(os.path.join(CORPUS, name), "rb") as file:
        return file.read()


# Valid messages of all kinds: a mark with the version, the kind, and what belongs to it.
SEEDS = [seed(name) for name in sorted(os.listdir(CORPUS))]
MARK = SEEDS[0][:4]
KINDS = 1 + max(valid[4] for valid in SEEDS)
NAME = text(b"/hostile/f.1")


def options(survives, spill):
    start = b"\x00" + number(2) + b"\x00\x01\x01\x00\x00" + number(1 << 20) + b"\x00"
    return start + (b"\x01" + text(spill) if spill else b"\x00") + bytes([survives])


def opens(writes, views, key, mode, rule):
    how = bytes([writes, writes, 0, writes, views]) + number(key) + b"\x00" + rule
    return MARK + b"\x01" + NAME + how + b"\x01\x00\x00\x00" + number(mode)


def hello(*spools):
    start = MARK + b"\x00" + text(b"job") + number(2) + number(1) + text(b"hostile")
    return start + number(len(spools)) + b"".join(map(text, spools))


OPTIONS = options(0, b"")
SPOOL = os.path.abspath(sys.argv[5]).encode() if len(sys.argv) > 5 else b"/hostile"
KEPT = options(1, SPOOL)
GOOD = [
    hello(),
    hello(),
    hello(SPOOL),
    opens(1, 0, 5, 0o600, KEPT),
    opens(0, 0, 6, 0, KEPT),
    MARK + b"\x08" + NAME + KEPT,
    opens(1, 0, 0, 0o600, OPTIONS),
    opens(0, 0, 0, 0, OPTIONS),
    opens(0, 1, 0, 0, OPTIONS),
    MARK + b"\x02" + number(1) + number(2) + b"\x01\x00" + number(8),
    MARK + b"\x03" + number(7) + number(9),
    MARK + b"\x04" + number(7),
    MARK + b"\x05" + NAME,
    MARK + b"\x06" + NAME + OPTIONS,
    MARK + b"\x07" + NAME + text(b"/hostile/f.2") + OPTIONS,
    MARK + b"\x08" + NAME + OPTIONS,
    MARK + b"\x09" + text(b"/hostile") + text(b"") + b"\x00",
    MARK + b"\x0a",
    MARK + b"\x0b" + number(0),
    MARK + b"\x0c" + NAME,
    MARK + b"\x0e" + number(7) + number(9),
    MARK + b"\x0f" + number(7),
    MARK + b"\x10",
    MARK + b"\x11" + number(7) + number(1),
    MARK + b"\x12" + number(7) + b"\x01",
    MARK + b"\x13" + number(7),
]


def message(chance):
    kind = chance.randrange(5)
    if kind == 0:
        return chance.randbytes(chance.randrange(1, 300))
    if kind == 1:
        return MARK + chance.randbytes(chance.randrange(1, 3000))
    if kind == 2:
        return MARK + bytes([chance.randrange(KINDS + 2)]) + b"\xff" * chance.randrange(200)
    good = bytearray(chance.choice(GOOD + SEEDS))
    if kind == 3:
        return bytes(good[: chance.randrange(1, len(good))])
    for _ in range(chance.randrange(4)):
        good[chance.randrange(len(good))] = chance.randrange(256)
    return bytes(good)


def is_taken(message):
    """Whether the agent still answers on the connection after this message."""
    connection = agent(directory)
    try:
        for sent in [hello(), message, MARK + b"\x0b" + number(0)]:
            connection.send(sent)
        return any(b"\"peak\"" in connection.recv(1 << 16) for _ in range(3))
    except ConnectionError:
        return False


directory, what = sys.argv[1:3]
if what == "hello":
    try:
        connection = agent(directory)
        connection.send(GOOD[0])
        print("closed" if is_closed(connection) else "open")
    except ConnectionError:
        print("closed")
elif what == "good":
    print([message for message in GOOD if not is_taken(message)])
else:
    chance = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 7)
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
