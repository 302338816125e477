//! A page for each command of `kubectl fence`, made of what `--help` prints, and the table of them.

use crate::reference::{check, table};
use clap::Command;
use node_fencing_operator::cli;

/// The commands, without the one that explains them all.
fn commands() -> Vec<Command> {
    let command = cli::command();
    let all = command
        .get_subcommands()
        .filter(|it| it.get_name() != "help");
    all.cloned().collect()
}

fn help(command: &Command) -> String {
    let text = command
        .clone()
        .term_width(80)
        .render_long_help()
        .to_string();
    let lines: Vec<&str> = text.trim_end().lines().map(str::trim_end).collect();
    lines.join("\n")
}

fn about(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

#[test]
fn each_command_of_the_plugin_has_its_page() {
    for command in commands() {
        let name = command.get_name().to_owned();
        let inner = command
            .get_subcommands()
            .filter(|it| it.get_name() != "help");
        let inner: String = inner
            .map(|it| format!("\n## {}\n\n```text\n{}\n```\n", it.get_name(), help(it)))
            .collect();
        let body = format!(
            "{}.\n\n```text\n{}\n```\n{inner}",
            about(&command),
            help(&command)
        );
        check(
            &format!("kubectl-fence/{name}"),
            &format!("kubectl fence {name}"),
            &body,
        );
    }
}

#[test]
fn the_plugin_has_a_table_of_its_commands() {
    let rows = commands().into_iter().map(|it| {
        let name = it.get_name();
        vec![format!("[{name}](kubectl-fence/{name}.md)"), about(&it)]
    });
    let body = format!(
        "What each prints at `--help`. Installed it is by [the page of its own](../how-to/plugin.md); manual pages are in `man/`.\n\n{}",
        table(&["`kubectl fence`", "does"], rows)
    );
    check("kubectl-fence", "kubectl fence", &body);
}

/// People copy from a terminal of 80 columns; a word longer than that (a flag's default) may stand out.
#[test]
fn help_fits_a_terminal() {
    for command in commands() {
        let help = help(&command);
        let wide: Vec<&str> = help.lines().filter(|it| it.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{}: {wide:#?}", command.get_name());
    }
}
