//! The command line: from arguments to one [`Command`]. Running it is not here.

mod bench;
mod check_recent;
pub mod commands;
pub mod completions;
mod domain;
mod flags;
pub mod help;
mod maintenance;
pub mod man;
mod objects;
mod origin;
mod overlay;
mod purge;
mod sign;
mod stats;
mod summary;
#[cfg(test)]
mod tests;
mod tls;
mod trace;
mod upgrade;
mod warm;
mod watch;
mod wrong_action;

pub use bench::Bench;
pub use check_recent::CheckRecent;
use commands::{COMMANDS, CommandName, CommandRow, Flag, Means, NOT_BUILT};
use larder_config::address;
use larder_config::foreign;
use larder_config::kind::{self, ConfigValue};
use larder_config::plan::{Plan, PlanBase};
use larder_config::problem::nearest;
use larder_config::{Config, Rejected, Setting, dotted, plain_list, table};
use larder_transport::listener::Listen;
use lexopt::Arg;
pub use maintenance::{MaintenanceAction, MaintenanceOrder};
pub use objects::Objects;
pub use origin::{OriginAction as OriginWhat, OriginOrder};
pub use overlay::{OverlayAction as OverlayWhat, OverlayCommand};
pub use purge::PurgeCommand;
pub use sign::{SecretSource, SignCommand};
pub use stats::Stats;
use std::ffi::OsString;
use std::fmt::{self, Write as _};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
pub use summary::summary;
pub use tls::TlsCommand;
pub use trace::{Plot, RecordTraces, TraceCommand};
pub use upgrade::Upgrade;
pub(crate) use warm::listener;
pub use warm::{UrlSource, Warm};
pub use watch::{TailCommand, TopCommand, TopList};
use wrong_action::{FOREIGN_COMMANDS, no_action};

/// The requested action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `proxy`, `serve` and `run`: start a server.
    Serve(Plan),
    /// `demo`: start the demo site, then a server in front of it (see [`Plan::upon`]).
    Demo(Plan),
    /// `check`: see [`check`].
    Check(Plan),
    /// `check --connect`: the same, and every server of the configuration is contacted.
    CheckConnect(Plan),
    /// `check --against-recent`: the same, and it is tried on the recent requests of a running larder.
    CheckRecent(CheckRecent),
    /// `explain`: query a running larder.
    Explain(Explain),
    /// `overlay`: add, remove or list overlays.
    Overlay(OverlayCommand),
    /// `origin`: drain or restore an origin.
    Origin(OriginOrder),
    /// `tls list`: list the certificates of a running larder.
    Tls(TlsCommand),
    /// Puts sites under maintenance.
    Maintenance(MaintenanceOrder),
    /// `purge`: send purges to a running larder.
    Purge(PurgeCommand),
    /// `sign`: make a signed URL.
    Sign(SignCommand),
    /// `objects`: list the stored responses of a running larder.
    Objects(Objects),
    /// `bench`: measure.
    Bench(Bench),
    /// `warm`: request many pages from a running larder.
    Warm(Warm),
    /// `stats`: print the counters of a running larder.
    Stats(Stats),
    /// `advice`: findings of a running larder.
    Advice(Stats),
    /// `worst`: slow and failed requests of a running larder.
    Worst(Stats),
    /// `nodes`: the nodes of the fleet.
    Nodes(Stats),
    /// `audit`: the latest entries of the audit log of a running larder.
    Audit(Stats),
    /// `login`: request a login link from a running larder.
    Login(Login),
    /// `upgrade`: replace a running larder.
    Upgrade(Upgrade),
    /// `tail`: follow the requests of a running larder.
    Tail(TailCommand),
    /// `top`: watch a running larder.
    Top(TopCommand),
    /// `trace`: record and plot the stages of requests.
    Trace(TraceCommand),
    /// `--help` and `--version`: print this and stop, with exit code 0.
    Print(String),
}

/// An invalid command line: one sentence, and a reference. Exit code 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage(pub String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The selected larder, if given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminTarget {
    /// The one whose admin listens here: `--admin`.
    At(Listen),
    /// The one that runs with this configuration: `-c`.
    Of(PathBuf),
}

/// The settings of `larder login`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// The settings of `larder explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explain {
    /// `http` or `https`.
    pub scheme: String,
    /// Host and port as in the URL.
    pub authority: String,
    /// Path and query; begins with `/`, and has no fragment.
    pub target: String,
    /// The method.
    pub method: String,
    /// Header fields, in order; values are trimmed.
    pub fields: Vec<(String, String)>,
    /// The address of the client, or `unix`; `None` is this machine.
    pub client: Option<String>,
    /// The listener, as in the configuration; `None` is that of the URL.
    pub listener: Option<String>,
    /// The name in the TLS handshake; `None` is the host.
    pub server_name: Option<String>,
    /// The id of a past request, which is explained instead of all that; then `authority` is empty.
    pub id: Option<String>,
    /// A path, a tag, or the id of a request, in place of a URL; then `authority` is empty.
    pub subject: Option<String>,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Text.
    Text,
    /// JSON.
    Json,
}

/// Parses the arguments, without the program's own name.
///
/// # Errors
/// The error, and the remedy.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, Usage> {
    let mut parser = lexopt::Parser::from_args(arguments);
    let word = match next(&mut parser)? {
        None => return Ok(Command::Print(help::overview())),
        Some(ArgumentToken::Flag(it)) if it == "--help" || it == "-h" => {
            return Ok(Command::Print(help::overview()));
        }
        Some(ArgumentToken::Flag(it)) if it == "--version" || it == "-V" => {
            return Ok(Command::Print(help::version()));
        }
        Some(ArgumentToken::Flag(it)) => {
            return Err(Usage(format!("{it}: expected a command first; try `larder --help`")));
        }
        Some(ArgumentToken::Value(word)) => word,
    };
    if word == "help" {
        return match next(&mut parser)? {
            Some(ArgumentToken::Value(word)) => {
                command_named(&word).map(|it| Command::Print(help::command(it)))
            }
            _ => Ok(Command::Print(help::overview())),
        };
    }
    let command = command_named(&word)?;
    let mut given = Given::default();
    while let Some(token) = next(&mut parser)? {
        match token {
            ArgumentToken::Flag(it) if it == "--help" || it == "-h" => {
                return Ok(Command::Print(help::command(command)));
            }
            ArgumentToken::Flag(it) => given.flag(command, &it, &mut parser)?,
            ArgumentToken::Value(it) if command.argument.ends_with("...") => given.arguments.push(it),
            ArgumentToken::Value(it) if is_file_of(command.name, &it) => {
                return Err(Usage(format!("unexpected argument {it:?}; write `larder {word} -c {it}`")));
            }
            ArgumentToken::Value(it) if command.argument.is_empty() || given.argument.is_some() => {
                return Err(Usage(format!("unexpected argument {it:?}; try `larder {word} --help`")));
            }
            ArgumentToken::Value(it) => given.argument = Some(it),
        }
    }
    given.command(command)
}

/// A text to print, or the names that there are.
fn printed(text: Option<String>, asked: &str, names: &[&str]) -> Result<Command, Usage> {
    let none = || Usage(format!("found {asked:?}; allowed: {}", names.join(", ")));
    text.map(Command::Print).ok_or_else(none)
}

/// Whether an argument is the configuration file of a command that takes it with `-c`.
fn is_file_of(command: CommandName, argument: &str) -> bool {
    matches!(command, CommandName::Run | CommandName::Check)
        && (argument.ends_with(".toml") || argument.contains('/') || Path::new(argument).exists())
}

enum ArgumentToken {
    /// With its dashes.
    Flag(String),
    Value(String),
}

fn next(parser: &mut lexopt::Parser) -> Result<Option<ArgumentToken>, Usage> {
    Ok(match parser.next().map_err(|it| Usage(it.to_string()))? {
        None => None,
        Some(Arg::Long(name)) => Some(ArgumentToken::Flag(format!("--{name}"))),
        Some(Arg::Short(name)) => Some(ArgumentToken::Flag(format!("-{name}"))),
        Some(Arg::Value(value)) => Some(ArgumentToken::Value(text(value)?)),
    })
}

fn text(value: OsString) -> Result<String, Usage> {
    value.into_string().map_err(|it| Usage(format!("{} is not valid UTF-8", it.display())))
}

fn command_named(word: &str) -> Result<&'static CommandRow, Usage> {
    if let Some(command) = COMMANDS.iter().find(|it| it.word == word) {
        return Ok(command);
    }
    if NOT_BUILT.contains(&word) {
        return Err(Usage(format!("`larder {word}` is not implemented; `larder --help` lists the commands")));
    }
    if let Some((_, way)) = FOREIGN_COMMANDS.iter().find(|it| it.0 == word) {
        return Err(Usage(format!("unknown command {word:?}; {way}")));
    }
    Err(Usage(match nearest(word, COMMANDS.iter().map(|it| it.word)) {
        Some(near) => format!("unknown command {word:?}; did you mean `larder {near}`?"),
        None => format!("unknown command {word:?}; `larder --help` lists the commands"),
    }))
}

/// The state of the parser.
#[derive(Default)]
struct Given {
    argument: Option<String>,
    arguments: Vec<String>,
    /// The values of the command's own flags, in order; empty for those without a value.
    own: Vec<(&'static str, String)>,
    settings: Vec<Setting>,
    file: Option<PathBuf>,
    fields: Vec<(String, String)>,
    method: Option<String>,
    json: bool,
    admin: Option<AdminTarget>,
}

impl Given {
    fn flag(&mut self, command: &CommandRow, spelt: &str, parser: &mut lexopt::Parser) -> Result<(), Usage> {
        let all = || command.flags.iter().copied().flatten();
        let is_it = |it: &&Flag| match spelt.strip_prefix("--") {
            Some(long) => it.long == long,
            None => it.short.is_some_and(|short| spelt.chars().eq(['-', short])),
        };
        let Some(flag) = all().find(is_it) else {
            let long = spelt.strip_prefix("--").unwrap_or("");
            return Err(Usage(match nearest(long, all().map(|it| it.long)) {
                Some(near) => format!("{spelt}: unknown flag; did you mean --{near}?"),
                None => format!("{spelt}: unknown flag; try `larder {} --help`", command.word),
            }));
        };
        let name = format!("--{}", flag.long);
        if flag.value.is_empty() {
            match flag.means {
                Means::True(key) => self.set(key, "true", &name),
                Means::Own(own) => self.own.push((own, String::new())),
                _ => self.json = true,
            }
            return Ok(());
        }
        let missing = |_| Usage(format!("{name} requires a value: {name} {}", flag.value));
        let value = text(parser.value().map_err(missing)?)?;
        match flag.means {
            Means::Key(key) => self.set(key, &value, &name),
            Means::Member(key) => self.add_member(key, &value, &name),
            Means::Admin if value == "off" => self.set("admin.enabled", "false", &name),
            Means::Admin => self.set("admin.listen", &value, &name),
            Means::Set => self.set_any(command, &value)?,
            Means::File => self.file = Some(PathBuf::from(value)),
            Means::Field => self.fields.push(field(&value)?),
            Means::Method => self.method = Some(method(&value)?),
            Means::AdminTarget => {
                let allowed = "ADDR:PORT or \"unix:/PATH\"";
                let bad = || Usage(format!("{name}: found {value:?}; allowed: {allowed}"));
                self.admin = Some(AdminTarget::At(admin_address(&value).ok_or_else(bad)?));
            }
            Means::Own(own) => self.own.push((own, value)),
            Means::True(_) | Means::Json => {}
        }
        Ok(())
    }

    /// A list given in several flags is one list.
    fn set(&mut self, path: &str, text: &str, flag: &str) {
        let is_list = path == "listen" || path == "cache.private_cookies";
        let text = &if is_list { plain_list(text) } else { text.to_owned() };
        match self.settings.iter_mut().find(|it| it.path == path) {
            Some(earlier) if is_list => {
                earlier.text.push(',');
                earlier.text.push_str(text);
            }
            Some(earlier) => text.clone_into(&mut earlier.text),
            None => {
                let (path, text, flag) = (path.to_owned(), text.to_owned(), flag.to_owned());
                self.settings.push(Setting { path, text, flag });
            }
        }
    }

    /// Adds a member, which may have commas, to a list: each is a line ([`kind::ValueKind::parse`]).
    fn add_member(&mut self, path: &str, member: &str, flag: &str) {
        let line = format!("{}\n", member.trim());
        match self.settings.iter_mut().find(|it| it.path == path) {
            Some(earlier) => earlier.text.push_str(&line),
            None => {
                let (path, flag) = (path.to_owned(), flag.to_owned());
                self.settings.push(Setting { path, text: line, flag });
            }
        }
    }

    /// `--set KEY=VALUE`; without a file, the keys of sites and routes are of the only one.
    fn set_any(&mut self, command: &CommandRow, text: &str) -> Result<(), Usage> {
        let Some((typed, value)) = text.split_once('=') else {
            return Err(Usage(format!(
                "--set: found {text:?}; allowed: KEY=VALUE, such as cache.max_ttl=1h"
            )));
        };
        // The notations of the manual and of messages name the only site and route, too.
        let typed = typed.trim();
        let within =
            |key, names: [&str; 3]| names.iter().find_map(|it| str::strip_prefix(key, it)).unwrap_or(key);
        let key = within(typed, ["site[0].", "site[].", "site."]);
        let key = within(key, ["route[0].", "route[].", "route."]);
        let places = [("", ""), ("site[].route[].", "site[0].route[0]."), ("site[].", "site[0].")];
        let is_known =
            |it: &&(&str, &str)| !key.contains('[') && table::find(&format!("{}{key}", it.0)).is_some();
        let Some((_, prefix)) = places.iter().find(is_known) else {
            // Compared without their sections, which would make any two short names similar.
            let near = places.iter().find_map(|place| {
                let names = table::rows().filter_map(|it| it.path.strip_prefix(place.0));
                nearest(key, names).map(|it| format!("{}{it}", place.0))
            });
            let (section, name) =
                key.rsplit_once('.').map_or((String::new(), key), |it| (format!("{}.", it.0), it.1));
            let hint = |it: &&str| foreign::hint(&format!("{it}{section}"), name);
            let foreign = ["site[].route[].", "site[].", ""].iter().find_map(hint);
            return Err(Usage(match (foreign, near) {
                (Some(hint), _) if !hint.is_empty() => format!("--set: unknown key {typed:?}; {hint}"),
                (_, Some(near)) => format!("--set: unknown key {typed:?}; did you mean {}?", dotted(&near)),
                (_, None) => format!("--set: unknown key {typed:?}; docs/generated/config.md lists them"),
            }));
        };
        if !prefix.is_empty()
            && let Some(where_else) = said_elsewhere(command.name, key)
        {
            return Err(Usage(format!("--set: {typed} {where_else}")));
        }
        self.set(&format!("{prefix}{key}"), value.trim(), &format!("--set {key}"));
        Ok(())
    }

    fn command(mut self, command: &CommandRow) -> Result<Command, Usage> {
        let argument = self.argument.take().unwrap_or_default();
        let is_named = command.name == CommandName::Explain && self.own.iter().any(|it| it.0 == "id");
        let needs_one = !command.argument.is_empty() && !command.argument.ends_with("...") && !is_named;
        if argument.is_empty() && needs_one {
            let (typed, _) = command.examples[0];
            return Err(Usage(format!(
                "`larder {}` requires {}; for example `{typed}`",
                command.word, command.argument
            )));
        }
        let file = self.file.take();
        self.admin = self.admin.or_else(|| file.clone().map(AdminTarget::Of));
        if matches!(command.name, CommandName::Proxy | CommandName::Serve) {
            self.serve_domains()?;
        }
        let file = file.map_or(PlanBase::Search, PlanBase::File);
        Ok(match command.name {
            CommandName::Proxy => Command::Serve(self.plan(PlanBase::Flags).in_front_of(&argument)),
            CommandName::Serve => {
                self.set("site[0].route[0].files.root", &argument, "DIR");
                Command::Serve(self.plan(PlanBase::Flags).of_static_site())
            }
            CommandName::Run => Command::Serve(self.plan(file)),
            CommandName::Check if self.own.iter().any(|it| it.0 == "connect") => {
                Command::CheckConnect(self.plan(file))
            }
            CommandName::Check if self.own.iter().any(|it| it.0 == "against-recent") => {
                Command::CheckRecent(CheckRecent::read(self, file)?)
            }
            CommandName::Check if self.json => {
                return Err(Usage("--json is for --against-recent; remove it".to_owned()));
            }
            CommandName::Check => Command::Check(self.plan(file)),
            CommandName::Demo => Command::Demo(self.plan(PlanBase::Flags)),
            CommandName::Explain => Command::Explain(self.explain(&argument)?),
            CommandName::Warm => Command::Warm(Warm::read(self)?),
            CommandName::Stats => Command::Stats(Stats::read(self)),
            CommandName::Advice => Command::Advice(Stats::read(self)),
            CommandName::Worst => Command::Worst(Stats::read(self)),
            CommandName::Nodes => Command::Nodes(Stats::read(self)),
            CommandName::Audit => Command::Audit(Stats::read(self)),
            CommandName::Login => {
                let output = if self.json { Output::Json } else { Output::Text };
                Command::Login(Login { output, admin: self.admin })
            }
            CommandName::Upgrade => Command::Upgrade(Upgrade::read(self)?),
            CommandName::Tail => Command::Tail(TailCommand::read(self)?),
            CommandName::Top => Command::Top(TopCommand::read(self)?),
            CommandName::Objects => Command::Objects(Objects::read(self)?),
            CommandName::Overlay => Command::Overlay(OverlayCommand::read(self)?),
            CommandName::Tls => Command::Tls(TlsCommand::read(self)?),
            CommandName::Origin => Command::Origin(OriginOrder::read(self)?),
            CommandName::Maintenance => Command::Maintenance(MaintenanceOrder::read(self)?),
            CommandName::Sign => Command::Sign(SignCommand::read(self, &argument, file)?),
            CommandName::Purge => Command::Purge(PurgeCommand::read(self)?),
            CommandName::Trace => Command::Trace(TraceCommand::read(self)?),
            CommandName::Bench => Command::Bench(Bench::read(&self, &argument)?),
            CommandName::Completions => {
                printed(completions::script(&argument), &argument, &completions::SHELLS)?
            }
            CommandName::Man => {
                let name = self.arguments.first().map_or("larder", String::as_str);
                printed(man::page(name), name, &man::PAGES)?
            }
            CommandName::Version => Command::Print(help::version()),
        })
    }

    fn plan(self, base: PlanBase) -> Plan {
        Plan::new(base, self.settings)
    }

    fn explain(self, url: &str) -> Result<Explain, Usage> {
        let output = if self.json { Output::Json } else { Output::Text };
        let own = |name: &str| self.own.iter().rev().find(|it| it.0 == name).map(|it| it.1.clone());
        let (id, client, listener) = (own("id"), own("client"), own("listener"));
        let server_name = own("server-name");
        if let Some(it) = client.as_deref().filter(|it| *it != "unix" && it.parse::<IpAddr>().is_err()) {
            return Err(Usage(format!("--client: found {it:?}; allowed: an IP address, or unix")));
        }
        let has_more = client.is_some()
            || listener.is_some()
            || server_name.is_some()
            || !url.is_empty()
            || self.method.is_some()
            || !self.fields.is_empty();
        if id.is_some() && has_more {
            return Err(Usage(
                "--id selects a complete request; remove the URL and the other flags of the request"
                    .to_owned(),
            ));
        }
        let subject = is_subject(url).then(|| url.to_owned());
        let (scheme, authority, target) = match (&subject, &id) {
            (None, None) => self::url(url, "URL")?,
            _ => Default::default(),
        };
        Ok(Explain {
            scheme,
            authority,
            target,
            method: self.method.unwrap_or_else(|| "GET".to_owned()),
            fields: self.fields,
            client,
            listener,
            server_name,
            id,
            subject,
            output,
            admin: self.admin,
        })
    }
}

/// The place of a key of a site or a route, if `--set` cannot set it for this command.
fn said_elsewhere(command: CommandName, key: &str) -> Option<&'static str> {
    let (proxy, files) = (key.starts_with("proxy."), key.starts_with("files."));
    match (command, key) {
        (CommandName::Run | CommandName::Check, "hosts") => {
            Some("applies to one of several sites: set it in the configuration file")
        }
        (CommandName::Run | CommandName::Check, _) => {
            Some("applies to one of several routes: set it in the configuration file")
        }
        (CommandName::Proxy, "proxy.to") => Some("is set by the argument ORIGIN"),
        (CommandName::Demo, "proxy.to") => Some("is set by the demo"),
        (CommandName::Serve, "files.root") => Some("is set by the argument DIR"),
        (CommandName::Serve, _) if proxy => {
            Some("applies to a route with an origin, such as that of `larder proxy`")
        }
        (CommandName::Proxy | CommandName::Demo, _) if files => {
            Some("applies to a route with files, such as that of `larder serve`")
        }
        _ => None,
    }
}

/// An invalid condition: reported here, before a larder is contacted.
fn condition(name: &str, wrong: &larder_semantics::expression::ExpressionError) -> Usage {
    Usage(format!("{name}, column {}: {}", wrong.column, wrong.sentence))
}

/// Whether a subject of `explain` is resolved by the running larder: a path, a tag, or a single word.
fn is_subject(text: &str) -> bool {
    let is_word = !text.is_empty() && text != "localhost" && !text.contains(['.', ':', '/', '?', '*', '@']);
    text.starts_with('/') || text.starts_with("tag:") || is_word
}

/// Parses a URL: scheme, host and port, target. `name` is that of the argument or flag.
fn url(url: &str, name: &str) -> Result<(String, String, String), Usage> {
    let bad = || Usage(format!("{name}: found {url:?}; allowed: http://HOST:PORT/PATH"));
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme @ ("http" | "https"), rest)) => (scheme, rest),
        Some(_) => return Err(bad()),
        None => ("http", url),
    };
    let rest = rest.split('#').next().unwrap_or(rest);
    let (authority, target) = match rest.find(['/', '?']) {
        Some(cut) => rest.split_at(cut),
        None => (rest, "/"),
    };
    let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
    let clean = |it: &str| it.bytes().all(|it| it.is_ascii_graphic());
    if authority.contains('*') {
        return Err(Usage(format!(
            "{name}: {url:?} is a pattern, not a URL; allowed: one page, http://HOST:PORT/PATH"
        )));
    }
    // A single word is not an intended address.
    let is_word = rest == url && rest != "localhost" && !rest.contains(['.', ':', '/', '?']);
    if is_word || authority.is_empty() || authority.contains('@') || !clean(authority) || !clean(&target) {
        return Err(bad());
    }
    Ok((scheme.to_owned(), authority.to_owned(), target))
}

fn field(text: &str) -> Result<(String, String), Usage> {
    let bad = || Usage(format!("--header: found {text:?}; allowed: 'NAME: VALUE'"));
    let (name, value) = text.split_once(':').ok_or_else(bad)?;
    let printable = value.bytes().all(|it| it == b'\t' || (it >= b' ' && it != 0x7f));
    let is_name =
        matches!(kind::ValueKind::One(kind::TextForm::FieldName).parse(name), Ok(ConfigValue::Text(_)));
    if !is_name || !printable {
        return Err(bad());
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

fn method(text: &str) -> Result<String, Usage> {
    match kind::ValueKind::One(kind::TextForm::Method).parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(allowed) => Err(Usage(format!("--method: found {text:?}; allowed: {allowed}"))),
    }
}

/// The output of `larder check`: a summary and warnings for standard output, and the configuration; or every error for standard
/// error. Contacts nothing.
///
/// # Errors
/// The configuration is invalid: exit code 2.
pub fn check(plan: &Plan) -> Result<(String, Config), Rejected> {
    let config = plan.load()?.fit()?;
    let name = plan.file().as_deref().map_or("flags".to_owned(), |it: &Path| it.display().to_string());
    let mut out = String::new();
    let warnings = config.warnings.iter().map(ToString::to_string);
    for warning in warnings.chain(larder_config::names::unknown_of(&config)) {
        let _ = writeln!(out, "warning: {warning}");
    }
    let _ = write!(out, "{name}: OK\n{}", summary(&config));
    Ok((out, config))
}

/// Parses the address of an admin, which never uses TLS.
#[must_use]
pub fn admin_address(text: &str) -> Option<Listen> {
    // Without a host it is this machine.
    let text = match text.trim_start_matches("http://") {
        port if port.starts_with(':') => &format!("127.0.0.1{port}"),
        _ => text,
    };
    address::listen(text).filter(|it| !matches!(it, Listen::Tls(_)))
}
