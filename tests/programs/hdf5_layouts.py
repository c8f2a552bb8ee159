"""Writes a random HDF5 file, and compares what `aggio stat` says of it with what HDF5 reads.

Usage: hdf5_layouts.py AGGIO FILE SEED

Each chunk is taken from the place that was told, its filters are undone, and its elements are
compared with the dataset's. Where no chunk was told the dataset must have its fill value.
"""

import itertools
import json
import random
import subprocess
import sys
import zlib

import h5py
import numpy as np

AGGIO, FILE, SEED = sys.argv[1], sys.argv[2], int(sys.argv[3])
pick = random.Random(SEED)


def undo(raw, mask, filters, element):
    """The bytes of a chunk before its filters; None if a filter has no inverse here."""
    for bit, name in reversed(list(enumerate(filters))):
        if mask >> bit & 1:
            continue
        if name == "deflate":
            raw = zlib.decompress(raw)
        elif name == "shuffle":
            whole = len(raw) // element * element
            rows = np.frombuffer(raw[:whole], "u1").reshape(element, -1)
            raw = rows.T.tobytes() + raw[whole:]
        elif name == "fletcher32":
            raw = raw[:-4]
        else:
            return None
    return raw


def some_shape(rank):
    most = {0: 1, 1: 300, 2: 40, 3: 12}[rank]
    return tuple(pick.randint(1, most) for _ in range(rank))


def some_limits(shape):
    """How far a dataset may grow: not at all, to some length, along one dimension or all."""
    choice = pick.randrange(5)
    if choice == 0:
        return shape
    if choice == 1:
        return tuple(length + pick.randint(0, 50) for length in shape)
    if choice == 2:
        return (None,) * len(shape)
    free = pick.randrange(len(shape))
    room = pick.choice([0, 9])
    return tuple(None if at == free else length + room for at, length in enumerate(shape))


def some_filters():
    found = {}
    if pick.random() < 0.5:
        found["compression"] = pick.choice(["gzip", "gzip", "lzf"])
    if pick.random() < 0.4:
        found["shuffle"] = True
    if pick.random() < 0.4:
        found["fletcher32"] = True
    return found


def fill_in(dataset):
    """Writes some parts, sets another length, and writes again."""
    values = np.random.default_rng(pick.randrange(1 << 32))
    for step in range(pick.choice([0, 1, 1, 2, 4])):
        if step and dataset.chunks and pick.random() < 0.5:
            lengths = zip(dataset.shape, dataset.maxshape)
            new = [pick.randint(1, min(most or 60, length + 30)) for length, most in lengths]
            dataset.resize(tuple(new))
        begin = [pick.randrange(length) for length in dataset.shape]
        ends = [pick.randint(at + 1, length) for at, length in zip(begin, dataset.shape)]
        part = tuple(slice(at, end) for at, end in zip(begin, ends))
        if pick.random() < 0.4:
            part = tuple(slice(None) for _ in dataset.shape)
        shape = dataset[part].shape
        dataset[part] = values.integers(1, 100, shape).astype(dataset.dtype)


def make_dataset(group, name):
    kind = pick.choice(["i1", "<i2", ">i4", "<i8", "<f4", ">f8"])
    rank = pick.choice([0, 1, 1, 2, 2, 3])
    shape = some_shape(rank)
    if rank == 0 or pick.random() < 0.15:
        dataset = group.create_dataset(name, shape, kind)
        if pick.random() < 0.8:
            dataset[()] = np.full(shape, 7, kind)
        return
    limits = some_limits(shape)
    small = [pick.randint(1, max(1, min(length, 6))) for length in shape]
    chunks = tuple(pick.choice([small, [1] * rank, list(shape)]))
    limited = [most is None or of <= most for of, most in zip(chunks, limits)]
    assert all(limited)
    extra = some_filters()
    if pick.random() < 0.4:
        extra["fillvalue"] = pick.randint(-5, 5)
    if not extra.keys() & {"compression", "shuffle", "fletcher32"} and pick.random() < 0.3:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_chunk(chunks)
        plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        most = tuple(h5py.h5s.UNLIMITED if one is None else one for one in limits)
        space = h5py.h5s.create_simple(shape, most)
        kind = h5py.h5t.py_create(np.dtype(kind), logical=True)
        made = h5py.h5d.create(group.id, name.encode(), kind, space, plist)
        fill_in(h5py.Dataset(made))
        return
    fill_in(group.create_dataset(name, shape, kind, chunks=chunks, maxshape=limits, **extra))


def make_group(group, level):
    for number in range(pick.choice([0, 1, 3, 7])):
        make_dataset(group, f"d{number}")
    for number in range(pick.choice([0, 0, 2, 60])):
        name = f"link-{'x' * pick.randint(0, 40)}-{number}"
        choice = pick.randrange(4)
        if choice == 0:
            group[name] = h5py.SoftLink(f"/nowhere/{number}")
        elif choice == 1:
            group[name] = h5py.ExternalLink("other.h5", "/there")
        elif choice == 2:
            group[name] = group.file["/"]
        else:
            group.create_group(name)
    for number in range(pick.choice([0, 1, 20])):
        group.attrs[f"attribute {number}"] = "x" * pick.choice([1, 300])
    if pick.random() < 0.2:
        group["type"] = np.dtype("<i4")
    for number in range(pick.choice([0, 1, 2]) if level < 3 else 0):
        make_group(group.create_group(f"g{number}", track_order=pick.random() < 0.5), level + 1)


def make():
    libver = pick.choice(["earliest", "latest", ("earliest", "v110"), ("v108", "latest")])
    user = pick.choice([0, 0, 512, 2048])
    with h5py.File(FILE, "w", libver=libver, userblock_size=user) as file:
        make_group(file, 0)
        if pick.random() < 0.3:
            big = file.create_dataset("paged", (pick.randint(1100, 5000),), "<i2", chunks=(1,),
                                      maxshape=(pick.choice([None, 6000]),))
            big[pick.randrange(500):pick.randint(501, 1100)] = 3
        if pick.random() < 0.1:
            big = file.create_dataset("grown", (1,), "<i2", chunks=(1,), maxshape=(None,))
            big.resize((70000,))
            big[60000:62000] = np.arange(2000) + 1


def told():
    command = [AGGIO, "stat", "--json", "--chunks", FILE]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0 and not run.stderr, run.stderr
    return json.loads(run.stdout)["files"][0]["hdf5"]


def names(group, path, known):
    """Each name in the file and what it is, hard links to the same object once."""
    for name in group:
        full = f"{path}/{name}"
        link = group.get(name, getlink=True)
        if isinstance(link, h5py.SoftLink):
            yield full, "link", link.path
        elif isinstance(link, h5py.ExternalLink):
            yield full, "link", link.path
        else:
            found = group[name]
            address = h5py.h5o.get_info(found.id).addr
            if address in known:
                yield full, "same", known[address]
                continue
            known[address] = full
            if isinstance(found, h5py.Group):
                yield full, "group", found
                yield from names(found, full, known)
            else:
                yield full, "dataset" if isinstance(found, h5py.Dataset) else "datatype", found


def compare_chunks(dataset, one, raw):
    assert tuple(one["chunk_shape"]) == dataset.chunks, one
    shape, values, fill = dataset.chunks, dataset[...], dataset.fillvalue
    present = {tuple(chunk["offset"]): chunk for chunk in one["map"]}
    assert len(present) == len(one["map"]) == one["chunks_present"], one
    grid = [range(0, length, of) for length, of in zip(dataset.shape, shape)]
    for offset in itertools.product(*grid):
        part = tuple(slice(at, at + of) for at, of in zip(offset, shape))
        wanted, chunk = values[part], present.pop(offset, None)
        if chunk is None:
            assert (wanted == fill).all(), (one["path"], offset)
            continue
        found = raw[chunk["place"]:chunk["place"] + chunk["stored"]]
        found = undo(found, chunk["mask"], one["filters"], dataset.dtype.itemsize)
        if found is None:
            continue
        found = np.frombuffer(found, dataset.dtype).reshape(shape)
        found = found[tuple(slice(0, length) for length in wanted.shape)]
        assert (found == wanted).all(), (one["path"], offset, found, wanted)
    assert not present, (one["path"], present)


def compare(found):
    raw = open(FILE, "rb").read()
    objects = {one["path"]: one for one in found["objects"]}
    assert len(objects) == len(found["objects"])
    indexes = set()
    with h5py.File(FILE, "r") as file:
        assert found["user_block"] == file.userblock_size
        known = {h5py.h5o.get_info(file["/"].id).addr: "/"}
        assert objects.pop("/")["attributes"] == len(file.attrs)
        for path, kind, what in names(file, "", known):
            one = objects.pop(path)
            assert one["kind"] == kind, (path, one, kind)
            if kind in ("same", "link"):
                assert one["target"] == what, (path, one, what)
                continue
            if kind != "datatype":
                assert one["attributes"] == len(what.attrs), (path, one)
            if kind != "dataset":
                continue
            assert (tuple(one["shape"]), tuple(one["most"])) == (what.shape, what.maxshape), one
            if one["layout"] == "chunked":
                indexes.add(one["index"])
                compare_chunks(what, one, raw)
            elif one["layout"] == "contiguous" and one["address"] is not None:
                bytes_there = raw[one["address"]:one["address"] + one["stored"]]
                assert bytes_there == what[...].tobytes(), path
    assert not objects, objects
    print(" ".join(sorted(name.replace(" ", "-") for name in indexes)))


make()
compare(told())
