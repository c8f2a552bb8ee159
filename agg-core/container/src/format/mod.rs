//! What files of a container hold, byte by byte (`docs/FORMAT.md`).

mod event;
pub(crate) mod frame;
pub(crate) mod manifest;
mod numbers;
mod run;
mod run_code;
mod varint;

pub(crate) use event::Event;
pub use frame::Strip;
pub(crate) use frame::{
    FILE_END, Frame, HEADER, Head, Kind, Lengths, MAGIC, NO_DATA_CRC, RUN, SHORT, checksum,
};
pub use manifest::is_container;
pub(crate) use manifest::{IndexLine, Manifest, SealedLog, begins, dir_mode, part_mode};
pub(crate) use numbers::{u32_at, u64_at};
pub(crate) use run::Run;
pub(crate) use run_code::{decode_runs, encode_run, fits, single};
