//! The life of one fill: one step, one function, one name in code, counters, traces and drawing. The drawing is in ARCHITECTURE.
//!
//! A fill of requests that may share its response is a task of its own and starts with `Disk`, or with `Origin` where the lower tiers were
//! asked. A request that may not share a response runs a fill with one reader itself: it starts with `Origin`, and becomes a task at `Store`.

use crate::drawing;
use larder_counters::Counters;
use larder_counters::table::Counter;

/// The drawing of the machine, for ARCHITECTURE.
#[must_use]
pub fn drawing() -> String {
    let steps = FillStep::ALL.iter().map(|it| (it.name(), it.successors().iter().map(|next| next.name())));
    drawing::flowchart(steps)
}

/// The step of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FillStep {
    /// Look on the disk of this node.
    Disk,
    /// Look in the fleet; where another node fetches the key, wait for its result.
    Fleet,
    /// Wait for a permit, and ask the origin.
    Origin,
    /// Decide whether the response is stored or forwarded.
    Decide,
    /// Update the stored response after a 304.
    Freshen,
    /// Share the response while it arrives, and store it.
    Store,
    /// Forward the response to the reader that started the fill.
    Forward,
    /// Tell the readers the result.
    Finish,
}

impl FillStep {
    /// All steps.
    pub const ALL: [FillStep; 8] = [
        FillStep::Disk,
        FillStep::Fleet,
        FillStep::Origin,
        FillStep::Decide,
        FillStep::Freshen,
        FillStep::Store,
        FillStep::Forward,
        FillStep::Finish,
    ];

    /// The steps that may follow.
    #[must_use]
    pub const fn successors(self) -> &'static [FillStep] {
        use FillStep::{Decide, Disk, Finish, Fleet, Forward, Freshen, Origin, Store};
        match self {
            Disk => &[Fleet, Origin, Finish], // Finish: found, or not to be asked for.
            Fleet => &[Origin, Finish],
            Origin => &[Decide, Finish], // Finish: no answer, or another fill stored one.
            Decide => &[Freshen, Store, Forward, Origin, Finish], // Origin: once more, without condition. Finish: stale.
            Freshen | Store | Forward => &[Finish],
            Finish => &[],
        }
    }

    /// Its name in counters, traces and drawings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            FillStep::Disk => "disk",
            FillStep::Fleet => "fleet",
            FillStep::Origin => "origin",
            FillStep::Decide => "decide",
            FillStep::Freshen => "freshen",
            FillStep::Store => "store",
            FillStep::Forward => "forward",
            FillStep::Finish => "finish",
        }
    }

    /// The counter of fills that reached it.
    #[must_use]
    pub fn counter(self, counters: &Counters) -> &Counter {
        match self {
            FillStep::Disk => &counters.fill_step_disk,
            FillStep::Fleet => &counters.fill_step_fleet,
            FillStep::Origin => &counters.fill_step_origin,
            FillStep::Decide => &counters.fill_step_decide,
            FillStep::Freshen => &counters.fill_step_freshen,
            FillStep::Store => &counters.fill_step_store,
            FillStep::Forward => &counters.fill_step_forward,
            FillStep::Finish => &counters.fill_step_finish,
        }
    }

    /// Checks that `next` may follow.
    ///
    /// # Panics
    /// When it may not: a bug in larder, never a peer's fault.
    #[must_use]
    pub fn then(self, next: FillStep) -> FillStep {
        assert!(self.successors().contains(&next), "{self:?} may not be followed by {next:?}");
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &[FillStep]) {
        let mut steps = script.iter().copied();
        let first = steps.next().unwrap();
        assert_eq!(FillStep::Finish, steps.fold(first, FillStep::then));
    }

    #[test]
    fn lives_of_fills() {
        use FillStep::{Decide, Disk, Finish, Fleet, Forward, Freshen, Origin, Store};
        check(&[Disk, Finish]);
        check(&[Disk, Fleet, Finish]);
        check(&[Disk, Fleet, Origin, Decide, Store, Finish]);
        check(&[Disk, Origin, Decide, Freshen, Finish]);
        check(&[Origin, Decide, Origin, Decide, Store, Finish]);
        check(&[Origin, Decide, Forward, Finish]);
        check(&[Origin, Finish]);
    }

    #[test]
    #[should_panic(expected = "Origin may not be followed by Store")]
    fn a_shortcut_is_a_bug() {
        check(&[FillStep::Origin, FillStep::Store]);
    }

    #[test]
    fn every_step_is_reached_from_the_first_and_leads_to_the_end() {
        let mut seen = vec![FillStep::Disk];
        for at in 0.. {
            let Some(step) = seen.get(at).copied() else { break };
            seen.extend(
                step.successors().iter().filter(|it| !seen.contains(it)).copied().collect::<Vec<_>>(),
            );
        }
        assert_eq!(FillStep::ALL.len(), seen.len());
        assert!(seen.iter().all(|it| *it == FillStep::Finish || !it.successors().is_empty()));
    }
}
