//! The command line of `larder purge`: the purged responses, and the strength.

use super::{AdminTarget, Given, Output, Usage, condition};
use larder_config::page_url::readable;
use larder_semantics::expression::Expression;
use serde_json::{Value, json};

/// Purges for a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeCommand {
    /// Each purge as in the admin API; at least one.
    pub asked: Vec<Value>,
    /// Host and port of the first URL, which select the larder; `None` without a URL.
    pub authority: Option<String>,
    /// Whether to count only.
    pub dry_run: bool,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl PurgeCommand {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let has = |name: &str| given.own.iter().any(|it| it.0 == name);
        let values =
            |name: &'static str| given.own.iter().filter(move |it| it.0 == name).map(|it| it.1.clone());
        let mut scopes: Vec<(&str, Value)> = Vec::new();
        scopes.extend(given.arguments.iter().map(|it| ("url", json!(it))));
        for name in ["prefix", "tag", "where"] {
            scopes.extend(values(name).map(|it| (name, json!(it))));
        }
        if has("all") {
            scopes.push(("all", json!(true)));
        }
        for text in values("where") {
            Expression::parse(&text).map_err(|wrong| condition("--where", &wrong))?;
        }
        if values("tag").any(|it| it.trim().is_empty()) {
            return Err(Usage(
                "--tag is empty; a tag is a value of the Surrogate-Key or Cache-Tag field of a response"
                    .to_owned(),
            ));
        }
        let Some((kind, _)) = scopes.first().cloned() else {
            return Err(Usage(
                "`larder purge` requires a target: URLs, --prefix, --tag, --where or --all; for example `larder \
                 purge http://127.0.0.1:8080/news`"
                    .to_owned(),
            ));
        };
        if let Some((other, _)) = scopes.iter().find(|it| it.0 != kind) {
            let spell = |it: &str| if it == "url" { "URLs".to_owned() } else { format!("--{it}") };
            return Err(Usage(format!(
                "{} and {} cannot be combined; run two purges",
                spell(kind),
                spell(other)
            )));
        }
        if has("soft") && has("validate") {
            return Err(Usage(
                "--soft and --validate cannot be combined; --soft may serve stale responses, --validate asks the \
                 origin before the next use"
                    .to_owned(),
            ));
        }
        let host = values("host").next_back();
        if host.is_some() && !matches!(kind, "url" | "prefix") {
            return Err(Usage(format!("--host is only valid with URLs and --prefix, not with --{kind}")));
        }
        for text in scopes.iter().filter(|it| matches!(it.0, "url" | "prefix")).filter_map(|it| it.1.as_str())
        {
            let name = if kind == "url" { "URL" } else { "--prefix" };
            readable(text, host.as_deref(), kind == "prefix")
                .map_err(|why| Usage(format!("{name}: {}", why.trim_end_matches('.'))))?;
        }
        let rest = |value: &mut Value| {
            for name in ["soft", "validate", "wait"].into_iter().filter(|it| has(it)) {
                value[name] = json!(true);
            }
            if let Some(host) = &host {
                value["host"] = json!(host);
            }
        };
        let asked = scopes.iter().map(|(kind, what)| {
            let mut value = json!({ *kind: what });
            rest(&mut value);
            value
        });
        let first = scopes.first().and_then(|it| it.1.as_str()).filter(|_| matches!(kind, "url" | "prefix"));
        let authority = first.and_then(authority_of).or(host.clone());
        let asked = asked.collect();
        let output = if given.json { Output::Json } else { Output::Text };
        let dry_run = has("dry-run");
        Ok(Self { asked, authority, dry_run, output, admin: given.admin })
    }
}

/// Host and port of a URL, as far as present.
fn authority_of(url: &str) -> Option<String> {
    let rest = url.split_once("//").map_or(url, |it| it.1);
    let end = rest.find(['/', '?', '#', '*']).unwrap_or(rest.len());
    Some(rest[..end].to_owned()).filter(|it| !it.is_empty())
}
