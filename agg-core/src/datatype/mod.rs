//! Datatypes as compact trees.
