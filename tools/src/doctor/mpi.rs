//! Which MPI is here, and which of the three ABIs it has.

use super::Finding;
use crate::elf;
use std::path::Path;
use std::process::Command;

/// Launchers under which an MPI may be found.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "mpirun.openmpi", "mpiexec.mpich"];

/// One finding for each MPI that is on the path.
pub(super) fn all() -> Vec<Finding> {
    let mut seen = Vec::new();
    let mut findings = Vec::new();
    for name in LAUNCHERS {
        let Some(path) = elf::find(name) else { continue };
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if !seen.contains(&real) {
            findings.push(check(name, &path));
            seen.push(real);
        }
    }
    if findings.is_empty() {
        let fix = "load a module or install an MPI; programs without MPI are served all the same";
        findings.push(Finding::warn("mpi", "no mpirun or mpiexec on the PATH", fix));
    }
    findings
}

fn check(name: &str, path: &Path) -> Finding {
    let output = Command::new(path).arg("--version").env_remove("LD_PRELOAD").output();
    let words = match output {
        Ok(output) => String::from_utf8_lossy(&output.stdout).into_owned(),
        Err(why) => return Finding::fail("mpi", format!("{name}: {why}"), "install the MPI again"),
    };
    match identify(&words) {
        Some((mpi, abi)) => {
            let ran = format!("{} --version", path.display());
            Finding::pass("mpi", ran, format!("{name}: {mpi}, ABI of {abi}"))
        }
        None => Finding::warn(
            "mpi",
            format!("{name}: {} is not known", words.lines().next().unwrap_or("its version")),
            "programs keep the I/O of their MPI; set AGGIO_LOG=info to see what aggio does with \
                them",
        ),
    }
}

/// The MPI that a launcher names, and its ABI.
fn identify(words: &str) -> Option<(String, &'static str)> {
    let first = words.lines().next().unwrap_or_default().trim().to_string();
    let lower = words.to_ascii_lowercase();
    if lower.contains("open mpi") || lower.contains("openrte") || lower.contains("prrte") {
        return Some((first, "Open MPI"));
    }
    if lower.contains("intel(r) mpi") {
        return Some((first, "MPICH"));
    }
    if lower.contains("hydra") {
        let version = words.lines().find_map(|line| line.trim().strip_prefix("Version:"));
        return Some((format!("MPICH {}", version.unwrap_or("").trim()), "MPICH"));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::identify;

    #[test]
    fn an_mpi_is_known_by_the_words_of_its_launcher() {
        let open = identify("mpirun (Open MPI) 4.1.4\n\nReport bugs").unwrap();
        assert_eq!(open, ("mpirun (Open MPI) 4.1.4".into(), "Open MPI"));
        let hydra = "HYDRA build details:\n    Version:                                 4.0.2\n";
        assert_eq!(identify(hydra).unwrap(), ("MPICH 4.0.2".into(), "MPICH"));
        assert_eq!(identify("something else"), None);
    }
}
