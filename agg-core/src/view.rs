//! A file view: which file bytes a rank sees, and in which order.
