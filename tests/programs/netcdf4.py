"""What users do with netCDF4-python. usage: netcdf4.py read FILE | netcdf4.py write FOLDER"""
import sys
import zlib

import netCDF4
import numpy


def tell(path):
    """Everything in a file; values as a sum, so that every bit counts."""
    with netCDF4.Dataset(path) as file:
        print(
            file.data_model,
            {name: (len(of), of.isunlimited()) for name, of in file.dimensions.items()},
        )
        print({name: file.getncattr(name) for name in file.ncattrs()})
        for name, of in file.variables.items():
            of.set_auto_maskandscale(False)
            values = numpy.ascontiguousarray(of[...])
            print(
                name,
                of.dimensions,
                of.shape,
                values.dtype,
                hex(zlib.crc32(values.tobytes())),
                of.ncattrs(),
            )
            if values.ndim > 1:
                print(numpy.ascontiguousarray(of[1::2, ..., 3]).tobytes().hex())
            print(values.ravel()[:3].tolist(), values.ravel()[-1:].tolist())


def write(folder):
    for model in (
        "NETCDF3_CLASSIC",
        "NETCDF3_64BIT_OFFSET",
        "NETCDF3_64BIT_DATA",
        "NETCDF4_CLASSIC",
        "NETCDF4",
    ):
        path = f"{folder}/{model}.nc"
        with netCDF4.Dataset(path, "w", format=model) as file:
            for name, length in ("t", None), ("y", 30), ("x", 40):
                file.createDimension(name, length)
            file.title = "written by netCDF4-python"
            packed = {"zlib": True} if model.startswith("NETCDF4") else {}
            v = file.createVariable("v", "f8", ("t", "y", "x"), **packed)
            n = file.createVariable("n", "i4", ("y",), fill_value=-7)
            for record in range(3):
                v[record] = numpy.arange(1200).reshape(30, 40) + record
                file.sync()
            n[::2] = numpy.arange(15)
        with netCDF4.Dataset(path, "a") as file:
            # Another record, another attribute and a variable, for which a header has to grow.
            file.history = "appended " * 100
            file.variables["v"][3] = -1.5
            file.createVariable("late", "i2", ("x",))[:] = numpy.arange(40)
        tell(path)
    try:
        netCDF4.Dataset(f"{folder}/missing.nc")
    except FileNotFoundError as error:
        print("missing", error.errno)


{"read": tell, "write": write}[sys.argv[1]](sys.argv[2])
