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
        let search = given.arguments.pop().map(|it| ("search", it));
        let query = search.into_iter().chain(given.own).collect();
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { query, output, ask: given.ask })
    }
}
