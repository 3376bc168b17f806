//! The command lines of `larder tail` and `larder top`.

use super::{AdminTarget, Given, Output, Usage, condition};
use larder_counters::top::TopOrder;
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

/// The settings of `larder top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopCommand {
    /// The initial order of URLs.
    pub by: TopOrder,
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
        Ok(Self { by, once: given.own.iter().any(|it| it.0 == "once"), admin: given.admin })
    }
}
