//! The command line of `larder overlay`: the page, and the URL that it replaces.

use super::{AdminTarget, Given, Output, Usage, no_action};
use larder_config::page_url::{self, BareWord};
use larder_semantics::policy::LONGEST_LIFETIME;
use larder_stdx::duration;
use std::path::PathBuf;

/// An action on overlays of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverlayCommand {
    /// The action.
    pub what: OverlayAction,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// See [`OverlayCommand`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverlayAction {
    /// `add URI FILE`.
    Add {
        /// The replaced URL.
        uri: String,
        /// The page; `-` is standard input.
        file: PathBuf,
        /// Seconds until it expires.
        ttl: Option<u64>,
        /// Its status.
        status: Option<u16>,
        /// Its `Content-Type`.
        media: Option<String>,
    },
    /// `remove URI`.
    Remove(String),
    /// `list`.
    List,
}

impl OverlayCommand {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let value = |name: &str| given.own.iter().rev().find(|it| it.0 == name).map(|it| it.1.as_str());
        let arguments: Vec<&str> = given.arguments.iter().map(String::as_str).collect();
        let what = match arguments[..] {
            ["add", uri, file] => OverlayAction::Add {
                uri: one_uri(uri)?,
                file: file.into(),
                ttl: value("ttl").map(ttl).transpose()?,
                status: value("status").map(status).transpose()?,
                media: value("type").map(media).transpose()?,
            },
            ["remove" | "list", ..] if !given.own.is_empty() => {
                return Err(Usage(format!("--{} is only valid with `larder overlay add`", given.own[0].0)));
            }
            ["remove", uri] => OverlayAction::Remove(one_uri(uri)?),
            ["list"] => OverlayAction::List,
            _ => {
                let actions = [("add", "URI FILE"), ("remove", "URI"), ("list", "")];
                return Err(no_action("overlay", &actions, &arguments, "add /shop soon.html"));
            }
        };
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { what, output, admin: given.admin })
    }
}

fn one_uri(text: &str) -> Result<String, Usage> {
    match page_url::overlay(text, BareWord::IsRefused) {
        Ok(_) => Ok(text.to_owned()),
        Err(why) => Err(Usage(format!("URI: {}", why.trim_end_matches('.')))),
    }
}

fn ttl(text: &str) -> Result<u64, Usage> {
    let found = duration::parse(text).ok().filter(|it| it.subsec_nanos() == 0).map(|it| it.as_secs());
    let found = found.filter(|it| (1..=u64::from(LONGEST_LIFETIME)).contains(it));
    found.ok_or_else(|| {
        Usage(format!(
            "--ttl: found {text:?}{}; allowed: a duration in whole seconds from \"1s\", such as 1h",
            duration::without_unit(text)
        ))
    })
}

fn status(text: &str) -> Result<u16, Usage> {
    let found = text.parse().ok().filter(|it| larder_config::overlay_status_may_be(*it));
    found.ok_or_else(|| Usage(format!("--status: found {text:?}; allowed: 200, or 400 to 599")))
}

fn media(text: &str) -> Result<String, Usage> {
    let printable = !text.is_empty() && text.bytes().all(|it| (b' '..0x7f).contains(&it));
    printable
        .then(|| text.to_owned())
        .ok_or_else(|| Usage(format!("--type: found {text:?}; allowed: a media type such as text/html")))
}
