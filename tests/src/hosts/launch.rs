//! Starts the ranks of an MPI job on several hosts, over the simulated network.

use super::agent::SOCKETS;
use crate::{Family, Mpi};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

/// The hosts of a job, of a [`Cluster`](super::Cluster). The launcher runs on the first of them.
#[derive(Clone, Debug)]
pub struct Launch {
    pub(super) agent: PathBuf,
    pub(super) sockets: PathBuf,
    /// The first host, counted from 1, and the last one.
    pub(super) hosts: (u32, u32),
    pub(super) ranks_per_host: u32,
}

impl Launch {
    /// Returns a command that runs a program on a host; the caller adds its words.
    pub fn command(&self, host: &str) -> Command {
        let mut command = Command::new(&self.agent);
        command.arg("exec").arg(host).env(SOCKETS, &self.sockets);
        command
    }

    /// Restricts the job to the hosts from `first` to `last`, counted from 1.
    #[must_use]
    pub fn among(mut self, first: u32, last: u32) -> Self {
        self.hosts = (first, last);
        self
    }

    /// Returns the command of the launcher of `mpi`; the caller adds the number of ranks.
    pub fn mpirun(&self, mpi: &Mpi) -> Command {
        let mut command = self.command(&format!("node{}", self.hosts.0));
        command.arg(mpi.mpirun()).args(self.arguments(mpi.family));
        // A rank must reach the others over the network alone.
        match mpi.family {
            Family::OpenMpi => command.envs([
                ("OMPI_MCA_pml", "ob1"),
                ("OMPI_MCA_btl", "tcp,vader,self"),
                ("OMPI_MCA_btl_tcp_if_include", "eth0"),
                ("OMPI_MCA_oob_tcp_if_include", "eth0"),
            ]),
            Family::Mpich => command.envs([("UCX_TLS", "tcp,self"), ("UCX_NET_DEVICES", "eth0")]),
        };
        command
    }

    fn arguments(&self, family: Family) -> Vec<OsString> {
        let (first, last) = self.hosts;
        let names = self.sockets.join(format!("names-{first}-{last}"));
        let lines: String = (first..=last).map(|host| format!("node{host}\n")).collect();
        std::fs::write(&names, lines).expect("the directory can be written");
        let names = names.into_os_string();
        let agent = self.agent.clone().into_os_string();
        let each = self.ranks_per_host.to_string();
        match family {
            Family::OpenMpi => vec![
                "--mca".into(),
                "plm_rsh_agent".into(),
                agent,
                "--hostfile".into(),
                names,
                "--map-by".into(),
                format!("ppr:{each}:node").into(),
            ],
            Family::Mpich => vec![
                "-launcher".into(),
                "ssh".into(),
                "-launcher-exec".into(),
                agent,
                "-f".into(),
                names,
                "-ppn".into(),
                each.into(),
            ],
        }
    }

    /// Returns a library to be preloaded into the ranks, in addition to the library under test.
    pub fn preload(&self, mpi: &Mpi) -> Option<PathBuf> {
        (mpi.family == Family::Mpich).then(|| crate::compile_shim("ucx_progress.c"))
    }
}
