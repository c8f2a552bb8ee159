//! The oracle of the property tests: a datatype as the list that the standard defines it by.
//!
//! A [`Recipe`] says how a datatype is constructed; it builds both the tree and the list.

use super::{Basic, BasicKind, Datatype, Order};
use proptest::prelude::*;

/// How to construct a datatype.
#[derive(Clone, Debug)]
pub(crate) enum Recipe {
    Basic(Basic),
    Contiguous(u64, Box<Recipe>),
    Hvector(u64, u64, i64, Box<Recipe>),
    Hindexed(Vec<(u64, i64)>, Box<Recipe>),
    HindexedBlock(u64, Vec<i64>, Box<Recipe>),
    Structure(Vec<(u64, i64, Recipe)>),
    Resized(i64, i64, Box<Recipe>),
    Subarray(Vec<(u64, u64, u64)>, bool, Box<Recipe>),
}

/// Basic elements with displacements, and the markers that `MPI_TYPE_CREATE_RESIZED` sets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typemap {
    pub(crate) entries: Vec<(Basic, i64)>,
    lower: Vec<i64>,
    upper: Vec<i64>,
}

impl Typemap {
    fn append(&mut self, other: &Typemap, at: i64) {
        self.entries.extend(other.entries.iter().map(|(basic, d)| (*basic, d + at)));
        self.lower.extend(other.lower.iter().map(|d| d + at));
        self.upper.extend(other.upper.iter().map(|d| d + at));
    }

    /// `count` copies, at `at + k * extent`.
    fn append_row(&mut self, other: &Typemap, count: u64, at: i64) {
        for k in 0..count as i64 {
            self.append(other, at + k * other.extent());
        }
    }

    pub(crate) fn size(&self) -> u64 {
        self.entries.iter().map(|(basic, _)| u64::from(basic.size)).sum()
    }

    pub(crate) fn lb(&self) -> i64 {
        self.lower.iter().copied().min().unwrap_or(self.true_lb())
    }

    pub(crate) fn ub(&self) -> i64 {
        self.upper.iter().copied().max().unwrap_or(self.true_ub())
    }

    pub(crate) fn extent(&self) -> i64 {
        self.ub() - self.lb()
    }

    pub(crate) fn true_lb(&self) -> i64 {
        self.entries.iter().map(|(_, at)| *at).min().unwrap_or(0)
    }

    pub(crate) fn true_ub(&self) -> i64 {
        self.entries.iter().map(|(basic, at)| at + i64::from(basic.size)).max().unwrap_or(0)
    }

    pub(crate) fn is_monotone(&self) -> bool {
        self.entries.windows(2).all(|pair| pair[0].1 <= pair[1].1)
    }

    pub(crate) fn has_overlap(&self) -> bool {
        let mut bytes = self.bytes(1);
        let all = bytes.len();
        bytes.sort_unstable();
        bytes.dedup();
        bytes.len() < all
    }

    fn is_filetype(&self) -> bool {
        let negative = self.true_lb() < 0 || self.extent() < 0;
        !negative && self.is_monotone() && !self.has_overlap()
    }

    /// The displacement of every data byte of `count` copies.
    pub(crate) fn bytes(&self, count: u64) -> Vec<i64> {
        let copies = (0..count as i64).map(|k| k * self.extent());
        let elements =
            copies.flat_map(|k| self.entries.iter().map(move |(b, at)| (b.size, k + at)));
        elements.flat_map(|(size, at)| at..at + i64::from(size)).collect()
    }
}

/// The runs of a list of bytes.
pub(crate) fn runs(bytes: &[i64]) -> Vec<(i64, u64)> {
    let mut runs: Vec<(i64, u64)> = Vec::new();
    for at in bytes {
        match runs.last_mut() {
            Some((start, len)) if *start + *len as i64 == *at => *len += 1,
            _ => runs.push((*at, 1)),
        }
    }
    runs
}

impl Recipe {
    /// The tree.
    pub(crate) fn datatype(&self) -> Datatype {
        match self {
            Recipe::Basic(basic) => Ok(Datatype::basic(*basic)),
            Recipe::Contiguous(n, child) => Datatype::contiguous(*n, &child.datatype()),
            Recipe::Hvector(n, len, stride, child) => {
                Datatype::hvector(*n, *len, *stride, &child.datatype())
            }
            Recipe::Hindexed(blocks, child) => Datatype::hindexed(blocks, &child.datatype()),
            Recipe::HindexedBlock(len, list, child) => {
                Datatype::hindexed_block(*len, list, &child.datatype())
            }
            Recipe::Structure(fields) => {
                let fields = fields.iter().map(|(n, at, child)| (*n, *at, child.datatype()));
                Datatype::structure(&fields.collect::<Vec<_>>())
            }
            Recipe::Resized(lb, extent, child) => child.datatype().resized(*lb, *extent),
            Recipe::Subarray(dimensions, fortran, child) => {
                let sizes: Vec<_> = dimensions.iter().map(|d| d.0).collect();
                let subsizes: Vec<_> = dimensions.iter().map(|d| d.1).collect();
                let starts: Vec<_> = dimensions.iter().map(|d| d.2).collect();
                let order = if *fortran { Order::Fortran } else { Order::C };
                Datatype::subarray(&sizes, &subsizes, &starts, order, &child.datatype())
            }
        }
        .unwrap()
    }

    /// The list.
    pub(crate) fn typemap(&self) -> Typemap {
        let mut map = Typemap::default();
        match self {
            Recipe::Basic(basic) => map.entries.push((*basic, 0)),
            Recipe::Contiguous(n, child) => map.append_row(&child.typemap(), *n, 0),
            Recipe::Hvector(n, len, stride, child) => {
                let child = child.typemap();
                (0..*n as i64).for_each(|k| map.append_row(&child, *len, k * stride));
            }
            Recipe::Hindexed(blocks, child) => {
                let child = child.typemap();
                blocks.iter().for_each(|(len, at)| map.append_row(&child, *len, *at));
            }
            Recipe::HindexedBlock(len, list, child) => {
                let child = child.typemap();
                list.iter().for_each(|at| map.append_row(&child, *len, *at));
            }
            Recipe::Structure(fields) => {
                fields.iter().for_each(|(n, at, child)| map.append_row(&child.typemap(), *n, *at));
            }
            Recipe::Resized(lb, extent, child) => {
                map = child.typemap();
                (map.lower, map.upper) = (vec![*lb], vec![lb + extent]);
            }
            Recipe::Subarray(dimensions, fortran, child) => {
                subarray(dimensions, *fortran, &child.typemap(), &mut map);
            }
        }
        map
    }
}

/// Visits every element of the whole array in memory order and takes those inside.
fn subarray(dimensions: &[(u64, u64, u64)], fortran: bool, child: &Typemap, map: &mut Typemap) {
    let total: u64 = dimensions.iter().map(|d| d.0).product();
    for linear in 0..total {
        let mut rest = linear;
        let mut inside = true;
        let mut visit = |(size, subsize, start): (u64, u64, u64)| {
            let index = rest % size;
            rest /= size;
            inside &= index >= start && index < start + subsize;
        };
        if fortran {
            dimensions.iter().copied().for_each(&mut visit);
        } else {
            dimensions.iter().rev().copied().for_each(&mut visit);
        }
        if inside {
            map.append(child, linear as i64 * child.extent());
        }
    }
    (map.lower, map.upper) = (vec![0], vec![total as i64 * child.extent()]);
}

fn basics() -> impl Strategy<Value = Basic> {
    prop_oneof![
        Just(Basic::BYTE),
        Just(Basic::signed(2)),
        Just(Basic::signed(4)),
        Just(Basic::float(8)),
        Just(Basic::new(BasicKind::UnsignedInt, 8, 4)),
        Just(Basic::new(BasicKind::Logical, 4, 4)),
        Just(Basic::new(BasicKind::WideChar, 4, 2)),
    ]
}

fn dimension() -> impl Strategy<Value = (u64, u64, u64)> {
    (1u64..5).prop_flat_map(|size| {
        (Just(size), 0..=size)
            .prop_flat_map(|(size, subsize)| (Just(size), Just(subsize), 0..=size - subsize))
    })
}

/// Any datatype of moderate size, legal as a filetype or not.
pub(crate) fn recipes() -> impl Strategy<Value = Recipe> {
    let leaf = basics().prop_map(Recipe::Basic);
    let all = leaf.prop_recursive(4, 12, 3, |inner| {
        let child = || inner.clone().prop_map(Box::new);
        prop_oneof![
            (0u64..4, child()).prop_map(|(n, c)| Recipe::Contiguous(n, c)),
            (0u64..4, 0u64..4, -40i64..80, child())
                .prop_map(|(n, len, stride, c)| Recipe::Hvector(n, len, stride, c)),
            (prop::collection::vec((0u64..3, -50i64..100), 0..5), child())
                .prop_map(|(blocks, c)| Recipe::Hindexed(blocks, c)),
            (0u64..3, prop::collection::vec(-50i64..100, 0..5), child())
                .prop_map(|(len, list, c)| Recipe::HindexedBlock(len, list, c)),
            prop::collection::vec((0u64..3, -50i64..100, inner.clone()), 0..4)
                .prop_map(Recipe::Structure),
            (-20i64..20, -20i64..120, child())
                .prop_map(|(lb, extent, c)| Recipe::Resized(lb, extent, c)),
            (prop::collection::vec(dimension(), 1..4), any::<bool>(), child())
                .prop_map(|(dimensions, fortran, c)| Recipe::Subarray(dimensions, fortran, c)),
        ]
    });
    all.prop_filter("too many elements for a quick test", |recipe| recipe.work() < 1500)
}

/// Datatypes with ascending displacements, as file views have them.
pub(crate) fn ascending_recipes() -> impl Strategy<Value = Recipe> {
    let leaf = basics().prop_map(Recipe::Basic);
    let all = leaf.prop_recursive(4, 12, 3, |inner| {
        let row = (0u64..5, 0u64..4, 0i64..24, inner.clone());
        let blocks = prop::collection::vec((0u64..3, 0i64..20), 1..6);
        let fields = prop::collection::vec((0u64..3, 0i64..20, inner.clone()), 1..4);
        prop_oneof![
            row.prop_map(|(n, len, gap, c)| {
                let stride = len as i64 * c.typemap().extent() + gap;
                Recipe::Hvector(n, len, stride, Box::new(c))
            }),
            (blocks, inner.clone()).prop_map(|(blocks, c)| {
                let fields = blocks.into_iter().map(|(len, gap)| (len, gap, c.clone()));
                let placed = spread(fields.collect());
                let blocks = placed.iter().map(|(len, at, _)| (*len, *at)).collect();
                Recipe::Hindexed(blocks, Box::new(c))
            }),
            fields.prop_map(|fields| Recipe::Structure(spread(fields))),
            (0i64..30, inner.clone()).prop_map(|(gap, c)| {
                let extent = c.typemap().ub().max(0) + gap;
                Recipe::Resized(0, extent, Box::new(c))
            }),
            (prop::collection::vec(dimension(), 1..4), any::<bool>(), inner.clone())
                .prop_map(|(d, fortran, c)| Recipe::Subarray(d, fortran, Box::new(c))),
        ]
    });
    // Bounds that were set by hand can still make parts meet.
    all.prop_filter("not quick to test, or not a filetype", |recipe| {
        recipe.work() < 1500 && recipe.typemap().is_filetype()
    })
}

/// Turns gaps into displacements, so that no field starts before the end of the one before.
fn spread(fields: Vec<(u64, i64, Recipe)>) -> Vec<(u64, i64, Recipe)> {
    let mut at = 0;
    let place = |(len, gap, recipe): (u64, i64, Recipe)| {
        let map = recipe.typemap();
        let start = at + gap;
        if len > 0 {
            at = start + (len as i64 - 1) * map.extent() + map.ub().max(map.true_ub());
        }
        (len, start, recipe)
    };
    fields.into_iter().map(place).collect()
}

impl Recipe {
    /// An upper bound of the number of elements, without building them.
    fn work(&self) -> u64 {
        match self {
            Recipe::Basic(_) => 1,
            Recipe::Contiguous(n, child) => n * child.work(),
            Recipe::Hvector(n, len, _, child) => n * len * child.work(),
            Recipe::Hindexed(blocks, child) => {
                blocks.iter().map(|block| block.0).sum::<u64>() * child.work()
            }
            Recipe::HindexedBlock(len, list, child) => len * list.len() as u64 * child.work(),
            Recipe::Structure(fields) => fields.iter().map(|(n, _, c)| n * c.work()).sum(),
            Recipe::Resized(_, _, child) => child.work(),
            Recipe::Subarray(dimensions, _, child) => {
                dimensions.iter().map(|d| d.0).product::<u64>() * child.work()
            }
        }
    }
}
