//! The manual pages larder(1) and larder.toml(5), from the tables of commands and configuration keys.

use super::commands::COMMANDS;
use super::help::{EXIT_CODES, spelt};
use larder_config::table::{self, Takes};
use std::fmt::Write as _;

/// The pages, by the argument of `larder man`.
pub(super) const PAGES: [&str; 2] = ["larder", "larder.toml"];

/// The page with a name of `PAGES`, in roff.
#[must_use]
pub fn page(name: &str) -> Option<String> {
    match name {
        "larder" => Some(commands()),
        "larder.toml" => Some(keys()),
        _ => None,
    }
}

/// A text that roff prints as it is.
fn plain(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-").replace('`', "").replace('\n', " ");
    match text.starts_with(['.', '\'']) {
        true => format!("\\&{text}"),
        false => text,
    }
}

fn head(name: &str, section: u8, about: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        ".TH {} {section} \"\" \"larder {version}\" \"\"\n.SH NAME\n{} \\- {}\n",
        name.to_uppercase(),
        plain(name),
        plain(about)
    )
}

fn commands() -> String {
    let mut out = head("larder", 1, "a caching web server");
    out.push_str(".SH SYNOPSIS\n.B larder\n.I COMMAND\n[\\fIARGUMENT\\fR] [\\fIFLAGS\\fR]\n.SH COMMANDS\n");
    for it in COMMANDS {
        let _ = writeln!(
            out,
            ".SS \"larder {}\"\n{}.",
            plain(format!("{} {}", it.word, it.argument).trim_end()),
            plain(it.about)
        );
        if !it.argument.is_empty() {
            let _ = writeln!(out, ".I {}\nis {}.", plain(it.argument), plain(it.argument_help));
        }
        for flag in it.flags.iter().copied().flatten() {
            let _ = writeln!(out, ".TP\n.B {}\n{}", plain(&spelt(flag)), plain(flag.help));
        }
        out.push_str(".PP\nExamples:\n");
        for (typed, does) in it.examples {
            let _ = writeln!(out, ".TP\n.B {}\n{}", plain(typed), plain(does));
        }
    }
    out.push_str(".SH EXIT STATUS\n");
    for (code, means) in EXIT_CODES {
        let _ = writeln!(out, ".TP\n.B {code}\n{}", plain(means));
    }
    out.push_str(
        ".SH SIGNALS\n.TP\n.B SIGTERM, SIGINT\ndrain and stop\n.TP\n.B SIGHUP\nreload the configuration\n.TP\n.B SIGUSR1\nreopen the log files\n.TP\n.B SIGUSR2\nupgrade: the program that is on disk now takes over\n\
         .SH FILES\n.TP\n.I /etc/larder/larder.toml\nthe configuration, where the current directory has no larder.toml\n\
         .SH SEE ALSO\n.BR larder.toml (5)\n",
    );
    out
}

fn keys() -> String {
    let mut out = head("larder.toml", 5, "configuration of larder");
    out.push_str(
        ".SH DESCRIPTION\nOne file in TOML, and the files that it includes. Unknown keys are errors; \\fBlarder check\\fR prints every error with its \
         line. Keys marked (start) require a restart; a changed file is reloaded while larder runs. Keys with site.route are those of a \
         .BR [[site.route]] .\n.SH KEYS\n",
    );
    for key in table::rows() {
        let mark = if key.takes == Takes::AtStart { " (start)" } else { "" };
        let default = key.default.map_or(String::new(), |it| format!(" Default: {}.", plain(it)));
        let _ = writeln!(
            out,
            ".TP\n.BR \"{}\" \"{mark}\"\n{}{default} Allowed: {}. Example: {}",
            plain(&key.path.replace("[]", "")),
            plain(key.help),
            plain(&key.kind.allowed()),
            plain(key.example)
        );
    }
    out.push_str(".SH SEE ALSO\n.BR larder (1)\n");
    out
}
