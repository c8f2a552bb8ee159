//! Starting one job and reading what it printed.

use std::path::Path;
use std::process::Command;

/// Which library serves the MPI-IO calls of a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    /// The MPI's own: ROMIO under MPICH, OMPIO under Open MPI.
    Native,
    /// ROMIO inside Open MPI.
    Romio,
    /// aggio.
    Aggio,
}

impl Server {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Server::Native => "native",
            Server::Romio => "romio-in-openmpi",
            Server::Aggio => "aggio",
        }
    }
}

/// The two MPIs of Debian.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mpi {
    OpenMpi,
    Mpich,
}

impl Mpi {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Mpi::OpenMpi => "openmpi",
            Mpi::Mpich => "mpich",
        }
    }

    /// Who can serve the calls under this MPI.
    pub(crate) fn servers(self) -> &'static [Server] {
        match self {
            Mpi::OpenMpi => &[Server::Native, Server::Aggio, Server::Romio],
            Mpi::Mpich => &[Server::Native, Server::Aggio],
        }
    }

    fn launcher(self, ranks: usize) -> Command {
        let mut command = Command::new(match self {
            Mpi::OpenMpi => "mpirun.openmpi",
            Mpi::Mpich => "mpirun.mpich",
        });
        if self == Mpi::OpenMpi {
            command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
        }
        command.args(["-n", &ranks.to_string()]);
        command
    }
}

/// Runs `program` on `ranks` ranks; the result is one time in seconds for each case, in order.
pub(crate) fn run(
    mpi: Mpi,
    server: Server,
    library: &Path,
    program: &Path,
    ranks: usize,
    directory: &Path,
    cases: &[String],
) -> Result<Vec<f64>, String> {
    let mut command = mpi.launcher(ranks);
    match server {
        Server::Native => {}
        Server::Romio => {
            command.args(["--mca", "io", "romio321"]);
        }
        // Only the ranks are preloaded, not the launcher.
        Server::Aggio => {
            command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
        }
    }
    command.arg(program).arg(directory).args(cases);
    let output = command.output().map_err(|why| format!("cannot start mpirun: {why}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} under {}: {errors}{text}", server.name(), mpi.name()));
    }
    let times: Vec<f64> = text
        .lines()
        .filter_map(|line| line.rsplit_once(' ').and_then(|(_, seconds)| seconds.parse().ok()))
        .collect();
    if times.len() == cases.len() {
        Ok(times)
    } else {
        Err(format!(
            "{} under {}: {} of {} cases",
            server.name(),
            mpi.name(),
            times.len(),
            cases.len()
        ))
    }
}
