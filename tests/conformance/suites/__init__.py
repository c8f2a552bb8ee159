"""The suites, by the name they have on the command line, in the order in which they run."""

from . import h5py, hdf5, mpi4py_io, mpich, netcdf, netcdf_fortran, pnetcdf, romio

#: Writes wait whatever that costs, on whichever file system the suites run.
ALWAYS = "*:aggio_tune=defer_always=true"

SUITES = {
    "mpich-io": mpich.Folder("io"),
    "mpich-f77": mpich.Folder("f77/io"),
    "mpich-f90": mpich.Folder("f90/io"),
    "mpich-f08": mpich.Folder("f08/io"),
    "mpich-cxx": mpich.Folder("cxx/io"),
    "mpich-errors": mpich.Folder("errors/io"),
    # Under Open MPI these end before they open a file.
    "mpich-errors-f77": mpich.Folder("errors/f77/io", ["mpich"]),
    "mpich-errors-f90": mpich.Folder("errors/f90/io", ["mpich"]),
    "mpich-errors-cxx": mpich.Folder("errors/cxx/io"),
    "romio": romio,
    "mpi4py": mpi4py_io,
    "pnetcdf-check": pnetcdf.Target("check"),
    "pnetcdf-ptest": pnetcdf.Target("ptest"),
    "pnetcdf-burst": pnetcdf.Burst("pnetcdf-burst", AGGIO_BLOB="*"),
    "hdf5": hdf5.Programs("hdf5"),
    "hdf5-defer": hdf5.Programs("hdf5-defer", AGGIO_DEFER="*", AGGIO_HINTS=ALWAYS),
    "hdf5-1.14": hdf5.Programs("hdf5-1.14", "trixie"),
    "hdf5-1.14-defer": hdf5.Programs(
        "hdf5-1.14-defer", "trixie", AGGIO_DEFER="*", AGGIO_HINTS=ALWAYS
    ),
    "h5py": h5py.Modules("h5py"),
    "h5py-defer": h5py.Modules("h5py-defer", AGGIO_DEFER="*", AGGIO_HINTS=ALWAYS),
    "netcdf": netcdf.Programs("netcdf"),
    "netcdf-defer": netcdf.Programs("netcdf-defer", AGGIO_DEFER="*", AGGIO_HINTS=ALWAYS),
    "netcdf-blob": netcdf.Programs("netcdf-blob", AGGIO_BLOB="*.nc"),
    "netcdf-set": netcdf.Programs("netcdf-set", AGGIO_BLOB="*.nc:e3sm", AGGIO_SETS="on"),
    "netcdf-fortran": netcdf_fortran.Programs("netcdf-fortran"),
    "netcdf-fortran-defer": netcdf_fortran.Programs(
        "netcdf-fortran-defer", AGGIO_DEFER="*", AGGIO_HINTS=ALWAYS
    ),
}
