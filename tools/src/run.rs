//! `aggio run -- COMMAND`: starts a program, or a launcher of MPI programs, with the library
//! preloaded.

use crate::elf::{self, Reach};
use crate::{Answer, exit, library};
use agg_core::diagnostics::Diagnostics;
use agg_core::hints::Sources;
use agg_core::settings;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `aggio run`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The library, if it is not the one that was installed with this program
    #[arg(long, value_name = "FILE")]
    library: Option<PathBuf>,
    /// Print the command that would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    settings: Settings,
    /// The program and its arguments, or mpirun, mpiexec, srun, flux and theirs
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Settings of the program that is run; each stands for the variable that it names, and wins over
/// it.
#[derive(clap::Args, Default)]
struct Settings {
    /// Set AGGIO_REPORT: report about each file when it is closed, on or json
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "on")]
    report: Option<String>,
    /// Set AGGIO_DEFER: files of MPI programs with delayed writes
    #[arg(long, value_name = "PATTERNS")]
    defer: Option<String>,
    /// Set AGGIO_BLOB: new files that become containers
    #[arg(long, value_name = "RULES")]
    blob: Option<String>,
    /// Set AGGIO_HINTS: hints by file
    #[arg(long, value_name = "RULES")]
    hints: Option<String>,
    /// Set AGGIO_POSIX: files of programs without MPI, and their modes
    #[arg(long, value_name = "RULES")]
    posix: Option<String>,
    /// Set AGGIO_LOG: which messages are written
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
}

impl Settings {
    /// The variables that are set, with their values.
    fn variables(&self) -> Vec<(&'static str, &str)> {
        let all = [
            ("AGGIO_REPORT", &self.report),
            ("AGGIO_DEFER", &self.defer),
            ("AGGIO_BLOB", &self.blob),
            ("AGGIO_HINTS", &self.hints),
            ("AGGIO_POSIX", &self.posix),
            ("AGGIO_LOG", &self.log),
        ];
        all.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect()
    }

    /// Treats settings that the library would ignore as errors.
    fn check(&self) -> Result<(), String> {
        let variables = self.variables();
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let mut complaints = Diagnostics::default();
        settings::Settings::read(&variable, &[], &mut complaints);
        let nothing = |_: &str| Err(std::io::ErrorKind::NotFound.into());
        Sources::read(&variable, &nothing, &mut complaints);
        complaints.0.first().map_or(Ok(()), |first| Err(first.message.clone()))
    }
}

/// The program that starts the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Launcher {
    None,
    OpenMpi,
    Hydra,
    Slurm,
    Flux,
}

/// A command and the additions to its environment.
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
            Err(why) => {
                Answer { status: Some(exit::NOT_STARTED), ..Answer::failed(format!("run: {why}")) }
            }
        }
    }

    fn start(&self) -> Result<Answer, String> {
        self.settings.check()?;
        let library = library::find(self.library.as_deref())?;
        let before = std::env::var("LD_PRELOAD").unwrap_or_default();
        let preload = library::preload(&before, &library)?;
        let name = self.command.first().map_or("", String::as_str);
        let program = elf::find(name).ok_or_else(|| format!("{name}: command not found"))?;
        let launcher = launcher(&program);
        let variables = self.settings.variables();
        let mut ours: Vec<String> = std::env::vars()
            .map(|(name, _)| name)
            .chain(variables.iter().map(|(name, _)| (*name).to_owned()))
            .filter(|name| name.starts_with("AGGIO"))
            .collect();
        ours.sort();
        ours.dedup();
        let plan = plan(launcher, &self.command, &preload, &ours)?;
        if self.dry_run {
            return Ok(Answer { text: show(&plan, &variables), ..Answer::default() });
        }
        if launcher == Launcher::None {
            warn_if_out_of_reach(&program);
        }
        let mut command = Command::new(&program);
        command.arg0(name).args(plan.command.get(1..).unwrap_or_default());
        command.envs(variables);
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
        "aggio: run: {} {why}: preloading does not reach it; `aggio mount` shows it containers as \
            files",
        program.display()
    );
}

/// The kind of launcher, from the name of the program and, for mpirun and its kin, the output of
/// `--version`.
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

/// The command with the options that make its launcher pass the library on to all ranks, but not to
/// itself.
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

fn show(plan: &Plan, variables: &[(&str, &str)]) -> String {
    let mut words: Vec<String> =
        variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
    words.extend(plan.preload.iter().map(|preload| format!("LD_PRELOAD={preload}")));
    words.extend(plan.command.iter().cloned());
    words.join(" ") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(launcher: Launcher, command: &str) -> String {
        let words: Vec<String> = command.split(' ').map(String::from).collect();
        match plan(launcher, &words, "/l/libaggio.so", &["AGGIO_LOG".into()]) {
            Ok(plan) => show(&plan, &[]).trim_end().into(),
            Err(why) => why,
        }
    }

    #[test]
    fn options_are_settings_and_a_bad_one_is_an_error() {
        let settings = Settings {
            report: Some("json".into()),
            blob: Some("*.nc:e3sm".into()),
            ..Settings::default()
        };
        assert_eq!(settings.variables(), [("AGGIO_REPORT", "json"), ("AGGIO_BLOB", "*.nc:e3sm")]);
        assert_eq!(settings.check(), Ok(()));
        for (report, hints) in [(Some("loud"), None), (None, Some("*:cb_nods=4"))] {
            let [report, hints] = [report, hints].map(|text| text.map(String::from));
            let bad = Settings { report, hints, ..Settings::default() };
            let why = bad.check().unwrap_err();
            assert!(why.contains("loud") || why.contains("did you mean cb_nodes"), "{why}");
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
