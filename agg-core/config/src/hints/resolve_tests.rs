//! Tests of layers, origins and agreement.

use super::*;
use crate::hints::{Family, Switch};
use proptest::prelude::*;

fn pairs(info: &[(&str, &str)]) -> Vec<(String, String)> {
    info.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn resolve(variables: &[(&str, &str)], file: &str, info: &[(&str, &str)]) -> (Hints, Vec<String>) {
    let mut complaints = Diagnostics::default();
    let variable = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string())
    };
    let sources = Sources::read(&variable, &|_| Ok(file.as_bytes().to_vec()), &mut complaints);
    let hints = Hints::resolve(&sources, "/data/out.nc", &pairs(info), &mut complaints);
    (hints, complaints.0.iter().map(ToString::to_string).collect())
}

#[test]
fn without_any_source_everything_is_the_default() {
    let (hints, complaints) = resolve(&[], "", &[]);
    assert_eq!(hints, Hints::default());
    assert_eq!(hints.cb_buffer_size, 16 << 20);
    assert_eq!((hints.cb_nodes, &*hints.cb_config_list), (0, "*:1"));
    assert!(complaints.is_empty());
}

#[test]
fn each_layer_wins_over_the_one_below() {
    let cray = ("MPICH_MPIIO_HINTS", "*.nc:cb_nodes=4");
    let ours = ("AGGIO_HINTS", "/data/*:cb_nodes=5");
    let info = [("cb_nodes", "3")];
    for (variables, file, info, expected, origin) in [
        (&[][..], "", &[][..], 0, Origin::Default),
        (&[], "cb_nodes 1", &[], 1, Origin::SystemFile),
        (&[("ROMIO_HINTS", "f")], "cb_nodes 2", &[], 2, Origin::HintsFile),
        (&[("ROMIO_HINTS", "f")], "cb_nodes 2", &info, 3, Origin::Application),
        (&[cray], "cb_nodes 1", &info, 4, Origin::MpichHints),
        (&[ours, cray], "cb_nodes 1", &info, 5, Origin::AggioHints),
    ] {
        let (hints, complaints) = resolve(variables, file, info);
        assert_eq!((hints.cb_nodes, hints.origin("cb_nodes")), (expected, Some(origin)));
        assert!(complaints.is_empty());
    }
}

#[test]
fn a_suggestion_wins_over_files_but_not_over_the_application() {
    let ours = [("AGGIO_HINTS", "*:cb_nodes?=5")];
    assert_eq!(resolve(&ours, "cb_nodes 1", &[]).0.cb_nodes, 5);
    assert_eq!(resolve(&ours, "cb_nodes 1", &[("cb_nodes", "3")]).0.cb_nodes, 3);
}

#[test]
fn later_info_keeps_forced_values_and_those_that_count_at_open_only() {
    let (mut hints, _) = resolve(&[("AGGIO_HINTS", "*:romio_cb_read=enable")], "", &[]);
    let mut complaints = Diagnostics::default();
    let info = [("romio_cb_read", "disable"), ("cb_nodes", "7"), ("ind_rd_buffer_size", "1M")];
    hints.update(&pairs(&info), &mut complaints);
    assert_eq!(hints.romio_cb_read, Switch::Enable);
    assert_eq!(hints.cb_nodes, 0);
    assert_eq!(hints.ind_rd_buffer_size, 1 << 20);
    assert!(complaints.0.is_empty());
}

#[test]
fn a_misspelled_hint_is_named_with_the_right_one() {
    let (hints, complaints) = resolve(&[], "", &[("romio_cb_wirte", "enable")]);
    assert_eq!(hints, Hints::default());
    let expected =
        "MPI_Info: unknown hint \"romio_cb_wirte\" is ignored; did you mean romio_cb_write?";
    assert_eq!(complaints, [expected]);
}

#[test]
fn a_bad_value_is_named_with_the_accepted_form_and_changes_nothing() {
    for (key, value) in [
        ("cb_buffer_size", "lots"),
        ("cb_buffer_size", "0"),
        ("cb_nodes", "-1"),
        ("romio_cb_read", "perhaps"),
        ("file_perm", "rwx"),
    ] {
        let (hints, complaints) = resolve(&[], "", &[(key, value)]);
        assert_eq!(hints, Hints::default(), "{key}={value}");
        assert!(complaints[0].contains("accepted: "), "{complaints:?}");
    }
}

#[test]
fn keys_of_other_parts_of_mpi_are_no_unknown_hints() {
    let info = [("wdir", "/tmp"), ("ompi_pset", "x"), ("mpi_assert_no_any_tag", "true")];
    assert!(resolve(&[], "", &info).1.is_empty());
}

#[test]
fn keys_that_libraries_set_are_silent_and_misspelt_hints_are_not() {
    let info = [("NUMA_ID", "0"), ("nc_ina_node_list", "0 2"), ("romio_no_coll_rw", "true")];
    assert!(resolve(&[], "", &info).1.is_empty());
    assert!(resolve(&[], "", &[("of_some_library", "1")]).1.is_empty());
    // `nc_` begins keys of PnetCDF, and hints of the table.
    let told = resolve(&[], "", &[("nc_ina_node_list", "0"), ("nc_var_aling_size", "4")]).1;
    assert!(told.len() == 1 && told[0].ends_with("nc_var_align_size?"), "{told:?}");
}

#[test]
fn an_unknown_key_of_the_environment_is_told_unless_another_library_knows_it() {
    let text = "*:romio_no_coll_rw=1:nc_chunk_default=4:of_nobody=1";
    let told = resolve(&[("AGGIO_HINTS", text)], "", &[]).1;
    assert!(told.len() == 1 && told[0].contains("\"of_nobody\""), "{told:?}");
}

#[test]
fn what_the_application_set_is_told_with_its_origin() {
    let (mut hints, _) = resolve(&[], "", &[("striping_unit", "64K"), ("nc_burst_buf", "enable")]);
    hints.note("cb_nodes", "4");
    let told = hints.in_force();
    let find = |name: &str| {
        told.iter().find(|hint| hint.name == name).map(|hint| (&*hint.value, hint.origin))
    };
    assert_eq!(find("striping_unit"), Some(("65536", Origin::Application)));
    assert_eq!(find("nc_burst_buf"), Some(("enable", Origin::Application)));
    assert_eq!(find("cb_nodes"), Some(("4", Origin::Engine)));
    assert_eq!(find("romio_cb_read"), Some(("automatic", Origin::Default)));
    assert_eq!(find("striping_factor"), None);
    assert_eq!(find("romio_filesystem_type"), None);
    assert!(told.iter().all(|hint| !hint.value.is_empty()));
}

#[test]
fn a_value_that_the_engine_confirms_stays_its_setters_and_another_names_both() {
    let source = |asked: &str, does: &str| {
        let (mut hints, _) = resolve(&[], "", &[("cb_nodes", asked)]);
        hints.note("cb_nodes", does);
        hints.in_force().into_iter().find(|hint| hint.name == "cb_nodes").unwrap().source()
    };
    assert_eq!(source("2", "2"), "MPI_Info");
    assert_eq!(source("8", "2"), "aggio; MPI_Info asked for 8");
    let (hints, _) = resolve(&[("AGGIO_DEFER", "*.nc")], "", &[]);
    assert_eq!(hints.origin("aggio_defer"), Some(Origin::AggioDefer));
}

#[test]
fn hints_that_are_only_told_cannot_be_set() {
    let (hints, complaints) = resolve(&[], "", &[("romio_filesystem_type", "mine")]);
    assert_eq!(hints, Hints::default());
    assert!(complaints.is_empty());
}

#[test]
fn an_alias_sets_the_hint_it_stands_for() {
    let (hints, complaints) = resolve(&[], "", &[("stripe_size", "1M"), ("cb_write", "disable")]);
    assert_eq!((hints.striping_unit, hints.romio_cb_write), (1 << 20, Switch::Disable));
    assert!(complaints.is_empty());
}

#[test]
fn ranks_with_unequal_hints_can_adopt_those_of_another() {
    let (one, _) = resolve(&[], "", &[("cb_nodes", "4"), ("cb_config_list", "a:1,*:=2")]);
    let (mut other, _) = resolve(&[], "", &[("romio_ds_read", "disable")]);
    assert_ne!(one.must_agree(), other.must_agree());
    let told = other.adopt(&one.must_agree());
    assert_eq!(told.len(), 2);
    let nodes = r#"hint cb_nodes is "0" on this rank and "4" on rank 0, whose value counts"#;
    assert!(told[0] == nodes && told[1].contains("cb_config_list"), "{told:?}");
    assert_eq!(one.must_agree(), other.must_agree());
    assert_eq!((other.cb_nodes, &*other.cb_config_list), (4, "a:1,*:=2"));
    assert_eq!(other.romio_ds_read, Switch::Disable);
}

#[test]
fn a_promise_of_collective_calls_enables_collective_buffering() {
    let (hints, _) = resolve(&[], "", &[("romio_no_indep_rw", "true")]);
    assert_eq!((hints.romio_cb_read, hints.romio_cb_write), (Switch::Enable, Switch::Enable));
    let info = [("romio_no_indep_rw", "true"), ("romio_cb_write", "disable")];
    let (hints, _) = resolve(&[], "", &info);
    assert!(hints.romio_no_indep_rw);
    assert_eq!(hints.romio_cb_write, Switch::Enable);
    let (hints, _) = resolve(&[], "", &[("collective_buffering", "false")]);
    assert_eq!((hints.romio_cb_read, hints.romio_cb_write), (Switch::Disable, Switch::Disable));
}

#[test]
fn settings_of_experiments_are_set_through_one_hint_alone() {
    let variables = [("AGGIO_HINTS", "*:aggio_tune=defer_always=true defer_buffer=500")];
    let (hints, complaints) = resolve(&variables, "", &[("aggio_tune", "small_reads=disable")]);
    assert!(complaints.is_empty(), "{complaints:?}");
    assert!(hints.aggio_defer_always && hints.aggio_small_reads == Switch::Disable);
    let told: Vec<_> = hints.in_force().into_iter().filter(|h| h.name == "aggio_tune").collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].value, "defer_always=true defer_buffer=500 small_reads=disable");
    assert!(!hints.in_force().iter().any(|hint| hint.name == "aggio_defer_always"));
    let mut later = hints.clone();
    let info = [("aggio_tune", "deferred_open=enable fill_elision=enable")];
    later.update(&pairs(&info), &mut Diagnostics::default());
    assert_eq!(later.aggio_deferred_open, Switch::Automatic, "counts at open only");
    assert_eq!(later.aggio_fill_elision, Switch::Enable);
}

#[test]
fn a_wrong_setting_of_experiments_is_named_and_the_others_are_kept() {
    let bad = "defer_alwys=true defer_buffer=much defer_spill=7";
    for (variables, info) in [
        (&[("AGGIO_HINTS", format!("*:aggio_tune={bad}"))][..], &[][..]),
        (&[][..], &[("aggio_tune", bad)][..]),
    ] {
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, &**value)).collect();
        let (hints, complaints) = resolve(&variables, "", info);
        assert_eq!((hints.aggio_defer_spill, complaints.len()), (7, 2), "{complaints:?}");
        assert!(
            complaints[0].contains("\"defer_alwys\"") && complaints[0].contains("defer_always")
        );
        assert!(complaints[1].contains("defer_buffer") && complaints[1].contains("a size from 1"));
    }
}

#[test]
fn the_old_name_of_a_setting_is_refused_and_the_new_one_is_named() {
    let old = [("AGGIO_HINTS", "*:aggio_defer_always=true:cb_nodes=3")];
    for (variables, info) in [(&old[..], &[][..]), (&[], &[("aggio_defer_always", "true")])] {
        let (hints, complaints) = resolve(variables, "", info);
        assert!(!hints.aggio_defer_always);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
        assert!(complaints[0].contains("did you mean aggio_tune=defer_always"), "{complaints:?}");
    }
}

#[test]
fn every_declaration_is_sound() {
    let mut names: Vec<_> = Declaration::ALL.iter().map(|d| d.name).collect();
    names.extend(Declaration::ALIASES.iter().map(|(alias, _)| *alias));
    names.sort_unstable();
    let unique = names.len();
    names.dedup();
    assert_eq!(names.len(), unique, "a name is declared twice");
    for d in Declaration::ALL {
        // Open MPI takes no longer keys; the names of others are as they are.
        assert!(d.name.len() <= 35 || d.family != Family::Aggio, "{}", d.name);
        assert!(!d.doc.trim().is_empty(), "{}", d.name);
        let mut hints = Hints::default();
        let text = d.default_value();
        assert!((d.set)(&mut hints, &text), "{}: the default {text:?} is not accepted", d.name);
        assert_eq!(hints.value(d), text, "{}", d.name);
    }
    for (alias, name) in Declaration::ALIASES {
        assert!(Declaration::find(alias).is_some_and(|(_, d)| d.name == *name));
    }
}

proptest! {
    #[test]
    fn no_info_makes_the_resolver_panic_and_every_told_value_is_accepted_again(
        index in 0..Declaration::ALL.len(),
        key in ".*",
        value in "(.*|[0-9]{1,25}[kKmMgG]?|-?[0-9]+)",
    ) {
        let name = Declaration::ALL[index].name;
        let (hints, _) = resolve(&[], "", &[(name, &value), (&key, &value)]);
        for told in hints.in_force() {
            let mut again = Hints::default();
            let declaration = Declaration::find(told.name).map(|(_, d)| d);
            prop_assert!(declaration.is_some_and(|d| (d.set)(&mut again, &told.value)));
        }
    }

    #[test]
    fn no_bytes_of_another_rank_make_adopt_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        Hints::default().adopt(&bytes);
    }
}
