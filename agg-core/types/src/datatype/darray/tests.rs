//! Distributed arrays against the definition: the owner of each index.

use super::*;
use crate::datatype::Basic;
use proptest::prelude::*;

type Case = (u64, Distribution, Option<u64>, u64);

fn owner(case: &Case, index: u64) -> u64 {
    let (size, distribution, argument, processes) = *case;
    match distribution {
        Distribution::None => 0,
        Distribution::Block => index / argument.unwrap_or(size.div_ceil(processes)),
        Distribution::Cyclic => index / argument.unwrap_or(1) % processes,
    }
}

fn dimension() -> impl Strategy<Value = Case> {
    (1u64..9, 0u8..3, prop::option::of(1u64..12), 1u64..4).prop_map(
        |(size, kind, arg, processes)| match kind {
            0 => (size, Distribution::None, None, 1),
            1 => {
                let least = size.div_ceil(processes);
                (size, Distribution::Block, arg.map(|arg| arg.max(least)), processes)
            }
            _ => (size, Distribution::Cyclic, arg, processes),
        },
    )
}

/// Displacements of the elements of process `rank`, by visiting the whole array.
fn expected(cases: &[Case], order: Order, rank: u64) -> Vec<i64> {
    let total: u64 = cases.iter().map(|case| case.0).product();
    let owned = |linear: &u64| {
        let mut rest = *linear;
        let mut owners = vec![0; cases.len()];
        for at in order.fastest_first(cases.len()) {
            owners[at] = owner(&cases[at], rest % cases[at].0);
            rest /= cases[at].0;
        }
        owners.iter().zip(cases).fold(0, |all, (owner, case)| all * case.3 + owner) == rank
    };
    (0..total).filter(owned).map(|linear| linear as i64 * 4).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, ..ProptestConfig::with_cases(200)
    })]

    #[test]
    fn each_process_gets_the_elements_that_the_definition_gives_it(
        cases in prop::collection::vec(dimension(), 1..4),
        fortran in any::<bool>(),
    ) {
        let order = if fortran { Order::Fortran } else { Order::C };
        let processes: u64 = cases.iter().map(|case| case.3).product();
        let total: u64 = cases.iter().map(|case| case.0).product();
        for rank in 0..processes {
            let datatype = Datatype::darray(
                (processes, rank),
                &cases.iter().map(|case| case.0).collect::<Vec<_>>(),
                &cases.iter().map(|case| case.1).collect::<Vec<_>>(),
                &cases.iter().map(|case| case.2).collect::<Vec<_>>(),
                &cases.iter().map(|case| case.3).collect::<Vec<_>>(),
                order,
                &Datatype::basic(Basic::signed(4)),
            ).unwrap();
            let elements = (0..datatype.size() / 4).map(|n| datatype.offset_at(4 * n));
            prop_assert_eq!(elements.collect::<Vec<_>>(), expected(&cases, order, rank));
            prop_assert_eq!((datatype.lb(), datatype.extent()), (0, total as i64 * 4));
            prop_assert!(datatype.is_monotone() && !datatype.has_overlap());
        }
    }
}

#[test]
fn contradictory_arguments_are_refused() {
    let int = Datatype::basic(Basic::signed(4));
    let make = |place, distribution, argument, processes| {
        Datatype::darray(place, &[10], &[distribution], &[argument], &[processes], Order::C, &int)
    };
    assert!(make((2, 2), Distribution::Block, None, 2).is_err());
    assert!(make((2, 0), Distribution::Block, None, 3).is_err());
    assert!(make((2, 0), Distribution::Block, Some(4), 2).is_err());
    assert!(make((2, 0), Distribution::None, None, 2).is_err());
    assert!(make((2, 0), Distribution::Cyclic, Some(0), 2).is_err());
    assert!(make((0, 0), Distribution::Block, None, 0).is_err());
}

#[test]
fn a_distribution_argument_far_beyond_the_array_is_legal() {
    let int = Datatype::basic(Basic::signed(4));
    for (rank, size) in [(0, 40), (1, 0)] {
        let cyclic = Datatype::darray(
            (2, rank),
            &[10],
            &[Distribution::Cyclic],
            &[Some(u64::MAX / 2)],
            &[2],
            Order::C,
            &int,
        );
        assert_eq!(cyclic.unwrap().size(), size);
    }
}
