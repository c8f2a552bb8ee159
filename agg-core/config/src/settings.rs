//! The environment variables that switch aggio: one table, read once per process.

use crate::hints::yes_or_no;
use crate::rules::{Mode, Rule};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::log::Level;
use aggio_base::pattern::{self, Pattern};
pub use aggio_base::report::Report;
use aggio_base::spelling;

pub mod blobs;
pub mod couple;
mod groups;
pub mod pnetcdf;
pub mod sets;
pub mod stage;

use blobs::BlobRule;
use couple::CoupleLink;
pub use groups::{Coupling, Messages};
use sets::SetRule;
use stage::StagePlace;

/// The default directory for written bytes that are not yet in their file.
pub const SPOOL: &str = "/dev/shm";

/// The settings from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// `AGGIO`: whether MPI-IO is served by aggio at all.
    pub on: bool,
    /// `AGGIO_INCLUDE`: only these files; empty means all.
    pub include: Vec<Pattern>,
    /// `AGGIO_EXCLUDE`: not these files.
    pub exclude: Vec<Pattern>,
    /// `AGGIO_BLOB`: which new files become blob containers.
    pub blobs: Vec<BlobRule>,
    /// Files that programs exchange in memory.
    pub coupling: Coupling,
    /// Messages for users.
    pub messages: Messages,
    /// `AGGIO_TEST_COSTS`: whether plans follow the times that requests take, or only assumptions.
    pub measures: bool,
    /// `AGGIO_POSIX`: which files of ordinary programs are served, and how.
    pub posix: Vec<Rule>,
    /// `AGGIO_SETS`: which sets of netCDF files are shown as one file.
    pub sets: SetRule,
    /// `AGGIO_SPOOL`: the directory for written bytes that are not yet in their file.
    pub spool: String,
    /// `AGGIO_STAGE`: where small writes are staged.
    pub stage: StagePlace,
    /// `AGGIO_REPORT`: the report about a file when it is closed.
    pub report: Report,
    /// `AGGIO_STRICT`: whether a bad setting or hint ends the program at its start.
    pub strict: bool,
    /// `MPICH_MPIIO_HINTS_DISPLAY` or `ROMIO_PRINT_HINTS`: the hints in force are reported at open.
    pub display_hints: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            on: true,
            include: Vec::new(),
            exclude: Vec::new(),
            blobs: Vec::new(),
            coupling: Coupling::default(),
            messages: Messages::default(),
            measures: true,
            posix: Vec::new(),
            sets: SetRule::default(),
            spool: SPOOL.into(),
            stage: StagePlace::default(),
            report: Report::Off,
            strict: false,
            display_hints: false,
        }
    }
}

/// The declaration of one environment variable.
#[derive(Clone, Copy, Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The accepted form of its value.
    pub accepted: &'static str,
    /// The value if it is not set, in words.
    pub default: &'static str,
    /// The effect of the variable.
    pub doc: &'static str,
    set: fn(&mut Settings, &str) -> bool,
}

impl Variable {
    /// Every variable that users may set, in the order of the documentation.
    pub fn public() -> impl Iterator<Item = &'static Variable> {
        Self::OWN.iter().chain(Self::OTHERS)
    }

    /// The effect of the variable, on one line.
    pub fn sentence(&self) -> String {
        self.doc.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

macro_rules! variables {
    ($(
        $(#[doc = $list_doc:literal])+
        $list:ident {$(
            $(#[doc = $doc:literal])+
            $name:ident: $accepted:literal = $default:literal, $set:expr;
        )*}
    )*) => {
        impl Variable {$(
            $(#[doc = $list_doc])+
            pub const $list: &'static [Variable] = &[$(Variable {
                name: stringify!($name),
                accepted: $accepted,
                default: $default,
                doc: concat!($($doc, "\n"),+),
                set: $set,
            }),*];
        )*}
    };
}

variables! {
    /// aggio's own variables, in the order of the documentation.
    OWN {
    /// `off` leaves every call of MPI-IO to the MPI library.
    AGGIO: "on or off" = "on", |s, text| flag(&mut s.on, text);
    /// New files that match become containers: directories in which every writer appends to a log
    /// of its own, with checksums of the data (`crc`) or without. With `e3sm` or `e3sm-h5` netCDF
    /// files of MPI programs become E3SM-IO's blobs when they are closed: one of each node, or as
    /// many as `blobs=` says. `close` and `causal` are modes of `AGGIO_POSIX`.
    AGGIO_BLOB: "PATTERN[:crc|:nocrc][:close|:causal][:e3sm|:e3sm-h5[:blobs=N]],..." = "no file",
        |s, text| blobs::set(&mut s.blobs, text);
    /// Files that programs exchange in memory: the n-th open of a reader gets the n-th generation
    /// that a program writes. `docs/coupling.md` explains the keys.
    AGGIO_COUPLE: "PATTERN[:gen=next|latest][:ready=close|sync|step]\
        [:numrecs=wait|now][:keep=read|N][:persist=no|yes|after][:budget=SIZE]\
        [:spill=DIRECTORY][:level=memory|process][:full=wait|drop]\
        [:on_writer_death=error|wait|file],..." = "no file",
        set_couple;
    /// Where coupled programs find each other: a directory of the user, closed to all others, which
    /// is made if it is missing.
    AGGIO_COUPLE_DIR: "the absolute name of a directory"
        = "$XDG_RUNTIME_DIR/aggio or /tmp/aggio-UID",
        |s, text| absolute(&mut s.coupling.dir, text);
    /// The transport between agents of several nodes, the same on all; read when an agent starts.
    /// Keep the ports of UCX out of the reach of strangers: it parses messages of unknown senders.
    AGGIO_COUPLE_LINK: "tcp or ucx" = "tcp",
        |s, text| CoupleLink::named(text).map(|link| s.coupling.link = link).is_some();
    /// Files of MPI programs with delayed writes: many small writes become one request. Sets the
    /// hint `aggio_defer`.
    AGGIO_DEFER: "patterns separated by commas" = "no file", |s, _| s.stage.begin();
    /// aggio serves only files that match one of these patterns.
    AGGIO_INCLUDE: "patterns separated by commas" = "all files",
        |s, text| { s.include = Pattern::list(text); true };
    /// Files that match are left to the MPI library. Wins over `AGGIO_INCLUDE`.
    AGGIO_EXCLUDE: "patterns separated by commas" = "no file",
        |s, text| { s.exclude = Pattern::list(text); true };
    /// Hints by file, above those of the application.
    AGGIO_HINTS: "PATTERN:key=value[:key=value],..." = "none", |_, _| true;
    /// `info` adds opens and closes, `debug` each data call, and how files of programs without MPI
    /// are served, `trace` plans, and each request to the file system. With `,all` every rank
    /// writes messages, not only rank 0.
    AGGIO_LOG: "off, error, warn, info, debug or trace, then optionally ,all" = "warn", set_log;
    /// The file that messages are appended to. `%h` stands for the host, `%p` for the process id,
    /// `%r` for the rank.
    AGGIO_LOG_FILE: "a file name" = "standard error",
        |s, text| { text.clone_into(&mut s.messages.file); true };
    /// Files that programs use without MPI, and their consistency mode. The first rule that matches
    /// a file counts.
    AGGIO_POSIX: "PATTERN:MODE,... with MODE posix, causal or close" = "no file", set_posix;
    /// Sets of netCDF files that programs read as one file. `docs/netcdf.md` has the rules.
    AGGIO_SETS: "off, on or patterns separated by commas" = "on",
        |s, text| sets::set(&mut s.sets, text);
    /// Where writes to files of `AGGIO_POSIX` are buffered: a directory in memory. `aggio recover`
    /// finds those of killed programs there.
    AGGIO_SPOOL: "the absolute name of a directory" = "/dev/shm",
        |s, text| absolute(&mut s.spool, text);
    /// Whether requests, bytes and seconds of each file are reported when it is closed: `on` for
    /// people, `json` for programs.
    AGGIO_REPORT: "off, on or json" = "off", set_report;
    /// Where delayed writes wait: in `memory` of the node; in a directory of the node, for jobs of
    /// one node, where they survive killed processes; with `none`, and with `memory` on several
    /// nodes, in the memory of each rank.
    AGGIO_STAGE: "memory, none or the absolute name of a directory" = "memory",
        |s, text| s.stage.set(text);
    /// Whether a bad value of a variable or of a hint ends the program at its start.
    AGGIO_STRICT: "on or off" = "off", |s, text| flag(&mut s.strict, text);
    }

    /// Variables of other MPI libraries that aggio follows.
    OTHERS {
    /// As `AGGIO_HINTS`, which wins over it.
    MPICH_MPIIO_HINTS: "PATTERN:key=value[:key=value],..." = "none", |_, _| true;
    /// Whether the hints in force are reported when a file is opened.
    MPICH_MPIIO_HINTS_DISPLAY: "on or off" = "off", show_hints;
    /// A file of hints, `key value` a line, below those of the application.
    ROMIO_HINTS: "a file name" = "/etc/romio-hints", |_, _| true;
    /// The same.
    ROMIO_PRINT_HINTS: "on or off" = "off", show_hints;
    }

    /// Variables for aggio's own tests and tools, which no document for users names.
    TESTS {
    /// The costs of requests in plans: as `measured` in this run, or as `assumed` for the kind of
    /// file system, so that each run makes the same plans.
    AGGIO_TEST_COSTS: "measured or assumed" = "measured", set_costs;
    /// The program that serves coupled files: `aggio`, or another name for it. If not set, it is
    /// looked for beside the library and in `PATH`.
    AGGIO_TEST_AGENT: "the absolute name of a program" = "found beside the library or in PATH",
        |s, text| absolute(&mut s.coupling.agent, text);
    }
}

/// Beginnings of variables of aggio's own tests, which programs under test inherit.
const TEST_PREFIXES: &[&str] =
    &["AGGIO_TEST", "AGGIO_BENCH", "AGGIO_BLESS", "AGGIO_CONFORMANCE", "AGGIO_LIBRARY"];

/// Variables in which launchers pass a process its rank, before MPI does.
const RANK_VARIABLES: &[&str] =
    &["PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "PALS_RANKID", "SLURM_PROCID"];

impl Settings {
    /// Whether writes of any file may wait in the spool.
    pub fn keeps_back(&self) -> bool {
        let files = self.posix.iter().map(|rule| rule.mode);
        files.chain(self.blobs.iter().map(|rule| rule.mode)).any(|mode| mode != Mode::Posix)
    }

    /// Reads every variable of the table.
    ///
    /// `variable` looks one up; `names` are the names of all variables of the environment, which
    /// are searched for misspelled ones. Errors go to `complaints` and change nothing.
    pub fn read(
        variable: &dyn Fn(&str) -> Option<String>,
        names: &[String],
        complaints: &mut Diagnostics,
    ) -> Self {
        let mut settings = Self::default();
        for known in Variable::public().chain(Variable::TESTS) {
            let Some(value) = variable(known.name) else { continue };
            if !value.trim().is_empty() && !(known.set)(&mut settings, value.trim()) {
                complaints.value("environment", known.name, &value, known.accepted);
            }
        }
        for fault in std::mem::take(&mut settings.coupling.faults) {
            complaints.text("environment", fault);
        }
        if let Some(why) = aggio_base::log::problem(&settings.messages.file) {
            let text =
                format!("AGGIO_LOG_FILE={:?} cannot be written: {why}", settings.messages.file);
            complaints.text("environment", text);
        }
        let table = || Variable::public().map(|known| known.name);
        for name in names.iter().filter(|name| name.starts_with("AGGIO_")) {
            let of_tests = TEST_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            if !of_tests && !table().any(|known| known == name) {
                complaints.unknown(
                    "environment",
                    "variable",
                    name,
                    spelling::nearest(name, table()),
                );
            }
        }
        settings
    }

    /// Reads the environment of this process.
    pub fn of_process(complaints: &mut Diagnostics) -> Self {
        let names: Vec<String> =
            std::env::vars_os().map(|(name, _)| name.to_string_lossy().into_owned()).collect();
        Self::read(&process_variable, &names, complaints)
    }

    /// Whether the file `path` is aggio's: MPI-IO on any other file is left to the MPI library.
    ///
    /// `path` is the name without a driver prefix, absolute or relative to the working directory.
    pub fn manages(&self, path: &str) -> bool {
        if !self.on || (self.include.is_empty() && self.exclude.is_empty()) {
            return self.on;
        }
        let path = pattern::absolute(path, working_directory);
        let included = self.include.is_empty() || self.include.iter().any(|p| p.matches(&path));
        included && !self.exclude.iter().any(|p| p.matches(&path))
    }

    /// The patterns of `AGGIO_BLOB` that no file of this process has matched, and those of
    /// `AGGIO_POSIX`.
    pub fn unused(&self) -> [Vec<&Pattern>; 2] {
        let blobs = self.blobs.iter().map(BlobRule::pattern);
        let posix = self.posix.iter().map(|rule| &rule.pattern);
        [
            blobs.filter(|one| !one.was_used()).collect(),
            posix.filter(|one| !one.was_used()).collect(),
        ]
    }

    /// Puts the settings for messages in force, and reports `complaints`.
    ///
    /// # Errors
    /// With `AGGIO_STRICT=1`, the first complaint.
    pub fn apply(&self, complaints: &Diagnostics) -> aggio_base::Result<()> {
        let Messages { level, all, file } = &self.messages;
        aggio_base::log::configure(*level, *all, file);
        complaints.report(self.strict)
    }
}

/// The value of an environment variable of this process; bytes that are no UTF-8 are replaced.
pub fn process_variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// This process' rank according to its launcher, before `MPI_Init`; `None` outside of a job.
pub fn launcher_rank(variable: &dyn Fn(&str) -> Option<String>) -> Option<usize> {
    RANK_VARIABLES.iter().find_map(|name| variable(name)?.trim().parse().ok())
}

/// The working directory; empty if it no longer exists.
pub fn working_directory() -> String {
    std::env::current_dir().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default()
}

fn flag(field: &mut bool, text: &str) -> bool {
    yes_or_no(text).map(|value| *field = value).is_some()
}

fn show_hints(settings: &mut Settings, text: &str) -> bool {
    let mut show = false;
    let good = flag(&mut show, text);
    settings.display_hints |= show;
    good
}

fn set_costs(settings: &mut Settings, text: &str) -> bool {
    settings.measures = match text.to_ascii_lowercase().as_str() {
        "measured" => true,
        "assumed" => false,
        _ => return false,
    };
    true
}

/// An error voids a single rule and is reported for that rule.
fn set_couple(settings: &mut Settings, text: &str) -> bool {
    settings.coupling.faults = couple::set(&mut settings.coupling.rules, text);
    true
}

fn set_report(settings: &mut Settings, text: &str) -> bool {
    settings.report = match (yes_or_no(text), text.to_ascii_lowercase().as_str()) {
        (Some(true), _) => Report::Line,
        (Some(false), _) => Report::Off,
        (None, "json") => Report::Json,
        _ => return false,
    };
    true
}

fn set_posix(settings: &mut Settings, text: &str) -> bool {
    Rule::list(text).map(|rules| settings.posix = rules).is_some()
}

fn absolute(field: &mut String, text: &str) -> bool {
    if text.starts_with('/') {
        text.clone_into(field);
    }
    text.starts_with('/')
}

fn set_log(settings: &mut Settings, text: &str) -> bool {
    let (mut level, mut all) = (settings.messages.level, false);
    for word in text.split(',').map(str::trim) {
        match Level::ALL.iter().find(|level| level.name().eq_ignore_ascii_case(word)) {
            Some(found) => level = *found,
            None if word.eq_ignore_ascii_case("all") => all = true,
            None if word.eq_ignore_ascii_case("warning") => level = Level::Warn,
            None => return false,
        }
    }
    (settings.messages.level, settings.messages.all) = (level, all);
    true
}

#[cfg(test)]
mod tests;
