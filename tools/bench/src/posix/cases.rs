//! The programs without MPI in the benchmark, and their speed targets.

/// Which rule makes the library serve the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// None: the library is only there.
    Not,
    /// `AGGIO_POSIX` in this mode.
    Managed(&'static str),
    /// `AGGIO_BLOB` with this option.
    Container(&'static str),
}

/// The program that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// `aggio-bench-records` with this word first.
    Records(&'static str),
    /// A source file of `tools/bench/programs`, compiled.
    Compiled(&'static str),
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    /// The name in the table.
    pub(super) name: &'static str,
    /// The program that runs with the library.
    pub(super) program: Program,
    /// The program that runs without it, if that is another one.
    pub(super) native: Option<Program>,
    pub(super) served: Served,
    /// Bytes of a record.
    pub(super) length: u64,
    /// Records of a process.
    pub(super) count: u64,
    pub(super) processes: u64,
    /// How many times as fast as natively it is to be, on tmpfs and elsewhere.
    pub(super) wanted: [f64; 2],
}

const ONE: Program = Program::Records("one");
const CPP: Program = Program::Compiled("records.cc");
const FORTRAN: Program = Program::Compiled("records.f90");

const fn small(
    name: &'static str,
    program: Program,
    mode: &'static str,
    length: u64,
    wanted: [f64; 2],
) -> Case {
    let (native, served) = (None, Served::Managed(mode));
    let count = 128 * 1024 * 1024 / (length + 192);
    Case { name, program, native, served, length, count, processes: 1, wanted }
}

const fn by_turns(name: &'static str, option: &'static str, own: bool, wanted: f64) -> Case {
    let (program, served) = (Program::Records("strided"), Served::Container(option));
    let native = if own { Some(Program::Records("own")) } else { None };
    let (length, count, processes) = (47_008, 4096, 8);
    Case { name, program, native, served, length, count, processes, wanted: [wanted; 2] }
}

const fn large(name: &'static str, length: u64) -> Case {
    let (native, served) = (None, Served::Managed("close"));
    let count = 512 * 1024 * 1024 / length;
    Case { name, program: ONE, native, served, length, count, processes: 1, wanted: [0.97; 2] }
}

const FIVE: [f64; 2] = [5.0, 5.0];
const MORE: [f64; 2] = [1.7, 2.5];

/// On file systems of this machine.
pub(super) const LOCAL: &[Case] = &[
    small("`write`, close", ONE, "close", 64, FIVE),
    small("`write`, close", ONE, "close", 512, MORE),
    small("`write`, causal", ONE, "causal", 64, FIVE),
    small("`write`, causal", ONE, "causal", 512, MORE),
    small("C++ stream, flushed, close", CPP, "close", 64, FIVE),
    small("C++ stream, flushed, close", CPP, "close", 512, MORE),
    small("Fortran stream, flushed, close", FORTRAN, "close", 64, FIVE),
    small("Fortran stream, flushed, close", FORTRAN, "close", 512, MORE),
    small("`read`, close", Program::Records("reads"), "close", 64, [1.0; 2]),
    small("`read`, close", Program::Records("reads"), "close", 512, [1.0; 2]),
    by_turns("by turns into a container, beside files of their own", "nocrc", true, 1.0),
    by_turns("the same with checksums of the data", "crc", true, 1.0),
    by_turns("by turns into a container, beside one file", "crc", false, 1.0),
    large("large, aligned, close", 512 * 1024),
    large("large, aligned, close", 4 * 1024 * 1024),
    Case { served: Served::Not, ..large("large, aligned, no rule", 512 * 1024) },
];

/// On the slow file system.
pub(super) const SLOW: &[Case] = &[
    Case { count: 4096, ..small("`write`, close", ONE, "close", 64, [20.0; 2]) },
    Case { count: 4096, ..small("`write`, close", ONE, "close", 512, [20.0; 2]) },
    Case {
        count: 64,
        ..by_turns("by turns into a container, beside one file", "crc", false, 20.0)
    },
    Case { count: 64, ..by_turns("the same, and writes wait (close)", "crc:close", false, 20.0) },
    Case { count: 1024, ..by_turns("the same, more records", "crc:close", false, 20.0) },
];
