//! The life of one gateway request: one step, one function, one name in code, traces and drawing. The drawing is in ARCHITECTURE.
//! The results of requests are counted by tier and reason (`counters::table`), the steps are not.
//!
//! `Wait` leads back to `Lookup` when the leader freshened the store, failed in a way that its own request may have
//! caused, or fetched another variant. It leads to `Store` when the follower reads the fill, and to `Hit` when the origin
//! failed and stale may be served. It leads to `Error` when the origin has no connection or fails identical requests, and
//! to `Validate` or `Fetch` when waiting brought no answer.
//! `Fetch` and `Validate` lead to `Pass` when the response turns out not to be storable: its bytes then go to this client
//! only.
//!
//! A fill that `Fetch` or `Validate` starts looks in the tiers below RAM before it asks the origin, and leads back to
//! `Lookup` with what it found. `TierLookup` does only that, for requests that may not share a fetch. `fill::machine` has
//! the steps of a fetch. An OPTIONS that may not be forwarded further leads from `Receive` to `Deliver`.

use crate::drawing;

/// The drawing of the machine, for ARCHITECTURE.
#[must_use]
pub fn drawing() -> String {
    let steps = Step::ALL.iter().map(|it| (it.name(), it.successors().iter().map(|next| next.name())));
    drawing::flowchart(steps)
}

/// The step of a request: the machine's only state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The head is parsed; choose whether the cache is used at all.
    Receive,
    /// Ask the store and decide (see `semantics::reuse`).
    Lookup,
    /// Look in the tiers below RAM only.
    TierLookup,
    /// Another request is fetching the same key: wait for its head.
    Wait,
    /// Answer from the store.
    Hit,
    /// Ask the origin with validators.
    Validate,
    /// Ask the origin without validators.
    Fetch,
    /// Ask the origin, or continue reading from it, without storing.
    Pass,
    /// The response is being stored; this client reads along.
    Store,
    /// Make a response here: the origin failed and no stale response may be served.
    Error,
    /// Send the response.
    Deliver,
    /// Count, log, and free.
    Finish,
}

impl Step {
    /// All steps.
    pub const ALL: [Step; 12] = [
        Step::Receive,
        Step::Lookup,
        Step::TierLookup,
        Step::Wait,
        Step::Hit,
        Step::Validate,
        Step::Fetch,
        Step::Pass,
        Step::Store,
        Step::Error,
        Step::Deliver,
        Step::Finish,
    ];

    /// The steps that may follow.
    #[must_use]
    pub const fn successors(self) -> &'static [Step] {
        use Step::{
            Deliver, Error, Fetch, Finish, Hit, Lookup, Pass, Receive, Store, TierLookup, Validate, Wait,
        };
        match self {
            Receive => &[Lookup, Pass, Error, Deliver], // Error: CONNECT, TRACE. Deliver: an OPTIONS that goes no further.
            Lookup => &[Hit, TierLookup, Validate, Fetch, Wait, Error], // Error: only-if-cached.
            TierLookup => &[Lookup],
            Wait => &[Lookup, Store, Hit, Validate, Fetch, Error],
            Validate => &[Store, Hit, Lookup, Pass, Error], // Lookup: found in a tier below.
            Fetch => &[Store, Hit, Lookup, Pass, Error],
            Pass => &[Deliver, Store, Error], // Store: a POST that may be kept.
            Hit | Store | Error => &[Deliver],
            Deliver => &[Finish],
            Finish => &[],
        }
    }

    /// Its name in traces and drawings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Step::Receive => "receive",
            Step::Lookup => "lookup",
            Step::TierLookup => "tier_lookup",
            Step::Wait => "wait",
            Step::Hit => "hit",
            Step::Validate => "validate",
            Step::Fetch => "fetch",
            Step::Pass => "pass",
            Step::Store => "store",
            Step::Error => "error",
            Step::Deliver => "deliver",
            Step::Finish => "finish",
        }
    }

    /// Checks that `next` may follow.
    ///
    /// # Panics
    /// When it may not: a bug in larder, never a peer's fault.
    #[must_use]
    pub fn then(self, next: Step) -> Step {
        assert!(self.successors().contains(&next), "{self:?} may not be followed by {next:?}");
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &[Step]) {
        let last = script.iter().fold(Step::Receive, |step, next| step.then(*next));
        assert_eq!(Step::Finish, last);
    }

    #[test]
    fn lives_of_requests() {
        use Step::{Deliver, Error, Fetch, Finish, Hit, Lookup, Pass, Store, TierLookup, Validate, Wait};
        check(&[Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, Fetch, Store, Deliver, Finish]);
        check(&[Lookup, Fetch, Pass, Deliver, Finish]);
        check(&[Lookup, Validate, Hit, Deliver, Finish]);
        check(&[Lookup, Wait, Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, Fetch, Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, TierLookup, Lookup, Fetch, Pass, Deliver, Finish]);
        check(&[Lookup, Wait, Store, Deliver, Finish]);
        check(&[Lookup, Wait, Validate, Hit, Deliver, Finish]);
        check(&[Pass, Error, Deliver, Finish]);
    }

    #[test]
    #[should_panic(expected = "Receive may not be followed by Finish")]
    fn a_shortcut_is_a_bug() {
        check(&[Step::Finish]);
    }

    #[test]
    fn every_step_is_reached_and_leads_to_the_end() {
        let mut seen = vec![Step::Receive];
        for at in 0.. {
            let Some(step) = seen.get(at).copied() else { break };
            for next in step.successors() {
                if !seen.contains(next) {
                    seen.push(*next);
                }
            }
        }
        assert_eq!(Step::ALL.len(), seen.len());
        assert!(seen.iter().all(|it| *it == Step::Finish || !it.successors().is_empty()));
    }
}
