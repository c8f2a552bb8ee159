//! What files of a container hold, byte by byte (`docs/FORMAT.md`).

pub(crate) mod event;
pub(crate) mod frame;
pub(crate) mod manifest;
pub(crate) mod numbers;
pub(crate) mod run;
pub(crate) mod run_code;
pub(crate) mod varint;
