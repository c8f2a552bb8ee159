//! Keys that an `MPI_Info` of a file may hold and that are not for aggio: other libraries set them
//! by themselves, and programs hand one `MPI_Info` to many calls.

/// Keys of one owner.
#[derive(Clone, Copy, Debug)]
pub struct Foreign {
    /// The library that sets them, or acts on them.
    pub owner: &'static str,
    /// The keys; one that ends in `*` stands for all with this beginning.
    pub keys: &'static [&'static str],
}

impl Foreign {
    /// Every owner.
    pub const ALL: &'static [Foreign] = &[
        Foreign {
            owner: "MPI, for other objects than files",
            keys: &[
                "accumulate_ops",
                "accumulate_ordering",
                "alloc_mem",
                "alloc_shared_noncontig",
                "alloc_shm",
                "appnum",
                "arch",
                "argv",
                "command",
                "env",
                "file",
                "host",
                "hosts",
                "ip_address",
                "ip_port",
                "maxprocs",
                "mpi_*",
                "no_locks",
                "num_procs",
                "path",
                "same_*",
                "soft",
                "thread_level",
                "wdir",
            ],
        },
        Foreign {
            owner: "Open MPI",
            keys: &[
                "add-host",
                "add-hostfile",
                "hostfile",
                "ompi_*",
                "pmix*",
                "prte_*",
                "rank_by",
                "sharedfp_*",
            ],
        },
        Foreign {
            owner: "MPICH, its derivatives and ROMIO's drivers",
            keys: &[
                "IBM_*",
                "NUMA_ID",
                "bind_to",
                "gpfs_*",
                "ibm_*",
                "ime_*",
                "intel_*",
                "lustre_*",
                "mpich_*",
                "mpix_*",
                "nfs_*",
                "panfs_*",
                "pmi*",
                "pvfs2_*",
                "quobyte_*",
                "romio_gpfs_*",
                "romio_no_coll_rw",
                "romio_onesided_*",
                "romio_print_hints",
                "romio_quobyte_*",
                "romio_tunegather",
                "romio_write_aggmethod",
                "romio_read_aggmethod",
                "shmem_topo",
            ],
        },
        Foreign { owner: "Cray MPICH", keys: &["cray_*", "dvs_*", "mpich_mpiio_*"] },
        Foreign {
            owner: "PnetCDF and GIO",
            keys: &["gio_*", "nc_*", "nc_ina_node_list", "ncmpi_*", "pnc_*", "pnetcdf_*"],
        },
        Foreign { owner: "HDF5 and ADIOS", keys: &["H5*", "adios_*", "h5*", "hdf5_*"] },
    ];

    /// Whether `key` is another's, letter by letter.
    pub fn has(key: &str) -> bool {
        !key.ends_with('*') && Self::ALL.iter().any(|foreign| foreign.keys.contains(&key))
    }

    /// Whether `key` begins as keys of another do.
    pub fn begins(key: &str) -> bool {
        let beginnings = Self::ALL.iter().flat_map(|foreign| foreign.keys);
        beginnings.filter_map(|known| known.strip_suffix('*')).any(|known| key.starts_with(known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::Declaration;

    #[test]
    fn keys_of_others_are_known_exactly_or_by_their_beginning() {
        assert!(["NUMA_ID", "romio_no_coll_rw", "nc_ina_node_list"].into_iter().all(Foreign::has));
        assert!(Foreign::begins("nc_chunk_default") && !Foreign::has("nc_chunk_default"));
        assert!(!Foreign::has("mpi_*") && !Foreign::begins("romio_cb_wirte"));
    }

    #[test]
    fn no_hint_of_the_table_is_listed_as_one_of_others() {
        let listed = Foreign::ALL.iter().flat_map(|foreign| foreign.keys);
        for key in listed.filter(|key| !key.ends_with('*')) {
            assert!(Declaration::find(key).is_none(), "{key}");
        }
    }
}
