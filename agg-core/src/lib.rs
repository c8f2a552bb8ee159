//! The public interface for hosts: re-exported names only, no code. `ARCHITECTURE.md` shows the
//! layers.

pub use aggio_base::{
    Error, ErrorClass, Extent, Result, allocate, caches, diagnostics, error, error_classes, extent,
    file_systems, host, log, os, overlay, pattern, report, spare_memory, spelling, system,
};

pub use aggio_types::{datatype, memory, view};

pub use aggio_config::{hints, rules, settings};

pub use aggio_comm::{group, lanes, meeting, node, tags, task, transport, workers};

pub use aggio_plan::{format, plan};

pub use aggio_container::{blob, output};

pub use aggio_store::{driver, independent};

pub use aggio_staging::{pending, spool, stage, write_behind};

pub use aggio_engine::{Engine, exchange, file};
