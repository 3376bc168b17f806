//! The error message of a command with actions, such as `larder overlay add URI FILE`, for an invalid action.

use super::Usage;
use larder_config::problem::nearest;

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
