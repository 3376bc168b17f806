//! The settings of the commands that print figures of a running larder.

use super::{AdminTarget, Given, Output};

/// The settings of `larder stats`, `larder advice`, `larder worst`, `larder nodes` and `larder audit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl Stats {
    pub(super) fn read(given: Given) -> Self {
        Self { output: if given.json { Output::Json } else { Output::Text }, admin: given.admin }
    }
}
