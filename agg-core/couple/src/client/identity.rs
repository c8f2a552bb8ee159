//! The identity of this process: a rank of a job that a launcher started, or a program of its own.

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
    let launcher = launcher_of(parent);
    let (job, ranks, rank) = job(variable, &launcher, &command).unwrap_or_default();
    let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
    let (job, command) = (cut(&job), cut(&name));
    let spools = spools.to_vec();
    Request::Hello { job, ranks, rank, command, spools }
}

/// Names the launcher of the ranks that the process `parent` has started. Hydra names no job; one
/// of its processes on each node starts the ranks there. All of a job get the same address of
/// `mpiexec`, which is unique as long as the job runs.
fn launcher_of(parent: u32) -> String {
    let words = std::fs::read(format!("/proc/{parent}/cmdline")).unwrap_or_default();
    port_of(&words).unwrap_or_else(|| format!("{ON_NODE} {parent}"))
}

/// Begins the name of a job that is unique on one node only.
const ON_NODE: &str = "launcher";

fn port_of(words: &[u8]) -> Option<String> {
    let mut words = words.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut after = |option| words.by_ref().find(|word| *word == option).and_then(|_| words.next());
    let port = after("--control-port").filter(|port| !port.is_empty())?;
    Some(format!("hydra {port}"))
}

/// Name, number of processes and rank of a launcher's job; `None` outside of one.
fn job(
    variable: &dyn Fn(&str) -> Option<String>,
    launcher: &str,
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
    let launcher = named.or_else(step).unwrap_or_else(|| launcher.to_owned());
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

    fn with(pairs: &[(&str, &str)], launcher: &str, command: &str) -> Option<(String, u32, u32)> {
        let variable = |name: &str| {
            pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string())
        };
        job(&variable, launcher, command.as_bytes())
    }

    #[test]
    fn a_process_outside_of_a_job_is_a_program_of_its_own() {
        assert_eq!(with(&[("SLURM_JOB_ID", "7")], "launcher 1", "cp"), None);
    }

    #[test]
    fn ranks_of_one_job_are_one_program_and_those_of_another_are_not() {
        let ompi = |rank: &'static str, name: &'static str, command| {
            let rank = ("OMPI_COMM_WORLD_RANK", rank);
            with(&[rank, ("OMPI_COMM_WORLD_SIZE", "4"), ("PMIX_NAMESPACE", name)], "x", command)
        };
        let (job, ranks, rank) = ompi("3", "a", "model").unwrap();
        assert_eq!((ranks, rank), (4, 3));
        assert_eq!(ompi("0", "a", "model").unwrap().0, job);
        assert_ne!(ompi("0", "b", "model").unwrap().0, job);
        assert_ne!(ompi("0", "a", "analysis").unwrap().0, job, "two programs of one launcher");
    }

    #[test]
    fn ranks_of_hydra_have_a_parent_in_common() {
        let hydra =
            |rank, launcher| with(&[("PMI_RANK", rank), ("PMI_SIZE", "2")], launcher, "model");
        assert_eq!(hydra("0", "a").unwrap().0, hydra("1", "a").unwrap().0);
        assert_ne!(hydra("0", "a").unwrap().0, hydra("1", "b").unwrap().0);
    }

    #[test]
    fn ranks_of_hydra_on_several_nodes_have_the_port_of_their_launcher_in_common() {
        let proxy = |port: &str, number: &str| {
            let words = ["/usr/bin/hydra_pmi_proxy", "--control-port", port, "--proxy-id", number];
            port_of(words.join("\0").as_bytes())
        };
        let named = Some("hydra node1:40123".to_owned());
        assert_eq!((proxy("node1:40123", "0"), proxy("node1:40123", "1")), (named.clone(), named));
        assert_eq!(port_of(b"/bin/sh\0-c\0x"), None);
        assert_eq!(port_of(b"hydra_pmi_proxy\0--control-port"), None);
    }
}
