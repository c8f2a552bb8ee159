#!/usr/bin/env python3
"""Reads a blob container as docs/FORMAT.md describes it, and nothing else: no code of aggio.

    blob_reader.py CONTAINER > FILE     the logical file
    blob_reader.py --map CONTAINER      its pieces, one a line, newest last

Every frame of every log is read and checked; the index and the counter are not needed for that, so
the index is only compared with the logs. Exit code 1 and a line on stderr if something is wrong.
"""

import os
import re
import stat
import struct
import sys

FRAME = struct.Struct("<4sBBHIIQQQQQII")
RUN = struct.Struct("<QQqQ")
INDEX = struct.Struct("<8s16s6Q4I36xI")
SINGLE = struct.Struct("<QQQQQ")
EVENT = struct.Struct("<4Q")
SUMMARY_END = struct.Struct("<QQII8s")
DATA, TRUNCATE, HOLE, COMMIT, SUMMARY, MAPPED, AGAIN = range(7)
NO_DATA_CRC = 1
BLOCK, PER_BLOCK = 4096, 102
FILE_END = 2**63 - 1


class Wrong(Exception):
    """The container is not as the format says."""


def make_table():
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


TABLE = make_table()


def crc32c(data, crc=0):
    crc ^= 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def read_part(container, name):
    """The bytes of a regular file; symlinks are not followed."""
    path = os.path.join(container, name)
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Wrong(f"{path}: not a regular file")
        return file.read()


def read_manifest(container):
    text = read_part(container, "aggio-manifest")
    body, last = text[: text[:-1].rfind(b"\n") + 1], text[text[:-1].rfind(b"\n") + 1 :]
    if last != b"crc32c %08x\n" % crc32c(body):
        raise Wrong("aggio-manifest: wrong checksum")
    lines = [line.split(" ") for line in body.decode().splitlines()]
    if lines[0] != ["format", "aggio-blob", "1"]:
        raise Wrong("aggio-manifest: unknown format")
    manifest = {"log": {}, "index": None}
    for words in lines[1:]:
        if words[0] == "log":
            name, length, frames, crc = words[1], int(words[3]), int(words[5]), int(words[7], 16)
            manifest["log"][name] = (length, frames, crc)
        elif words[0] == "index":
            manifest["index"] = (words[1], int(words[3]), int(words[5], 16))
        else:
            manifest[words[0]] = words[1]
    return manifest


def read_frame(log, identity, place):
    """The frame at a place of a log: (kind, strips, sequence number, data's place, end, own
    checksum)."""
    if len(log) - place < FRAME.size:
        return None
    fields = FRAME.unpack_from(log, place)
    magic, kind, flags, header, count, data_crc, length, first, last, owner, own, skip, crc = fields
    head = FRAME.size + RUN.size * count
    if magic != b"agF1" or header != FRAME.size or place + head + length > len(log):
        return None
    covered = log[place : place + 60] + bytes(4) + log[place + 64 : place + head]
    if crc32c(covered) != crc or owner != identity or own != place:
        return None
    strips = [RUN.unpack_from(log, place + FRAME.size + RUN.size * i) for i in range(count)]
    data, end = place + head + skip, place + head + length
    if not flags & NO_DATA_CRC and crc32c(log[data:end]) != data_crc:
        raise Wrong(f"{identity:016x}.log: wrong checksum of the data at byte {data}")
    if (
        kind not in (COMMIT, SUMMARY, AGAIN)
        and sum(strip[3] for strip in strips) != last - first + 1
    ):
        return None
    return (DATA if kind == MAPPED else kind), strips, first, data, end, crc


def read_log(container, name, sealed, pieces):
    """Adds the pieces of a log: (sequence number, kind, start, length, log's name, place)."""
    log, identity = read_part(container, name), int(name[:16], 16)
    place = frames = sum_of_sums = 0
    while True:
        frame = read_frame(log, identity, place)
        if frame is None:
            break
        kind, strips, seq, data, place, crc = frame
        if kind == SUMMARY:
            check_summary(name, log[data:place], (frames, sum_of_sums), pieces)
        frames += 1
        sum_of_sums = crc32c(struct.pack("<I", crc), sum_of_sums)
        if kind == AGAIN:
            (start, length, _, _), (there, owner, _, _) = strips
            pieces.append((seq, DATA, start, length, f"{owner:016x}.log", there))
            strips = []
        for start, length, stride, count in strips:
            for number in range(count):
                pieces.append((seq, kind, start + number * stride, length, name, data))
                seq += 1
                data += length
    if sealed and place < sealed[0]:
        raise Wrong(f"{name}: no intact frame at byte {place}")
    if sealed and place == sealed[0] and (frames, sum_of_sums) != sealed[1:]:
        raise Wrong(f"{name}: other frames than the manifest says")
    return log


def check_summary(name, data, frames, pieces):
    """A summary says what the frames before it hold."""
    before, runs, crc, _, magic = SUMMARY_END.unpack(data[-SUMMARY_END.size :])
    own = sorted(piece[2:] for piece in pieces if piece[4] == name)
    told = sorted(run_pieces(Varints(data), runs, [name]))
    if magic != b"aggiosum" or (before, crc) != frames or told != own:
        raise Wrong(f"{name}: the summary tells of other frames")


def assemble(pieces, logs):
    """The file: all changes in the order of their numbers."""
    file = bytearray()
    for _, kind, start, length, name, place in sorted(pieces):
        if kind == TRUNCATE:
            del file[start:]
            file.extend(bytes(start - len(file)))
        elif kind == HOLE:
            end = min(start + length, len(file))
            if end > start:
                file[start:end] = bytes(end - start)
        else:
            file.extend(bytes(max(0, start + length - len(file))))
            file[start : start + length] = logs[name][place : place + length]
    return bytes(file)


class Varints:
    """Numbers of seven bits a byte; `signed` is a distance from a base, zigzag."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def plain(self):
        value = shift = 0
        while True:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self, base):
        coded = self.plain()
        return (base + (coded >> 1 ^ -(coded & 1))) % 2**64


def read_index(container, manifest):
    """All pieces of the index: (start, length, log's name, place)."""
    name, length, crc = manifest["index"]
    data = read_part(container, name)
    header = INDEX.unpack_from(data)
    magic, uuid, _, logs, events, runs, run_bytes, singles = header[:8]
    if (
        magic != b"aggioix1"
        or header[12] != crc
        or crc32c(data[:124]) != crc
        or len(data) != length
    ):
        raise Wrong(f"{name}: not the index that the manifest names")
    if int.from_bytes(uuid, "little") != int(manifest["uuid"], 16):
        raise Wrong(f"{name}: index of another container")
    blocks = -(-singles // PER_BLOCK)
    sections, place = [], INDEX.size
    for size, crc in zip((8 * logs, EVENT.size * events, run_bytes, 16 * blocks), header[8:12]):
        sections.append(data[place : place + size])
        place += size
        if crc32c(sections[-1]) != crc:
            raise Wrong(f"{name}: wrong checksum before byte {place}")
    names = [f"{identity:016x}.log" for (identity,) in struct.iter_unpack("<Q", sections[0])]
    pieces = run_pieces(Varints(sections[2]), runs, names)
    for number in range(blocks):
        block = data[place + number * BLOCK : place + (number + 1) * BLOCK]
        if crc32c(block[:-4]) != int.from_bytes(block[-4:], "little"):
            raise Wrong(f"{name}: wrong checksum of block {number}")
        for slot in range(min(PER_BLOCK, singles - number * PER_BLOCK)):
            start, size, where, _, log = SINGLE.unpack_from(block, slot * SINGLE.size)
            # The upper half says how far before the piece its frame begins.
            pieces.append((start, size, names[log & 0xFFFFFFFF], where))
    return pieces


def run_pieces(numbers, runs, names):
    pieces = []
    log = start = length = stride = place_stride = seq = 0
    for _ in range(runs):
        log = numbers.signed(log)
        start = numbers.signed(start)
        length = numbers.signed(length)
        stride = numbers.signed(stride)
        count, _, place = numbers.plain(), numbers.plain(), numbers.plain()
        place_stride = numbers.signed(place_stride)
        seq = numbers.signed(seq)
        numbers.plain()
        for k in range(count):
            pieces.append(
                ((start + k * stride) % 2**64, length, names[log], place + k * place_stride)
            )
    return pieces


def main():
    show = sys.argv[1:2] == ["--map"]
    container = sys.argv[-1]
    manifest = read_manifest(container)
    names = [name for name in os.listdir(container) if re.fullmatch("[0-9a-f]{16}\\.log", name)]
    lost = [
        name for name, (length, _, _) in manifest["log"].items() if length and name not in names
    ]
    if lost:
        raise Wrong(f"{lost[0]}: missing")
    pieces, logs = [], {}
    for name in names:
        logs[name] = read_log(container, name, manifest["log"].get(name), pieces)
    if manifest["index"]:
        sealed = set(manifest["log"])
        told = [p[2:] for p in pieces if p[1] == DATA and p[4] in sealed]
        if sorted(told) != sorted(read_index(container, manifest)):
            raise Wrong("the index has other pieces than the logs")
    if show:
        for seq, kind, start, length, name, place in sorted(pieces):
            print(seq, ("data", "truncate", "hole")[kind], start, length, name, place)
        return
    file = assemble(pieces, logs)
    if set(names) == set(manifest["log"]) and len(file) != int(manifest["size"]):
        sealed_all = all(len(logs[n]) == manifest["log"][n][0] for n in names)
        if sealed_all:
            raise Wrong(f"the file has {len(file)} bytes, the manifest says {manifest['size']}")
    sys.stdout.buffer.write(file)


if __name__ == "__main__":
    try:
        main()
    except (Wrong, OSError, IndexError, KeyError, ValueError) as error:
        sys.exit(f"blob_reader.py: {error}")
