//! tmp routing crate placeholder
