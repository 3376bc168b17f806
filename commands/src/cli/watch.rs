//! The command lines of `larder tail` and `larder top`.

use super::{AdminTarget, Given, Output, Usage, condition};
use larder_counters::top::{TopOrder, TopSubject};
use larder_semantics::expression::{Expression, ExpressionSubject};

/// The settings of `larder tail`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCommand {
    /// The filter of requests; empty for all.
    pub filter: String,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl TailCommand {
    /// Parses the arguments: an unquoted filter of several words is one filter.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let output = if given.json { Output::Json } else { Output::Text };
        let filter = given.arguments.join(" ");
        if !filter.is_empty() {
            Expression::parse_about(ExpressionSubject::Finished, &filter)
                .map_err(|it| condition("FILTER", &it))?;
        }
        Ok(Self { filter, output, admin: given.admin })
    }
}

/// A list of the heaviest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopList {
    /// Its entries.
    pub of: TopSubject,
    /// Their order.
    pub by: TopOrder,
}

/// The settings of `larder top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopCommand {
    /// The initial list of URLs or clients.
    pub list: TopList,
    /// Whether to print one reading and exit.
    pub once: bool,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl TopCommand {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let by = match given.own.iter().rev().find(|it| it.0 == "by") {
            None => TopOrder::Requests,
            Some((_, name)) => TopOrder::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
                let all: Vec<&str> = TopOrder::ALL.iter().map(|it| it.name()).collect();
                Usage(format!("--by: found {name:?}; allowed: {}", all.join(", ")))
            })?,
        };
        let is_given = |name: &str| given.own.iter().any(|it| it.0 == name);
        let of = if is_given("clients") { TopSubject::Clients } else { TopSubject::Urls };
        Ok(Self { list: TopList { of, by }, once: is_given("once"), admin: given.admin })
    }
}
