//! The command lines of `larder tail` and `larder top`.

use super::{Ask, Given, Output, Usage, condition};
use larder_counters::top::TopOrder;
use larder_semantics::expression::{Expression, ExpressionSubject};

/// Following the requests of a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailCommand {
    /// Which requests; empty is all.
    pub filter: String,
    /// Text or JSON.
    pub output: Output,
    /// Which larder to ask; `None` is the one that runs here.
    pub ask: Option<Ask>,
}

impl TailCommand {
    /// Reads what the arguments say: a filter that no quotes held together is one all the same.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let output = if given.json { Output::Json } else { Output::Text };
        let filter = given.arguments.join(" ");
        if !filter.is_empty() {
            Expression::parse_about(ExpressionSubject::Finished, &filter)
                .map_err(|it| condition("FILTER", &it))?;
        }
        Ok(Self { filter, output, ask: given.ask })
    }
}

/// Watching a running larder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopCommand {
    /// What URLs are ordered by at first.
    pub by: TopOrder,
    /// One picture, and no more.
    pub once: bool,
    /// Which larder to ask; `None` is the one that runs here.
    pub ask: Option<Ask>,
}

impl TopCommand {
    /// Reads what the flags say.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let by = match given.own.iter().rev().find(|it| it.0 == "by") {
            None => TopOrder::Requests,
            Some((_, name)) => TopOrder::ALL.into_iter().find(|it| it.name() == name).ok_or_else(|| {
                let all: Vec<&str> = TopOrder::ALL.iter().map(|it| it.name()).collect();
                Usage(format!("--by: found {name:?}; allowed: {}", all.join(", ")))
            })?,
        };
        Ok(Self { by, once: given.own.iter().any(|it| it.0 == "once"), ask: given.ask })
    }
}
