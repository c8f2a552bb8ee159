//! `aggio simulate` as a command: its output, and its errors about bad input.

use std::process::{Command, Output};

fn simulate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aggio"));
    command.arg("simulate").args(arguments).env_clear().output().expect("the program starts")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = simulate(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn all_plans_stand_in_the_table_and_in_the_json() {
    let arguments = ["--ranks", "100,1000", "interleaved,piece=1K,bytes=64M"];
    let output = simulate(&arguments);
    let text = String::from_utf8_lossy(&output.stdout);
    let rows = |plan: &str| {
        text.lines().filter(|line| line.split("  ").any(|word| word.trim() == plan)).count()
    };
    assert_eq!((rows("aggio"), rows("romio"), rows("romio-lustre")), (2, 2, 2), "{text}");
    let json = json(&arguments);
    assert_eq!((&json["schema"], &json["direction"]), (&1.into(), &"write".into()));
    let outcome = &json["machines"][0]["patterns"][0]["outcomes"][1];
    assert_eq!((&outcome["ranks"], &outcome["nodes"]), (&1000.into(), &8.into()));
    let aggio = &outcome["plans"][0];
    assert_eq!((&aggio["plan"], &aggio["requests"]), (&"aggio".into(), &64.into()));
    // Windows are of 1 MiB, as pieces start at multiples of 1 KiB: 64 of them, each touched by all
    // of 8 nodes but the last, where the file ends in the middle of a turn; each is at home on one.
    assert_eq!(aggio["messages_between_nodes"], 8 * 64 - 4 - 64);
    let bytes = aggio["bytes_between_nodes"].as_u64().expect("a number");
    assert!((50 << 20..64 << 20).contains(&bytes), "{bytes}");
}

#[test]
fn hints_and_the_machine_act() {
    let pattern = "interleaved,piece=1K,bytes=64M";
    let one = |more: &[&str]| {
        let json = json(&[&["--ranks", "256", pattern], more].concat());
        json["machines"][0]["patterns"][0]["outcomes"][0].clone()
    };
    let smaller = one(&["--cb-buffer-size", "65536"]);
    assert_eq!(smaller["plans"][0]["requests"], 1024);
    assert_eq!(one(&["--cb-nodes", "1"])["plans"][0]["aggregators"], 1);
    assert_eq!(one(&["--cb-config-list", "node1:3"])["plans"][0]["aggregators"], 3);
    assert_eq!(one(&["--set", "ranks_per_node=16"])["nodes"], 16);
    let cluster = one(&["--machine", "cluster"]);
    assert_eq!(cluster["plans"].as_array().expect("plans").len(), 2);
    let unaligned = one(&["--machine", "cluster", "--set", "lock_unit=3M"]);
    assert!(unaligned["plans"][0]["lock_conflicts"].as_u64() > Some(0));
}

#[test]
fn sets_and_files_of_patterns_are_taken_and_a_machine_can_be_a_file() {
    let directory = std::env::temp_dir().join(format!("aggio-simulation-{}", std::process::id()));
    std::fs::create_dir(&directory).expect("a directory");
    let path = |name: &str| directory.join(name).to_string_lossy().into_owned();
    std::fs::write(path("patterns"), "mine contiguous,bytes=1M\nnone opens,count=9\n")
        .expect("a file");
    std::fs::write(path("machine"), "ranks_per_node = 2 # small\n").expect("a file");
    let two = json(&["--ranks", "4", "--machine", &path("machine"), &path("patterns")]);
    assert_eq!(two["machines"][0]["patterns"].as_array().expect("patterns").len(), 1);
    assert_eq!(two["machines"][0]["patterns"][0]["pattern"], "mine");
    assert_eq!(two["machines"][0]["patterns"][0]["outcomes"][0]["nodes"], 2);
    let quick = json(&["--ranks", "8", "--read", "quick"]);
    assert_eq!(quick["machines"][0]["patterns"].as_array().expect("patterns").len(), 18);
    std::fs::write(path("patterns"), "a contiguous,bytes=1M\nb contiguous,byte=1\n")
        .expect("a file");
    told(&[&path("patterns")], &["patterns: line 2: ", "byte"]);
    std::fs::write(path("machine"), "\nlock_unit = much\n").expect("a file");
    told(
        &["--machine", &path("machine"), "quick"],
        &["machine: line 2: lock_unit: \"much\" is not"],
    );
    std::fs::remove_dir_all(&directory).expect("the directory goes");
}

/// Pieces of 64 KiB in turn, on a striped file system: the requests of ROMIO's aggregators are 16
/// times as long as aggio's windows, but nothing reaches the targets sooner by that.
#[test]
fn longer_requests_do_not_make_romio_faster_where_clients_cut_them() {
    let arguments =
        ["--machine", "lustre", "--ranks", "256,1000", "interleaved,piece=64K,bytes=4G"];
    for read in [&[][..], &["--read"]] {
        let told = json(&[read, &arguments].concat());
        let outcomes = &told["machines"][0]["patterns"][0]["outcomes"];
        for outcome in outcomes.as_array().expect("two numbers of ranks") {
            let plans = outcome["plans"].as_array().expect("plans");
            let seconds = |name: &str| {
                let plan = plans.iter().find(|plan| plan["plan"] == name).expect("a plan");
                plan["seconds"].as_f64().expect("seconds")
            };
            assert!(seconds("aggio") <= seconds("romio"), "{outcome:#}");
            assert!(seconds("aggio") <= seconds("romio-lustre"), "{outcome:#}");
        }
    }
}

#[track_caller]
fn told(arguments: &[&str], words: &[&str]) {
    let output = simulate(arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{output:?}");
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[test]
fn bad_input_is_named() {
    let pattern = "contiguous,bytes=1M";
    told(&["contigous,bytes=1M"], &["contigous,bytes=1M", "no pattern", "no set", "no file"]);
    told(&["--machine", "abacus", pattern], &["--machine abacus", "laptop, cluster, lustre"]);
    told(&["--set", "stripe_siez=1M", pattern], &["did you mean stripe_size?"]);
    told(&["--set", "stripe_size", pattern], &["want NAME=VALUE"]);
    told(&["--set", "request_latency=5", pattern], &["request_latency", "ns, us, ms or s"]);
    told(&["--ranks", "0", pattern], &["--ranks", "0 is not in 1..="]);
    told(&["--ranks", "9999999", pattern], &["--ranks", "9999999 is not in 1..="]);
    told(&["--machine", "laptop", "--ranks", "100", pattern], &["laptop: ", "need 13 nodes"]);
    told(
        &["--machine", "lustre,laptop", "--ranks", "100", pattern],
        &["laptop: ", "need 13 nodes"],
    );
    told(&["--set", "nodes=0", pattern], &["nodes: \"0\" must not be 0"]);
    told(&["--set", "target_bandwidth=0.0", pattern], &["target_bandwidth", "must not be 0"]);
    told(&["--ranks", "-5", pattern], &["-5"]);
    told(&["--ranks", "", pattern], &["--ranks"]);
    told(&["interleaved,piece=0,bytes=1M"], &["piece"]);
    told(&["--ranks", "many", pattern], &["many"]);
    told(&["--cb-buffer-size", "0", pattern], &["cb-buffer-size"]);
    told(&["--cb-config-list", "nobody", pattern], &["nobody", "selects no rank"]);
    told(&[], &["PATTERN"]);
    told(&["--json", "--markdown", pattern], &["--markdown"]);
}
