//! Predefined handles of the three MPI ABIs, one row each.
//!
//! Open MPI's handles are addresses of data objects that are looked up; the others are numbers.

macro_rules! handles {
    ($($name:ident: $ompi:literal, $mpich:expr, $std:expr;)*) => {
        /// The predefined handles of one ABI; each field is `MPI_<FIELD>`.
        #[derive(Debug)]
        #[allow(missing_docs, dead_code, reason = "each field is the handle of that name; the \
            table is whole")]
        pub struct Handles { $(pub $name: usize),* }

        impl Handles {
            /// MPICH and its family.
            pub fn mpich() -> Self {
                Self { $($name: $mpich),* }
            }

            /// The MPI-5 standard ABI.
            pub fn standard() -> Self {
                Self { $($name: $std),* }
            }

            /// Open MPI: `find` gives the address of a data object, 0 if there is none.
            pub fn open_mpi(find: impl Fn(&str) -> usize) -> Self {
                Self { $($name: find($ompi)),* }
            }
        }
    };
}

handles! {
    comm_world: "ompi_mpi_comm_world", 0x44000000, 0x101;
    comm_self: "ompi_mpi_comm_self", 0x44000001, 0x102;
    comm_null: "ompi_mpi_comm_null", 0x4000000, 0x100;
    group_null: "ompi_mpi_group_null", 0x8000000, 0x108;
    group_empty: "ompi_mpi_group_empty", 0x48000000, 0x109;
    info_null: "ompi_mpi_info_null", 0x1c000000, 0x130;
    info_env: "ompi_mpi_info_env", 0x5c000001, 0x131;
    request_null: "ompi_request_null", 0x2c000000, 0x180;
    file_null: "ompi_mpi_file_null", 0x0, 0x118;
    win_null: "ompi_mpi_win_null", 0x20000000, 0x110;
    errhandler_null: "ompi_mpi_errhandler_null", 0x14000000, 0x140;
    errors_are_fatal: "ompi_mpi_errors_are_fatal", 0x54000000, 0x141;
    errors_return: "ompi_mpi_errors_return", 0x54000001, 0x143;
    datatype_null: "ompi_mpi_datatype_null", 0xc000000, 0x200;
    byte: "ompi_mpi_byte", 0x4c00010d, 0x247;
    char: "ompi_mpi_char", 0x4c000101, 0x243;
    int: "ompi_mpi_int", 0x4c000405, 0x209;
    long: "ompi_mpi_long", 0x4c000807, 0x20a;
    long_long: "ompi_mpi_long_long_int", 0x4c000809, 0x20b;
    float: "ompi_mpi_float", 0x4c00040a, 0x210;
    double: "ompi_mpi_double", 0x4c00080b, 0x214;
    int32_t: "ompi_mpi_int32_t", 0x4c000439, 0x250;
    int64_t: "ompi_mpi_int64_t", 0x4c00083a, 0x258;
    uint64_t: "ompi_mpi_uint64_t", 0x4c00083e, 0x259;
    uint8_t: "ompi_mpi_uint8_t", 0x4c00013b, 0x241;
    offset: "ompi_mpi_offset", 0x4c000844, 0x203;
    aint: "ompi_mpi_aint", 0x4c000843, 0x201;
    count: "ompi_mpi_count", 0x4c000845, 0x202;
    packed: "ompi_mpi_packed", 0x4c00010f, 0x207;
    sum: "ompi_mpi_op_sum", 0x58000003, 0x21;
    max: "ompi_mpi_op_max", 0x58000001, 0x23;
    min: "ompi_mpi_op_min", 0x58000002, 0x22;
    bor: "ompi_mpi_op_bor", 0x58000008, 0x29;
    lor: "ompi_mpi_op_lor", 0x58000007, 0x31;
    land: "ompi_mpi_op_land", 0x58000005, 0x30;
    op_null: "ompi_mpi_op_null", 0x18000000, 0x20;
    maxloc: "ompi_mpi_op_maxloc", 0x5800000c, 0x39;
    replace: "ompi_mpi_op_replace", 0x5800000d, 0x3c;
    no_op: "ompi_mpi_op_no_op", 0x5800000e, 0x3d;
    minloc: "ompi_mpi_op_minloc", 0x5800000b, 0x38;
    errors_throw_exceptions: "ompi_mpi_errors_throw_exceptions", 0x5400_0002, 0;
    errors_abort: "ompi_mpi_errors_abort", 0x5400_0003, 0x142;
}
