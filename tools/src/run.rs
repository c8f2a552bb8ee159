//! `aggio run -- COMMAND`: starts a program, or a launcher of MPI programs, with the library preloaded.

use crate::elf::{self, Reach};
use crate::{Answer, library};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `aggio run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The library, if it is not the one that was installed with this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Tell the command that would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    /// The program and its arguments, or mpirun, mpiexec, srun, flux and theirs
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Who starts the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    None,
    OpenMpi,
    Hydra,
    Slurm,
    Flux,
}

/// A command and what is added to its environment.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    command: Vec<String>,
    preload: Option<String>,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        match self.start() {
            Ok(answer) => answer,
            Err(why) => Answer { status: Some(127), ..Answer::failed(format!("run: {why}")) },
        }
    }

    fn start(&self) -> Result<Answer, String> {
        let library = library::find(self.library.as_deref())?;
        let before = std::env::var("LD_PRELOAD").unwrap_or_default();
        let preload = library::preload(&before, &library)?;
        let name = self.command.first().map_or("", String::as_str);
        let program = elf::find(name).ok_or_else(|| format!("{name}: command not found"))?;
        let launcher = launcher(&program);
        let ours: Vec<String> = std::env::vars()
            .map(|(name, _)| name)
            .filter(|name| name.starts_with("AGGIO"))
            .collect();
        let plan = plan(launcher, &self.command, &preload, &ours)?;
        if self.dry_run {
            return Ok(Answer { text: show(&plan), ..Answer::default() });
        }
        if launcher == Launcher::None {
            warn_if_out_of_reach(&program);
        }
        let mut command = Command::new(&program);
        command.arg0(name).args(plan.command.get(1..).unwrap_or_default());
        if let Some(preload) = &plan.preload {
            command.env("LD_PRELOAD", preload);
        }
        Err(format!("{}: {}", program.display(), command.exec()))
    }
}

fn warn_if_out_of_reach(program: &Path) {
    let why = match elf::reach(program) {
        Ok(Reach::Static) => "is linked statically",
        Ok(Reach::Go) => "is a Go program",
        Ok(Reach::Privileged) => "runs with privileges",
        _ => return,
    };
    eprintln!(
        "aggio: run: {} {why}: preloading does not reach it; `aggio mount` shows it containers as files",
        program.display()
    );
}

/// Who this program is: by its name, and which MPI it belongs to by its own words.
fn launcher(program: &Path) -> Launcher {
    let real = program.canonicalize().unwrap_or_else(|_| program.to_path_buf());
    let is = |start: &str| {
        let starts = |path: &Path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        };
        starts(program) || starts(&real)
    };
    if is("srun") {
        return Launcher::Slurm;
    }
    if is("flux") {
        return Launcher::Flux;
    }
    if !["mpirun", "mpiexec", "orterun", "prterun", "prun", "hydra"].into_iter().any(is) {
        return Launcher::None;
    }
    let output = Command::new(program).arg("--version").env_remove("LD_PRELOAD").output();
    let words = output.map(|output| String::from_utf8_lossy(&output.stdout).to_ascii_lowercase());
    match words.unwrap_or_default() {
        words if words.contains("open mpi") || words.contains("openrte") => Launcher::OpenMpi,
        words if words.contains("prte") => Launcher::OpenMpi,
        words if words.contains("hydra") || words.contains("intel") => Launcher::Hydra,
        _ => Launcher::None,
    }
}

/// The command with what makes its launcher pass the library on to all ranks, and not to itself.
fn plan(
    launcher: Launcher,
    command: &[String],
    preload: &str,
    ours: &[String],
) -> Result<Plan, String> {
    let (name, rest) = command.split_first().ok_or("no command")?;
    let assignment = format!("LD_PRELOAD={preload}");
    let mut full = vec![name.clone()];
    match launcher {
        Launcher::None => {
            full.extend_from_slice(rest);
            return Ok(Plan { command: full, preload: Some(preload.into()) });
        }
        Launcher::OpenMpi => {
            full.extend(["-x".into(), assignment]);
            // Other hosts get no variables by themselves.
            full.extend(ours.iter().flat_map(|name| ["-x".into(), name.clone()]));
        }
        Launcher::Hydra => {
            full.extend(["-genv".into(), "LD_PRELOAD".into(), preload.into()]);
        }
        Launcher::Slurm => return slurm(full, rest, &assignment),
        Launcher::Flux => {
            let (verb, rest) = rest.split_first().ok_or("flux: say run, submit, alloc or batch")?;
            full.extend([verb.clone(), format!("--env={assignment}")]);
            full.extend_from_slice(rest);
            return Ok(Plan { command: full, preload: None });
        }
    }
    full.extend_from_slice(rest);
    Ok(Plan { command: full, preload: None })
}

/// Slurm has one list of variables; if the user gives one, ours goes into it.
fn slurm(mut full: Vec<String>, rest: &[String], assignment: &str) -> Result<Plan, String> {
    if assignment.contains(',') {
        return Err(format!("{assignment}: srun cannot pass on a value with a comma"));
    }
    let mut rest = rest.to_vec();
    let given = rest.iter().position(|word| word == "--export" || word.starts_with("--export="));
    match given {
        None => full.push(format!("--export=ALL,{assignment}")),
        Some(at) => {
            let at = if rest[at] == "--export" { at + 1 } else { at };
            let list = rest.get_mut(at).ok_or("srun: --export needs a list")?;
            if list.ends_with("NONE") {
                return Err(
                    "srun --export=NONE passes no variables on, LD_PRELOAD among them".into()
                );
            }
            list.push(',');
            list.push_str(assignment);
        }
    }
    full.extend(rest);
    Ok(Plan { command: full, preload: None })
}

fn show(plan: &Plan) -> String {
    let mut words: Vec<String> =
        plan.preload.iter().map(|preload| format!("LD_PRELOAD={preload}")).collect();
    words.extend(plan.command.iter().cloned());
    words.join(" ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(launcher: Launcher, command: &str) -> String {
        let words: Vec<String> = command.split(' ').map(String::from).collect();
        match plan(launcher, &words, "/l/libaggio.so", &["AGGIO_LOG".into()]) {
            Ok(plan) => show(&plan).trim_end().into(),
            Err(why) => why,
        }
    }

    #[test]
    fn each_launcher_passes_the_library_on_in_its_own_way() {
        let hydra = planned(Launcher::Hydra, "mpiexec -n 2 ./a -x");
        assert_eq!(hydra, "mpiexec -genv LD_PRELOAD /l/libaggio.so -n 2 ./a -x");
        let open = planned(Launcher::OpenMpi, "mpirun -n 2 ./a");
        assert_eq!(open, "mpirun -x LD_PRELOAD=/l/libaggio.so -x AGGIO_LOG -n 2 ./a");
        let slurm = planned(Launcher::Slurm, "srun -n 2 ./a");
        assert_eq!(slurm, "srun --export=ALL,LD_PRELOAD=/l/libaggio.so -n 2 ./a");
        let flux = planned(Launcher::Flux, "flux run -n 2 ./a");
        assert_eq!(flux, "flux run --env=LD_PRELOAD=/l/libaggio.so -n 2 ./a");
        assert_eq!(planned(Launcher::None, "./a b"), "LD_PRELOAD=/l/libaggio.so ./a b");
    }

    #[test]
    fn a_list_that_the_user_gives_to_slurm_is_kept() {
        let both = planned(Launcher::Slurm, "srun --export=ALL,X=1 ./a");
        assert_eq!(both, "srun --export=ALL,X=1,LD_PRELOAD=/l/libaggio.so ./a");
        let apart = planned(Launcher::Slurm, "srun --export ALL ./a");
        assert_eq!(apart, "srun --export ALL,LD_PRELOAD=/l/libaggio.so ./a");
        assert!(planned(Launcher::Slurm, "srun --export=NONE ./a").contains("no variables"));
    }
}
