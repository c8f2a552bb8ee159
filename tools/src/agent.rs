//! `aggio agent`: the process that holds coupled files.

use crate::Answer;
use aggio_couple::{agent, client};

/// Arguments of `aggio agent`.
///
/// Programs start an agent when they first use a coupled file. To start one by hand, as in a batch
/// script, is of use where programs cannot find this command; it waits for the first program. It
/// ends when no program is connected and all generations have been read.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The directory where programs look for it
    #[arg(long, env = "AGGIO_COUPLE_DIR", default_value = "", hide_default_value = true)]
    dir: String,
    /// Stay in the foreground
    #[arg(long)]
    foreground: bool,
    /// Tell the program that has started it, at descriptor 3
    #[arg(long, hide = true, requires = "foreground")]
    ready: bool,
    /// Wait for the first program
    #[arg(long, hide = true, requires = "ready")]
    stay: bool,
    /// End the agent, if no program is connected and all that is to be on disk is there; remove the
    /// names of one that was killed
    #[arg(long, conflicts_with_all = ["foreground", "ready"])]
    quit: bool,
}

impl Arguments {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let result = match (self.quit, self.foreground) {
            (true, _) => client::quit(&self.dir).map(|there| (there, "there is no agent")),
            (_, true) => {
                let result = agent::run(&self.dir, self.ready, self.stay || !self.ready);
                result.map(|began| (began || self.ready, "there is an agent already"))
            }
            (_, false) => {
                let program = std::env::current_exe();
                let program = program.map(|path| path.to_string_lossy().into_owned());
                let started = program.and_then(|path| client::start_agent(&self.dir, &path));
                started.map(|started| (started, "there is an agent already"))
            }
        };
        match result {
            Ok((true, _)) => Answer::default(),
            Ok((false, why)) => Answer::failed(format!("agent: {why}")),
            Err(error) => Answer::failed(format!("agent: {error}")),
        }
    }
}
