//! The caller's buffer: base address, datatype, count.
