//! The command line of `larder objects`: the search, and the order of its results.

use super::{AdminTarget, Given, Output, Usage};

/// A query for a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Objects {
    /// Names and values as in the admin API.
    pub query: Vec<(&'static str, String)>,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl Objects {
    /// Parses the flags.
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
        Ok(Self { query, output, admin: given.admin })
    }
}

/// Checks the value of a flag before a larder is contacted.
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

/// Whether this is a status, a class, or a range of statuses.
fn is_status(text: &str) -> bool {
    let status = |it: &str| it.len() == 3 && it.bytes().all(|it| it.is_ascii_digit());
    let class = |it: &str| matches!(it.as_bytes(), [b'1'..=b'9', b'x' | b'X', b'x' | b'X']);
    status(text) || class(text) || text.split_once('-').is_some_and(|(from, to)| status(from) && status(to))
}
