//! The MPI libraries on this machine.

use std::path::{Path, PathBuf};

/// Implementations that take the same command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Open MPI; native I/O is OMPIO.
    OpenMpi,
    /// MPICH and its relatives; native I/O is ROMIO.
    Mpich,
}

/// One installed MPI.
#[derive(Clone, Debug)]
pub struct Mpi {
    /// Short name, also the folder its compiled programs go to, such as `openmpi`.
    pub name: String,
    /// The family that its command line and behaviour belong to.
    pub family: Family,
    mpicc: PathBuf,
    mpicxx: PathBuf,
    mpifort: PathBuf,
    mpirun: PathBuf,
}

impl Mpi {
    fn debian(name: &str, family: Family) -> Self {
        let tool = |tool: &str| PathBuf::from(format!("/usr/bin/{tool}.{name}"));
        Mpi {
            name: name.to_owned(),
            family,
            mpicc: tool("mpicc"),
            mpicxx: tool("mpicxx"),
            mpifort: tool("mpif90"),
            mpirun: tool("mpirun"),
        }
    }

    fn is_installed(&self) -> bool {
        self.mpicc.exists() && self.mpirun.exists()
    }

    /// The program that starts ranks.
    pub fn mpirun(&self) -> &Path {
        &self.mpirun
    }

    /// The compiler for a source file, told by the file's suffix.
    pub fn compiler(&self, source: &Path) -> &Path {
        match source.extension().and_then(|suffix| suffix.to_str()) {
            Some("f" | "f90" | "F90") => &self.mpifort,
            Some("cc" | "cxx" | "cpp") => &self.mpicxx,
            _ => &self.mpicc,
        }
    }

    /// The variables that allow a job more ranks than cores, and root.
    pub fn environment(&self) -> &'static [(&'static str, &'static str)] {
        match self.family {
            Family::OpenMpi => &[
                ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
                ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("PRTE_ALLOW_RUN_AS_ROOT", "1"),
                ("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
                ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
                ("OMPI_MCA_hwloc_base_binding_policy", "none"),
                ("OMPI_MCA_mpi_yield_when_idle", "1"),
                // Containers often forbid the system calls of the single copy mechanism.
                ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
                // A machine without a fast network must not spend time and words on looking for
                // one.
                ("OMPI_MCA_btl_base_warn_component_unused", "0"),
            ],
            Family::Mpich => &[],
        }
    }
}

/// The MPIs that row number `row` of a large matrix runs on: one of them in turn, all of them where
/// there is time (`AGGIO_TEST_FACTOR` above 1).
///
/// # Panics
///
/// If one is missing and the tests are required to run.
pub fn installed_for(row: usize) -> Vec<Mpi> {
    let mpis = installed();
    if crate::factor() > 1 || mpis.is_empty() {
        return mpis;
    }
    vec![mpis[row % mpis.len()].clone()]
}

/// Debian's two MPIs, as far as they are installed.
///
/// # Panics
///
/// If one is missing and the tests are required to run.
pub fn installed() -> Vec<Mpi> {
    let known = [Mpi::debian("openmpi", Family::OpenMpi), Mpi::debian("mpich", Family::Mpich)];
    let (found, missing): (Vec<_>, Vec<_>) = known.into_iter().partition(Mpi::is_installed);
    for mpi in &missing {
        crate::skip(&format!("{} is not installed (tests/setup.sh check)", mpi.name));
    }
    found
}
