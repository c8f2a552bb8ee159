//! From a combiner and its arguments to a compact tree.

use super::contents::{Combiner, Contents, contents, envelope};
use super::{Lens, attribute, bounded, malformed, named};
use crate::abi::Abi;
use agg_core::datatype::{Basic, BasicKind, Datatype, Distribution, Order};
use agg_core::{Error, ErrorClass, Result};
use std::collections::HashMap;

/// Deepest nesting that is followed; a recursion over a type must not exhaust a small thread stack.
const MAX_DEPTH: u32 = 256;

/// Decodes types for one lens; a type that occurs more than once is decoded once.
pub(super) struct Builder<'a> {
    abi: &'a Abi,
    lens: &'a Lens<'a>,
    seen: HashMap<usize, Datatype>,
    depth: u32,
}

impl<'a> Builder<'a> {
    pub(super) fn new(abi: &'a Abi, lens: &'a Lens<'a>) -> Self {
        Self { abi, lens, seen: HashMap::new(), depth: 0 }
    }

    /// The tree of `handle`.
    pub(super) fn build(&mut self, handle: usize) -> Result<Datatype> {
        if self.depth >= MAX_DEPTH {
            let text = format!("a datatype nested deeper than {MAX_DEPTH} levels");
            return Err(Error::new(ErrorClass::Type, text));
        }
        self.depth += 1;
        let tree = self.node(handle);
        self.depth -= 1;
        tree
    }

    fn node(&mut self, handle: usize) -> Result<Datatype> {
        if named::is_known(self.abi, handle) {
            return self.lens.named(self.abi, handle);
        }
        let envelope = envelope(self.abi, handle)?;
        match envelope.combiner {
            Combiner::Named => return self.lens.named(self.abi, handle),
            Combiner::ValueIndex => return self.value_index(handle, envelope),
            Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
                let contents = contents(self.abi, handle, envelope)?;
                return self.fortran(handle, envelope.combiner, &contents.integers);
            }
            _ => {}
        }
        let contents = contents(self.abi, handle, envelope)?;
        let children = self.children(&contents.datatypes);
        self.release(&contents.datatypes);
        let tree = self.combine(envelope.combiner, &contents, &children?)?;
        // Alignment padding of structures and bound markers belong to the library's layout; the
        // portable file layouts have neither.
        if self.lens.is_native() { bounded(handle, tree) } else { Ok(tree) }
    }

    /// The trees of the constituents, which the library has handed out as new references.
    fn children(&mut self, handles: &[usize]) -> Result<Vec<Datatype>> {
        let mut trees = Vec::with_capacity(handles.len());
        for &handle in handles {
            if let Some(tree) = self.seen.get(&handle) {
                trees.push(tree.clone());
                continue;
            }
            let known = match self.lens {
                Lens::Native => attribute::native(handle),
                Lens::External32 => attribute::external(handle),
                Lens::User(_) => None,
            };
            let tree = known.map_or_else(|| self.build(handle), Ok)?;
            self.seen.insert(handle, tree.clone());
            trees.push(tree);
        }
        // The references end with the caller, and then a library may give a handle to a new type.
        for handle in handles {
            self.seen.remove(handle);
        }
        Ok(trees)
    }

    /// Frees the references to derived types that the contents came with.
    fn release(&self, handles: &[usize]) {
        for &handle in handles {
            let predefined = named::is_known(self.abi, handle)
                || envelope(self.abi, handle).is_ok_and(|it| it.combiner.is_predefined());
            if !predefined {
                super::free(self.abi, handle);
            }
        }
    }

    fn combine(
        &self,
        combiner: Combiner,
        contents: &Contents,
        children: &[Datatype],
    ) -> Result<Datatype> {
        let args = Arguments { values: contents.arguments() };
        if combiner == Combiner::Struct {
            return structure(&args, children);
        }
        let child = children.first().ok_or_else(malformed)?;
        match combiner {
            Combiner::Dup => Ok(child.clone()),
            Combiner::Contiguous => Datatype::contiguous(args.count(0)?, child),
            Combiner::Vector => {
                let stride = scaled(args.at(2)?, child)?;
                Datatype::hvector(args.count(0)?, args.count(1)?, stride, child)
            }
            Combiner::Hvector => {
                Datatype::hvector(args.count(0)?, args.count(1)?, args.at(2)?, child)
            }
            Combiner::Indexed => indexed(&args, child, |at| scaled(at, child)),
            Combiner::Hindexed => indexed(&args, child, Ok),
            Combiner::IndexedBlock => indexed_block(&args, child, |at| scaled(at, child)),
            Combiner::HindexedBlock => indexed_block(&args, child, Ok),
            Combiner::Resized => child.resized(args.at(0)?, args.at(1)?),
            Combiner::Subarray => self.subarray(contents, child),
            Combiner::Darray => self.darray(contents, child),
            _ => Err(malformed()),
        }
    }

    fn order(&self, code: i64) -> Result<Order> {
        let constants = self.abi.constants;
        match code {
            code if code == i64::from(constants.order_c) => Ok(Order::C),
            code if code == i64::from(constants.order_fortran) => Ok(Order::Fortran),
            _ => Err(malformed()),
        }
    }

    /// Integers: ndims, sizes, subsizes, starts, order; a large-count type keeps the three arrays
    /// among its counts.
    fn subarray(&self, contents: &Contents, child: &Datatype) -> Result<Datatype> {
        let integers = Arguments { values: contents.integers.clone() };
        let n = integers.length(0)?;
        let large = !contents.counts.is_empty();
        let (arrays, order) = if large {
            (Arguments { values: contents.counts.clone() }, integers.at(1)?)
        } else {
            let arrays = contents.integers.get(1..).ok_or_else(malformed)?.to_vec();
            (Arguments { values: arrays }, integers.at(1 + 3 * n)?)
        };
        let (sizes, subsizes) = (arrays.counts(0, n)?, arrays.counts(n, n)?);
        let starts = arrays.counts(2 * n, n)?;
        Datatype::subarray(&sizes, &subsizes, &starts, self.order(order)?, child)
    }

    /// Integers: size, rank, ndims, gsizes, distribs, dargs, psizes, order; a large-count type
    /// keeps the gsizes among its counts.
    fn darray(&self, contents: &Contents, child: &Datatype) -> Result<Datatype> {
        let integers = Arguments { values: contents.integers.clone() };
        let (size, rank, n) = (integers.count(0)?, integers.count(1)?, integers.length(2)?);
        let large = !contents.counts.is_empty();
        let gsizes = if large {
            Arguments { values: contents.counts.clone() }.counts(0, n)?
        } else {
            integers.counts(3, n)?
        };
        let rest = if large { 3 } else { 3 + n };
        let kinds = integers.slice(rest, n)?.iter().map(|kind| self.distribution(*kind));
        let kinds = kinds.collect::<Result<Vec<_>>>()?;
        let dargs =
            integers.slice(rest + n, n)?.iter().map(|darg| self.distribution_argument(*darg));
        let dargs = dargs.collect::<Result<Vec<_>>>()?;
        let psizes = integers.counts(rest + 2 * n, n)?;
        let order = self.order(integers.at(rest + 3 * n)?)?;
        Datatype::darray((size, rank), &gsizes, &kinds, &dargs, &psizes, order, child)
    }

    /// `None` for the default.
    fn distribution_argument(&self, argument: i64) -> Result<Option<u64>> {
        if argument == i64::from(self.abi.constants.distribute_dflt_darg) {
            return Ok(None);
        }
        u64::try_from(argument).map(Some).map_err(|_| malformed())
    }

    fn distribution(&self, kind: i64) -> Result<Distribution> {
        let c = self.abi.constants;
        match kind {
            kind if kind == i64::from(c.distribute_none) => Ok(Distribution::None),
            kind if kind == i64::from(c.distribute_block) => Ok(Distribution::Block),
            kind if kind == i64::from(c.distribute_cyclic) => Ok(Distribution::Cyclic),
            _ => Err(malformed()),
        }
    }

    /// A type of `MPI_Type_create_f90_*`: its size in memory is the library's, that in a file
    /// follows from precision and range (MPI-4.1, 14.5.2).
    fn fortran(&self, handle: usize, combiner: Combiner, integers: &[i64]) -> Result<Datatype> {
        let parts: u64 = if combiner == Combiner::F90Complex { 2 } else { 1 };
        let size = u32::try_from(named::size_of(handle)? / parts).map_err(|_| malformed())?;
        let first = integers.first().copied().unwrap_or(0);
        let basic = if combiner == Combiner::F90Integer {
            Basic::new(BasicKind::SignedInt, size, integer_bytes(first))
        } else {
            let range = integers.get(1).copied().unwrap_or(0);
            let (precision, range) = (self.defined(first), self.defined(range));
            // gfortran's 10-byte real holds 18 digits in 16 bytes; more digits mean binary128.
            let long = size == 16 && precision <= 18;
            let kind = if long { BasicKind::LongDouble } else { BasicKind::Float };
            Basic::new(kind, size, real_bytes(precision, range))
        };
        let element = match self.lens {
            Lens::Native => Datatype::basic(basic),
            Lens::External32 => named::in_file(basic),
            Lens::User(extent) => return super::user_element(*extent, handle),
        };
        Datatype::contiguous(parts, &element)
    }

    /// A precision or range that the program left open counts as none.
    fn defined(&self, value: i64) -> i64 {
        if value == i64::from(self.abi.constants.undefined) { 0 } else { value }
    }

    /// A pair type of `MPI_Type_get_value_index`: a value and its index, as in a C struct.
    fn value_index(
        &mut self,
        handle: usize,
        envelope: super::contents::Envelope,
    ) -> Result<Datatype> {
        let contents = contents(self.abi, handle, envelope)?;
        let [value, index] = contents.datatypes[..] else { return Err(malformed()) };
        let (value, index) = (self.build(value)?, self.build(index)?);
        let align = if self.lens.is_native() { index.extent().clamp(1, 16) } else { 1 };
        let at = (value.extent() + align - 1) / align * align;
        let pair = Datatype::structure(&[(1, 0, value), (1, at, index)])?;
        if self.lens.is_native() { bounded(handle, pair) } else { Ok(pair) }
    }
}

/// Bytes of an `external32` integer with `range` decimal digits.
fn integer_bytes(range: i64) -> u32 {
    match range {
        ..=2 => 1,
        3..=4 => 2,
        5..=9 => 4,
        10..=18 => 8,
        _ => 16,
    }
}

/// Bytes of an `external32` real with this decimal precision and exponent range.
fn real_bytes(precision: i64, range: i64) -> u32 {
    if precision > 15 || range > 307 {
        16
    } else if precision > 6 || range > 37 {
        8
    } else {
        4
    }
}

/// A displacement in copies of `child`, in bytes.
fn scaled(copies: i64, child: &Datatype) -> Result<i64> {
    copies.checked_mul(child.extent()).ok_or_else(|| {
        Error::new(ErrorClass::Arg, "a datatype whose displacements do not fit into 64 bits")
    })
}

fn indexed(
    args: &Arguments,
    child: &Datatype,
    displacement: impl Fn(i64) -> Result<i64>,
) -> Result<Datatype> {
    let n = args.length(0)?;
    let lengths = args.counts(1, n)?;
    let places = args.slice(1 + n, n)?;
    let blocks = lengths.into_iter().zip(places).map(|(len, at)| Ok((len, displacement(*at)?)));
    Datatype::hindexed(&blocks.collect::<Result<Vec<_>>>()?, child)
}

fn indexed_block(
    args: &Arguments,
    child: &Datatype,
    displacement: impl Fn(i64) -> Result<i64>,
) -> Result<Datatype> {
    let n = args.length(0)?;
    let places = args.slice(2, n)?.iter().map(|at| displacement(*at));
    Datatype::hindexed_block(args.count(1)?, &places.collect::<Result<Vec<_>>>()?, child)
}

fn structure(args: &Arguments, children: &[Datatype]) -> Result<Datatype> {
    let n = args.length(0)?;
    let (lengths, places) = (args.counts(1, n)?, args.slice(1 + n, n)?);
    if children.len() != n {
        return Err(malformed());
    }
    let fields = lengths.into_iter().zip(places).zip(children);
    let fields: Vec<_> = fields.map(|((len, at), child)| (len, *at, child.clone())).collect();
    Datatype::structure(&fields)
}

/// The numbers of a constructor call, read with bounds checks: they come from another library.
struct Arguments {
    values: Vec<i64>,
}

impl Arguments {
    fn at(&self, index: usize) -> Result<i64> {
        self.values.get(index).copied().ok_or_else(malformed)
    }

    fn count(&self, index: usize) -> Result<u64> {
        u64::try_from(self.at(index)?).map_err(|_| malformed())
    }

    fn length(&self, index: usize) -> Result<usize> {
        usize::try_from(self.at(index)?).map_err(|_| malformed())
    }

    fn slice(&self, from: usize, n: usize) -> Result<&[i64]> {
        let end = from.checked_add(n).ok_or_else(malformed)?;
        self.values.get(from..end).ok_or_else(malformed)
    }

    fn counts(&self, from: usize, n: usize) -> Result<Vec<u64>> {
        let values = self.slice(from, n)?.iter();
        values.map(|value| u64::try_from(*value).map_err(|_| malformed())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fortran_kinds_have_the_file_sizes_of_the_standard() {
        assert_eq!([2, 4, 9, 18, 19].map(integer_bytes), [1, 2, 4, 8, 16]);
        assert_eq!(real_bytes(6, 37), 4);
        assert_eq!(real_bytes(7, 0), 8);
        assert_eq!(real_bytes(0, 38), 8);
        assert_eq!(real_bytes(16, 0), 16);
        assert_eq!(real_bytes(0, 308), 16);
    }
}
