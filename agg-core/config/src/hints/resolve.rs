//! The value of each hint in force, and its origin.

use super::foreign::Foreign;
use super::sources::{Entry, Sources};
use super::table::{Declaration, Effect, Hints};
use super::tuning::{self, HINT};
use super::{Drain, Verify};
use aggio_base::diagnostics::Diagnostics;
use aggio_base::spelling;

/// Where a hint's value comes from; a later one in this order wins over an earlier one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// The table's default.
    #[default]
    Default,
    /// `/etc/romio-hints`.
    SystemFile,
    /// The file that `ROMIO_HINTS` names.
    HintsFile,
    /// A `key?=value` of `MPICH_MPIIO_HINTS` or `AGGIO_HINTS`: only if the application says
    /// nothing.
    Suggestion,
    /// The `MPI_Info` of the application.
    Application,
    /// `MPICH_MPIIO_HINTS`.
    MpichHints,
    /// `AGGIO_DEFER`.
    AggioDefer,
    /// `AGGIO_HINTS`.
    AggioHints,
    /// Rank 0. Its value counts if all ranks need the same.
    RankZero,
    /// The engine itself, for the values that it really uses.
    Engine,
}

impl Origin {
    /// The words for messages.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Default => "default",
            Origin::SystemFile => "/etc/romio-hints",
            Origin::HintsFile => "ROMIO_HINTS",
            Origin::Suggestion => "suggestion",
            Origin::Application => "MPI_Info",
            Origin::MpichHints => "MPICH_MPIIO_HINTS",
            Origin::AggioDefer => "AGGIO_DEFER",
            Origin::AggioHints => "AGGIO_HINTS",
            Origin::RankZero => "rank 0",
            Origin::Engine => "aggio",
        }
    }
}

/// One hint in the result of `MPI_File_get_info`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The hint's name.
    pub name: &'static str,
    /// Its value as text; never empty.
    pub value: String,
    /// Where the value comes from.
    pub origin: Origin,
    /// The requested value and its origin, if the engine could not use it.
    pub asked: Option<(Origin, String)>,
}

impl InForce {
    /// Where the value comes from, for people: `MPI_Info`, or `aggio; MPI_Info asked for 8`.
    pub fn source(&self) -> String {
        match &self.asked {
            Some((who, value)) => {
                format!("{}; {} asked for {value}", self.origin.name(), who.name())
            }
            None => self.origin.name().into(),
        }
    }
}

impl Hints {
    /// The hints of a file that is opened: all layers over each other.
    ///
    /// `path` is the file's absolute name without a driver prefix; `info` holds the application's
    /// hints. Errors in `info` go to `complaints`; no error changes any other hint.
    pub fn resolve(
        sources: &Sources,
        path: &str,
        info: &[(String, String)],
        complaints: &mut Diagnostics,
    ) -> Self {
        let mut hints = Self::default();
        for entry in sources.entries_for(path) {
            hints.offer(entry, true, complaints);
        }
        hints.take_info(info, true, complaints);
        hints.settle();
        hints
    }

    /// Takes the `MPI_Info` of `MPI_File_set_info` or `MPI_File_set_view`.
    ///
    /// Hints that only act while a file is opened keep their value (MPI-4.1, 14.2.8).
    pub fn update(&mut self, info: &[(String, String)], complaints: &mut Diagnostics) {
        self.take_info(info, false, complaints);
        self.settle();
    }

    /// Records the value that the engine really uses, for `MPI_File_get_info`. Unknown names are
    /// ignored. If the value equals the requested one, its origin is kept.
    pub fn note(&mut self, name: &str, value: &str) {
        let Some((index, declaration)) = Declaration::find(name) else { return };
        let (before, origin) = (self.value(declaration), self.origins[index]);
        self.derive(name, value, Origin::Engine);
        if origin == Origin::Default || self.origins[index] != Origin::Engine {
            return;
        }
        if self.value(declaration) == before {
            self.origins[index] = origin;
        } else if origin != Origin::Engine {
            self.asked.retain(|(other, ..)| *other != index);
            self.asked.push((index, origin, before));
        }
    }

    /// Every hint with a value worth reporting, in the table's order.
    pub fn in_force(&self) -> Vec<InForce> {
        let told = |(index, declaration): (usize, &'static Declaration)| {
            let origin = self.origins[index];
            let value = self.value(declaration);
            let silent = origin == Origin::Default && declaration.traits.if_set
                || declaration.effect == Effect::Tunes;
            (!silent && !value.is_empty()).then_some(InForce {
                name: declaration.name,
                value,
                origin,
                asked: (origin == Origin::Engine).then(|| self.asked_for(index)).flatten(),
            })
        };
        Declaration::ALL.iter().enumerate().filter_map(told).collect()
    }

    /// The requested value that the engine could not use.
    fn asked_for(&self, index: usize) -> Option<(Origin, String)> {
        let found = self.asked.iter().find(|(other, ..)| *other == index)?;
        Some((found.1, found.2.clone()))
    }

    /// Whether bytes that are read from a container are compared with checksums.
    pub fn verify(&self) -> Verify {
        Verify::of(&self.aggio_verify).unwrap_or_default()
    }

    /// The time at which staged bytes go into the file.
    pub fn drain(&self) -> Drain {
        Drain::of(&self.aggio_defer_drain).unwrap_or_default()
    }

    /// The value of one hint as text; empty if there is none.
    pub fn value(&self, declaration: &Declaration) -> String {
        let mut text = String::new();
        (declaration.show)(self, &mut text);
        text
    }

    /// The hints in force for the file `path` as lines for people.
    pub fn lines(&self, path: &str) -> Vec<String> {
        let line = |hint: InForce| {
            format!("hint for {path}: {} = {} ({})", hint.name, hint.value, hint.source())
        };
        self.in_force().into_iter().map(line).collect()
    }

    /// Where the value of hint `name` comes from; `None` if there is no such hint.
    pub fn origin(&self, name: &str) -> Option<Origin> {
        Declaration::find(name).map(|(index, _)| self.origins[index])
    }

    /// The values that must be equal on all ranks, one `name=value` a line.
    ///
    /// Ranks that hold different bytes opened the file with unequal hints; see [`Hints::adopt`].
    pub fn must_agree(&self) -> Vec<u8> {
        // Every open makes this text: it grows in one piece of memory.
        let mut text = String::with_capacity(512);
        for declaration in Declaration::ALL.iter().filter(|d| d.traits.same) {
            text.push_str(declaration.name);
            text.push('=');
            (declaration.show)(self, &mut text);
            text.push('\n');
        }
        text.into_bytes()
    }

    /// Takes the values that another rank put into [`Hints::must_agree`], and returns a sentence
    /// with both values for each that differed.
    pub fn adopt(&mut self, agreed: &[u8]) -> Vec<String> {
        let text = String::from_utf8_lossy(agreed);
        let mut differing = Vec::new();
        for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
            let Some((index, declaration)) = Declaration::find(name) else { continue };
            let own = self.value(declaration);
            if own != value && (declaration.set)(self, value) {
                self.origins[index] = Origin::RankZero;
                if declaration.effect == Effect::Tunes {
                    self.record_tuned(declaration, value, Origin::RankZero);
                }
                differing.push(format!(
                    "hint {name} is {own:?} on this rank and {value:?} on rank 0, whose value \
                        counts"
                ));
            }
        }
        differing
    }

    fn take_info(&mut self, info: &[(String, String)], opening: bool, bad: &mut Diagnostics) {
        for (key, value) in info {
            let (key, value) = (key.clone(), value.clone());
            self.offer(&Entry { key, value, origin: Origin::Application }, opening, bad);
        }
    }

    /// Makes hints that depend on each other consistent, as ROMIO does.
    ///
    /// A program that promises collective calls only gets collective buffering, regardless of other
    /// hints: the promise wins in ROMIO too. `collective_buffering=false` is the standard's way to
    /// switch it off, below ROMIO's own hints.
    fn settle(&mut self) {
        const SWITCHES: [&str; 2] = ["romio_cb_read", "romio_cb_write"];
        if !self.collective_buffering {
            let cause = self.origin("collective_buffering").unwrap_or_default();
            for name in SWITCHES {
                if self.origin(name) == Some(Origin::Default) {
                    self.derive(name, "disable", cause);
                }
            }
        }
        if self.romio_no_indep_rw {
            let cause = self.origin("romio_no_indep_rw").unwrap_or_default();
            SWITCHES.iter().for_each(|name| self.derive(name, "enable", cause));
        }
    }

    /// Sets a hint as a consequence of another, with the origin of that one.
    fn derive(&mut self, name: &str, value: &str, cause: Origin) {
        if let Some((index, declaration)) = Declaration::find(name)
            && (declaration.set)(self, value)
        {
            self.origins[index] = cause;
        }
    }

    /// Sets the hint of an entry, or each setting that it tunes.
    fn offer(&mut self, entry: &Entry, opening: bool, complaints: &mut Diagnostics) {
        let Entry { key, value, origin } = entry;
        if key == HINT {
            for (index, declaration, value) in tuning::parts(value, *origin, complaints) {
                match self.set(index, declaration, value, *origin, opening) {
                    Some(true) => self.record_tuned(declaration, value, *origin),
                    Some(false) => {
                        let name = declaration.shown_name();
                        declaration.complain((&name, value), *origin, complaints);
                    }
                    None => {}
                }
            }
        } else if let Some((index, declaration)) = Declaration::settable(key) {
            if self.set(index, declaration, value.trim(), *origin, opening) == Some(false) {
                declaration.complain((key, value), *origin, complaints);
            }
        } else {
            complain_unknown(key, *origin, complaints);
        }
    }

    /// Notes a value of `aggio_tune` in the text of that hint.
    fn record_tuned(&mut self, declaration: &Declaration, value: &str, origin: Origin) {
        if let Some((index, _)) = Declaration::find(HINT) {
            let text = tuning::with(&self.aggio_tune, declaration.short_name(), value);
            self.aggio_tune = text.into();
            self.origins[index] = self.origins[index].max(origin);
        }
    }

    /// Sets one hint if its origin ranks at least as high as the present value's, and if it counts
    /// now: `None` if not, else whether the value is of the accepted form.
    fn set(
        &mut self,
        index: usize,
        declaration: &Declaration,
        value: &str,
        origin: Origin,
        opening: bool,
    ) -> Option<bool> {
        let is_late = !opening && declaration.traits.at_open;
        if is_late || declaration.effect == Effect::Told || origin < self.origins[index] {
            return None;
        }
        let is_good = (declaration.set)(self, value);
        if is_good {
            self.origins[index] = origin;
        }
        Some(is_good)
    }
}

impl Declaration {
    /// Reports `key=value` as not of the accepted form.
    pub(super) fn complain(
        &self,
        (key, value): (&str, &str),
        origin: Origin,
        complaints: &mut Diagnostics,
    ) {
        complaints.value(origin.name(), key, value, &self.kind.accepted_form());
    }
}

/// Reports a key that no user can set, unless it is another library's.
///
/// Of the application's keys only those are reported that look like a misspelt hint: libraries set
/// keys of their own, which no user can do anything about.
pub(super) fn complain_unknown(key: &str, origin: Origin, complaints: &mut Diagnostics) {
    if Foreign::has(key) {
        return;
    }
    if let Some((_, tuned)) = Declaration::find(key) {
        let now = tuned.shown_name();
        complaints.unknown(origin.name(), "hint", key, Some(&now));
        return;
    }
    let aliases = Declaration::ALIASES.iter().map(|(alias, _)| *alias);
    let settable = Declaration::ALL.iter().filter(|d| d.effect != Effect::Tunes);
    let nearest = spelling::nearest(key, settable.map(|d| d.name).chain(aliases));
    let asked_for = origin != Origin::Application && !Foreign::begins(key);
    if nearest.is_some() || asked_for {
        complaints.unknown(origin.name(), "hint", key, nearest);
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
mod tests;
