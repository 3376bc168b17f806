//! The command line of `larder warm`: what is asked for, how fast, and how much of it the origin may be asked.

use super::{Ask, Given, Output, Usage, kind};
use larder_origin::OriginAddress;
use larder_semantics::scheme::Scheme;
use std::path::PathBuf;

/// Requests for a running larder, so that it has what visitors will ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// Where the URLs are.
    pub from: UrlSource,
    /// Requests under way at once; 1 to 1024.
    pub concurrency: usize,
    /// Requests begun in a second at most; 1 to 1,000,000.
    pub rate: Option<u32>,
    /// Stop after so many requests have reached the origin.
    pub budget: Option<u64>,
    /// Where larder serves, and whether by TLS: one of each at most. Empty is the one that runs here.
    pub to: Vec<(OriginAddress, Scheme)>,
    /// The scheme by which everything is asked for; `None` is that of each URL.
    pub scheme: Option<Scheme>,
    /// Header fields of every request, in order.
    pub fields: Vec<(String, String)>,
    /// Text or JSON.
    pub output: Output,
    /// Which larder is asked where it serves; `None` is the one that runs here.
    pub ask: Option<Ask>,
}

/// Where URLs come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlSource {
    /// A sitemap, or an index of sitemaps, which larder is asked for: its URL.
    Sitemap(String),
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
                let (scheme, authority, target) = super::url(&text, "--sitemap")?;
                UrlSource::Sitemap(format!("{scheme}://{authority}{target}"))
            }
            ["log"] => UrlSource::Log(text.into()),
            ["list"] => UrlSource::List(text.into()),
            [] => {
                let text = "`larder warm` requires URLs: --sitemap URL, --log FILE or --list FILE; for example \
                            `larder warm --sitemap http://127.0.0.1:8080/sitemap.xml`";
                return Err(Usage(text.to_owned()));
            }
            _ => {
                return Err(Usage(format!("--{} cannot be combined; run warm twice", named.join(" and --"))));
            }
        };
        let number = |name: &'static str, most: u64| match value(name) {
            None => Ok(None),
            Some(text) => match (kind::ValueKind::Integer { least: 1, most }).parse(&text) {
                Ok(kind::ConfigValue::Number(it)) => Ok(Some(it)),
                Ok(_) => Ok(None),
                Err(allowed) => Err(Usage(format!("--{name}: found {text:?}; allowed: {allowed}"))),
            },
        };
        let mut to: Vec<(OriginAddress, Scheme)> = Vec::new();
        for (_, text) in given.own.iter().filter(|it| it.0 == "to") {
            let read = listener(text);
            let (at, scheme) = read
                .map_err(|it| Usage(format!("--to: found {text:?}; allowed: {it}, or https://HOST:PORT")))?;
            // As with other flags the last one holds; but one for each scheme.
            to.retain(|it| it.1 != scheme);
            to.push((at, scheme));
        }
        let scheme = match value("as").as_deref() {
            None => None,
            Some("http") => Some(Scheme::Http),
            Some("https") => Some(Scheme::Https),
            Some(text) => return Err(Usage(format!("--as: found {text:?}; allowed: http, https"))),
        };
        Ok(Self {
            from,
            concurrency: number("concurrency", 1024)?.and_then(|it| usize::try_from(it).ok()).unwrap_or(4),
            rate: number("rate", 1_000_000)?.and_then(|it| u32::try_from(it).ok()),
            budget: number("misses", u64::MAX)?,
            to,
            scheme,
            fields: given.fields,
            output: if given.json { Output::Json } else { Output::Text },
            ask: given.ask,
        })
    }
}

/// Reads where a larder serves, and the scheme that it speaks there.
///
/// # Errors
/// What is allowed.
pub(crate) fn listener(text: &str) -> Result<(OriginAddress, Scheme), String> {
    let Some(rest) = text.strip_prefix("https://") else { return Ok((kind::origin(text)?, Scheme::Http)) };
    let at = kind::origin(rest).or_else(|_| kind::origin(&format!("{rest}:443")))?;
    match at {
        OriginAddress::Tcp(..) => Ok((at, Scheme::Https)),
        OriginAddress::Unix(_) => Err("https://HOST:PORT".to_owned()),
    }
}
