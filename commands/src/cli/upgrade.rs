//! The command line of `larder upgrade`.

use super::{AdminTarget, Given, Output, Usage};

/// The longest time for each step, seconds.
const LONGEST: u32 = 3600;

/// The settings of `larder upgrade`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    /// The time limit of each step of the new process, seconds.
    pub timeout: u32,
    /// Text or JSON.
    pub output: Output,
    /// The larder to contact; `None` is the running one.
    pub admin: Option<AdminTarget>,
}

impl Upgrade {
    /// Parses the flags.
    pub(super) fn read(given: Given) -> Result<Self, Usage> {
        let timeout = given.own.iter().rev().find(|it| it.0 == "timeout").map(|it| it.1.as_str());
        let seconds = timeout.unwrap_or("60").parse().ok().filter(|it| (1..=LONGEST).contains(it));
        let timeout = seconds.ok_or_else(|| {
            let found = timeout.unwrap_or_default();
            Usage(format!("--timeout: found {found:?}; allowed: a number of seconds from 1 to {LONGEST}"))
        })?;
        let output = if given.json { Output::Json } else { Output::Text };
        Ok(Self { timeout, output, admin: given.admin })
    }
}
