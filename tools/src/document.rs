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
        let aggio = crate::Arguments::command();
        let mut aggio = match &self.command {
            // It has no page of its own.
            None => aggio.disable_help_subcommand(true),
            Some(_) => aggio.mut_subcommands(|command| command.disable_help_subcommand(true)),
        };
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
        let head = format!(".TH {title} 1 \"\" aggio");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let parts = command.get_subcommands().filter_map(|part| part.get_display_name());
        let parts: Vec<String> = parts.map(str::to_owned).collect();
        // That of `--help`: clap_mangen would name all options twice.
        let usage = command.clone().render_usage().to_string();
        let usage = usage.trim_start_matches("Usage: ").to_owned();
        let page = clap_mangen::Man::new(command.override_usage(usage).mut_args(with_values));
        let mut bytes = Vec::new();
        page.render(&mut bytes).map_err(|why| why.to_string())?;
        let mut page = man::without_repetitions(&String::from_utf8_lossy(&bytes), &head, &about);
        // Only the commands of aggio itself have pages.
        for part in parts.iter().filter(|_| self.command.is_some()) {
            let name = part.replace('-', "\\-") + "(1)";
            page = page.replace(&name, &part.replace('-', " "));
        }
        page.push_str(&man::exit_status(self.command.as_deref()));
        Ok(page)
    }
}

/// An argument with a help text that lists its possible values and their meanings.
fn with_values(argument: clap::Arg) -> clap::Arg {
    let values = argument.get_possible_values();
    if values.is_empty() {
        return argument;
    }
    let value = |value: &clap::builder::PossibleValue| match value.get_help() {
        Some(help) => format!("{} ({help})", value.get_name()),
        None => value.get_name().into(),
    };
    let values = values.iter().map(value).collect::<Vec<_>>().join(", ");
    let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
    argument.help(format!("{help}: {values}")).hide_possible_values(true)
}
