//! The error message of a command with actions, such as `larder overlay add URI FILE`, for an invalid action.

use super::Usage;
use larder_config::problem::nearest;

/// Commands of other servers, each with the way to do it here.
pub(super) const FOREIGN_COMMANDS: &[(&str, &str)] = &[
    ("start", "`larder run` starts with a configuration file"),
    ("stop", "SIGTERM ends it after the requests in progress; `systemctl stop` sends it"),
    ("quit", "SIGTERM ends it after the requests in progress; `systemctl stop` sends it"),
    ("restart", "SIGTERM ends it, and `larder run` starts it; a changed configuration needs no restart"),
    ("reload", "a changed configuration file is read while larder runs, and at SIGHUP"),
    ("validate", "`larder check` checks a configuration file"),
    ("configtest", "`larder check` checks a configuration file"),
    ("test", "`larder check` checks a configuration file"),
    ("adapt", "larder has one form of configuration; `larder check` checks it"),
    ("convert", "larder has one form of configuration; `larder check` checks it"),
    ("fmt", "larder does not format configuration files; any formatter of TOML does"),
    (
        "diff",
        "`larder check` checks a file; the admin page shows its differences from the running configuration",
    ),
    ("file-server", "`larder serve DIR` serves a directory"),
    ("reverse-proxy", "`larder proxy ORIGIN` serves an application"),
    ("hash-password", "`htpasswd -nB NAME` prints a user for access.basic"),
];

/// The message: no action, an unknown one, or one with too few or too many arguments. It lists the actions with their
/// arguments.
pub(super) fn no_action(command: &str, actions: &[(&str, &str)], arguments: &[&str], example: &str) -> Usage {
    let spelt = |it: &(&str, &str)| [it.0, it.1].join(" ").trim_end().to_owned();
    let example = format!("for example `larder {command} {example}`");
    let Some((first, rest)) = arguments.split_first() else {
        let all: Vec<String> = actions.iter().map(spelt).collect();
        return Usage(format!("`larder {command}` requires an action: {}; {example}", all.join(", ")));
    };
    let Some(action) = actions.iter().find(|it| it.0 == *first) else {
        let names: Vec<&str> = actions.iter().map(|it| it.0).collect();
        let near = nearest(first, names.iter().copied());
        let near = near.map_or(String::new(), |it| format!("; did you mean {it}?"));
        return Usage(format!(
            "`larder {command}`: unknown action {first:?}; known: {}{near}",
            names.join(", ")
        ));
    };
    let wanted: Vec<&str> = action.1.split_whitespace().collect();
    Usage(match wanted.get(rest.len()) {
        Some(missing) => format!("`larder {command} {}`: {missing} is missing; {example}", spelt(action)),
        None => format!("unexpected argument {:?}; `larder {command} {}`", rest[wanted.len()], spelt(action)),
    })
}
