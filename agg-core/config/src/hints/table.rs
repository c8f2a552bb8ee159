//! The table of hints: the only declaration of each.

use super::Chosen;
use super::Family;
use super::declare::{field_type, hints, key};
use super::kind::{Field, Kind, Switch};
use super::resolve::Origin;
use super::{Drain, Verify};

/// The declaration of one hint.
#[derive(Clone, Copy, Debug)]
pub struct Declaration {
    /// The key in an `MPI_Info`.
    pub name: &'static str,
    /// The effect of the hint, in sentences; lines as in the table.
    pub doc: &'static str,
    /// The value's type and bounds.
    pub kind: Kind,
    /// The standard or library that introduced it.
    pub family: Family,
    /// Whether it changes anything.
    pub effect: Effect,
    /// When and where it counts.
    pub traits: Traits,
    /// Sets the value from text; `false`, and no change, if the text is not of the accepted form.
    pub(super) set: fn(&mut Hints, &str) -> bool,
    /// Appends the value as text.
    pub(super) show: fn(&Hints, &mut String),
}

/// Whether a hint changes anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The engine acts on it.
    Acts,
    /// The engine acts on it. For tests and experiments: users set it in the hint `aggio_tune`.
    Tunes,
    /// Accepted, checked and reported by `MPI_File_get_info`; nothing depends on it.
    Accepted,
    /// Reported by `MPI_File_get_info`; setting it has no effect and is no error.
    Told,
}

/// When and where a hint counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traits {
    /// Counts only while the file is opened.
    pub at_open: bool,
    /// Must be equal on all ranks.
    pub same: bool,
    /// Reported only if it was set.
    pub if_set: bool,
}

impl Traits {
    const NONE: Traits = Traits { at_open: false, same: false, if_set: false };

    const fn at_open(self) -> Self {
        Self { at_open: true, ..self }
    }

    const fn same(self) -> Self {
        Self { same: true, ..self }
    }

    const fn if_set(self) -> Self {
        Self { if_set: true, ..self }
    }
}

impl Declaration {
    /// Other spellings of a hint, and the name they stand for.
    pub const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("cb_read", "romio_cb_read"),
        ("cb_write", "romio_cb_write"),
        ("ds_read", "romio_ds_read"),
        ("ds_write", "romio_ds_write"),
        ("romio_cb_fr_type", "romio_cb_fr_types"),
        ("romio_lustre_start_iodevice", "start_iodevice"),
        ("stripe_size", "striping_unit"),
        ("stripe_width", "striping_factor"),
    ];

    /// The declaration of `name`, which may be an alias, and its position in the table.
    pub fn find(name: &str) -> Option<(usize, &'static Declaration)> {
        let alias = Self::ALIASES.iter().find(|(alias, _)| *alias == name);
        let name = alias.map_or(name, |(_, name)| name);
        Self::ALL.iter().enumerate().find(|(_, declaration)| declaration.name == name)
    }

    /// The declaration of a hint that users may set by its own name, and its position in the table.
    pub fn settable(name: &str) -> Option<(usize, &'static Declaration)> {
        Self::find(name).filter(|(_, declaration)| declaration.effect != Effect::Tunes)
    }

    /// The effect of the hint, on one line.
    pub fn sentence(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// The default value as text; empty if there is none.
    pub fn default_value(&self) -> String {
        Hints::default().value(self)
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
/// Largest buffer that a hint may ask for.
const BUFFER_MAX: u64 = 64 << 30;
const SPILL_MAX: u64 = 1 << 40;
const SIZE_MAX: u64 = u64::MAX;
const COUNT_MAX: u32 = u32::MAX;
const CHUNKS_MAX: i64 = u32::MAX as i64;
const NUMBER_MIN: i64 = i64::MIN;
const NUMBER_MAX: i64 = i64::MAX;

hints! {
    /// Most bytes that an aggregator handles at a time: no request of a collective call is longer.
    cb_buffer_size: Size(1, BUFFER_MAX) = 16 * MIB; Standard Acts [same];
    /// Number of aggregators, never more than ranks; 0: half of the ranks of each host, at most 256
    /// in all unless there are more hosts.
    cb_nodes: Count(0, COUNT_MAX) = 0u32; Standard Acts [same, at_open];
    /// Block size of collective buffering; file domains follow the file system and `striping_unit`.
    cb_block_size: Size(0, SIZE_MAX) = 0u64; Standard Accepted [if_set];
    /// `false` switches collective buffering off, unless `romio_cb_read` or `romio_cb_write` is
    /// set.
    collective_buffering: Flag = true; Standard Acts [same, if_set];
    /// Permission bits of a file that the open creates; the process' umask is applied.
    file_perm: Octal(0o7777) = 0o666u32; Standard Acts [at_open, same, if_set];
    /// Bytes of a stripe: of a new file on Lustre, if it is a multiple of 64K. File domains are
    /// aligned to the unit of the file system, if it reports one, else to this.
    striping_unit: Size(0, SIZE_MAX) = 0u64; Standard Acts [same, at_open, if_set];
    /// Storage targets of a new file on Lustre, at most 2000; 0 lets the file system choose.
    striping_factor: Count(0, COUNT_MAX) = 0u32; Standard Acts [same, at_open, if_set];
    /// How the file will be used, such as `read_once` or `write_mostly,sequential`.
    access_style: Text = ""; Standard Accepted;
    /// Shape of a chunked multidimensional array.
    chunked: Text = ""; Standard Accepted;
    /// Bytes of an element of a chunked array.
    chunked_item: Text = ""; Standard Accepted;
    /// Shape of a chunk of a chunked array.
    chunked_size: Text = ""; Standard Accepted;
    /// The file's name, as the application likes to see it.
    filename: Text = ""; Standard Accepted;
    /// Storage devices that should hold the file.
    io_node_list: Text = ""; Standard Accepted;
    /// Number of processes that programs reading this file usually have.
    nb_proc: Text = ""; Standard Accepted;
    /// Number of storage devices in the system.
    num_io_nodes: Text = ""; Standard Accepted;
    /// Memory kinds that the application may pass.
    mpi_assert_memory_alloc_kinds: Text = ""; Standard Accepted;

    /// Hosts of aggregators, and how many on each: `name[:max],...`, `*` for any host.
    cb_config_list: Text = "*:1"; Romio Acts [same, at_open];
    /// Whether collective reads go through aggregators.
    romio_cb_read: Switch = Switch::Automatic; Romio Acts [same];
    /// Whether collective writes go through aggregators.
    romio_cb_write: Switch = Switch::Automatic; Romio Acts [same];
    /// The application promises to use collective calls only.
    romio_no_indep_rw: Flag = false; Romio Acts [same, at_open];
    /// Whether independent reads with gaps read the gaps too.
    romio_ds_read: Switch = Switch::Automatic; Romio Acts;
    /// Whether independent writes with gaps read, modify and write whole blocks. `automatic` never
    /// does: bytes in gaps belong to others.
    romio_ds_write: Switch = Switch::Automatic; Romio Acts;
    /// Buffer of independent reads with gaps.
    ind_rd_buffer_size: Size(1, BUFFER_MAX) = 4 * MIB; Romio Acts;
    /// Buffer of independent writes with gaps.
    ind_wr_buffer_size: Size(1, BUFFER_MAX) = 512 * KIB; Romio Acts;
    /// Smallest file domain; fewer aggregators work on small requests.
    romio_min_fdomain_size: Size(0, SIZE_MAX) = 0u64; Romio Acts [same, if_set];
    /// Gaps longer than this, in bytes, are not sieved in collective calls, which never write gaps.
    romio_cb_ds_threshold: Size(0, SIZE_MAX) = 0u64; Romio Accepted;
    /// Whether collective calls exchange with `MPI_Alltoallv`; data passes through shared memory or
    /// in messages between two ranks.
    romio_cb_alltoall: Switch = Switch::Automatic; Romio Accepted;
    /// Whether file domains stay the same from call to call; they are a formula, and nothing is
    /// kept.
    romio_cb_pfr: Switch = Switch::Disable; Romio Accepted;
    /// How persistent file domains, which there are none of, are cut: `aar`, `fsize`, or a number
    /// of bytes.
    romio_cb_fr_types: Text = "aar"; Romio Accepted;
    /// Alignment of persistent file domains, which there are none of, in bytes.
    romio_cb_fr_alignment: Size(0, SIZE_MAX) = 1u64; Romio Accepted;
    /// Whether one rank alone flushes the file; each rank flushes its own writes.
    romio_synchronized_flush: Enable = false; Romio Accepted [if_set];
    /// Whether others see data as soon as a write returns; as with `true`, no write is buffered.
    romio_visibility_immediate: Flag = true; Romio Accepted [if_set];
    /// Whether reads bypass the page cache.
    direct_read: Flag = false; Romio Acts [at_open, if_set];
    /// Whether writes bypass the page cache.
    direct_write: Flag = false; Romio Acts [at_open, if_set];
    /// First storage target of a new file on Lustre; -1 lets the file system choose.
    start_iodevice: Offset(-1, NUMBER_MAX) = -1i64; Romio Acts [at_open, if_set];
    /// Whether only aggregators open the file at once.
    deferred_open: Flag = false; Romio Accepted [at_open, if_set];
    /// The driver that serves the file.
    romio_filesystem_type: Text = ""; Romio Told;
    /// The ranks that are aggregators.
    romio_aggregator_list: Text = ""; Romio Told;

    /// Lustre: clients that write to one storage target.
    romio_lustre_co_ratio: Count(0, COUNT_MAX) = 1u32; RomioDriver Accepted [if_set];
    /// Lustre: mean request size, in bytes, above which collective calls become independent.
    romio_lustre_coll_threshold: Size(0, SIZE_MAX) = 0u64; RomioDriver Accepted [if_set];
    /// Lustre: whether collective writes sieve.
    romio_lustre_ds_in_coll: Switch = Switch::Enable; RomioDriver Accepted [if_set];
    /// Lustre: whether aggregators request locks before they write.
    romio_lustre_cb_lock_ahead_write: Text = ""; RomioDriver Accepted;
    /// Lustre: whether aggregators request locks before they read.
    romio_lustre_cb_lock_ahead_read: Text = ""; RomioDriver Accepted;
    /// Lustre: number of locks requested ahead.
    romio_lustre_cb_lock_ahead_num_extents: Text = ""; RomioDriver Accepted;
    /// Lustre: flags of locks requested ahead.
    romio_lustre_cb_lock_ahead_flags: Text = ""; RomioDriver Accepted;
    /// Lustre: storage pool of a new file.
    romio_lustre_pool: Text = ""; RomioDriver Accepted;
    /// GPFS: large-block mode of parallel access.
    ibm_largeblock_io "IBM_largeblock_io": Text = ""; RomioDriver Accepted;
    /// GPFS: buffer size of IBM's MPI-IO.
    ibm_io_buffer_size "IBM_io_buffer_size": Text = ""; RomioDriver Accepted;
    /// GPFS: sparse access of IBM's MPI-IO.
    ibm_sparse_access "IBM_sparse_access": Text = ""; RomioDriver Accepted;
    /// GPFS, Blue Gene: aggregators per processor set.
    bg_nodes_pset: Text = ""; RomioDriver Accepted;
    /// GPFS: large-block mode, ROMIO's spelling.
    ibm_largeblock_io_lower "ibm_largeblock_io": Text = ""; RomioDriver Accepted;
    /// PFS: server buffering.
    pfs_svr_buf: Text = ""; RomioDriver Accepted;
    /// PVFS: list I/O for independent reads.
    romio_pvfs_listio_read: Text = ""; RomioDriver Accepted;
    /// PVFS: list I/O for independent writes.
    romio_pvfs_listio_write: Text = ""; RomioDriver Accepted;
    /// PVFS2: debug mask.
    romio_pvfs2_debugmask: Text = ""; RomioDriver Accepted;
    /// PVFS2: POSIX reads.
    romio_pvfs2_posix_read: Text = ""; RomioDriver Accepted;
    /// PVFS2: POSIX writes.
    romio_pvfs2_posix_write: Text = ""; RomioDriver Accepted;
    /// PVFS2: reads by datatype.
    romio_pvfs2_dtype_read: Text = ""; RomioDriver Accepted;
    /// PVFS2: writes by datatype.
    romio_pvfs2_dtype_write: Text = ""; RomioDriver Accepted;
    /// PVFS2: reads by lists.
    romio_pvfs2_listio_read: Text = ""; RomioDriver Accepted;
    /// PVFS2: writes by lists.
    romio_pvfs2_listio_write: Text = ""; RomioDriver Accepted;
    /// PANFS: concurrent writes.
    panfs_concurrent_write: Text = ""; RomioDriver Accepted;
    /// PANFS: layout of a new file.
    panfs_layout_type: Text = ""; RomioDriver Accepted;
    /// PANFS: stripe unit.
    panfs_layout_stripe_unit: Text = ""; RomioDriver Accepted;
    /// PANFS: parity stripe width.
    panfs_layout_parity_stripe_width: Text = ""; RomioDriver Accepted;
    /// PANFS: parity stripe depth.
    panfs_layout_parity_stripe_depth: Text = ""; RomioDriver Accepted;
    /// PANFS: number of components.
    panfs_layout_total_num_comps: Text = ""; RomioDriver Accepted;
    /// PANFS: order of visits.
    panfs_layout_visit_policy: Text = ""; RomioDriver Accepted;
    /// DAOS: bytes of a chunk.
    romio_daos_chunk_size: Text = ""; RomioDriver Accepted;
    /// DAOS: bytes of a block (old name).
    romio_daos_block_size: Text = ""; RomioDriver Accepted;
    /// DAOS: object class of a new file.
    romio_daos_obj_class: Text = ""; RomioDriver Accepted;
    /// GridFTP: control mode.
    ftp_control_mode: Text = ""; RomioDriver Accepted;
    /// GridFTP: number of streams.
    parallelism: Text = ""; RomioDriver Accepted;
    /// GridFTP: striped transfers.
    striped_ftp: Text = ""; RomioDriver Accepted;
    /// GridFTP: TCP buffer size.
    tcp_buffer: Text = ""; RomioDriver Accepted;
    /// GridFTP: transfer type.
    transfer_type: Text = ""; RomioDriver Accepted;

    /// Shared file pointers need not keep the order of calls.
    sharedfp_relaxed_ordering "OMPIO_SHAREDFP_RELAXED_ORDERING": Flag = false;
        Ompio Accepted [if_set];
    /// Shared file pointers start without a lock.
    sharedfp_lazy_open "OMPIO_SHAREDFP_LAZY_OPEN": Flag = false; Ompio Accepted [if_set];

    /// Aggregators per storage target.
    cray_cb_nodes_multiplier: Count(1, COUNT_MAX) = 1u32; Cray Accepted [at_open, if_set];
    /// Lustre lock mode of collective writes: 0 standard, 1 group lock, 2 lock ahead.
    cray_cb_write_lock_mode: Count(0, 2) = 0u32; Cray Accepted [if_set];
    /// Distance in nodes between aggregators; -1 spreads them.
    aggregator_placement_stride: Offset(-1, NUMBER_MAX) = -1i64; Cray Accepted [at_open, if_set];
    /// Whether a failing read or write ends the program.
    abort_on_rw_error: Text = ""; Cray Accepted;
    /// Whether reads and writes bypass the page cache.
    direct_io: Flag = false; Cray Accepted [at_open, if_set];
    /// More than one stripe on a storage target.
    overstriping: Text = ""; Cray Accepted;
    /// Number of shared-file locks.
    cray_fileoff_based_aggr: Text = ""; Cray Accepted;
    /// Stripe alignment of file domains (old).
    mpich_mpiio_cb_align "cb_align": Text = ""; Cray Accepted;

    /// Alignment of a netCDF header, in bytes.
    nc_header_align_size: Offset(NUMBER_MIN, NUMBER_MAX) = 0i64; Pnetcdf Accepted [if_set];
    /// Alignment of fixed-size netCDF variables, in bytes.
    nc_var_align_size: Offset(NUMBER_MIN, NUMBER_MAX) = 0i64; Pnetcdf Accepted [if_set];
    /// Alignment of the record section, in bytes.
    nc_record_align_size: Offset(NUMBER_MIN, NUMBER_MAX) = 0i64; Pnetcdf Accepted [if_set];
    /// Bytes that PnetCDF reads of a header at a time.
    nc_header_read_chunk_size: Text = ""; Pnetcdf Accepted;
    /// Whether PnetCDF swaps bytes in the user's buffer.
    nc_in_place_swap: Text = ""; Pnetcdf Accepted;
    /// Bytes that PnetCDF may use for buffering.
    nc_ibuf_size: Text = ""; Pnetcdf Accepted;
    /// Number of files that a data set is divided into.
    nc_num_subfiles: Text = ""; Pnetcdf Accepted;
    /// Whether PnetCDF writes the variables of a file to subfiles; for PnetCDF.
    pnetcdf_subfiling: Text = ""; Pnetcdf Accepted;
    /// Aggregators per node inside PnetCDF.
    nc_num_aggrs_per_node: Text = ""; Pnetcdf Accepted;
    /// Whether PnetCDF uses a burst buffer.
    nc_burst_buf: Text = ""; Pnetcdf Accepted;
    /// Directory of the burst buffer.
    nc_burst_buf_dirname: Text = ""; Pnetcdf Accepted;
    /// Whether logs of the burst buffer may be overwritten.
    nc_burst_buf_overwrite: Text = ""; Pnetcdf Accepted;
    /// Whether logs of the burst buffer are deleted at close.
    nc_burst_buf_del_on_close: Text = ""; Pnetcdf Accepted;
    /// Bytes that the burst buffer is flushed by.
    nc_burst_buf_flush_buffer_size: Text = ""; Pnetcdf Accepted;
    /// Whether ranks of a node share a log.
    nc_burst_buf_shared_logs: Text = ""; Pnetcdf Accepted;
    /// Size of the table of dimension names.
    nc_hash_size_dim: Text = ""; Pnetcdf Accepted;
    /// Size of the table of variable names.
    nc_hash_size_var: Text = ""; Pnetcdf Accepted;
    /// Size of the table of global attribute names.
    nc_hash_size_gattr: Text = ""; Pnetcdf Accepted;
    /// Size of the table of attribute names of a variable.
    nc_hash_size_vattr: Text = ""; Pnetcdf Accepted;
    /// Bytes moved at a time when a header grows.
    nc_data_move_chunk_size: Text = ""; Pnetcdf Accepted;
    /// The I/O layer of PnetCDF: `gio` or `mpiio`.
    nc_driver: Text = ""; Pnetcdf Accepted;
    /// The I/O layer of PnetCDF, old spelling.
    pnc_driver: Text = ""; Pnetcdf Accepted;
    /// Whether PnetCDF uses its own I/O layer, old spelling.
    nc_pncio: Text = ""; Pnetcdf Accepted;
    /// Whether a new file takes the striping of its directory.
    file_striping: Text = ""; Pnetcdf Accepted [at_open];
    /// Stripes per storage target.
    overstriping_ratio: Text = ""; Pnetcdf Accepted [at_open];
    /// Number of storage targets of the file system.
    lustre_num_osts: Text = ""; Pnetcdf Told;
    /// The ranks that are aggregators.
    cb_node_list: Text = ""; Pnetcdf Told;
    /// The file system's type.
    file_system_type: Text = ""; Pnetcdf Told;

    /// Ranks that do not need the file do not open it; `automatic` is `enable`, but for the test
    /// driver.
    aggio_deferred_open: Switch = Switch::Automatic; Aggio Tunes [same, at_open];
    /// Which bytes read from a container are compared with checksums: `whole`, those of frames that
    /// a read, or reads one after another, cover; `always`, all, so that each frame is read as a
    /// whole once.
    aggio_verify: Choice(Verify::WORDS) = "whole"; Aggio Acts [at_open];
    /// Whether writes are delayed until the file is synchronised, closed or read. `automatic` is
    /// `disable`. `AGGIO_DEFER` sets it by file name.
    aggio_defer: Switch = Switch::Automatic; Aggio Acts [same, at_open];
    /// Writes are buffered regardless of cost. Without it only those are buffered for which it
    /// costs less than going straight to the file, by the measured time of a request, and only if
    /// ranks can request flushes of each other.
    aggio_defer_always: Flag = false; Aggio Tunes [same, at_open];
    /// Bytes of a rank that may wait in memory; more are written out.
    aggio_defer_buffer: Size(1, BUFFER_MAX) = 256 * MIB; Aggio Tunes;
    /// Bytes of a rank that may wait in the directory of `AGGIO_STAGE` beside `defer_buffer`.
    aggio_defer_spill: Size(0, SPILL_MAX) = 1024 * MIB; Aggio Tunes;
    /// When bytes staged in the directory of `AGGIO_STAGE` go into the file: `close`, when it is
    /// synchronised or closed; `later`, only when it is synchronised, also by the next program or
    /// `aggio recover`; `idle`, as `close`, or when they have not changed for 50 ms.
    aggio_defer_drain: Choice(Drain::WORDS) = "close"; Aggio Acts [same, at_open];
    /// From the ninth view of a file on ranks set views without waiting for each other, except for
    /// one of 32. An error in a view is the error of its rank, and of all in the next collective
    /// access; hints that all ranks share wait for a view that ranks meet at. `automatic` is
    /// `enable` for files of HDF5, which sets two views for each chunk, else `disable`.
    aggio_views_alone: Switch = Switch::Automatic; Aggio Tunes [same, at_open];
    /// Whether collective calls look at the chunks of views: the only rank of a chunk moves it,
    /// other chunks pass through one aggregator each. `automatic` is `enable` for files of HDF5,
    /// else `disable`.
    aggio_chunks: Switch = Switch::Automatic; Aggio Acts [same, at_open];
    /// As HDF5's property `chunk_opt_num`: if ranks touch this many chunks of a call each, or more,
    /// on average, all go through aggregators, else chunk by chunk. -1: the cheaper way.
    aggio_chunk_opt_num: Offset(-1, CHUNKS_MAX) = -1i64; Aggio Tunes [same];
    /// As HDF5's property `chunk_opt_ratio`, for calls chunk by chunk: a chunk goes through
    /// aggregators if more than this percentage of the ranks touches it, and more than one rank;
    /// with 0 each does. -1: the cheaper way, or 60 if `chunk_opt_num` is set.
    aggio_chunk_opt_ratio: Offset(-1, 100) = -1i64; Aggio Tunes [same];
    /// Whether small reads fetch the MiB around them, for all ranks of the node, when a second one
    /// falls into it, and reads of up to 8 MiB that several ranks make alike are made once:
    /// `automatic` where requests take long.
    aggio_small_reads: Switch = Switch::Automatic; Aggio Tunes;
    /// Whether zeros that are written where the file has no bytes yet, as fill values are, only get
    /// storage: `automatic` where the file system reliably reports stored extents, and elsewhere
    /// behind the end of the file; `enable` everywhere.
    aggio_fill_elision: Switch = Switch::Automatic; Aggio Tunes;
    /// The format: borders of file domains follow its structure. `automatic` detects netCDF
    /// classic; `records:SIZE[:HEADER]` means records of SIZE bytes behind HEADER bytes; `bytes`
    /// means no format.
    aggio_format: Format = Chosen::Automatic; Aggio Acts [same, at_open];
    /// Settings for tests and experiments.
    aggio_tune: Text = ""; Aggio Acts;
    /// The version of aggio that serves the file.
    aggio_version: Text = env!("CARGO_PKG_VERSION"); Aggio Told;
    /// Largest size of a window of the file in memory that the ranks of a node share, in bytes:
    /// `cb_buffer_size`, or less if that memory has less room.
    aggio_window_size: Text = ""; Aggio Told;
    /// The driver that serves the file.
    aggio_driver: Text = ""; Aggio Told;
}
