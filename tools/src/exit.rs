//! Exit statuses: the only declaration of each. The manual pages are made from this table.

/// Everything was done, or nothing is wrong.
pub(crate) const DONE: u8 = 0;
/// Something could not be done; standard error says what.
pub(crate) const FAILED: u8 = 1;
/// `fsck`: nothing is lost.
pub(crate) const REPAIRABLE: u8 = 1;
/// `verify`: the files differ.
pub(crate) const DIFFERENT: u8 = 1;
/// `verify`: one of the files cannot be read.
pub(crate) const UNTOLD: u8 = 2;
/// `fsck`: bytes are lost.
pub(crate) const DAMAGED: u8 = 4;
/// The answer could not be written.
pub(crate) const UNWRITTEN: u8 = 5;
/// `run`: no program was started.
pub(crate) const NOT_STARTED: u8 = 127;

/// What an exit status of a command means.
pub(crate) struct Status {
    /// The command; empty for all that have no other meaning for it.
    pub(crate) command: &'static str,
    pub(crate) number: u8,
    pub(crate) meaning: &'static str,
}

const fn status(command: &'static str, number: u8, meaning: &'static str) -> Status {
    Status { command, number, meaning }
}

impl Status {
    /// Every status of every command.
    pub(crate) const ALL: &'static [Status] = &[
        status("", DONE, "Everything was done."),
        status("", FAILED, "Something could not be done; standard error says what."),
        status("", 2, "An option or an argument is wrong; nothing was done."),
        status("", UNWRITTEN, "The answer could not be written to standard output."),
        status("doctor", DONE, "No check failed; there may be warnings."),
        status("doctor", FAILED, "A check failed."),
        status("env", FAILED, "A variable is unknown, or has a value that is ignored."),
        status("fsck", DONE, "All containers are clean."),
        status(
            "fsck",
            REPAIRABLE,
            "No data is lost: something was repaired, or --repair would do so.",
        ),
        status("fsck", DAMAGED, "Data is damaged, or a container could not be looked at."),
        status("hints", FAILED, "A hint is unknown, or has a value that is ignored."),
        status("run", NOT_STARTED, "No program was started; else its own exit status."),
        status("verify", DONE, "Both hold the same."),
        status("verify", DIFFERENT, "They differ; standard output says in what."),
        status(
            "verify",
            UNTOLD,
            "It cannot be told: one of them cannot be read. Also if an option is wrong.",
        ),
    ];

    /// All as lines of command, number and meaning, separated by tabs.
    pub(crate) fn lines() -> String {
        let line = |status: &Status| {
            let command = if status.command.is_empty() { "*" } else { status.command };
            format!("{command}\t{}\t{}\n", status.number, status.meaning)
        };
        Self::ALL.iter().map(line).collect()
    }
}
