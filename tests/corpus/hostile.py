#!/usr/bin/env python3
"""Makes the netCDF files and sets of this corpus that are wrong in one respect each, as published
hostile files are.

  hostile.py FOLDER    writes FOLDER/netcdf/hostile-CLASS.VERSION, FOLDER/blobs/hostile-CLASS and
                       FOLDER/blobs/seed-places

Classes are those of the files that PnetCDF's ncvalidator refuses, of inputs that made netCDF's own
readers abort or ask for gigabytes, and of everything else in a header that is a number. A set is
the length of its first file (two bytes), the first file, and the second.
tools/tests/commands/netcdf_hostile.rs says what becomes of each.
"""
import os
import struct
import sys

DIMENSIONS, VARIABLES, ATTRIBUTES = 0x0A, 0x0B, 0x0C
BYTE, CHAR, INT, DOUBLE, INT64 = 1, 2, 4, 6, 10
SIZES = {BYTE: 1, CHAR: 1, INT: 4, DOUBLE: 8, INT64: 8}
TOP = 2**31 - 1


def number(size, value):
    return (value % 2 ** (8 * size)).to_bytes(size, "big")


class Cdf:
    """The parts of a header; every number can be any number."""

    def __init__(self, version):
        self.version = version
        self.most = 2**63 - 1 if version == 5 else TOP

    def count(self, value):
        return number(8 if self.version == 5 else 4, value)

    def name(self, text, length=None, fill=b"\0"):
        return self.count(len(text) if length is None else length) + text + fill * (-len(text) % 4)

    def list(self, tag, items=(), count=None):
        items = list(items)
        if not items and count is None:
            tag = 0
        return number(4, tag) + self.count(len(items) if count is None else count) + b"".join(items)

    def dim(self, name, length):
        return self.name(name) + self.count(length)

    def att(self, name, values=b"abcd", kind=CHAR, count=None, fill=b"\0"):
        count = len(values) // SIZES.get(kind, 1) if count is None else count
        return (
            self.name(name)
            + number(4, kind)
            + self.count(count)
            + values
            + fill * (-len(values) % 4)
        )

    def var(self, name=b"v", dims=(), begin=1024, kind=INT, atts=None, told=4, count=None):
        ids = b"".join(map(self.count, dims))
        place = number(4 if self.version == 1 else 8, begin)
        head = self.name(name) + self.count(len(dims) if count is None else count) + ids
        return head + (atts or self.list(ATTRIBUTES)) + number(4, kind) + self.count(told) + place

    def file(self, dims=None, atts=None, variables=None, records=0):
        lists = [part or self.list(0) for part in (dims, atts, variables)]
        return b"CDF" + bytes([self.version]) + self.count(records) + b"".join(lists)

    def of(self, dims, *variables, records=0):
        """Dimensions of these lengths, and variables."""
        dims = self.list(
            DIMENSIONS, (self.dim(b"d%d" % i, length) for i, length in enumerate(dims))
        )
        return self.file(dims, variables=self.list(VARIABLES, variables), records=records)


def wrong_lists(c):
    lists = {"dimensions": DIMENSIONS, "attributes": ATTRIBUTES, "variables": VARIABLES}
    for place, (what, tag) in zip(("dims", "atts", "variables"), lists.items()):
        yield what + "-many", c.file(**{place: c.list(tag, count=TOP)})
        yield what + "-negative", c.file(**{place: c.list(tag, count=-1)})
        yield what + "-tag", c.file(**{place: c.list(99999, count=1)})
        yield what + "-absent", c.file(**{place: c.list(0, count=1)})
        yield what + "-none", c.file(**{place: c.list(tag, count=0)})
        if c.version == 5:
            yield what + "-overflow", c.file(**{place: c.list(tag, count=2**62)})
    for what, count in ("many", TOP), ("negative", -1):
        yield "own-attributes-" + what, c.of([], c.var(atts=c.list(ATTRIBUTES, count=count)))
    yield "own-attributes-tag", c.of([], c.var(atts=c.list(99999, count=1)))


def wrong_names(c):
    for what, length in ("long", TOP - 3), ("longest", c.most), ("negative", -1):
        name = c.name(b"", length)
        yield f"name-{what}", c.file(c.list(DIMENSIONS, [name + c.count(4)]))
        yield f"attribute-name-{what}", c.file(
            atts=c.list(ATTRIBUTES, [name + number(4, CHAR) + c.count(0)])
        )
        yield f"variable-name-{what}", c.of([], name + c.var()[len(name):] + bytes(8))
    yield "name-empty", c.file(
        c.list(DIMENSIONS, [c.dim(b"", 4)]), c.list(ATTRIBUTES, [c.att(b"")])
    )
    yield "name-control", c.file(c.list(DIMENSIONS, [c.dim(b"\x1b]0;x\x07\n../\0\xff\xfe", 4)]))
    yield "name-twice", c.file(c.list(DIMENSIONS, [c.dim(b"d", 4)] * 2), variables=c.list(
        VARIABLES, [c.var(b"v"), c.var(b"v", begin=1028)]))
    filled = c.name(b"dim", fill=b"!") + c.count(4)
    own = c.name(b"v", fill=b"!") + c.var()[len(c.name(b"v")):]
    yield "padding", c.file(
        c.list(DIMENSIONS, [filled]),
        c.list(ATTRIBUTES, [c.att(b"a", b"x", fill=b"!")]),
        c.list(VARIABLES, [own]),
    )


def wrong_values(c):
    def attribute(**more):
        return c.file(atts=c.list(ATTRIBUTES, [c.att(b"a", **more)]))

    yield "values-many", attribute(kind=DOUBLE, count=TOP)
    yield "values-negative", attribute(count=-1)
    if c.version == 5:
        yield "values-overflow", attribute(kind=DOUBLE, count=2**61)
    for what, kind in ("zero", 0), ("unknown", 13), ("negative", -1):
        yield "values-type-" + what, attribute(kind=kind)
        yield "type-" + what, c.of([], c.var(kind=kind))


def wrong_shapes(c):
    yield "length-negative", c.of([-1])
    yield "unlimited-twice", c.of([0, 4, 0])
    yield "id-next", c.of([4, 4], c.var(dims=[2]))
    yield "id-largest", c.of([4, 4], c.var(dims=[c.most]))
    yield "id-negative", c.of([4, 4], c.var(dims=[-1]))
    yield "rank-many", c.of([4], c.var(count=1025))
    yield "rank-largest", c.of([4], c.var(count=c.most))
    yield "rank-negative", c.of([4], c.var(count=-1))
    yield "rank-cut", c.of([4], c.var(count=1024))
    yield "records-second", c.of([4, 0], c.var(dims=[0, 1]))
    yield "records-nested", c.of([4, 0], c.var(dims=[1, 0, 1]))
    yield "product", c.of([TOP] * 3, c.var(dims=[0, 1, 2]))
    # Wraps to nothing in 64 bits; a wrapped size looks harmless.
    yield "product-wraps", c.of([2**16] * 4, c.var(dims=[0, 1, 2, 3], kind=BYTE))
    yield "record-wraps", c.of([0, 2**30, 2**30, 4], *(
        c.var(b"v%d" % i, [0, 1, 2, 3], kind=BYTE) for i in range(4)))


def wrong_places(c):
    yield "begin-header", c.of([4], c.var(dims=[0], begin=8))
    yield "begin-zero", c.of([4], c.var(dims=[0], begin=0))
    yield "begin-overlap", c.of([4], c.var(b"a", [0]), c.var(b"b", [0], begin=1036))
    yield "begin-negative", c.of([4], c.var(dims=[0], begin=-1))
    if c.version > 1:
        yield "begin-largest", c.of([4], c.var(dims=[0], begin=2**63 - 8))
    yield "begin-apart", c.of([0, 4], c.var(b"a", [0, 1]), c.var(b"b", [0, 1], begin=4096))
    yield "begin-mixed", c.of([0, 4], c.var(b"a", [1]), c.var(b"b", [0, 1], begin=1032))
    yield "records-end", c.of([0, TOP, 512], c.var(dims=[0, 1, 2]), records=TOP - 1)
    yield "records-many", c.of([0], c.var(dims=[0]), records=TOP - 1)
    yield "records-none", c.of([4], c.var(dims=[0]), records=c.most)
    yield "records-streaming", c.of([0, 4], c.var(dims=[0, 1], begin=200), records=-1).ljust(
        264, b"r"
    )
    yield "records-streaming-none", c.of([4], c.var(dims=[0]), records=-1)
    yield "records-streaming-short", c.of([0], c.var(dims=[0]), records=-1)
    yield "records-negative", c.of([0], c.var(dims=[0]), records=-2)
    for what, told in ("zero", 0), ("largest", -1), ("small", 4):
        yield "told-" + what, c.of([1000], c.var(dims=[0], told=told))
    if c.version > 1:
        # More than 4 GiB, which CDF-2 does not allow if another variable follows.
        yield "large-first", c.of([TOP], c.var(b"a", [0]), c.var(b"b", begin=2**34))
        yield "large-record", c.of(
            [0, TOP], c.var(b"a", [0, 1]), c.var(b"b", [0], begin=1024 + 4 * TOP)
        )


def wrong_files():
    for version in 3, 4, 6, 255:
        yield f"magic-{version}", b"CDF" + bytes([version]) + bytes(28)
    yield "magic-short", b"CDF"
    yield "magic-only", b"CDF\1"
    # Two of the shortest that were published: an unknown tag in 13 bytes, a length beyond
    # everything.
    yield "published-abort", bytes.fromhex("434446010000 00b98dffff08db")
    c = Cdf(1)
    yield "published-length", c.file(
        c.list(DIMENSIONS, [c.name(b"x" * 150, 0x7FFFFF00) + c.count(4)])
    )


def ints(*values):
    return b"".join(number(4, value) for value in values)


def longs(*values):
    return b"".join(number(8, value) for value in values)


class Blob:
    """A subfile of E3SM-IO: one variable `v(t, x)` of one record, of whose four columns each
    process has two."""

    def __init__(self, which, places=None):
        self.dims = {b"t": 0, b"x": 4, b"nblobs": 1, b"D1.nelems": 2, b"D1.max_nreqs": 2}
        self.atts = {
            b"global_nprocs": ints(2),
            b"num_decompositions": ints(1),
            b"num_subfiles": ints(2),
        }
        self.places, self.places_kind = places, INT64
        self.own = {b"decomposition_ID": ints(1), b"global_dimids": ints(0, 1)}
        self.shape, self.kind, self.decomposed = [0, 3], INT, ints(1)
        self.tables = {
            b"nreqs": (INT, [2], ints(2)),
            b"blob_start": (INT64, [2], longs(0)),
            b"blob_count": (INT64, [2], longs(2)),
            b"offsets": (INT, [2, 4], ints(which, which + 2)),
            b"lengths": (INT, [2, 4], ints(1, 1)),
        }
        self.data, self.records, self.cut = ints(10 + which, 12 + which), 1, 0

    def table(self, name, values):
        self.tables[name] = (*self.tables[name][:2], values)

    def bytes(self):
        c = Cdf(5)
        dims = c.list(DIMENSIONS, (c.dim(*dim) for dim in self.dims.items()))
        atts = [c.att(name, values, INT) for name, values in self.atts.items()]
        if self.places is not None:
            atts.append(c.att(b"canonical_layout", self.places, self.places_kind))
        atts = c.list(ATTRIBUTES, atts)
        header = len(c.file(dims, atts, self.variables(c, 0)))
        whole = c.file(dims, atts, self.variables(c, header), self.records)
        whole += b"".join(values for _, _, values in self.tables.values()) + self.data
        return whole[: len(whole) - self.cut]

    def variables(self, c, begin):
        found = []
        for name, (kind, dims, values) in self.tables.items():
            of = c.list(
                ATTRIBUTES,
                [c.att(b"global_dimids", self.decomposed, INT)] if name == b"nreqs" else [],
            )
            found.append(c.var(b"D1." + name, dims, begin, kind, of))
            begin += len(values)
        own = c.list(ATTRIBUTES, (c.att(name, values, INT) for name, values in self.own.items()))
        return c.list(VARIABLES, [*found, c.var(b"v", self.shape, begin, self.kind, own)])


# What the canonical file of the blobs tells where its variable lies: version, bytes of the file,
# begin.
PLACES = longs(2, 216, 200)


def sets():
    def made(change=lambda blob: None, places=None, both=True):
        blobs = [Blob(which, places) for which in (0, 1)]
        for blob in blobs[: 2 if both else 1]:
            change(blob)
        first, second = (blob.bytes() for blob in blobs)
        return number(2, len(first)) + first + second

    def table(name, values):
        return made(lambda blob: blob.table(name, values), both=False)

    def put(where, name, value):
        return made(lambda blob: getattr(blob, where).__setitem__(name, value))

    def of(name, value):
        return made(lambda blob: setattr(blob, name, value))

    yield "seed-places", made(places=PLACES)
    for what, places in {
        "empty": b"",
        "short": longs(2),
        "version": longs(3, 216, 200),
        "negative": longs(2, 216, -1),
        "size-negative": longs(2, -1, 200),
        "size-small": longs(2, 8, 200),
        "few": longs(2, 216),
        "many": longs(2, 216, 200, 300),
        "header": longs(2, 216, 0),
        "largest": longs(2, 216, 2**63 - 4),
        "size-largest": longs(2, 2**63 - 1, 200),
        "far": longs(1, 2**40, 2**40 - 16),
    }.items():
        yield "hostile-places-" + what, made(places=places)
    yield "hostile-places-type", made(
        lambda blob: setattr(blob, "places_kind", INT), ints(2, 216, 200)
    )
    yield "hostile-places-lacks-type", made(
        lambda blob: setattr(blob, "kind", 9), longs(1, 216, 200)
    )
    yield "hostile-places-differ", made(
        lambda blob: setattr(blob, "places", longs(2, 220, 204)), PLACES, both=False
    )
    for what, value in ("none", 0), ("negative", -1), ("many", TOP):
        yield "hostile-processes-" + what, put("atts", b"global_nprocs", ints(value))
        yield "hostile-subfiles-" + what, put("atts", b"num_subfiles", ints(value))
    for what, value in ("negative", -1), ("many", TOP), ("two", 2):
        yield "hostile-decompositions-" + what, put("atts", b"num_decompositions", ints(value))
    for what, name, value in (
        ("blobs-none", b"nblobs", 0),
        ("blobs-many", b"nblobs", 2**40),
        ("elements-few", b"D1.nelems", 1),
        ("elements-many", b"D1.nelems", 2**62),
        ("requests-many", b"D1.max_nreqs", 2**61),
        ("requests-none", b"D1.max_nreqs", 0),
        ("columns-many", b"x", 2**62),
        ("columns-few", b"x", 2),
    ):
        yield "hostile-" + what, put("dims", name, value)
    for what, name, values in (
        ("nreqs-more", b"nreqs", ints(3)),
        ("nreqs-negative", b"nreqs", ints(-1)),
        ("start-other", b"blob_start", longs(1)),
        ("start-negative", b"blob_start", longs(-1)),
        ("count-negative", b"blob_count", longs(-1)),
        ("count-largest", b"blob_count", longs(2**63 - 1)),
        ("offset-behind", b"offsets", ints(0, 4)),
        ("offset-negative", b"offsets", ints(0, -1)),
        ("offset-twice", b"offsets", ints(0, 0)),
        ("offset-of-other", b"offsets", ints(0, 1)),
        ("length-negative", b"lengths", ints(1, -1)),
        ("length-behind", b"lengths", ints(1, 3)),
        ("length-largest", b"lengths", ints(1, TOP)),
    ):
        yield "hostile-" + what, table(name, values)
    for what, value in (
        ("zero", ints(0)),
        ("negative", ints(-1)),
        ("next", ints(2)),
        ("two", ints(1, 1)),
    ):
        yield "hostile-id-" + what, put("own", b"decomposition_ID", value)
    for what, value in (
        ("next", ints(0, 2)),
        ("negative", ints(0, -1)),
        ("none", b""),
        ("short", ints(1)),
    ):
        yield "hostile-dimids-" + what, put("own", b"global_dimids", value)
    yield "hostile-decomposed-none", of("decomposed", b"")
    yield "hostile-decomposed-records", of("decomposed", ints(0))
    yield "hostile-shape-other", of("shape", [0, 4])
    yield "hostile-records-largest", of("records", 2**63 - 1)
    yield "hostile-records-more", of("records", 2)
    yield "hostile-cut", of("cut", 1)


def main(folder):
    made = {os.path.join("blobs", name): content for name, content in sets()}
    for what, content in wrong_files():
        made[f"netcdf/hostile-{what}"] = content
    for version in 1, 2, 5:
        for classes in wrong_lists, wrong_names, wrong_values, wrong_shapes, wrong_places:
            for what, content in classes(Cdf(version)):
                made[f"netcdf/hostile-{what}.{version}"] = content
    for name, content in made.items():
        os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
        with open(os.path.join(folder, name), "wb") as stream:
            stream.write(content)


if __name__ == "__main__":
    main(*sys.argv[1:])
