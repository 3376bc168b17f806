//! The marks of the history: events that explain a change. Most are found by comparing the counters and origins of two moments.

use std::collections::BTreeMap;
use std::collections::VecDeque;

/// The marks that are kept.
pub const MARKS: usize = 128;
/// The longest text of a mark, bytes.
pub const LONGEST: usize = 120;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    Start,
    Stop,
    Upgrade,
    Reload,
    Refused,
    Purge,
    Down,
    Up,
    Drain,
    Restore,
    Certificate,
}

impl MarkKind {
    const ALL: [MarkKind; 11] = [
        MarkKind::Start,
        MarkKind::Stop,
        MarkKind::Upgrade,
        MarkKind::Reload,
        MarkKind::Refused,
        MarkKind::Purge,
        MarkKind::Down,
        MarkKind::Up,
        MarkKind::Drain,
        MarkKind::Restore,
        MarkKind::Certificate,
    ];

    /// Its name in the API and in the file.
    pub fn name(self) -> &'static str {
        match self {
            MarkKind::Start => "start",
            MarkKind::Stop => "stop",
            MarkKind::Upgrade => "upgrade",
            MarkKind::Reload => "reload",
            MarkKind::Refused => "refused",
            MarkKind::Purge => "purge",
            MarkKind::Down => "down",
            MarkKind::Up => "up",
            MarkKind::Drain => "drain",
            MarkKind::Restore => "restore",
            MarkKind::Certificate => "certificate",
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// One event.
#[derive(Clone, Debug)]
pub struct HistoryMark {
    /// Unix time.
    pub at: u64,
    /// Its kind.
    pub kind: MarkKind,
    /// A few words, at most [`LONGEST`] bytes.
    pub what: String,
}

/// The counters of events, and the origins, at one moment.
#[derive(Clone, Default)]
pub struct EventCounts {
    /// Reloads that took effect.
    pub reloads: u64,
    /// Reloads that were rejected.
    pub refused: u64,
    /// Purges of everything.
    pub purges: u64,
    /// Of each certificate in use, by its names, its end in Unix seconds.
    pub certificates: BTreeMap<String, i64>,
    /// Of each origin, whether it is down, and whether an operator has drained it.
    pub origins: BTreeMap<String, (bool, bool)>,
}

impl EventCounts {
    /// The events since `before`.
    pub fn since(&self, before: &Self) -> Vec<(MarkKind, String)> {
        let counted = [
            (MarkKind::Reload, self.reloads > before.reloads, "configuration reloaded"),
            (MarkKind::Refused, self.refused > before.refused, "configuration refused"),
            (MarkKind::Purge, self.purges > before.purges, "everything purged"),
        ];
        let mut events: Vec<(MarkKind, String)> =
            counted.into_iter().filter(|it| it.1).map(|it| (it.0, it.2.to_owned())).collect();
        for (names, until) in &self.certificates {
            if before.certificates.get(names).is_some_and(|it| it < until) {
                events.push((MarkKind::Certificate, format!("certificate of {names} renewed")));
            }
        }
        for (name, (down, drained)) in &self.origins {
            let (was_down, was_drained) = before.origins.get(name).copied().unwrap_or_default();
            let changes = [
                (MarkKind::Down, *down && !was_down, "is down"),
                (MarkKind::Up, was_down && !down, "is up"),
                (MarkKind::Drain, *drained && !was_drained, "drained"),
                (MarkKind::Restore, was_drained && !drained, "restored"),
            ];
            let changed = changes.into_iter().filter(|it| it.1);
            events.extend(changed.map(|(kind, _, what)| (kind, format!("{name} {what}"))));
        }
        events
    }
}

/// The latest marks.
pub struct MarkList {
    marks: VecDeque<HistoryMark>,
    events: EventCounts,
    /// The marks at the end that are not in the file.
    unsaved: usize,
}

impl MarkList {
    /// None yet.
    pub fn new() -> Self {
        Self { marks: VecDeque::with_capacity(MARKS), events: EventCounts::default(), unsaved: 0 }
    }

    /// Adds a mark, in place of the oldest if there are too many.
    pub fn add(&mut self, at: u64, kind: MarkKind, mut what: String) {
        if self.marks.len() == MARKS {
            self.marks.pop_front();
        }
        let end = (0..=LONGEST.min(what.len())).rev().find(|it| what.is_char_boundary(*it));
        what.truncate(end.unwrap_or(0));
        what.shrink_to_fit();
        self.marks.push_back(HistoryMark { at, kind, what });
        self.unsaved = (self.unsaved + 1).min(self.marks.len());
    }

    /// Adds the events since the last call.
    pub fn record(&mut self, at: u64, now: EventCounts) {
        for (kind, what) in now.since(&self.events) {
            self.add(at, kind, what);
        }
        self.events = now;
    }

    /// Puts the marks of a file, the oldest first, in front of those of this process.
    pub fn restore(&mut self, earlier: Vec<HistoryMark>) {
        let room = MARKS.saturating_sub(self.marks.len());
        for it in earlier.into_iter().rev().take(room) {
            self.marks.push_front(it);
        }
    }

    /// All marks, the oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &HistoryMark> {
        self.marks.iter()
    }

    /// The marks that are not in the file.
    pub fn unsaved(&self) -> impl Iterator<Item = &HistoryMark> {
        self.marks.iter().skip(self.marks.len() - self.unsaved)
    }

    /// All marks are in the file.
    pub fn saved(&mut self) {
        self.unsaved = 0;
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        MARKS * size_of::<HistoryMark>() + self.marks.iter().map(|it| it.what.capacity()).sum::<usize>()
    }

    /// The most bytes of memory.
    pub const fn most_bytes() -> usize {
        MARKS * (size_of::<HistoryMark>() + LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_marked_once_and_an_origin_that_is_removed_is_not_up() {
        let with = |reloads, origins: &[(&str, bool, bool)]| EventCounts {
            reloads,
            origins: origins.iter().map(|it| (it.0.to_owned(), (it.1, it.2))).collect(),
            ..EventCounts::default()
        };
        let report = |now: &EventCounts, before: &EventCounts| {
            now.since(before).into_iter().map(|it| (it.0.name(), it.1)).collect::<Vec<_>>()
        };
        let begun = with(0, &[("a", false, false), ("b", false, false)]);
        assert!(report(&begun, &EventCounts::default()).is_empty());
        let sick = with(1, &[("a", true, false), ("b", false, true), ("c", true, false)]);
        let expect = [
            ("reload", "configuration reloaded"),
            ("down", "a is down"),
            ("drain", "b drained"),
            ("down", "c is down"),
        ];
        assert_eq!(expect.map(|it| (it.0, it.1.to_owned())).to_vec(), report(&sick, &begun));
        assert!(report(&sick, &sick).is_empty());
        let well = with(1, &[("a", false, false), ("b", false, false)]);
        let expect = [("up", "a is up"), ("restore", "b restored")];
        assert_eq!(expect.map(|it| (it.0, it.1.to_owned())).to_vec(), report(&well, &sick));
    }

    #[test]
    fn a_renewal_is_a_later_end_of_the_same_names() {
        let with = |until: &[(&str, i64)]| EventCounts {
            certificates: until.iter().map(|it| (it.0.to_owned(), it.1)).collect(),
            ..EventCounts::default()
        };
        let (before, after) = (with(&[("a", 5), ("b", 5)]), with(&[("a", 5), ("b", 9), ("c", 9)]));
        assert_eq!(
            vec![(MarkKind::Certificate, "certificate of b renewed".to_owned())],
            after.since(&before)
        );
    }

    #[test]
    fn marks_are_bounded_and_those_of_the_file_come_first() {
        let mut marks = MarkList::new();
        (0..3).for_each(|it| marks.add(1000 + it, MarkKind::Down, "ä".repeat(LONGEST)));
        let earlier = |at| HistoryMark { at, kind: MarkKind::Stop, what: String::new() };
        marks.restore((0..MARKS as u64).map(earlier).collect());
        let at: Vec<u64> = marks.iter().map(|it| it.at).collect();
        assert_eq!((MARKS, 3, 1002), (at.len(), at[0], at[MARKS - 1]));
        assert_eq!(3, marks.unsaved().count());
        assert!(marks.iter().all(|it| it.what.len() <= LONGEST));
        for kind in MarkKind::ALL {
            assert_eq!(Some(kind), MarkKind::named(kind.name()));
        }
    }
}
