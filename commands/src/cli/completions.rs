//! Completions for shells, from the table of commands. Installing them is the packages' work.

use super::commands::{COMMANDS, CommandRow, Flag};
use std::fmt::Write as _;

/// The shells with completions.
pub(super) const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The script for a shell of `SHELLS`.
#[must_use]
pub fn script(shell: &str) -> Option<String> {
    match shell {
        "bash" => Some(bash()),
        "zsh" => Some(zsh()),
        "fish" => Some(fish()),
        _ => None,
    }
}

fn flags(of: &CommandRow) -> impl Iterator<Item = &'static Flag> {
    of.flags.iter().copied().flatten()
}

fn words() -> String {
    COMMANDS.iter().map(|it| it.word).collect::<Vec<_>>().join(" ")
}

/// Whether the value of a flag, or the argument of a command, is the name of a file.
fn is_file(value: &str) -> bool {
    value.contains("FILE") || value.contains("DIR") || value.contains("PATH")
}

fn bash() -> String {
    let mut out = format!(
        "# bash completion for larder\n_larder() {{\n    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} names=\n    \
         COMPREPLY=()\n    if [ \"$COMP_CWORD\" -eq 1 ]; then\n        COMPREPLY=($(compgen -W '{} help --help --version' -- \"$word\"))\n        \
         return\n    fi\n    case ${{COMP_WORDS[1]}} in\n",
        words()
    );
    for command in COMMANDS {
        let names: Vec<String> = flags(command).map(|it| format!("--{}", it.long)).collect();
        let _ = writeln!(out, "        {}) names='{} --help' ;;", command.word, names.join(" "));
    }
    let _ = writeln!(out, "        help) names='{}' ;;\n    esac", words());
    out.push_str(
        "    case $word in\n        -*) COMPREPLY=($(compgen -W \"$names\" -- \"$word\")) ;;\n        \
         *) if [ \"${COMP_WORDS[1]}\" = help ]; then COMPREPLY=($(compgen -W \"$names\" -- \"$word\")); \
         else COMPREPLY=($(compgen -f -- \"$word\")); fi ;;\n    esac\n}\ncomplete -o filenames -F _larder larder\n",
    );
    out
}

/// A text between single quotes of a shell, without the characters that `_arguments` reads.
fn quoted(text: &str) -> String {
    text.replace('\'', "'\\''").replace('[', "(").replace(']', ")").replace(':', "\\:")
}

fn zsh() -> String {
    let mut out = String::from(
        "#compdef larder\n# zsh completion for larder\n_larder() {\n    local -a commands\n    commands=(\n",
    );
    for command in COMMANDS {
        let _ = writeln!(out, "        '{}:{}'", command.word, quoted(command.about));
    }
    out.push_str(
        "    )\n    if (( CURRENT == 2 )); then\n        _describe command commands\n        return\n    fi\n    local command=$words[2]\n    \
         shift words\n    (( CURRENT-- ))\n    case $command in\n",
    );
    for command in COMMANDS {
        let _ = write!(out, "        {}) _arguments", command.word);
        for flag in flags(command) {
            let value = match flag.value {
                "" => String::new(),
                value if is_file(value) => format!(":{}:_files", quoted(value)),
                value => format!(":{}:", quoted(value)),
            };
            let _ = write!(out, " \\\n            '*--{}[{}]{value}'", flag.long, quoted(flag.help));
        }
        let files = if is_file(command.argument) { "_files" } else { "" };
        let _ = writeln!(out, " \\\n            '*:{}:{files}' ;;", quoted(command.argument));
    }
    out.push_str("    esac\n}\n_larder \"$@\"\n");
    out
}

fn fish() -> String {
    let text = |it: &str| it.replace('\\', "\\\\").replace('\'', "\\'");
    let mut out =
        String::from("# fish completion for larder\ncomplete -c larder -n __fish_use_subcommand -f\n");
    for command in COMMANDS {
        let (word, about) = (command.word, text(command.about));
        let _ = writeln!(out, "complete -c larder -n __fish_use_subcommand -a {word} -d '{about}'");
        for flag in flags(command) {
            let short = flag.short.map_or(String::new(), |it| format!(" -s {it}"));
            let value = match flag.value {
                "" => " -f",
                value if is_file(value) => " -rF",
                _ => " -x",
            };
            let _ = writeln!(
                out,
                "complete -c larder -n '__fish_seen_subcommand_from {word}'{short} -l {}{value} -d '{}'",
                flag.long,
                text(flag.help)
            );
        }
    }
    out
}
