"""What a parallel program does with h5py. usage: h5py_job.py write|read|share FILE"""
import sys
import zlib

import h5py
import numpy
from mpi4py import MPI

WORLD = MPI.COMM_WORLD
RANK, SIZE = WORLD.rank, WORLD.size
ROWS, COLUMNS = 12, 500


def rows_of(rank, name):
    """The values of a rank; in one dataset they are in one piece, in the other every SIZE-th
    row."""
    return (numpy.arange(ROWS * COLUMNS, dtype="f8").reshape(ROWS, COLUMNS) + rank) * len(name)


def write(path):
    with h5py.File(path, "w", driver="mpio", comm=WORLD) as file:
        file.attrs["title"] = "written by h5py"
        pieces = file.create_dataset("pieces", (ROWS * SIZE, COLUMNS), "f8")
        chunked = file.create_dataset("group/chunked", (ROWS * SIZE, COLUMNS), "f8", chunks=(5, 70),
                                      maxshape=(None, COLUMNS))
        alone = file.create_dataset("group/alone", (SIZE, 3), "i2", fillvalue=-1)
        with pieces.collective:
            pieces[ROWS * RANK:ROWS * (RANK + 1)] = rows_of(RANK, "pieces")
        with chunked.collective:
            chunked[RANK::SIZE] = rows_of(RANK, "chunked")
        # Not all ranks, each by itself.
        if RANK != 1:
            alone[RANK, :2] = [RANK, -RANK]
        file.flush()
        # Over what is there, by itself again.
        chunked[RANK * ROWS, 3:9] = 0.5
    with h5py.File(path, "r+", driver="mpio", comm=WORLD) as file:
        chunked = file["group/chunked"]
        chunked.resize(ROWS * SIZE + SIZE, axis=0)
        with chunked.collective:
            chunked[ROWS * SIZE + RANK] = numpy.full(COLUMNS, RANK)
        file["group"].attrs["appended"] = numpy.arange(SIZE)


def read(path):
    with h5py.File(path, "r", driver="mpio", comm=WORLD) as file:
        lines = [(name, value.tolist() if hasattr(value, "tolist") else value)
                 for of in (file, file["group"]) for name, value in of.attrs.items()]
        for name in "pieces", "group/chunked", "group/alone":
            of = file[name]
            with of.collective:
                together = of[RANK::3]
            # What another rank wrote, by itself.
            other = of[(RANK + 1) % SIZE]
            lines.append(
                (name, of.shape, zlib.crc32(together.tobytes()), zlib.crc32(other.tobytes()))
            )
        whole = zlib.crc32(numpy.ascontiguousarray(file["pieces"][...]).tobytes())
    for rank, told in enumerate(WORLD.gather((lines, whole)) or []):
        print(rank, *told, sep="\n")


def share(path):
    """Ranks write parts of the same filtered chunks, one collective call after the other."""
    with h5py.File(path, "w", driver="mpio", comm=WORLD) as file:
        for name, filters in FILTERS.items():
            of = file.create_dataset(
                name, (SIZE * ROWS, COLUMNS), "i4", chunks=(SIZE * ROWS, 50), **filters
            )
            for step in range(ROWS):
                with of.collective:
                    of[step * SIZE + RANK] = numpy.full(COLUMNS, 1 + RANK + 100 * step, "i4")
                # Columns in part, over what another rank has written just now.
                with of.collective:
                    of[step * SIZE + (RANK + 1) % SIZE, 20 * step : 20 * step + 7] = numpy.full(
                        7, -RANK, "i4"
                    )
    with h5py.File(path, "r", driver="mpio", comm=WORLD) as file:
        for name in FILTERS:
            found = file[name][...]
            for row in range(SIZE * ROWS):
                step, rank = row // SIZE, row % SIZE
                wanted = numpy.full(COLUMNS, 1 + rank + 100 * step)
                wanted[20 * step:20 * step + 7] = -((rank + SIZE - 1) % SIZE)
                wrong = int((found[row] != wanted).sum())
                if wrong:
                    sys.exit(f"{name}: {wrong} elements of row {row} are wrong")


FILTERS = {
    "shuffle": {"shuffle": True},
    "fletcher32": {"fletcher32": True},
    "gzip": {"compression": "gzip"},
    "lzf": {"compression": "lzf", "shuffle": True},
}

if not h5py.get_config().mpi:
    sys.exit("this h5py is not parallel")
{"write": write, "read": read, "share": share}[sys.argv[1]](sys.argv[2])
