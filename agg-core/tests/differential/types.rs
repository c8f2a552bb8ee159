//! Random datatypes, once for the engine and once flattened byte by byte.

use crate::choices::Choices;
use agg_core::datatype::{Basic, Datatype, Order};

/// A datatype as a recipe.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    /// A basic element of so many bytes.
    Basic(u32),
    Contiguous(u64, Box<Recipe>),
    /// Count, block length, stride in bytes.
    Vector(u64, u64, i64, Box<Recipe>),
    /// Block lengths and displacements in bytes.
    Indexed(Vec<(u64, i64)>, Box<Recipe>),
    /// Block lengths, displacements, fields.
    Struct(Vec<(u64, i64, Recipe)>),
    /// Lower bound and extent.
    Resized(i64, i64, Box<Recipe>),
    /// Sizes, subsizes, starts, whether the first dimension is the fastest.
    Subarray(Vec<u64>, Vec<u64>, Vec<u64>, bool, Box<Recipe>),
}

/// A datatype in the simplest possible form.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    /// Displacement and length of every basic element, in typemap order.
    pub(crate) elements: Vec<(i64, u32)>,
    pub(crate) lb: i64,
    pub(crate) ub: i64,
    has_bounds: bool,
}

impl Flat {
    pub(crate) fn size(&self) -> u64 {
        self.elements.iter().map(|(_, len)| u64::from(*len)).sum()
    }

    pub(crate) fn extent(&self) -> i64 {
        self.ub - self.lb
    }

    /// Appends `count` copies of `other` from displacement `at` on.
    fn put(&mut self, count: u64, at: i64, other: &Flat) {
        for copy in 0..count as i64 {
            let base = at + copy * other.extent();
            self.elements.extend(other.elements.iter().map(|(d, len)| (base + d, *len)));
            self.bound(base + other.lb, base + other.ub);
        }
    }

    fn bound(&mut self, lb: i64, ub: i64) {
        (self.lb, self.ub) = match self.has_bounds {
            true => (self.lb.min(lb), self.ub.max(ub)),
            false => (lb, ub),
        };
        self.has_bounds = true;
    }

    /// The displacement of every data byte of `count` copies, in order.
    pub(crate) fn bytes(&self, count: u64) -> Vec<i64> {
        let mut bytes = Vec::new();
        for copy in 0..count as i64 {
            for (d, len) in &self.elements {
                let start = copy * self.extent() + d;
                bytes.extend(start..start + i64::from(*len));
            }
        }
        bytes
    }

    /// The element that each data byte belongs to: how far from its start, and its length.
    pub(crate) fn within(&self, count: u64) -> Vec<(u32, u32)> {
        let one = self.elements.iter().flat_map(|(_, len)| (0..*len).map(|i| (i, *len)));
        let one: Vec<_> = one.collect();
        one.iter().copied().cycle().take(one.len() * count as usize).collect()
    }
}

impl Recipe {
    pub(crate) fn datatype(&self) -> Datatype {
        let built = match self {
            Recipe::Basic(1) => Ok(Datatype::bytes(1)),
            Recipe::Basic(n) => Ok(Datatype::basic(Basic::signed(*n))),
            Recipe::Contiguous(n, child) => Datatype::contiguous(*n, &child.datatype()),
            Recipe::Vector(n, len, stride, child) => {
                Datatype::hvector(*n, *len, *stride, &child.datatype())
            }
            Recipe::Indexed(blocks, child) => Datatype::hindexed(blocks, &child.datatype()),
            Recipe::Struct(fields) => {
                let fields: Vec<_> =
                    fields.iter().map(|(len, at, child)| (*len, *at, child.datatype())).collect();
                Datatype::structure(&fields)
            }
            Recipe::Resized(lb, extent, child) => child.datatype().resized(*lb, *extent),
            Recipe::Subarray(sizes, subsizes, starts, first_fastest, child) => {
                let order = if *first_fastest { Order::Fortran } else { Order::C };
                Datatype::subarray(sizes, subsizes, starts, order, &child.datatype())
            }
        };
        built.expect("the recipe is legal")
    }

    pub(crate) fn flat(&self) -> Flat {
        let mut flat = Flat::default();
        match self {
            Recipe::Basic(n) => {
                flat.elements.push((0, *n));
                flat.bound(0, i64::from(*n));
            }
            Recipe::Contiguous(n, child) => flat.put(*n, 0, &child.flat()),
            Recipe::Vector(n, len, stride, child) => {
                let child = child.flat();
                for block in 0..*n as i64 {
                    flat.put(*len, block * stride, &child);
                }
            }
            Recipe::Indexed(blocks, child) => {
                let child = child.flat();
                for (len, at) in blocks {
                    flat.put(*len, *at, &child);
                }
            }
            Recipe::Struct(fields) => {
                for (len, at, child) in fields {
                    flat.put(*len, *at, &child.flat());
                }
            }
            Recipe::Resized(lb, extent, child) => {
                flat = child.flat();
                (flat.lb, flat.ub) = (*lb, lb + extent);
            }
            Recipe::Subarray(sizes, subsizes, starts, first_fastest, child) => {
                subarray(&mut flat, (sizes, subsizes, starts), *first_fastest, &child.flat());
            }
        }
        flat
    }
}

fn subarray(
    flat: &mut Flat,
    (sizes, subsizes, starts): (&[u64], &[u64], &[u64]),
    first_fastest: bool,
    child: &Flat,
) {
    let order: Vec<usize> = match first_fastest {
        true => (0..sizes.len()).collect(),
        false => (0..sizes.len()).rev().collect(),
    };
    let cells: u64 = subsizes.iter().product();
    for cell in 0..cells {
        let (mut rest, mut index, mut pitch) = (cell, 0, 1);
        for &dim in &order {
            index += (starts[dim] + rest % subsizes[dim]) * pitch;
            rest /= subsizes[dim];
            pitch *= sizes[dim];
        }
        flat.put(1, index as i64 * child.extent(), child);
    }
    let whole: u64 = sizes.iter().product();
    (flat.lb, flat.ub) = (0, whole as i64 * child.extent());
}

/// A datatype with elements that do not overlap, in any number of copies. With `rising`,
/// displacements are not negative and never decrease, as filetypes must be.
pub(crate) fn choose(c: &mut Choices, unit: Recipe, rising: bool, depth: u32) -> Recipe {
    if depth == 0 || c.below(3) == 0 {
        return unit;
    }
    let child = choose(c, unit.clone(), rising, depth - 1);
    let flat = child.flat();
    if flat.size() == 0 || flat.elements.len() > 40 {
        return child;
    }
    let extent = flat.extent();
    match c.below(8) {
        0 => Recipe::Contiguous(c.between(1, 4), Box::new(child)),
        1 | 2 => {
            let (count, len) = (c.between(1, 4), c.between(1, 3));
            let stride = len as i64 * extent + c.below(9) as i64;
            if !rising && c.once_in(3) {
                return backwards(count, len, stride, child);
            }
            Recipe::Vector(count, len, stride, Box::new(child))
        }
        3 | 4 => indexed(c, extent, rising, child),
        5 => fields(c, flat.ub, extent, unit, child),
        6 => {
            let (before, after) = (c.below(5) as i64, c.below(9) as i64);
            let lb = if rising { flat.lb.min(0) } else { flat.lb - before };
            Recipe::Resized(lb, flat.ub - lb + after, Box::new(child))
        }
        // Data below or above the bounds of the whole array would meet that of the next one.
        _ if flat.lb != 0 => Recipe::Contiguous(c.between(1, 4), Box::new(child)),
        _ => {
            let dims = c.between(1, 3) as usize;
            let subsizes: Vec<u64> = (0..dims).map(|_| c.between(1, 3)).collect();
            let starts: Vec<u64> = (0..dims).map(|_| c.below(3)).collect();
            let sizes = (0..dims).map(|i| subsizes[i] + starts[i] + c.below(3)).collect();
            Recipe::Subarray(sizes, subsizes, starts, c.once_in(2), Box::new(child))
        }
    }
}

/// A vector with a negative stride.
fn backwards(count: u64, len: u64, stride: i64, child: Recipe) -> Recipe {
    Recipe::Vector(count, len, -stride, Box::new(child))
}

fn indexed(c: &mut Choices, extent: i64, rising: bool, child: Recipe) -> Recipe {
    let mut at = c.below(6) as i64;
    let mut blocks = Vec::new();
    for _ in 0..c.between(1, 4) {
        let len = c.below(3);
        blocks.push((len, at));
        at += len as i64 * extent + c.below(7) as i64;
    }
    if blocks.iter().all(|(len, _)| *len == 0) {
        blocks[0].0 = 1;
        let gap = extent;
        blocks.iter_mut().skip(1).for_each(|(_, at)| *at += gap);
    }
    if !rising && c.once_in(3) {
        blocks.reverse();
    }
    Recipe::Indexed(blocks, Box::new(child))
}

/// A struct of two fields. Bounds that were set by hand in one field would win against the other
/// field (MPI-4.1, 5.1.7) and let copies overlap, so the struct gets its own.
fn fields(c: &mut Choices, ub: i64, extent: i64, unit: Recipe, child: Recipe) -> Recipe {
    let first = c.below(5) as i64;
    let len = c.between(1, 2);
    let second = first + ub + (len as i64 - 1) * extent + c.below(5) as i64;
    let both = Recipe::Struct(vec![(len, first, child), (c.between(1, 3), second, unit)]);
    let flat = both.flat();
    Recipe::Resized(flat.lb, flat.extent(), Box::new(both))
}
