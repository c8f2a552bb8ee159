//! `aggio mount`: shows a directory with its containers, sets of netCDF files, and coupled files as
//! ordinary files.

use crate::Answer;
use crate::containers::Hole;
use agg_core::blob::Verify;
use agg_core::diagnostics::Diagnostics;
use agg_core::settings::Settings;
use aggio_couple::Viewer;
use aggio_fusefs::{Mount, NewFiles, Options, ends, mounts};
use clap::builder::PossibleValuesParser;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The message of the process in the background when programs may use the mount.
const READY: &str = "mounted\n";

/// Arguments of `aggio mount`.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory to show
    backend: PathBuf,
    /// Where to show it: a directory
    #[arg(value_name = "MOUNT_POINT")]
    point: PathBuf,
    /// Stay in the foreground; a signal unmounts
    #[arg(short, long)]
    foreground: bool,
    /// Allow changes; without it nothing below the mount point can be changed
    #[arg(long)]
    rw: bool,
    /// Allow other users; the modes of the files decide what they may do
    #[arg(long)]
    allow_other: bool,
    /// What new files below the mount point become
    #[arg(long, value_name = "KIND", value_enum, default_value_t)]
    new_files: Kind,
    /// Read and write plain files here even if the kernel could do so by itself
    #[arg(long)]
    no_passthrough: bool,
    /// List the files of sets of netCDF files beside the files that they stand for
    #[arg(long)]
    subfiles: bool,
    /// What sets of netCDF files contain where no process wrote anything
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    holes: Hole,
    /// Which bytes of containers are compared with their checksums when they are read
    #[arg(long, value_name = "WHICH", default_value = "whole")]
    #[arg(value_parser = PossibleValuesParser::new(Verify::WORDS))]
    verify: String,
    /// Where messages go; without it a mount in the background writes none
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Options as in fstab: ro, rw, allow_other, new_files=KIND, subfiles, holes=WHAT,
    /// verify=WHICH; those for mount(8) are accepted
    #[arg(short = 'o', value_name = "OPTION", value_delimiter = ',')]
    options: Vec<String>,
    /// Stay in the foreground and unmount also when standard input ends
    #[arg(long)]
    until_end_of_input: bool,
    #[arg(long, hide = true)]
    background: bool,
}

/// The type of new files.
#[derive(Clone, Copy, Default, clap::ValueEnum)]
enum Kind {
    /// Files as they are
    #[default]
    Plain,
    /// Containers
    Container,
}

/// Options of mount(8) and its helpers that do not concern a file system, or that are always on.
const OF_OTHERS: [&str; 13] = [
    "nodev",
    "nosuid",
    "noatime",
    "default_permissions",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nofail",
    "_netdev",
    "exec",
    "defaults",
];

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(mut self) -> Answer {
        let result = self.take_options().and_then(|()| self.mount());
        match result {
            Ok(()) => Answer::default(),
            Err(why) => Answer::failed(format!("mount: {why}")),
        }
    }

    fn take_options(&mut self) -> Result<(), String> {
        for option in std::mem::take(&mut self.options) {
            match option.as_str() {
                "rw" => self.rw = true,
                "ro" => self.rw = false,
                "allow_other" => self.allow_other = true,
                "new_files=plain" => self.new_files = Kind::Plain,
                "new_files=container" => self.new_files = Kind::Container,
                "subfiles" => self.subfiles = true,
                "holes=zero" => self.holes = Hole::Zero,
                "holes=fill" => self.holes = Hole::Fill,
                other if other.strip_prefix("verify=").and_then(Verify::of).is_some() => {
                    self.verify = other["verify=".len()..].into();
                }
                other if OF_OTHERS.contains(&other) || other.starts_with("x-") => {}
                other => {
                    return Err(format!("-o {other}: unknown option (see aggio mount --help)"));
                }
            }
        }
        Ok(())
    }

    fn mount(&self) -> Result<(), String> {
        let options = self.checked()?;
        if self.foreground || self.until_end_of_input || self.background {
            return self.serve(options);
        }
        let mut child = self.start(&options)?;
        let outcome = wait_until_ready(&mut child);
        outcome.map_err(|why| {
            let why = why.trim().trim_start_matches("aggio: mount: ");
            if why.is_empty() {
                "the process in the background ended at once".into()
            } else {
                why.into()
            }
        })
    }

    /// Both directories without links; removes a dead mount first.
    fn checked(&self) -> Result<Options, String> {
        let resolved =
            |path: &Path| path.canonicalize().map_err(|why| format!("{}: {why}", path.display()));
        let point = mounts::resolve(&self.point)
            .map_err(|why| format!("{}: {why}", self.point.display()))?;
        let mounted = mounts::at(&point).map_err(|why| why.to_string())?;
        match mounted {
            Some(_) if mounts::is_dead(&point) => {
                mounts::unmount(&point, true).map_err(|why| {
                    format!("{}: a dead mount cannot be removed: {why}", point.display())
                })?;
                eprintln!(
                    "aggio: mount: {}: removed a mount whose process is gone",
                    point.display()
                );
            }
            Some(other) => {
                return Err(format!(
                    "{}: {} is mounted there already (aggio umount {0})",
                    point.display(),
                    other.backend.display()
                ));
            }
            None => {}
        }
        let (backend, point) = (resolved(&self.backend)?, resolved(&point)?);
        for (path, what) in [(&backend, "shown"), (&point, "a mount point")] {
            if !path.is_dir() {
                return Err(format!("{}: only a directory can be {what}", path.display()));
            }
        }
        if agg_core::blob::is_container(&backend) {
            return Err(format!(
                "{}: a container; mount the directory it lies in",
                backend.display()
            ));
        }
        if point.starts_with(&backend) {
            return Err(format!("{}: lies in the directory that is to be shown", point.display()));
        }
        let new_files = match self.new_files {
            Kind::Plain => NewFiles::Plain,
            Kind::Container => NewFiles::Container,
        };
        let settings = Settings::of_process(&mut Diagnostics::default());
        Ok(Options {
            coupled: Viewer::new(&settings),
            backend,
            point,
            write: self.rw,
            allow_other: self.allow_other,
            new_files,
            passthrough: !self.no_passthrough,
            subfiles: self.subfiles,
            holes: self.holes.into(),
            verify: Verify::of(&self.verify).unwrap_or_default(),
        })
    }

    fn serve(&self, options: Options) -> Result<(), String> {
        self.take_log()?;
        let ends = ends(self.until_end_of_input).map_err(|why| why.to_string())?;
        let mount = Mount::start(options)?;
        // If nobody reads this, nobody waits for it.
        let _ = std::io::stdout().write_all(READY.as_bytes());
        let _ = std::io::stdout().flush();
        if self.background {
            leave_the_terminal().map_err(|why| why.to_string())?;
        }
        mount.serve(&ends)
    }

    fn take_log(&self) -> Result<(), String> {
        let mut settings = Settings::of_process(&mut Diagnostics::default());
        if let Some(log) = &self.log {
            let log = std::path::absolute(log).map_err(|why| why.to_string())?;
            settings.messages.file = log.display().to_string();
        }
        settings.apply(&Diagnostics::default()).map_err(|why| why.to_string())
    }

    /// This program once more, in the background.
    fn start(&self, options: &Options) -> Result<Child, String> {
        let program = std::env::current_exe().map_err(|why| why.to_string())?;
        let mut command = Command::new(program);
        command.arg("mount").arg("--background");
        let flags = [
            (self.rw, "--rw"),
            (self.allow_other, "--allow-other"),
            (self.no_passthrough, "--no-passthrough"),
            (self.subfiles, "--subfiles"),
            (self.holes == Hole::Fill, "--holes=fill"),
            (matches!(self.new_files, Kind::Container), "--new-files=container"),
        ];
        command.args(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag));
        command.arg("--verify").arg(&self.verify);
        if let Some(log) = &self.log {
            command.arg("--log").arg(std::path::absolute(log).map_err(|why| why.to_string())?);
        }
        command.arg("--").arg(&options.backend).arg(&options.point);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().map_err(|why| why.to_string())
    }
}

/// Waits until the process says that it is ready; otherwise returns its error output.
fn wait_until_ready(child: &mut Child) -> Result<(), String> {
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output).read_line(&mut line).map_err(|why| why.to_string())?;
    }
    if line == READY {
        return Ok(());
    }
    let mut words = String::new();
    if let Some(mut errors) = child.stderr.take() {
        errors.read_to_string(&mut words).map_err(|why| why.to_string())?;
    }
    child.wait().map_err(|why| why.to_string())?;
    Err(words)
}

/// Nothing of the terminal, the session or the directory that the command was given in is kept.
fn leave_the_terminal() -> std::io::Result<()> {
    // A process that leads a group already cannot make a session, and needs none.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/")?;
    let nowhere = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    rustix::stdio::dup2_stderr(&nowhere)?;
    Ok(())
}
