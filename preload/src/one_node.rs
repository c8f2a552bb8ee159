//! Whether all processes of the job run on this node, as far as that is known without asking them.

use crate::abi::Abi;
use crate::mpi;
use libc::c_int;

/// Variables of launchers: the number of all processes, and of those on this node.
const SIZES: &[(&str, &str)] = &[
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("PMI_SIZE", "MPI_LOCALNRANKS"),
    ("PALS_SIZE", "PALS_LOCAL_SIZE"),
];

/// Whether the job may be taken for one of a single node by whoever sees that the `size` ranks of
/// a communicator are on one: it has no other processes, or its launcher says so.
pub fn is_likely(abi: &Abi, size: usize) -> bool {
    let mut world: c_int = 0;
    // SAFETY: the variable outlives the call.
    let known = unsafe { mpi::Comm_size(abi.handles.comm_world, &raw mut world) } == 0;
    let all = usize::try_from(world).ok().filter(|_| known);
    all == Some(size) || is_told(&|name| std::env::var(name).ok())
}

fn is_told(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let found = SIZES.iter().find_map(|(all, here)| Some((number(all)?, number(here)?)));
    found.is_some_and(|(all, here)| all == here)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> bool {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        is_told(&|name| {
            pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn a_launcher_that_says_nothing_may_have_started_processes_elsewhere() {
        assert!(!with(&[]));
        assert!(!with(&[("PMI_SIZE", "4")]));
        assert!(!with(&[("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")]));
        assert!(with(&[("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")]));
        assert!(with(&[("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]));
    }
}
