//! The texts of `--help` and `--version`, and `docs/generated/cli.md`.

use super::commands::{COMMANDS, CommandRow, Flag};
use std::fmt::Write as _;

/// The meanings of the exit codes.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (0, "success; a server stopped after its requests had finished"),
    (
        1,
        "failure at run time: no larder answers, requests were cut at the stop, a worker failed, a purge is not confirmed everywhere, \
         a page to warm failed",
    ),
    (2, "nothing was started: error in the command line, the configuration, an address or a port"),
];

/// `larder VERSION`.
#[must_use]
pub fn version() -> String {
    format!("larder {}\n", env!("CARGO_PKG_VERSION"))
}

/// The text of `larder --help`.
#[must_use]
pub fn overview() -> String {
    let mut out = String::from(
        "larder: a caching web server\n\nUsage: larder COMMAND [ARGUMENT] [FLAGS]\n\nCommands:\n",
    );
    for command in COMMANDS {
        let usage = format!("{} {}", command.word, command.argument);
        let _ = writeln!(out, "  {usage:<14} {}", command.about);
    }
    out.push_str("\nExamples:\n");
    for (typed, does) in COMMANDS.iter().filter_map(|it| it.examples.first()) {
        let _ = writeln!(out, "  {typed}\n      {does}");
    }
    out.push_str(
        "\n`larder COMMAND --help` prints the flags of a command; `larder --version` prints the version.\n",
    );
    exit_codes(&mut out);
    out
}

/// The text of `larder COMMAND --help`.
#[must_use]
pub fn command(it: &CommandRow) -> String {
    let argument = if it.argument.is_empty() { String::new() } else { format!(" {}", it.argument) };
    let flags = if it.flags.is_empty() { "" } else { " [FLAGS]" };
    let mut out = format!("{}\n\nUsage: larder {}{argument}{flags}\n", it.about, it.word);
    if !it.argument.is_empty() {
        let _ = write!(out, "\n  {:<10} {}\n", it.argument, it.argument_help);
    }
    if !it.flags.is_empty() {
        out.push_str("\nFlags:\n");
    }
    for flag in it.flags.iter().copied().flatten() {
        let _ = writeln!(out, "  {}\n        {}", spelt(flag), flag.help);
    }
    out.push_str("\nExamples:\n");
    for (typed, does) in it.examples {
        let _ = writeln!(out, "  {typed}\n        {does}");
    }
    exit_codes(&mut out);
    out
}

pub(super) fn spelt(flag: &Flag) -> String {
    let short = flag.short.map_or(String::new(), |it| format!("-{it}, "));
    let value = if flag.value.is_empty() { String::new() } else { format!(" {}", flag.value) };
    format!("{short}--{}{value}", flag.long)
}

fn exit_codes(out: &mut String) {
    out.push_str("\nExit codes:\n");
    for (code, means) in EXIT_CODES {
        let _ = writeln!(out, "  {code}  {means}");
    }
}

/// The manual of commands: `docs/generated/cli.md`.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from(
        "# Commands\n\nGenerated from `commands/src/cli/commands.rs`; do not edit. `larder COMMAND --help` prints the same.\n",
    );
    for it in COMMANDS {
        let argument = if it.argument.is_empty() { String::new() } else { format!(" {}", it.argument) };
        let _ = write!(out, "\n## `larder {}{argument}`\n\n{}.", it.word, it.about);
        if !it.argument.is_empty() {
            let _ = write!(out, " `{}` is {}.", it.argument, it.argument_help);
        }
        out.push_str(if it.flags.is_empty() { "\n" } else { "\n\n| flag | meaning |\n|---|---|\n" });
        for flag in it.flags.iter().copied().flatten() {
            let _ = writeln!(out, "| `{}` | {} |", spelt(flag).replace('|', "\\|"), flag.help);
        }
        out.push_str("\n```\n");
        for (typed, does) in it.examples {
            let _ = writeln!(out, "$ {typed}\n# {does}");
        }
        out.push_str("```\n");
    }
    out.push_str("\n## Exit codes\n\n| code | meaning |\n|---|---|\n");
    for (code, means) in EXIT_CODES {
        let _ = writeln!(out, "| {code} | {means} |");
    }
    out
}
