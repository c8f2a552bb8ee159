#!/usr/bin/env python3
"""Reads netCDF classic files and the sets of E3SM-IO and PnetCDF. Shares nothing with aggio: the
tests compare both.

  netcdf_reader.py values FILE         every variable of a netCDF file, as JSON
  netcdf_reader.py subfiles MASTER     every variable of a master and its subfiles (PnetCDF), as
                                       JSON
  netcdf_reader.py canonical SET FILE  the file that the blobs SET.0000, SET.0001, ... stand for
                                       (E3SM-IO)
"""
import glob
import json
import struct
import sys

LETTERS = " bchifdBHIqQ"
FILLER = "_PnetCDF_SubFiling."


class Header:
    def __init__(self, data, order=">"):
        self.data, self.at, self.order = data, 4, order
        self.version = data[3]
        self.numrecs = self.nonneg()
        self.dims = self.items(lambda: (self.name(), self.nonneg()))
        self.atts = self.items(self.attribute)
        self.vars = self.items(self.variable)
        self.size = self.at

    def number(self, letter):
        value = struct.unpack_from(self.order + letter, self.data, self.at)[0]
        self.at += struct.calcsize(letter)
        return value

    def nonneg(self):
        return self.number("Q" if self.version == 5 else "I")

    def items(self, one):
        self.number("I")
        return [one() for _ in range(self.nonneg())]

    def padded(self, size):
        start = self.at
        self.at += -(-size // 4) * 4
        return self.data[start : start + size]

    def name(self):
        return self.padded(self.nonneg()).decode()

    def attribute(self):
        name, kind = self.name(), self.number("I")
        count = self.nonneg()
        raw = self.padded(count * struct.calcsize(LETTERS[kind]))
        return name, kind, list(struct.unpack(f"{self.order}{count}{LETTERS[kind]}", raw))

    def variable(self):
        found = {"name": self.name()}
        found["dims"] = [self.nonneg() for _ in range(self.nonneg())]
        found["atts"] = self.items(self.attribute)
        found["kind"] = self.number("I")
        self.nonneg()
        found["begin"] = self.number("I" if self.version == 1 else "Q")
        return found

    def has_records(self, var):
        return bool(var["dims"]) and self.dims[var["dims"][0]][1] == 0

    def shape(self, var):
        dims = var["dims"][1:] if self.has_records(var) else var["dims"]
        return [self.dims[d][1] for d in dims]

    def count(self, var):
        product = 1
        for length in self.shape(var):
            product *= length
        return product

    def bytes_of(self, var):
        return self.count(var) * struct.calcsize(LETTERS[var["kind"]])

    def recsize(self):
        sizes = [self.bytes_of(v) for v in self.vars if self.has_records(v)]
        return sizes[0] if len(sizes) == 1 else sum(-(-s // 4) * 4 for s in sizes)

    def slab(self, data, var, record):
        start = var["begin"] + record * self.recsize() * self.has_records(var)
        return data[start : start + self.bytes_of(var)].ljust(self.bytes_of(var), b"\0")


def att(atts, name):
    return next((values for n, _, values in atts if n == name), None)


def unpack(kind, raw):
    count = len(raw) // struct.calcsize(LETTERS[kind])
    values = struct.unpack(f">{count}{LETTERS[kind]}", raw)
    return [v.decode("latin1") if kind == 2 else v for v in values]


def values(path):
    data = open(path, "rb").read()
    head, result = Header(data), {}
    for var in head.vars:
        records = head.numrecs if head.has_records(var) else 1
        raw = b"".join(head.slab(data, var, r) for r in range(records))
        result[var["name"]] = unpack(var["kind"], raw)
    return result


def subfiles(path):
    data = open(path, "rb").read()
    head = Header(data)
    parts = [
        open(f"{path}.subfile_{i}.nc", "rb").read()
        for i in range(att(head.atts, FILLER + "num_subfiles")[0])
    ]
    heads = [Header(part) for part in parts]
    records = 0
    for h, part in zip(heads, parts):
        begins = [v["begin"] for v in h.vars if h.has_records(v)]
        if begins:
            records = max(records, (len(part) - min(begins)) // h.recsize())
    result = {}
    for var in head.vars:
        original = att(var["atts"], FILLER + "dimids_org")
        if original is None:
            result[var["name"]] = unpack(var["kind"], head.slab(data, var, 0))
            continue
        lengths = [head.dims[d][1] or records for d in original]
        split = att(var["atts"], FILLER + "par_dim_index")[0]
        name = head.dims[original[split]][0]
        pieces = []
        for i, (h, part) in enumerate(zip(heads, parts)):
            own = next(v for v in h.vars if v["name"] == var["name"])
            count = records if h.has_records(own) else 1
            pieces.append(unpack(own["kind"], b"".join(h.slab(part, own, r) for r in range(count))))
        ranges = [att(var["atts"], f"{FILLER}range({name}).subfile.{i}") for i in range(len(parts))]
        result[var["name"]] = interleave(lengths, split, ranges, pieces)
    return result


def interleave(lengths, split, ranges, pieces):
    outer = inner = 1
    for length in lengths[:split]:
        outer *= length
    for length in lengths[split + 1 :]:
        inner *= length
    joined = []
    for o in range(outer):
        for (low, high), piece in zip(ranges, pieces):
            own = (high - low + 1) * inner
            joined += piece[o * own : (o + 1) * own]
    return joined


def hdf5_dataset(data, name):
    """A contiguous dataset of bytes: its object header follows the address in the link of that
    name."""
    link = data.index(bytes([len(name)]) + name)
    at = struct.unpack_from("<Q", data, link + 1 + len(name))[0]
    assert data[at : at + 4] == b"OHDR", "an object header"
    layout = next(
        i for i in range(at, at + 512) if data[i : i + 3] == b"\x08\x12\x00" and data[i + 5] == 1
    )
    begin, size = struct.unpack_from("<QQ", data, layout + 6)
    return data[begin : begin + size]


class Subfile:
    """One subfile: its header and the requests and values of each process."""

    def __init__(self, path):
        self.data = open(path, "rb").read()
        self.hdf5 = self.data.startswith(b"\x89HDF")
        self.head = (
            Header(hdf5_dataset(self.data, b"header_blob"), "<") if self.hdf5 else Header(self.data)
        )
        self.k = att(self.head.atts, "num_decompositions")[0]
        self.nblobs = dict(self.head.dims)["nblobs"]
        self.values = {}  # (variable, record) -> list of (offset or None, bytes in canonical order)
        (self.read_hdf5 if self.hdf5 else self.read_pnetcdf)()

    def records(self, var):
        return range(self.head.numrecs if self.head.has_records(var) else 1)

    def read_pnetcdf(self):
        table = lambda name: unpack(
            self.byname[name]["kind"], self.head.slab(self.data, self.byname[name], 0)
        )
        self.byname = {v["name"]: v for v in self.head.vars}
        requests = {}
        for k in range(1, self.k + 1):
            counts, offsets, lengths = (
                table(f"D{k}.nreqs"),
                table(f"D{k}.offsets"),
                table(f"D{k}.lengths"),
            )
            most = len(offsets) // self.nblobs
            requests[k] = [
                (offsets[b * most + j], lengths[b * most + j])
                for b in range(self.nblobs)
                for j in range(counts[b])
            ]
        for var in self.head.vars[5 * self.k :]:
            own = att(var["atts"], "decomposition_ID")
            for r in self.records(var):
                raw = self.head.slab(self.data, var, r)
                self.add(var, r, requests[own[0]] if own else None, raw)

    def read_hdf5(self):
        blob, at = hdf5_dataset(self.data, b"data_blob"), 0

        def take(count, letter):
            nonlocal at
            found = struct.unpack_from(f"<{count}{letter}", blob, at)
            at += count * struct.calcsize(letter)
            return found

        for b in range(self.nblobs):
            requests, counts = {}, {}
            for k in range(1, self.k + 1):
                (n,), _, (counts[k],) = take(1, "i"), take(1, "q"), take(1, "q")
                requests[k] = list(zip(take(n, "i"), take(n, "i")))
            for var in self.head.vars[5 * self.k :]:
                own, size = att(var["atts"], "decomposition_ID"), struct.calcsize(
                    LETTERS[var["kind"]]
                )
                letter = " BH I   Q"[
                    size
                ]  # not of floating point, whose conversion changes some bits
                if own is None and b > 0:
                    continue
                count = counts[own[0]] if own else self.head.count(var)
                for r in self.records(var):
                    raw, size = take(count * struct.calcsize(letter), "s")[0], struct.calcsize(
                        letter
                    )
                    raw = b"".join(raw[i : i + size][::-1] for i in range(0, len(raw), size))
                    self.add(var, r, requests[own[0]] if own else None, raw)

    def add(self, var, record, requests, raw):
        size, at = struct.calcsize(LETTERS[var["kind"]]), 0
        pieces = self.values.setdefault((var["name"], record), [])
        if requests is None:
            pieces.append((None, raw))
        for offset, length in requests or []:
            pieces.append((offset * size, raw[at : at + length * size]))
            at += length * size


def canonical(base, path):
    """Only values are rebuilt here: header and places are taken from the file that is compared, as
    PnetCDF wrote it."""
    data = bytearray(open(path, "rb").read())
    head, size = Header(bytes(data)), len(data)
    for var in head.vars:
        for r in range(head.numrecs if head.has_records(var) else 1):
            start = var["begin"] + r * head.recsize() * head.has_records(var)
            data[start : start + head.bytes_of(var)] = bytes(head.bytes_of(var))
    for number, name in enumerate(sorted(glob.glob(glob.escape(base) + ".[0-9][0-9][0-9][0-9]"))):
        subfile = Subfile(name)
        told = att(subfile.head.atts[3:4], "canonical_layout")
        assert told in (
            None,
            [head.version, size] + [var["begin"] for var in head.vars],
        ), "other places"
        for var in head.vars:
            for r in range(head.numrecs if head.has_records(var) else 1):
                start = var["begin"] + r * head.recsize() * head.has_records(var)
                for offset, raw in subfile.values[var["name"], r]:
                    if offset is not None or number == 0:
                        data[start + (offset or 0) : start + (offset or 0) + len(raw)] = raw
    sys.stdout.buffer.write(data[:size])


if __name__ == "__main__":
    command, arguments = sys.argv[1], sys.argv[2:]
    if command == "canonical":
        canonical(*arguments)
    else:
        json.dump({"values": values, "subfiles": subfiles}[command](*arguments), sys.stdout)
