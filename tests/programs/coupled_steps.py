"""Writes or reads records of a netCDF file with netCDF4-python, while the other side is at work.

coupled_steps.py write FILE FORMAT RECORDS WIDTH [share|die|hold]
coupled_steps.py read FILE RECORDS WIDTH reopen|sync

The values are those of coupled_steps.c. The writer synchronises after each record; with `share` it
does not buffer; with `die` it is killed after the last record, with `hold` it waits there for 60 s.
The reader opens the file repeatedly (`reopen`), or once without buffers (`sync`).
"""
import os
import signal
import sys
import time

import netCDF4
import numpy

FORMATS = {"1": "NETCDF3_CLASSIC", "2": "NETCDF3_64BIT_OFFSET", "5": "NETCDF3_64BIT_DATA"}


def values(variable, record, width):
    return (1000003 * (record + 1) + 17 * numpy.arange(width) + variable).astype("i4")


def write(path, kind, records, width, share):
    data = netCDF4.Dataset(path, "ws" if share else "w", format=FORMATS[kind])
    data.set_fill_off()
    data.createDimension("time", None)
    data.createDimension("x", width)
    names = [data.createVariable(name, "i4", ("time", "x")) for name in "ab"]
    for record in range(records):
        for number, variable in enumerate(names):
            variable[record, :] = values(number, record, width)
            time.sleep(0.004)
        data.sync()
    if "die" in sys.argv:
        print("all", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if "hold" in sys.argv:
        print("all", flush=True)
        time.sleep(60)
    data.close()


def check(data, width):
    there = len(data.dimensions["time"])
    for record in range(there):
        for number, name in enumerate("ab"):
            found = numpy.asarray(data.variables[name][record, :])
            if not (found == values(number, record, width)).all():
                sys.exit(f"record {record} of {there}: {name} is {found}")
    return there


def read(path, records, width, how):
    seen, data = -1, None
    while seen < records:
        if data is None:
            data = netCDF4.Dataset(path, "rs" if how == "sync" else "r")
        else:
            data.sync()
        there = check(data, width)
        if there != seen:
            print(there, flush=True)
        seen = there
        if how == "reopen":
            data.close()
            data = None
        time.sleep(0.003)


if sys.argv[1] == "write":
    write(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), "share" in sys.argv)
else:
    read(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
