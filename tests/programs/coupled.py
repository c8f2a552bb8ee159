"""Writes or reads generations of a file, and checks every value.

    coupled.py write|read KIND FILE GENERATIONS [STEPS]

KIND is open, numpy, netcdf or hdf5. Readers print one line for each generation.
"""
import sys

import numpy as np

SHAPE = (40, 52)


def values(generation, step=0):
    size = SHAPE[0] * SHAPE[1]
    return (np.arange(size) * 0.5 + generation * 1000 + step * 7).reshape(SHAPE)


def same(generation, found, wanted):
    if found.shape != wanted.shape or not np.array_equal(np.asarray(found), wanted):
        sys.exit(f"generation {generation}: wrong values")


def write_open(name, generation):
    with open(name, "wb") as file:
        file.write(values(generation).tobytes())


def read_open(name, generation):
    with open(name, "rb") as file:
        same(generation, np.frombuffer(file.read()).reshape(SHAPE), values(generation))


def write_numpy(name, generation):
    np.save(name, values(generation))


def read_numpy(name, generation):
    same(generation, np.load(name), values(generation))


def write_netcdf(name, generation):
    import netCDF4

    with netCDF4.Dataset(name, "w", format="NETCDF3_64BIT_OFFSET") as file:
        for dimension, size in zip(("time", "y", "x"), (None, *SHAPE)):
            file.createDimension(dimension, size)
        file.createVariable("t", "f8", ("time", "y", "x"))
        file.generation = np.int32(generation)
        for step in range(STEPS):
            file["t"][step] = values(generation, step)


def read_netcdf(name, generation):
    import netCDF4

    with netCDF4.Dataset(name) as file:
        same(generation, np.array(file.generation), np.array(generation))
        if len(file.dimensions["time"]) != STEPS:
            sys.exit(f"{len(file.dimensions['time'])} steps")
        for step in range(STEPS):
            same(generation, file["t"][step], values(generation, step))


def write_hdf5(name, generation):
    import h5py

    with h5py.File(name, "w") as file:
        file.attrs["generation"] = generation
        shape = (STEPS, *SHAPE)
        chunked = file.create_dataset("group/t", shape, "f8", chunks=(1, 16, 16), compression=1)
        for step in range(STEPS):
            chunked[step] = values(generation, step)
            file.flush()


def read_hdf5(name, generation):
    import h5py

    with h5py.File(name, "r") as file:
        same(generation, np.array(file.attrs["generation"]), np.array(generation))
        for step in range(STEPS):
            same(generation, file["group/t"][step], values(generation, step))


what, kind, name, generations = sys.argv[1:5]
STEPS = int(sys.argv[5]) if len(sys.argv) > 5 else 3
for generation in range(1, int(generations) + 1):
    globals()[f"{what}_{kind}"](name, generation)
    if what == "read":
        print(f"generation {generation}: right", flush=True)
