//! Integer constants of the three MPI ABIs, one row each: Open MPI, MPICH, standard ABI.

use libc::c_int;

macro_rules! constants {
    ($($name:ident: $ompi:expr, $mpich:expr, $std:expr;)*) => {
        /// The integer constants of one ABI; each field is `MPI_<FIELD>`.
        #[derive(Debug)]
        #[allow(missing_docs, dead_code, reason = "each field is the constant of that name; the \
            table is whole")]
        pub struct Constants { $(pub $name: c_int),* }

        /// Open MPI 4 and 5.
        pub static OMPI: Constants = Constants { $($name: $ompi),* };
        /// MPICH 4 and 5 and its family.
        pub static MPICH: Constants = Constants { $($name: $mpich),* };
        /// The MPI-5 standard ABI.
        pub static STD: Constants = Constants { $($name: $std),* };
    };
}

constants! {
    err_buffer: 1, 1, 1;
    err_count: 2, 2, 2;
    err_type: 3, 3, 3;
    err_tag: 4, 4, 4;
    err_comm: 5, 5, 5;
    err_rank: 6, 6, 6;
    err_request: 7, 19, 7;
    err_root: 8, 7, 8;
    err_group: 9, 8, 9;
    err_op: 10, 9, 10;
    err_topology: 11, 10, 11;
    err_dims: 12, 11, 12;
    err_arg: 13, 12, 13;
    err_unknown: 14, 13, 14;
    err_truncate: 15, 14, 15;
    err_other: 16, 15, 16;
    err_intern: 17, 16, 17;
    err_pending: 19, 18, 18;
    err_in_status: 18, 17, 19;
    err_access: 20, 20, 20;
    err_amode: 21, 21, 21;
    err_bad_file: 23, 22, 23;
    err_conversion: 25, 23, 25;
    err_dup_datarep: 27, 24, 27;
    err_file_exists: 28, 25, 28;
    err_file_in_use: 29, 26, 29;
    err_file: 30, 27, 30;
    err_info: 34, 28, 34;
    err_info_key: 31, 29, 31;
    err_info_nokey: 32, 31, 32;
    err_info_value: 33, 30, 33;
    err_io: 35, 32, 35;
    err_no_mem: 39, 34, 39;
    err_not_same: 40, 35, 40;
    err_no_space: 41, 36, 41;
    err_no_such_file: 42, 37, 42;
    err_quota: 44, 39, 44;
    err_read_only: 45, 40, 45;
    err_unsupported_datarep: 51, 43, 54;
    err_unsupported_operation: 52, 44, 55;
    err_lastcode: 92, 1073741823, 16383;
    mode_rdonly: 2, 2, 16;
    mode_rdwr: 8, 8, 32;
    mode_wronly: 4, 4, 256;
    mode_create: 1, 1, 2;
    mode_excl: 64, 64, 8;
    mode_delete_on_close: 16, 16, 4;
    mode_unique_open: 32, 32, 128;
    mode_sequential: 256, 256, 64;
    mode_append: 128, 128, 1;
    seek_set: 600, 600, 403;
    seek_cur: 602, 602, 401;
    seek_end: 604, 604, 402;
    any_source: -1, -2, -1;
    any_tag: -1, -1, -2;
    proc_null: -2, -1, -3;
    root: -4, -3, -4;
    undefined: -32766, -32766, -32766;
    thread_single: 0, 0, 0;
    thread_funneled: 1, 1, 1024;
    thread_serialized: 2, 2, 2048;
    thread_multiple: 3, 3, 4096;
    comm_type_shared: 0, 1, 221;
    order_c: 0, 56, 12;
    order_fortran: 1, 57, 15;
    max_info_key: 36, 255, 256;
    max_info_val: 256, 1024, 1024;
    max_error_string: 256, 512, 512;
    max_datarep_string: 128, 128, 128;
    max_processor_name: 256, 128, 256;
    max_object_name: 64, 128, 128;
    combiner_named: 0, 1, 101;
    combiner_dup: 1, 2, 102;
    combiner_contiguous: 2, 3, 103;
    combiner_vector: 3, 4, 104;
    combiner_hvector: 5, 6, 105;
    combiner_indexed: 6, 7, 106;
    combiner_hindexed: 8, 9, 107;
    combiner_indexed_block: 9, 10, 108;
    combiner_hindexed_block: 18, 19, 109;
    combiner_struct: 11, 12, 110;
    combiner_subarray: 12, 13, 111;
    combiner_darray: 13, 14, 112;
    combiner_f90_real: 14, 15, 113;
    combiner_f90_complex: 15, 16, 114;
    combiner_f90_integer: 16, 17, 115;
    combiner_resized: 17, 18, 116;
    // A combiner that an ABI does not have is -1, which no type has.
    combiner_hvector_integer: 4, 5, -1;
    combiner_hindexed_integer: 7, 8, -1;
    combiner_struct_integer: 10, 11, -1;
    combiner_value_index: -1, 20, 117;
    ident: 0, 0, 201;
    congruent: 1, 1, 202;
    similar: 2, 2, 203;
    unequal: 3, 3, 204;
    lock_shared: 2, 235, 302;
    lock_exclusive: 1, 234, 301;
    mode_nocheck: 1, 1024, 1024;
    keyval_invalid: -1, 603979776, 0;
    tag_ub: 0, 1681915905, 501;
    win_base: 7, 1711276033, 601;
    distribute_block: 0, 121, 17;
    distribute_cyclic: 1, 122, 18;
    distribute_none: 2, 123, 16;
    distribute_dflt_darg: -1, -49767, 19;
    status_ignore: 0, 1, 0;
    statuses_ignore: 0, 1, 0;
    in_place: 1, -1, 1;
    displacement_current: -54_278_278, -54_278_278, -1;
}
