//! One condition at one reading, and the words for a number of parts.

use super::table::FindingKind;

/// The share of server errors within a minute that is a finding, per cent: a site with fewer has single faults.
pub(super) const ERRORS: u64 = 5;
/// The subject of the share of server errors of all routes.
pub(super) const SERVER_ERRORS: &str = "server errors";
/// The fewest responses within a minute of which a share is taken: one error of few requests is no state.
pub(super) const ERRORS_REQUESTS: u64 = 20;
/// The most names in a sentence.
const NAMES: usize = 3;

/// The start of a condition in its sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The first reading with it.
    Seen,
    /// This time, Unix seconds.
    At(u64),
    /// It has none.
    Unstated,
}

/// A condition that holds at one reading.
#[derive(Debug)]
pub(super) struct Condition {
    pub kind: FindingKind,
    /// The part, the same for every kind of condition of it: its start stays if the kind changes.
    pub subject: String,
    pub what: String,
    pub since: Beginning,
    /// Empty for that of an earlier reading.
    pub evidence: String,
    pub effect: String,
    /// The view of the page that shows it; `None` for that of its kind.
    pub view: Option<String>,
    /// Of conditions of one kind, the one with the greater weight is worse.
    pub weight: u64,
}

impl Condition {
    pub fn with_effect(self, effect: impl Into<String>) -> Self {
        Self { effect: effect.into(), ..self }
    }

    pub fn seen_at(self, view: String) -> Self {
        Self { view: Some(view), ..self }
    }

    pub fn weighing(self, weight: u64) -> Self {
        Self { weight, ..self }
    }

    pub fn begun(self, since: Beginning) -> Self {
        Self { since, ..self }
    }
}

/// A condition without effect.
pub(super) fn condition(
    kind: FindingKind,
    subject: &str,
    what: impl Into<String>,
    evidence: impl Into<String>,
) -> Condition {
    Condition {
        kind,
        subject: subject.to_owned(),
        what: what.into(),
        since: Beginning::Seen,
        evidence: evidence.into(),
        effect: String::new(),
        view: None,
        weight: 0,
    }
}

/// `1 route`, `3 routes`.
pub(super) fn number(count: usize, one: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {one}s") }
}

/// Some names, and the number of the others.
pub(super) fn list(names: &[&str]) -> String {
    let shown = names.len().min(if names.len() == NAMES + 1 { NAMES + 1 } else { NAMES });
    let text = names[..shown].join(", ");
    if shown == names.len() { text } else { format!("{text} and {} more", names.len() - shown) }
}
