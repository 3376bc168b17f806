//! The command line of `larder warm`: the URLs, the request rate, and the limit of origin requests.

use super::{AdminTarget, Given, Output, Usage, address, kind};
use larder_origin::OriginAddress;
use larder_semantics::scheme::Scheme;
use std::path::PathBuf;

/// Requests to a running larder that fill its cache for visitors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warm {
    /// The source of the URLs.
    pub from: UrlSource,
    /// Simultaneous requests; 1 to 1024.
    pub concurrency: usize,
    /// The most requests started in a second; 1 to 1,000,000.
    pub rate: Option<u32>,
    /// The number of requests to the origin after which it stops.
    pub budget: Option<u64>,
    /// The listeners of larder, and their scheme: one of each at most. Empty selects the running one.
    pub to: Vec<(OriginAddress, Scheme)>,
    /// The scheme of every request; `None` is that of each URL.
    pub scheme: Option<Scheme>,
    /// Header fields of every request, in order.
    pub fields: Vec<(String, String)>,
    /// Text or JSON.
    pub output: Output,
    /// The larder that is asked for its listeners; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

/// The source of URLs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UrlSource {
    /// A sitemap, or an index of sitemaps, requested from larder: its URL.
    Sitemap(String),
    /// An access log in the common or combined format: the most requested URLs come first.
    Log(PathBuf),
    /// One URL or path a line; `-` is standard input.
    List(PathBuf),
}

impl Warm {
    /// Parses the flags.
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
            // As for other flags the last one counts; but one for each scheme.
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
            admin: given.admin,
        })
    }
}

/// Parses a listener of larder, and its scheme.
///
/// # Errors
/// The allowed values.
pub(crate) fn listener(text: &str) -> Result<(OriginAddress, Scheme), String> {
    let Some(rest) = text.strip_prefix("https://") else { return Ok((address::origin(text)?, Scheme::Http)) };
    let at = address::origin(rest).or_else(|_| address::origin(&format!("{rest}:443")))?;
    match at {
        OriginAddress::Tcp(..) => Ok((at, Scheme::Https)),
        OriginAddress::Unix(_) | OriginAddress::Programs(_) => Err("https://HOST:PORT".to_owned()),
    }
}
