//! The command line of `larder warm`: what is asked for, how fast, and how much of it the origin may be asked.

use super::{Given, Output, Usage, kind};
use larder_origin::Address;
use larder_transport::listener::Listen;
use std::path::PathBuf;

/// Requests for a running larder, so that it has what visitors will ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// Where the URLs are.
    pub from: From,
    /// Requests under way at once; 1 to 1024.
    pub concurrency: usize,
    /// Requests begun in a second at most; 1 to 1,000,000.
    pub rate: Option<u32>,
    /// Stop after so many requests have reached the origin.
    pub budget: Option<u64>,
    /// Where larder serves; `None` is the one that runs here.
    pub to: Option<Address>,
    /// Header fields of every request, in order.
    pub fields: Vec<(String, String)>,
    /// Text or JSON.
    pub output: Output,
    /// Which larder is asked where it serves; `None` is the one that runs here.
    pub ask: Option<Listen>,
}

/// Where URLs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// A sitemap, or an index of sitemaps, which larder is asked for: host and port, and target.
    Sitemap(String, String),
    /// An access log in the common or combined form: what was asked for most comes first.
    Log(PathBuf),
    /// One URL or path a line; `-` is standard input.
    List(PathBuf),
}

impl Warm {
    /// Reads what the flags say.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let value = |name: &str| given.own.iter().rev().find(|it| it.0 == name).map(|it| it.1.clone());
        let named: Vec<&str> =
            ["sitemap", "log", "list"].into_iter().filter(|it| value(it).is_some()).collect();
        let text = named.first().and_then(|it| value(it)).unwrap_or_default();
        let from = match named[..] {
            ["sitemap"] => {
                let (_, authority, target) = super::url(&text, "--sitemap")?;
                From::Sitemap(authority, target)
            }
            ["log"] => From::Log(text.into()),
            ["list"] => From::List(text.into()),
            [] => {
                let text = "`larder warm` needs URLs: --sitemap URL, --log FILE or --list FILE; for example \
                            `larder warm --sitemap http://127.0.0.1:8080/sitemap.xml`";
                return Err(Usage(text.to_owned()));
            }
            _ => return Err(Usage(format!("--{} do not go together: warm twice", named.join(" and --")))),
        };
        let number = |name: &'static str, most: u64| match value(name) {
            None => Ok(None),
            Some(text) => match (kind::Kind::Integer { least: 1, most }).parse(&text) {
                Ok(kind::Value::Number(it)) => Ok(Some(it)),
                Ok(_) => Ok(None),
                Err(allowed) => Err(Usage(format!("--{name}: found {text:?}; allowed: {allowed}"))),
            },
        };
        let to = match value("to") {
            None => None,
            Some(text) => Some(
                kind::origin(&text).map_err(|it| Usage(format!("--to: found {text:?}; allowed: {it}")))?,
            ),
        };
        Ok(Self {
            from,
            concurrency: number("concurrency", 1024)?.and_then(|it| usize::try_from(it).ok()).unwrap_or(4),
            rate: number("rate", 1_000_000)?.and_then(|it| u32::try_from(it).ok()),
            budget: number("misses", u64::MAX)?,
            to,
            fields: given.fields,
            output: if given.json { Output::Json } else { Output::Text },
            ask: given.ask,
        })
    }
}
