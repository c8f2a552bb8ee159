"""The suites, by the name they have on the command line, in the order in which they run."""

from . import hdf5, mpi4py_io, mpich, netcdf, pnetcdf, romio

SUITES = {
    "mpich-io": mpich.Folder("io"),
    "mpich-f77": mpich.Folder("f77/io"),
    "mpich-f90": mpich.Folder("f90/io"),
    "mpich-f08": mpich.Folder("f08/io"),
    "mpich-cxx": mpich.Folder("cxx/io"),
    "romio": romio,
    "mpi4py": mpi4py_io,
    "pnetcdf-check": pnetcdf.Target("check"),
    "pnetcdf-ptest": pnetcdf.Target("ptest"),
    "hdf5": hdf5,
    "netcdf": netcdf.Programs("netcdf"),
    "netcdf-defer": netcdf.Programs("netcdf-defer", AGGIO_DEFER="*"),
    "netcdf-blob": netcdf.Programs("netcdf-blob", AGGIO_BLOB="*.nc"),
    "netcdf-set": netcdf.Programs("netcdf-set", AGGIO_BLOB="*.nc:e3sm", AGGIO_SETS="on"),
}
