//! Manual pages and completions of shells, made from the definition of the commands.

use crate::exit::Status;
use crate::{Answer, man, markdown};
use clap::CommandFactory;

/// Arguments of `aggio completions`.
#[derive(clap::Args)]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Completions {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        let mut bytes = Vec::new();
        clap_complete::generate(self.shell, &mut crate::Arguments::command(), "aggio", &mut bytes);
        Answer { text: String::from_utf8_lossy(&bytes).into_owned(), ..Answer::default() }
    }
}

/// Arguments of `aggio manual`.
#[derive(clap::Args)]
pub(crate) struct Manual {
    /// A command; without it the page of aggio itself
    command: Option<String>,
    /// All exit statuses, a line of command, number and meaning each
    #[arg(long)]
    exit_status: bool,
    /// The reference of the reports of AGGIO_REPORT=json (docs/reports.md)
    #[arg(long)]
    reports: bool,
}

impl Manual {
    /// The answer to the command.
    pub(crate) fn run(&self) -> Answer {
        if self.exit_status {
            return Answer { text: Status::lines(), ..Answer::default() };
        }
        if self.reports {
            return Answer { text: markdown::reports(), ..Answer::default() };
        }
        match self.page() {
            Ok(text) => Answer { text, ..Answer::default() },
            Err(why) => Answer::failed(format!("manual: {why}")),
        }
    }

    fn page(&self) -> Result<String, String> {
        let mut aggio = crate::Arguments::command();
        if self.command.is_none() {
            // It has no page of its own.
            aggio = aggio.disable_help_subcommand(true);
        }
        aggio.build();
        let command = match &self.command {
            None => aggio,
            Some(name) => {
                let command = aggio.find_subcommand(name);
                let command = command.ok_or_else(|| format!("{name}: no command"))?.clone();
                // aggio(1) has it.
                command.mut_arg("help", |help| help.hide(true))
            }
        };
        let title = command.get_display_name().unwrap_or("aggio").to_ascii_uppercase();
        let page = clap_mangen::Man::new(command)
            .title(title)
            .section("1")
            .date("")
            .source("aggio")
            .manual("aggio manual");
        let mut bytes = Vec::new();
        page.render(&mut bytes).map_err(|why| why.to_string())?;
        let mut page = String::from_utf8_lossy(&bytes).into_owned();
        page.push_str(&man::exit_status(self.command.as_deref()));
        Ok(page)
    }
}
