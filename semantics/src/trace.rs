//! The report of a decision about its steps, so that the code that decides is the code that explains.
//!
//! A decision calls [`RuleTrace::rule`] once for every rule that it tries, in order. The server passes
//! [`Silent`], which compiles to nothing; `explain` passes a [`RuleRecord`].

/// The result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// The rule does not apply here; the next one is tried.
    Passed,
    /// The rule decided.
    Decided,
}

/// One rule that was tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriedRule {
    /// The source of the rule: `RFC 9111 §3`, or `config`.
    pub source: &'static str,
    /// A stable, short name: `no-store`, `freshness`, `vary`.
    pub name: &'static str,
    /// The examined data: a header with its value, a config key, the arithmetic.
    pub evidence: String,
    /// Its result.
    pub outcome: RuleOutcome,
}

/// Receives the rules of a decision in the order in which they are tried.
pub trait RuleTrace {
    /// `evidence` is called only if the report is used.
    fn rule(
        &mut self,
        source: &'static str,
        name: &'static str,
        outcome: RuleOutcome,
        evidence: impl FnOnce() -> String,
    );
}

/// No report: passed by the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl RuleTrace for Silent {
    #[inline(always)]
    fn rule(&mut self, _: &'static str, _: &'static str, _: RuleOutcome, _: impl FnOnce() -> String) {}
}

/// Keeps the whole report: passed by `explain`.
#[derive(Clone, Debug, Default)]
pub struct RuleRecord(pub Vec<TriedRule>);

impl RuleTrace for RuleRecord {
    fn rule(
        &mut self,
        source: &'static str,
        name: &'static str,
        outcome: RuleOutcome,
        evidence: impl FnOnce() -> String,
    ) {
        self.0.push(TriedRule { source, name, evidence: evidence(), outcome });
    }
}
