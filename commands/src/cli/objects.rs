//! The command line of `larder objects`: what is searched for, and in which order it comes.

use super::{Ask, Given, Output, Usage};

/// What is asked of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Names and values as the admin takes them.
    pub query: Vec<(&'static str, String)>,
    /// Text or JSON.
    pub output: Output,
    /// Which larder to ask; `None` is the one that runs here.
    pub ask: Option<Ask>,
}

impl Objects {
    /// Reads what the flags say.
    pub(super) fn read(mut given: Given) -> Result<Self, Usage> {
        if let [first, second, ..] = &given.arguments[..] {
            return Err(Usage(format!(
                "`larder objects` accepts one search; found {first:?} and {second:?}. A search with * is a pattern, \
                 such as '/news/*'"
            )));
        }
        given.own.iter().try_for_each(|(name, value)| check(name, value))?;
        let search = given.arguments.pop().map(|it| ("search", it));
        let query = search.into_iter().chain(given.own).collect();
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { query, output, ask: given.ask })
    }
}

/// Checks what a flag says before a larder is looked for.
fn check(name: &str, value: &str) -> Result<(), Usage> {
    let (fits, allowed) = match name {
        "tier" => (["all", "ram", "disk"].contains(&value), "all, ram, disk"),
        "sort" => (
            ["key", "size", "age", "hits", "expires"].contains(&value),
            "key, size, age, hits, expires; on disk size, hits, age",
        ),
        "order" => (["asc", "desc"].contains(&value), "asc, desc"),
        "limit" => (value.parse().is_ok_and(|it: u16| (1..=1000).contains(&it)), "1 to 1000"),
        "status" => (is_status(value), "404, 4xx or 400-499"),
        _ => (true, ""),
    };
    match fits {
        true => Ok(()),
        false => Err(Usage(format!("--{name}: found {value:?}; allowed: {allowed}"))),
    }
}

/// Whether this is a status, a class of them, or a range.
fn is_status(text: &str) -> bool {
    let status = |it: &str| it.len() == 3 && it.bytes().all(|it| it.is_ascii_digit());
    let class = |it: &str| matches!(it.as_bytes(), [b'1'..=b'9', b'x' | b'X', b'x' | b'X']);
    status(text) || class(text) || text.split_once('-').is_some_and(|(from, to)| status(from) && status(to))
}
