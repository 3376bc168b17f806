//! The life of one gateway request: one step, one function, one name in code, log, counters and drawing.
//!
//! ```text
//! Receive ── Lookup ──┬── Hit ────────────────────────────┬── Deliver ── Finish
//!    │        │ │     ├── Validate ─┬── Store ────────────┤
//!    │        │ │     ├── Fetch ────┤                     │
//!    │        │ │     │    │        ├── Hit (304, stale)  │
//!    │        │ │     │    │        ├── Lookup (below)    │
//!    │        │ │     │    └ Pass   │                     │
//!    │        │ └── Wait ── Lookup, Store, Hit, Validate, Fetch
//!    │        └── Descend ── Lookup │                     │
//!    └── Pass ──────────────────────┴── Error ────────────┘
//! ```
//!
//! `Wait` leads back to `Lookup` when the leader freshened the store, failed by what its own request may have provoked, or
//! brought another variant; to `Store` when the follower reads along, to `Hit` when the origin failed and stale may be served, to
//! `Error` when there is no connection to it or it fails identical requests, and to `Validate` or `Fetch` when waiting brought nothing.
//! `Fetch` and `Validate` lead to `Pass` when the response turns out not to be storable: its bytes then flow to
//! this client only.
//!
//! What `Fetch` and `Validate` begin looks in the tiers below RAM before it asks the origin, and leads back to `Lookup`
//! with what it found there; `Descend` does only that, for requests that may not share a fetch. The steps themselves
//! are in `run`. An OPTIONS that may go no further leads from `Receive` to `Deliver`.

/// Where a request is. The only state of the machine: everything else is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The head is parsed; choose whether the cache is used at all.
    Receive,
    /// Ask the store, and decide (see `semantics::reuse`).
    Lookup,
    /// Look in the tiers below RAM, and there alone.
    Descend,
    /// Another request is fetching the same key: wait for its head.
    Wait,
    /// Answer from the store.
    Hit,
    /// Ask the origin with validators.
    Validate,
    /// Ask the origin without.
    Fetch,
    /// Ask the origin, or read on from it, without storing.
    Pass,
    /// The response is being stored; this client reads along.
    Store,
    /// Make a response of our own: the origin failed and nothing stale may be served.
    Error,
    /// Send the response.
    Deliver,
    /// Count, log, and free.
    Finish,
}

impl Step {
    /// The steps that may follow. The drawing above, for the machine to check itself with.
    #[must_use]
    pub fn successors(self) -> &'static [Step] {
        use Step::{
            Deliver, Descend, Error, Fetch, Finish, Hit, Lookup, Pass, Receive, Store, Validate, Wait,
        };
        match self {
            Receive => &[Lookup, Pass, Error, Deliver], // Error: CONNECT, TRACE. Deliver: an OPTIONS that goes no further.
            Lookup => &[Hit, Descend, Validate, Fetch, Wait, Error], // Error: only-if-cached.
            Descend => &[Lookup],
            Wait => &[Lookup, Store, Hit, Validate, Fetch, Error],
            Validate => &[Store, Hit, Lookup, Pass, Error], // Lookup: found in a tier below.
            Fetch => &[Store, Hit, Lookup, Pass, Error],
            Pass => &[Deliver, Store, Error], // Store: a POST that may be kept.
            Hit | Store | Error => &[Deliver],
            Deliver => &[Finish],
            Finish => &[],
        }
    }

    /// Its name in logs and traces.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Step::Receive => "receive",
            Step::Lookup => "lookup",
            Step::Descend => "descend",
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
    /// When it may not: a bug of ours, never of a peer.
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
        use Step::{Deliver, Descend, Error, Fetch, Finish, Hit, Lookup, Pass, Store, Validate, Wait};
        check(&[Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, Fetch, Store, Deliver, Finish]);
        check(&[Lookup, Fetch, Pass, Deliver, Finish]);
        check(&[Lookup, Validate, Hit, Deliver, Finish]);
        check(&[Lookup, Wait, Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, Fetch, Lookup, Hit, Deliver, Finish]);
        check(&[Lookup, Descend, Lookup, Fetch, Pass, Deliver, Finish]);
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
        assert_eq!(12, seen.len(), "all twelve steps are reachable");
        assert!(seen.iter().all(|it| *it == Step::Finish || !it.successors().is_empty()));
    }
}
