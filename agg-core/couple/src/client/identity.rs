//! Who this process is: part of which program that a launcher started, or a program of its own.

use crate::protocol::Request;
use crate::registry::Directory;

/// Variables in which launchers tell the number of processes of a job.
const SIZES: &[&str] =
    &["OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE", "PALS_SIZE", "SLURM_NTASKS"];

/// Variables that name a job, the most exact first.
const NAMES: &[&str] = &["PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "PALS_APID"];

/// Bytes of a text at most.
const LONGEST: usize = 256;

/// The first message of this process.
pub(super) fn hello(variable: &dyn Fn(&str) -> Option<String>, spools: &[Directory]) -> Request {
    let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let name = command.split(|byte| *byte == 0).next().unwrap_or_default();
    let name = String::from_utf8_lossy(name.rsplit(|byte| *byte == b'/').next().unwrap_or(name));
    let parent = std::os::unix::process::parent_id();
    let command_line = command.clone();
    let (job, ranks, rank) = job(variable, parent, &command_line).unwrap_or_default();
    let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
    let (job, command) = (cut(&job), cut(&name));
    let spools = spools.iter().map(|spool| spool.to_string()).collect();
    Request::Hello { job, ranks, rank, command, spools }
}

/// Name, number of processes and rank of a launcher's job; `None` outside of one.
fn job(
    variable: &dyn Fn(&str) -> Option<String>,
    parent: u32,
    command: &[u8],
) -> Option<(String, u32, u32)> {
    let rank = aggio_config::settings::launcher_rank(variable)?;
    let number = |name: &&str| variable(name)?.trim().parse().ok();
    let ranks: u32 = SIZES.iter().find_map(number).unwrap_or(1);
    let step = || {
        let (job, step) = (variable("SLURM_JOB_ID")?, variable("SLURM_STEP_ID")?);
        Some(format!("slurm {job}.{step}"))
    };
    let named = NAMES.iter().find_map(|name| variable(name).map(|value| format!("{name} {value}")));
    // Hydra names no job, and has one process on each node that starts all of its ranks.
    let launcher = named.or_else(step).unwrap_or_else(|| format!("launcher {parent}"));
    // One launcher can start several programs that exchange files.
    let program = digest(command);
    Some((format!("{launcher} {program:016x}"), ranks, u32::try_from(rank).ok()?))
}

/// FNV-1a of 64 bits: to tell command lines apart, not against an adversary.
fn digest(bytes: &[u8]) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325;
    bytes
        .iter()
        .fold(start, |hash: u64, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(pairs: &[(&str, &str)], parent: u32, command: &str) -> Option<(String, u32, u32)> {
        let variable = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string())
        };
        job(&variable, parent, command.as_bytes())
    }

    #[test]
    fn a_process_outside_of_a_job_is_a_program_of_its_own() {
        assert_eq!(with(&[("SLURM_JOB_ID", "7")], 1, "cp"), None);
    }

    #[test]
    fn ranks_of_one_job_are_one_program_and_those_of_another_are_not() {
        let ompi = |rank: &'static str, name: &'static str, command| {
            let rank = ("OMPI_COMM_WORLD_RANK", rank);
            with(&[rank, ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", name)], 1, command)
        };
        let (job, ranks, rank) = ompi("3", "a", "model").unwrap();
        assert_eq!((ranks, rank), (4, 3));
        assert_eq!(ompi("0", "a", "model").unwrap().0, job);
        assert_ne!(ompi("0", "b", "model").unwrap().0, job);
        assert_ne!(ompi("0", "a", "analysis").unwrap().0, job, "two programs of one launcher");
    }

    #[test]
    fn ranks_of_hydra_have_a_parent_in_common() {
        let hydra = |rank, parent| with(&[("PMI_RANK", rank), ("PMI_SIZE", "2")], parent, "model");
        assert_eq!(hydra("0", 5).unwrap().0, hydra("1", 5).unwrap().0);
        assert_ne!(hydra("0", 5).unwrap().0, hydra("1", 6).unwrap().0);
    }
}
