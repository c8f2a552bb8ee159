//! Programs without MPI, natively and with the library in alternation: `posix.md`.

mod cases;

use crate::Arguments;
use crate::place::{Plan, Scratch, plans};
use crate::results::median;
use cases::{Case, LOCAL, Program, SLOW, Served};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Writes of one byte that an unmanaged call is measured by.
const CALLS: u64 = 2_000_000;

const HEAD: &str = "\
# Programs without MPI

Seconds from `open` to `close`, medians of alternating rounds, and how many times as fast as \
natively: the median of
the ratios of each round. Files are in the page cache; nothing is synchronised. *wanted* is what \
was aimed at; rows that
do not reach it say **below**.

";

/// Programs that write, and where they are.
struct Bench<'a> {
    library: &'a Path,
    records: PathBuf,
    compiled: Scratch,
    rounds: usize,
}

/// Measures everything; the result is a document in Markdown.
pub(crate) fn measure(arguments: &Arguments, interrupted: &AtomicBool) -> Result<String, String> {
    let records = std::env::current_exe().map_err(|why| why.to_string())?;
    let bench = Bench {
        library: &arguments.library,
        records: records.with_file_name("aggio-bench-records"),
        compiled: Scratch::create(&std::env::temp_dir(), "programs")?,
        rounds: arguments.rounds,
    };
    bench.compile()?;
    let mut text = HEAD.to_string();
    text.push_str(&bench.calls()?);
    for plan in plans(arguments)? {
        let slow = matches!(plan, Plan::Slow { .. });
        let place = plan.make()?;
        let _ = writeln!(
            text,
            "\n## {}\n\n| case | bytes a record | native s | aggio s | times as fast | wanted |\n\
             |---|---|---|---|---|---|",
            place.name
        );
        for case in if slow { SLOW } else { LOCAL } {
            if interrupted.load(Ordering::Relaxed) {
                return Err("interrupted".into());
            }
            let wanted = case.wanted[usize::from(place.name != "tmpfs")];
            text.push_str(&bench.row(case, &place.directory, wanted)?);
        }
    }
    Ok(text)
}

impl Bench<'_> {
    fn compile(&self) -> Result<(), String> {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        for (compiler, source) in [("c++", "records.cc"), ("gfortran", "records.f90")] {
            let mut command = Command::new(compiler);
            command.args(["-O2", "-o"]).arg(self.compiled.0.join(source).with_extension("bin"));
            let path = sources.join(source);
            // The compiler must not take the program's name for a source file.
            let status = command.arg(&path).status().map_err(|why| format!("{compiler}: {why}"))?;
            if !status.success() {
                return Err(format!("{} does not compile", path.display()));
            }
            let (from, to) = (self.compiled.0.join(source), self.compiled.0.join(source));
            std::fs::rename(from.with_extension("bin"), to).map_err(|why| why.to_string())?;
        }
        Ok(())
    }

    /// Nanoseconds that a call costs more when the library is there and no rule names the file.
    fn calls(&self) -> Result<String, String> {
        let mut added = Vec::new();
        let mut natively = Vec::new();
        for _ in 0..self.rounds {
            let seconds = |library| {
                let mut command = Command::new(&self.records);
                command.args(["calls", &CALLS.to_string()]);
                if library {
                    command.env("LD_PRELOAD", self.library);
                }
                seconds(&mut command)
            };
            let (native, with) = (seconds(false)?, seconds(true)?);
            natively.push(native / CALLS as f64 * 1e9);
            added.push((with - native) / CALLS as f64 * 1e9);
        }
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let (native, added) = (middle(&natively), middle(&added));
        let verdict = if added <= 10.0 { "" } else { ", **above**" };
        Ok(format!(
            "A call on a file without a rule (`write` of one byte to `/dev/null`): {native:.1} ns \
                natively, \
             {added:+.1} ns with the library (wanted: at most 10{verdict}).\n"
        ))
    }

    /// One row of a table.
    fn row(&self, case: &Case, parent: &Path, wanted: f64) -> Result<String, String> {
        let (mut native, mut served, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            let before = self.once(case.native.unwrap_or(case.program), case, None, parent)?;
            let after = self.once(case.program, case, Some(case.served), parent)?;
            native.push(before);
            served.push(after);
            ratios.push(before / after);
        }
        let middle = |values: &[f64]| median(values).unwrap_or(f64::NAN);
        let ratio = middle(&ratios);
        let below = if ratio < wanted { " **below**" } else { "" };
        let (native, served) = (middle(&native), middle(&served));
        Ok(format!(
            "| {} | {} | {native:.3} | {served:.3} | {ratio:.2} | {wanted}{below} |\n",
            case.name, case.length
        ))
    }

    /// Seconds of one run in a directory of its own.
    fn once(
        &self,
        program: Program,
        case: &Case,
        served: Option<Served>,
        parent: &Path,
    ) -> Result<f64, String> {
        let scratch = Scratch::create(parent, "posix")?;
        let mut command = match program {
            Program::Records(how) => {
                let mut command = Command::new(&self.records);
                command.arg(how);
                command
            }
            Program::Compiled(source) => Command::new(self.compiled.0.join(source)),
        };
        command.arg(scratch.0.join("file")).args([case.length.to_string(), case.count.to_string()]);
        if case.processes > 1 {
            command.arg(case.processes.to_string());
        }
        let place = scratch.0.display();
        if let Some(served) = served {
            command.env("LD_PRELOAD", self.library);
            match served {
                Served::Not => {}
                Served::Managed(mode) => {
                    command.env("AGGIO_POSIX", format!("{place}/:{mode}"));
                }
                Served::Container(option) => {
                    command.env("AGGIO_BLOB", format!("{place}/**:{option}"));
                }
            }
        }
        seconds(&mut command)
    }
}

/// The seconds that a program prints.
fn seconds(command: &mut Command) -> Result<f64, String> {
    let output = command.output().map_err(|why| format!("{command:?}: {why}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let seconds = said.trim().parse().ok().filter(|_| output.status.success());
    seconds.ok_or_else(|| {
        format!("{command:?}: {} {said} {}", output.status, String::from_utf8_lossy(&output.stderr))
    })
}
