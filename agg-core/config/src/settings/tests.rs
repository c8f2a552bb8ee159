//! Tests of the settings: defaults, rejected values, and the wording of errors.

use super::*;

fn read(pairs: &[(&str, &str)]) -> (Settings, Vec<String>) {
    let names: Vec<String> = pairs.iter().map(|(name, _)| (*name).into()).collect();
    let variable = |name: &str| {
        pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_string())
    };
    let mut complaints = Diagnostics::default();
    let settings = Settings::read(&variable, &names, &mut complaints);
    (settings, complaints.0.iter().map(ToString::to_string).collect())
}

#[test]
fn nothing_set_is_the_default_and_manages_everything() {
    let (settings, complaints) = read(&[("PATH", "/bin"), ("AGGIO_TEST_FAULTS", "op=write")]);
    assert_eq!(settings, Settings::default());
    assert!(complaints.is_empty());
    assert!(settings.manages("/any/file") && settings.manages("relative"));
}

#[test]
fn off_manages_nothing() {
    for word in ["off", "0", "no", "OFF", " false "] {
        let (settings, complaints) = read(&[("AGGIO", word)]);
        assert!(!settings.on && !settings.manages("/any/file") && complaints.is_empty());
    }
}

#[test]
fn exclude_wins_over_include() {
    let (settings, _) = read(&[("AGGIO_INCLUDE", "*.nc,/scratch/"), ("AGGIO_EXCLUDE", "rst*")]);
    assert!(settings.manages("/home/me/out.nc"));
    assert!(settings.manages("/scratch/a/b"));
    assert!(!settings.manages("/scratch/rst.nc"));
    assert!(!settings.manages("/home/me/out.h5"));
}

#[test]
fn a_relative_file_is_found_below_the_working_directory() {
    let directory = working_directory();
    let (settings, _) = read(&[("AGGIO_INCLUDE", &format!("{directory}/"))]);
    assert!(settings.manages("./x/../out.nc"));
    assert!(!settings.manages("../out.nc"));
}

#[test]
fn a_bad_value_is_ignored_and_the_accepted_form_is_named() {
    let (settings, complaints) = read(&[("AGGIO_REPORT", "maybe"), ("AGGIO_LOG", "loud")]);
    assert_eq!(settings, Settings::default());
    assert_eq!(complaints.len(), 2);
    assert!(complaints[1].contains("AGGIO_REPORT=\"maybe\" is ignored; accepted: off, on or json"));
}

#[test]
fn rules_for_ordinary_programs_are_all_taken_or_none() {
    let (settings, complaints) = read(&[("AGGIO_POSIX", "*.out:close"), ("AGGIO_SPOOL", "/x")]);
    assert!(complaints.is_empty() && settings.posix.len() == 1 && settings.spool == "/x");
    let (settings, complaints) = read(&[("AGGIO_POSIX", "*:close,*.nc:job")]);
    assert!(settings.posix.is_empty() && complaints.len() == 1, "{complaints:?}");
    let (settings, complaints) = read(&[("AGGIO_SPOOL", "here")]);
    assert!(settings.spool == "/dev/shm" && complaints.len() == 1, "{complaints:?}");
}

#[test]
fn rules_of_coupled_files_are_taken_one_by_one() {
    let pairs =
        [("AGGIO_COUPLE", "*.nc:keep=2"), ("AGGIO_COUPLE_DIR", "/x"), ("AGGIO_TEST_AGENT", "/y")];
    let (settings, complaints) = read(&pairs);
    assert!(complaints.is_empty() && settings.coupling.rules.len() == 1, "{complaints:?}");
    assert_eq!((&*settings.coupling.dir, &*settings.coupling.agent), ("/x", "/y"));
    assert_eq!(read(&[("AGGIO_COUPLE_LINK", "ucx")]).0.coupling.link, couple::CoupleLink::Ucx);
    let (settings, complaints) = read(&[("AGGIO_COUPLE_LINK", "rdma")]);
    assert!(settings.coupling.link == couple::CoupleLink::Tcp && complaints.len() == 1);
    let pairs = [("AGGIO_COUPLE", "*.nc,*.h5:fast=1"), ("AGGIO_COUPLE_DIR", "x")];
    let (settings, complaints) = read(&pairs);
    assert!(settings.coupling.rules.len() == 2 && settings.coupling.dir.is_empty());
    let told = |text: &str| complaints.iter().any(|one| one.contains(text));
    assert!(complaints.len() == 2 && told("\"*.h5:fast=1\" is void"), "{complaints:?}");
}

#[test]
fn a_log_file_that_cannot_be_written_is_reported() {
    let (_, complaints) = read(&[("AGGIO_LOG_FILE", "/no/such/file")]);
    assert!(complaints.len() == 1 && complaints[0].contains("/no/such/file"), "{complaints:?}");
}

#[test]
fn a_misspelled_variable_is_reported_with_the_right_name() {
    let (_, complaints) = read(&[("AGGIO_INCLUED", "*")]);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].ends_with("did you mean AGGIO_INCLUDE?"), "{}", complaints[0]);
}

#[test]
fn the_log_takes_a_level_and_all() {
    let (settings, complaints) = read(&[("AGGIO_LOG", "debug,all")]);
    assert!(complaints.is_empty());
    assert_eq!((settings.messages.level, settings.messages.all), (Level::Debug, true));
    assert_eq!(read(&[("AGGIO_LOG", "all")]).0.messages.level, Level::Warn);
}

#[test]
fn costs_are_measured_unless_assumptions_are_asked_for() {
    let (settings, complaints) = read(&[("AGGIO_TEST_COSTS", "assumed")]);
    assert!(!settings.measures && complaints.is_empty());
    let (settings, complaints) = read(&[("AGGIO_TEST_COSTS", "guessed")]);
    assert!(settings.measures && complaints.len() == 1);
}

#[test]
fn either_display_variable_shows_hints() {
    let one = [("MPICH_MPIIO_HINTS_DISPLAY", "1"), ("ROMIO_PRINT_HINTS", "0")];
    assert!(read(&one).0.display_hints);
}

#[test]
fn strict_makes_a_bad_value_an_error_that_names_it() {
    let (settings, _) = read(&[("AGGIO_STRICT", "1")]);
    let mut complaints = Diagnostics::default();
    assert!(complaints.report(settings.strict).is_ok());
    complaints.value("environment", "AGGIO_LOG", "loud", "words");
    assert!(complaints.report(false).is_ok());
    let text = complaints.report(settings.strict).map_err(|error| error.to_string());
    assert!(text.is_err_and(|text| text.contains("AGGIO_LOG")));
}

proptest::proptest! {
    #[test]
    fn no_value_makes_the_reader_panic(
        values in proptest::collection::vec(".*", Variable::public().count()),
    ) {
        let variable = |name: &str| {
            let index = Variable::public().position(|known| known.name == name)?;
            values.get(index).cloned()
        };
        let settings = Settings::read(&variable, &values, &mut Diagnostics::default());
        settings.manages("/some/file");
    }
}
