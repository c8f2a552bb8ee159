//! Whether all processes of the job run on this node, as far as that is known without asking them.

use crate::abi::Abi;
use crate::mpi;
use libc::c_int;

/// Variables of launchers: the number of all processes, of those on this node, and of this one.
const SIZES: &[[&str; 3]] = &[
    ["OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_RANK"],
    ["PMI_SIZE", "MPI_LOCALNRANKS", "PMI_RANK"],
    ["PALS_SIZE", "PALS_LOCAL_SIZE", "PALS_RANKID"],
];

/// Ancestors that are looked at.
const GENERATIONS: u32 = 16;

/// Whether the job probably runs on a single node, given that the `size` ranks of a communicator
/// do: either it has no other processes, or its launcher says so.
pub fn is_likely(abi: &Abi, size: usize) -> bool {
    let mut world: c_int = 0;
    // SAFETY: the variable outlives the call.
    let known = unsafe { mpi::Comm_size(abi.handles.comm_world, &raw mut world) } == 0;
    let all = usize::try_from(world).ok().filter(|_| known);
    let variable = |name: &str| std::env::var(name).ok();
    all == Some(size) || is_told(&variable).is_some_and(|rank| has_launcher(rank, &family))
}

/// The variable of this process' number, if the launcher says that all processes are on this node.
fn is_told(variable: &dyn Fn(&str) -> Option<String>) -> Option<&'static str> {
    let number = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    let found =
        SIZES.iter().find_map(|[all, here, rank]| Some((number(all)?, number(here)?, *rank)));
    found.filter(|(all, here, _)| all == here).map(|(.., rank)| rank)
}

/// Whether an ancestor of this process is not a rank. If all are ranks, the launcher is in another
/// PID namespace, and other ranks may be in namespaces that this process cannot see.
fn has_launcher(rank: &str, family: &dyn Fn(u32) -> Option<Ancestor>) -> bool {
    let mut ancestor = std::os::unix::process::parent_id();
    for _ in 0..GENERATIONS {
        // The kernel reports parent 0 if the parent is in another namespace.
        let Some(found) = (ancestor > 0).then(|| family(ancestor)).flatten() else { return false };
        // Processes of other users are not ranks of this job.
        let is_rank = found.environment.is_some_and(|all| {
            all.split(|byte| *byte == 0).any(|one| {
                one.strip_prefix(rank.as_bytes()).is_some_and(|rest| rest.starts_with(b"="))
            })
        });
        if !is_rank {
            return true;
        }
        ancestor = found.parent;
    }
    false
}

/// A process that has started others.
struct Ancestor {
    parent: u32,
    environment: Option<Vec<u8>>,
}

fn family(process: u32) -> Option<Ancestor> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    let environment = std::fs::read(format!("/proc/{process}/environ")).ok();
    Some(Ancestor { parent, environment })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)]) -> Option<&'static str> {
        let pairs: Vec<_> = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        is_told(&|name| {
            pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
        })
    }

    #[test]
    fn a_launcher_that_says_nothing_may_have_started_processes_elsewhere() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&[("PMI_SIZE", "4")]), None);
        assert_eq!(with(&[("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")]), None);
        assert_eq!(with(&[("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "4")]), Some("PMI_RANK"));
        let told = with(&[("OMPI_COMM_WORLD_SIZE", "3"), ("OMPI_COMM_WORLD_LOCAL_SIZE", "3")]);
        assert_eq!(told, Some("OMPI_COMM_WORLD_RANK"));
    }

    #[test]
    fn a_rank_without_a_launcher_among_its_ancestors_may_be_in_a_container_of_its_own() {
        let rank = || Some(b"HOME=/\0PMI_RANK=3\0".to_vec());
        let first = std::os::unix::process::parent_id();
        let family = |ancestors: &[Option<Vec<u8>>]| {
            has_launcher("PMI_RANK", &|process| {
                let environment = ancestors.get((process - first) as usize)?.clone();
                Some(Ancestor { parent: process + 1, environment })
            })
        };
        assert!(family(&[Some(b"HOME=/\0XPMI_RANK=3\0PMI_RANKS=1\0".to_vec())]), "its launcher");
        assert!(family(&[rank(), rank(), None]), "a launcher of another user, behind shells");
        assert!(!family(&[]) && !family(&[rank(), rank()]), "only shells");
        assert!(!family(&vec![rank(); 100]), "too many");
    }

    #[test]
    fn processes_have_parents() {
        let own = family(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(own.environment.is_some());
    }
}
