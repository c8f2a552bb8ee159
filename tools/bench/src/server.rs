//! The implementations that serve the MPI-IO calls of a job.

use std::path::Path;
use std::process::Command;

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

    fn launcher(self) -> Command {
        match self {
            Mpi::OpenMpi => {
                let mut command = Command::new("mpirun.openmpi");
                command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]);
                command
            }
            Mpi::Mpich => Command::new("mpirun.mpich"),
        }
    }
}

/// How a server is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    /// By the preloaded library.
    Aggio,
    /// The MPI's own default.
    Default,
    /// A parameter of Open MPI.
    Component(&'static str),
    /// ROMIO with hints.
    Hints(&'static [(&'static str, &'static str)]),
}

/// One configuration under one MPI.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) mpi: Mpi,
    how: How,
}

/// All configurations, in the order in which a round runs them. The hint sets are the best ones
/// found for small pieces (every rank sieves alone), for large pieces (every piece by itself), and
/// for two phases on all ranks.
pub(crate) const SERVERS: &[Server] = &[
    Server { name: "aggio", mpi: Mpi::OpenMpi, how: How::Aggio },
    Server { name: "ompio", mpi: Mpi::OpenMpi, how: How::Default },
    Server { name: "romio-in-openmpi", mpi: Mpi::OpenMpi, how: How::Component("romio321") },
    Server { name: "aggio", mpi: Mpi::Mpich, how: How::Aggio },
    Server { name: "romio", mpi: Mpi::Mpich, how: How::Default },
    Server { name: "romio-sieving", mpi: Mpi::Mpich, how: How::Hints(SIEVING) },
    Server { name: "romio-list", mpi: Mpi::Mpich, how: How::Hints(LIST) },
    Server { name: "romio-wide", mpi: Mpi::Mpich, how: How::Hints(WIDE) },
];

const SIEVING: &[(&str, &str)] = &[
    ("romio_cb_write", "disable"),
    ("romio_cb_read", "disable"),
    ("romio_ds_write", "enable"),
    ("romio_ds_read", "enable"),
];

const LIST: &[(&str, &str)] = &[
    ("romio_cb_write", "disable"),
    ("romio_cb_read", "disable"),
    ("romio_ds_write", "disable"),
    ("romio_ds_read", "disable"),
];

const WIDE: &[(&str, &str)] = &[
    ("romio_cb_write", "enable"),
    ("romio_cb_read", "enable"),
    ("cb_config_list", "*:*"),
    ("cb_buffer_size", "4194304"),
];

impl Server {
    pub(crate) fn is_aggio(&self) -> bool {
        self.how == How::Aggio
    }

    pub(crate) fn is_default(&self) -> bool {
        self.how == How::Default
    }

    /// The command line up to the program; `scratch` is for a file of hints.
    pub(crate) fn command(
        &self,
        ranks: u32,
        library: &Path,
        scratch: &Path,
    ) -> std::io::Result<Command> {
        let mut command = self.mpi.launcher();
        if let How::Component(component) = self.how {
            command.args(["--mca", "io", component]);
        }
        command.args(["-n", &ranks.to_string()]);
        match self.how {
            // Only the ranks are preloaded, not the launcher.
            How::Aggio => {
                command.arg("env").arg(format!("LD_PRELOAD={}", library.display()));
            }
            How::Hints(hints) => {
                let text: String =
                    hints.iter().map(|(key, value)| format!("{key} {value}\n")).collect();
                let path = scratch.join("hints");
                std::fs::write(&path, text)?;
                command.env("ROMIO_HINTS", path);
            }
            How::Default | How::Component(_) => {}
        }
        Ok(command)
    }
}

/// The wanted servers with a program for their MPI; an unknown name is an error.
pub(crate) fn selected(
    names: &[String],
    has_program: impl Fn(Mpi) -> bool,
) -> Result<Vec<usize>, String> {
    if let Some(name) = names.iter().find(|name| SERVERS.iter().all(|s| s.name != **name)) {
        return Err(format!("no server is called {name}"));
    }
    let wanted = |server: &Server| names.is_empty() || names.iter().any(|n| *n == server.name);
    let all = SERVERS.iter().enumerate();
    Ok(all.filter(|(_, s)| wanted(s) && has_program(s.mpi)).map(|(index, _)| index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_selected_by_name_and_mpi() {
        let names = |names: &[&str], mpi| {
            let names: Vec<String> = names.iter().map(|name| (*name).into()).collect();
            selected(&names, |other| other == mpi)
        };
        assert_eq!(names(&["aggio"], Mpi::OpenMpi), Ok(vec![0]));
        assert_eq!(names(&[], Mpi::OpenMpi), Ok(vec![0, 1, 2]));
        assert_eq!(names(&["romio", "ompio"], Mpi::Mpich), Ok(vec![4]));
        assert!(names(&["gpfs"], Mpi::Mpich).is_err());
    }

    #[test]
    fn each_mpi_has_one_aggio_and_one_default() {
        for mpi in [Mpi::OpenMpi, Mpi::Mpich] {
            let count = |is: fn(&Server) -> bool| {
                SERVERS.iter().filter(|server| server.mpi == mpi && is(server)).count()
            };
            assert_eq!((count(Server::is_aggio), count(Server::is_default)), (1, 1));
        }
    }
}
