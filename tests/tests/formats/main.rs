//! netCDF and HDF5 files of real programs, in parallel and serial.

mod announced;
mod corpus;
mod domains;
mod h5py;
mod hdf5_chunks;
mod hdf5_filters;
mod hdf5_kept;
mod hdf5_layouts;
mod hdf5_newer;
mod hdf5_random;
mod hdf5_ranks;
mod hdf5_selections;
mod hdf5_verify;
mod netcdf_tools;
mod pnetcdf_hints;
