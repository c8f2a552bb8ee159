//! `PNETCDF_HINTS`: makes PnetCDF use MPI-IO, not its own I/O layer, so that aggio serves its
//! files.

use crate::hints::yes_or_no;

/// The variable in which PnetCDF looks for hints: `key=value`, separated by semicolons.
pub const VARIABLE: &str = "PNETCDF_HINTS";

/// The hint that makes PnetCDF use MPI-IO.
const DRIVER: &[u8] = b"nc_driver=mpiio";

/// Keys by which users choose the I/O layer themselves; the last two are old spellings.
const CHOICES: [&[u8]; 3] = [b"nc_driver", b"pnc_driver", b"nc_pncio"];

/// Appends the hint for MPI-IO to `hints`; `None` if they choose an I/O layer already.
pub fn with_mpi_io(hints: &[u8]) -> Option<Vec<u8>> {
    let key = |pair: &[u8]| {
        pair.split(|byte| *byte == b'=').next().map(<[u8]>::trim_ascii).map(<[u8]>::to_vec)
    };
    let chosen =
        |pair: &[u8]| key(pair).is_some_and(|key| CHOICES.iter().any(|choice| *choice == key));
    if hints.split(|byte| *byte == b';').any(chosen) {
        return None;
    }
    let hints = hints.trim_ascii_end();
    let separator: &[u8] = if hints.is_empty() || hints.ends_with(b";") { b"" } else { b";" };
    Some([hints, separator, DRIVER].concat())
}

/// Whether aggio serves MPI-IO, and so asks. Reads `AGGIO` alone, and reports no wrong value.
pub fn is_asked_for(variable: &dyn Fn(&str) -> Option<String>) -> bool {
    variable("AGGIO").and_then(|value| yes_or_no(value.trim())).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(hints: &str) -> Option<String> {
        with_mpi_io(hints.as_bytes()).map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn the_wish_comes_behind_what_the_user_set() {
        assert_eq!(with("").as_deref(), Some("nc_driver=mpiio"));
        assert_eq!(with(" ").as_deref(), Some("nc_driver=mpiio"));
        assert_eq!(with("cb_nodes=2").as_deref(), Some("cb_nodes=2;nc_driver=mpiio"));
        assert_eq!(with("cb_nodes=2; ").as_deref(), Some("cb_nodes=2;nc_driver=mpiio"));
        assert_eq!(with("my_nc_driver=1").as_deref(), Some("my_nc_driver=1;nc_driver=mpiio"));
    }

    #[test]
    fn who_chose_a_layer_keeps_it_and_nobody_is_asked_twice() {
        for own in [
            "nc_driver=gio",
            "a=b; nc_driver = gio ;c=d",
            "nc_driver",
            "nc_pncio=enable",
            "pnc_driver=x",
        ] {
            assert_eq!(with(own), None, "{own}");
        }
        let once = with("a=b").expect("no layer is chosen");
        assert_eq!(with(&once), None);
    }

    #[test]
    fn bytes_that_are_no_text_stay() {
        assert_eq!(with_mpi_io(b"a=\xFF"), Some(b"a=\xFF;nc_driver=mpiio".to_vec()));
    }

    #[test]
    fn a_library_that_is_off_leaves_the_variable_alone() {
        let asked = |name: &str, value: &str| {
            is_asked_for(&|asked| (asked == name).then(|| value.to_owned()))
        };
        assert!(asked("PATH", "/bin") && asked("AGGIO", " ") && asked("AGGIO", "perhaps"));
        assert!(!asked("AGGIO", "no") && !asked("AGGIO", " off "));
    }
}
