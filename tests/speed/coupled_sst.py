"""The steps of coupled_steps.c by ADIOS2's SST, which PyPI's package adios2 brings along.

    coupled_sst.py write|read DIRECTORY STEPS MIB

The reader checks every page and prints MiB/s, without the first two steps.
"""
import sys
import time

import adios2
import numpy as np

what, place, steps, size = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
words = size << 17
io = adios2.Adios().declare_io("steps")
io.set_engine("SST")
# As the other pair: the writer is one step ahead at most, and nothing is left out.
io.set_parameters({"QueueLimit": "1", "QueueFullPolicy": "Block", "RendezvousReaderCount": "1"})
data = np.zeros(words)
with adios2.Stream(io, f"{place}/steps", "w" if what == "write" else "r") as stream:
    began = step = 0
    for _ in stream.steps(steps) if what == "write" else stream.steps():
        if what == "write":
            data[::512] = step
            stream.write("data", data, [words], [0], [words])
        else:
            if step == 2:
                began = time.monotonic()
            found = stream.read("data")
            if found.shape != (words,) or (found[::512] != step).any():
                sys.exit(f"step {step}: wrong values")
        step += 1
    if what == "read":
        print(f"{(step - 2) * size / (time.monotonic() - began):.0f}")
