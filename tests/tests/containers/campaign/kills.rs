//! Each command that writes, killed at its system calls.

use super::scene::{Scene, content, netcdf};
use aggio_tests::factor;
use aggio_tests::told;
use std::fs;
use std::time::Instant;

/// A command, and the file of its name before it runs and after it has ended.
struct Killed {
    command: &'static [&'static str],
    /// The bytes of an ordinary file `out` that is there before.
    before: Option<Vec<u8>>,
    /// The content of `out` afterwards, as a file, container or set; nothing if the command makes
    /// no `out`.
    after: Option<Vec<u8>>,
    /// The names that it adds.
    adds: &'static [&'static str],
}

/// How many calls the tool makes before it has looked at its arguments: those of `aggio --version`,
/// nearly.
fn first(scene: &Scene) -> u64 {
    let said = scene.kill(u64::MAX, &["--version"]);
    let calls = said.split(' ').find_map(|word| word.parse::<u64>().ok());
    calls.unwrap_or_else(|| panic!("no number of calls: {said}")).saturating_sub(10)
}

/// Every call where there is time, else one of seventeen.
fn step() -> usize {
    if factor() > 1 { 1 } else { 17 }
}

/// How many kills of each command there are at least: every call is tried as often as that takes.
fn wanted() -> usize {
    if factor() > 1 { 1000 } else { 4 }
}

impl Killed {
    fn scene(&self) -> Option<Scene> {
        let scene = Scene::new()?;
        if let Some(before) = &self.before {
            fs::write(scene.path("out"), before).expect("a file");
        }
        Some(scene)
    }

    /// The content of `out`: of a set, only if all of its files are there.
    fn found(&self, scene: &Scene) -> Option<Vec<u8>> {
        if self.adds.len() > 1 { scene.set("out") } else { scene.read("out") }
    }

    /// Kills it at a call, looks, recovers first if that is wanted, runs it again; whether it had
    /// ended before.
    fn kill(&self, number: u64, recovers: bool) -> Option<bool> {
        let scene = self.scene()?;
        let said = scene.kill(number, self.command);
        let what = format!("{:?}, call {number}: {said}", self.command);
        assert!(said.starts_with("killed") || said.starts_with("ended"), "{what}");
        scene.is_untouched(&what);
        let found = self.found(&scene);
        assert!(found == self.before || found == self.after, "{what}: out is a mixture");
        if recovers {
            scene.is_recovered(&what);
            scene.is_untouched(&what);
            let again = self.found(&scene);
            assert!(again == found, "{what}: recovering changed out");
        }
        if found == self.before || self.command.contains(&"--force") {
            let again = scene.run(self.command);
            assert!(again.status.success() || self.tells(&again), "{what}, again: {again:?}");
        }
        assert!(self.found(&scene) == self.after, "{what}, again");
        scene.is_recovered(&what);
        scene.is_untouched(&what);
        assert_eq!(scene.added(), self.adds, "{what}: something is left");
        for name in ["one", "two", "nc", "torn"] {
            let parts = scene.parts(name);
            let left = parts.iter().find(|part| part.starts_with('.') || part.contains("backup"));
            assert_eq!(left, None, "{what}: something is left in {name}");
        }
        Some(said.starts_with("ended"))
    }

    /// Whether the status is that of a check that repaired something.
    fn tells(&self, output: &std::process::Output) -> bool {
        self.command[0] == "fsck" && output.status.code() == Some(1)
    }

    fn kill_at_calls(&self) {
        let Some(scene) = self.scene() else { return };
        let (first, began, mut kills) = (first(&scene), Instant::now(), 0);
        for round in 0.. {
            let before = kills;
            for number in (first..).step_by(step()) {
                // Every other time, and in the next round at the calls between.
                let recovers = (number + round).is_multiple_of(2);
                let Some(has_ended) = self.kill(number, recovers) else { return };
                if has_ended {
                    break;
                }
                kills += 1;
            }
            assert!(kills - before > 3, "{:?} makes more calls", self.command);
            if kills >= wanted() {
                break;
            }
        }
        told("kills", &self.command.join(" "), kills, began);
    }
}

macro_rules! killed {
    ($($name:ident: $command:expr, $before:expr, $after:expr, $adds:expr;)*) => {
        $(#[test]
        fn $name() {
            Killed { command: &$command, before: $before, after: $after, adds: &$adds }
                .kill_at_calls();
        })*
    };
}

const OLD: &[u8] = b"what was there before";

killed! {
    merge_makes_the_whole_file_or_none:
        ["merge", "@one", "@out"], None, Some(content("one")), ["out"];
    merge_replaces_a_file_at_once_or_not_at_all:
        ["merge", "--force", "--threads", "1", "@one", "@out"],
        Some(OLD.to_vec()), Some(content("one")), ["out"];
    merge_with_verification_makes_the_whole_file_or_none:
        ["merge", "--verify", "@two", "@out"], None, Some(content("two")), ["out"];
    merge_to_cdf5_makes_the_whole_file_or_none:
        ["merge", "--to", "cdf5", "--force", "@nc", "@out"],
        Some(OLD.to_vec()), Some(netcdf().bytes), ["out"];
    merge_to_a_set_makes_the_whole_set_or_none:
        ["merge", "--to", "e3sm", "--subfiles", "2", "--force", "@nc", "@out"],
        None, Some(netcdf().bytes), ["out.0000", "out.0001"];
    merge_to_a_set_of_hdf5_files_makes_the_whole_set_or_none:
        ["merge", "--to", "hdf5-blob", "--subfiles", "2", "--force", "@nc", "@out"],
        None, Some(netcdf().bytes), ["out.0000", "out.0001"];
    split_makes_the_whole_container_or_none:
        ["split", "@file", "@out"], None, Some(content("file")), ["out"];
    split_with_verification_makes_the_whole_container_or_none:
        ["split", "--verify", "--frame", "65536", "@other", "@out"],
        None, Some(content("other")), ["out"];
    a_repair_keeps_every_acknowledged_byte: ["fsck", "--repair", "@torn"], None, None, [];
    recovering_keeps_every_acknowledged_byte: ["recover", "@torn"], None, None, [];
    sealing_keeps_every_acknowledged_byte: ["index", "@torn"], None, None, [];
}
