//! Two commands at once on one name.

use super::scene::{Scene, content, finish, netcdf};
use aggio_tests::factor;
use aggio_tests::told;
use std::process::Output;
use std::{fs, thread, time::Duration, time::Instant};

/// Races of each pair of commands.
fn rounds() -> u64 {
    if factor() > 1 { 100 } else { 5 }
}

/// Two commands, and the allowed content of `out` if the first, the second, or both of them
/// succeed.
struct Race {
    commands: [&'static [&'static str]; 2],
    results: [Option<Vec<u8>>; 2],
    /// The bytes of a file `out` that is there before.
    before: Option<Vec<u8>>,
    /// Whether at most one of both may succeed.
    one_wins: bool,
}

impl Race {
    fn run(&self) {
        let began = Instant::now();
        for round in 0..rounds() {
            let Some(scene) = Scene::new() else { return };
            if let Some(before) = &self.before {
                fs::write(scene.path("out"), before).expect("a file");
            }
            let what = format!("{:?}, round {round}", self.commands);
            let outputs = self.start_both(&scene, round, &what);
            self.compare(&scene, &outputs, &what);
            scene.is_untouched(&what);
            scene.is_recovered(&what);
            scene.is_untouched(&what);
            let added = scene.added();
            let is_known = |name: &String| ["out", "out.0000", "out.0001"].contains(&&**name);
            assert!(added.iter().all(is_known), "{what}: something is left: {added:?}");
        }
        let names = self.commands.map(|words| words.join(" ")).join(" | ");
        told("races", &names, rounds() as usize, began);
    }

    /// Starts both. Order and delay differ from round to round.
    fn start_both(&self, scene: &Scene, round: u64, what: &str) -> [Output; 2] {
        let order = if round.is_multiple_of(2) { [0, 1] } else { [1, 0] };
        let early = scene.start(self.commands[order[0]]);
        thread::sleep(Duration::from_micros(round * 7919 % 4000));
        let late = scene.start(self.commands[order[1]]);
        let (early, late) = (finish(early, what), finish(late, what));
        if order[0] == 0 { [early, late] } else { [late, early] }
    }

    fn compare(&self, scene: &Scene, outputs: &[Output; 2], what: &str) {
        let succeeded = [outputs[0].status.success(), outputs[1].status.success()];
        let what = format!("{what}: {outputs:?}");
        for output in outputs.iter().filter(|output| !output.status.success()) {
            assert!(output.status.code().is_some_and(|code| code < 100), "{what}: it crashed");
            assert!(!output.stderr.is_empty() || !output.stdout.is_empty(), "{what}: no word");
        }
        let found = if scene.path("out").exists() { scene.read("out") } else { scene.set("out") };
        if self.results.iter().all(Option::is_none) {
            // A merge of `torn` has every byte of it.
            let merges = self.commands[0].starts_with(&["merge", "@torn"]) && succeeded[0];
            let wanted = merges.then(|| scene.read("torn")).flatten();
            assert!(found == wanted, "{what}: out has other bytes");
            return;
        }
        let allowed = match succeeded {
            [true, false] => vec![self.results[0].clone()],
            [false, true] => vec![self.results[1].clone()],
            [true, true] => self.results.to_vec(),
            [false, false] => panic!("{what}: each gave way to the other"),
        };
        assert!(!self.one_wins || succeeded != [true, true], "{what}: both say that they made it");
        assert!(allowed.contains(&found), "{what}: out is a mixture");
    }
}

macro_rules! races {
    ($(
        $name:ident:
        $first:expr => $left:expr, $second:expr => $right:expr, $before:expr, $one:expr;
    )*) => {
        $(#[test]
        fn $name() {
            let (commands, results) = ([&$first[..], &$second[..]], [$left, $right]);
            Race { commands, results, before: $before, one_wins: $one }.run();
        })*
    };
}

const OLD: Option<&[u8]> = Some(b"what was there before");

races! {
    two_merges_make_one_file:
        ["merge", "@one", "@out"] => Some(content("one")),
        ["merge", "@two", "@out"] => Some(content("two")), None, true;
    two_merges_that_replace_leave_the_file_of_one:
        ["merge", "--force", "@one", "@out"] => Some(content("one")),
        ["merge", "--force", "@two", "@out"] => Some(content("two")),
        OLD.map(<[u8]>::to_vec), false;
    two_splits_make_one_container:
        ["split", "@file", "@out"] => Some(content("file")),
        ["split", "@other", "@out"] => Some(content("other")), None, true;
    a_merge_and_a_split_make_one:
        ["merge", "@one", "@out"] => Some(content("one")),
        ["split", "@other", "@out"] => Some(content("other")), None, true;
    a_merge_and_one_to_cdf5_leave_the_file_of_one:
        ["merge", "--force", "@one", "@out"] => Some(content("one")),
        ["merge", "--to", "cdf5", "--force", "@nc", "@out"] => Some(netcdf().bytes),
        OLD.map(<[u8]>::to_vec), false;
    two_sets_of_one_name_are_the_set_of_one:
        ["merge", "--to", "e3sm", "--subfiles", "2", "@nc", "@out"] => Some(netcdf().bytes),
        ["merge", "--to", "hdf5-blob", "--subfiles", "2", "@nc", "@out"] => Some(netcdf().bytes),
        None, true;
    two_recoveries_do_the_same:
        ["recover", "@torn"] => None, ["recover", "@torn"] => None, None, false;
    a_repair_and_a_recovery_lose_nothing:
        ["fsck", "--repair", "@torn"] => None, ["recover", "@torn"] => None, None, false;
    a_merge_during_a_repair_has_every_byte:
        ["merge", "@torn", "@out"] => None, ["fsck", "--repair", "@torn"] => None, None, false;
    a_recovery_takes_nothing_from_a_merge:
        ["merge", "@one", "@out"] => Some(content("one")), ["recover", "@"] => None, None, false;
    a_recovery_takes_nothing_from_a_split:
        ["split", "@file", "@out"] => Some(content("file")), ["recover", "@"] => None, None, false;
    a_recovery_takes_nothing_from_a_merge_to_a_set:
        ["merge", "--to", "e3sm", "--subfiles", "2", "@nc", "@out"] => Some(netcdf().bytes),
        ["recover", "@"] => None, None, false;
}
