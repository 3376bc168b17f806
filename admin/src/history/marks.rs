//! The marks of the history: events that explain a change. Most are found by comparing the counters, origins and findings of two moments.
//! Events of one fault that repeat within some minutes are one mark, with their number and the times of the first and the last.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The marks that are kept.
pub const MARKS: usize = 128;
/// The longest text of a mark, bytes.
pub const LONGEST: usize = 120;
/// The seconds within which an event repeats the last one of the same text.
const REPEATED: u64 = 600;
/// The seconds after a start for which a fault continues one from before it.
const CONTINUED: u64 = 120;

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
    /// A finding of the state has begun.
    Fault,
    /// It has ended.
    Over,
    Drain,
    Restore,
    Certificate,
}

impl MarkKind {
    const ALL: [MarkKind; 13] = [
        MarkKind::Start,
        MarkKind::Stop,
        MarkKind::Upgrade,
        MarkKind::Reload,
        MarkKind::Refused,
        MarkKind::Purge,
        MarkKind::Down,
        MarkKind::Up,
        MarkKind::Fault,
        MarkKind::Over,
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
            MarkKind::Fault => "fault",
            MarkKind::Over => "over",
            MarkKind::Drain => "drain",
            MarkKind::Restore => "restore",
            MarkKind::Certificate => "certificate",
        }
    }

    /// The kind with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// The use of an event that repeats an earlier one.
    fn repetition(self) -> MarkRepetition {
        match self {
            MarkKind::Start | MarkKind::Stop | MarkKind::Upgrade => MarkRepetition::Apart,
            MarkKind::Up | MarkKind::Over => MarkRepetition::Replaces,
            MarkKind::Reload
            | MarkKind::Refused
            | MarkKind::Purge
            | MarkKind::Down
            | MarkKind::Fault
            | MarkKind::Drain
            | MarkKind::Restore
            | MarkKind::Certificate => MarkRepetition::Counted,
        }
    }
}

/// The use of an event that repeats an earlier one.
enum MarkRepetition {
    /// It is a mark of its own.
    Apart,
    /// It is counted by the mark of the earlier one.
    Counted,
    /// It takes its place: the last end of a fault that returns is the one that matters.
    Replaces,
}

/// One event, or several of the same text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryMark {
    /// Unix time of the first event.
    pub at: u64,
    /// Unix time of the last one.
    pub last: u64,
    /// Their number.
    pub count: u32,
    /// Their kind.
    pub kind: MarkKind,
    /// A few words, at most [`LONGEST`] bytes.
    pub what: String,
}

impl HistoryMark {
    /// One event.
    pub fn new(at: u64, kind: MarkKind, mut what: String) -> Self {
        let end = (0..=LONGEST.min(what.len())).rev().find(|it| what.is_char_boundary(*it));
        what.truncate(end.unwrap_or(0));
        what.shrink_to_fit();
        Self { at, last: at, count: 1, kind, what }
    }

    /// Its time and its kind in the file. An older version reads the first of several events.
    pub fn stored(&self) -> (u64, String) {
        let name = self.kind.name();
        if self.count == 1 {
            (self.at, name.to_owned())
        } else {
            (self.last, format!("{name} {} {}", self.count, self.at))
        }
    }

    /// The mark with this time and kind in the file.
    pub fn read(at: u64, kind: &str, what: String) -> Option<Self> {
        let mut parts = kind.split(' ');
        let one = Self::new(at, MarkKind::named(parts.next()?)?, what);
        match (parts.next(), parts.next()) {
            (Some(count), Some(first)) => {
                Some(Self { count: count.parse().ok()?, at: first.parse().ok()?, ..one })
            }
            _ => Some(one),
        }
    }

    /// The fault that stands since this mark, or that it ends.
    fn fault(&self) -> Option<(bool, &str)> {
        Some(match self.kind {
            MarkKind::Down => (true, self.what.strip_suffix(" is down")?),
            MarkKind::Up => (false, self.what.strip_suffix(" is up")?),
            MarkKind::Fault => (true, &*self.what),
            MarkKind::Over => (false, self.what.strip_prefix("over: ")?),
            _ => return None,
        })
    }
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
    /// The findings of the state that have no other mark.
    pub faults: BTreeSet<String>,
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
        events.extend(self.faults.difference(&before.faults).map(|it| (MarkKind::Fault, it.clone())));
        events
            .extend(before.faults.difference(&self.faults).map(|it| (MarkKind::Over, format!("over: {it}"))));
        events
    }
}

/// The latest marks.
pub struct MarkList {
    marks: VecDeque<HistoryMark>,
    events: EventCounts,
    /// The marks at the end that are not in the file.
    unsaved: usize,
    /// The faults that stood when the process before ended, with their times, and whether they stand still.
    earlier: BTreeMap<String, (u64, bool)>,
    /// Whether the time has passed in which they count.
    is_settled: bool,
}

impl MarkList {
    /// None yet.
    pub fn new() -> Self {
        Self {
            marks: VecDeque::with_capacity(MARKS),
            events: EventCounts::default(),
            unsaved: 0,
            earlier: BTreeMap::new(),
            is_settled: false,
        }
    }

    /// Adds an event.
    pub fn add(&mut self, at: u64, kind: MarkKind, what: String) {
        let is_saved = self.put(HistoryMark::new(at, kind, what));
        self.unsaved = (self.unsaved + usize::from(is_saved)).min(self.marks.len());
    }

    /// Adds a mark, in place of the oldest if there are too many, or of the one that it repeats. Returns whether that was in the file, or none.
    fn put(&mut self, mut mark: HistoryMark) -> bool {
        let repeats = |it: &&HistoryMark| it.kind == mark.kind && it.what == mark.what;
        let is_near = |it: &HistoryMark| mark.at <= it.last.saturating_add(REPEATED);
        let found = self.marks.iter().rposition(|it| repeats(&it) && is_near(it));
        let place = match mark.kind.repetition() {
            MarkRepetition::Apart => None,
            MarkRepetition::Counted | MarkRepetition::Replaces => found,
        };
        let Some(place) = place else {
            if self.marks.len() == MARKS {
                self.marks.pop_front();
            }
            self.marks.push_back(mark);
            return true;
        };
        let is_saved = place < self.marks.len() - self.unsaved;
        if let Some(before) = self.marks.remove(place)
            && matches!(mark.kind.repetition(), MarkRepetition::Counted)
        {
            // That of the file counts the earlier one.
            let more = if mark.count > 1 && mark.at == before.at { 0 } else { before.count };
            mark = HistoryMark {
                at: before.at.min(mark.at),
                last: before.last.max(mark.last),
                count: mark.count.saturating_add(more),
                ..mark
            };
        }
        self.marks.push_back(mark);
        is_saved
    }

    /// Adds the events since the last call. `uptime` is seconds since the start.
    pub fn record(&mut self, at: u64, uptime: u64, now: EventCounts) {
        for (kind, what) in now.since(&self.events) {
            let mark = HistoryMark::new(at, kind, what);
            // It is marked already.
            let stands = mark.fault().filter(|it| it.0).and_then(|it| self.earlier.get_mut(it.1));
            match stands.filter(|_| uptime < CONTINUED) {
                Some(stands) => stands.1 = true,
                None => self.add(at, kind, mark.what),
            }
        }
        self.events = now;
        if uptime >= CONTINUED && !std::mem::replace(&mut self.is_settled, true) {
            let gone: Vec<String> = self.earlier.iter().filter(|it| !it.1.1).map(|it| it.0.clone()).collect();
            self.earlier.clear();
            for fault in gone {
                let is_origin = self.marks.iter().any(|it| it.what == format!("{fault} is down"));
                match is_origin {
                    true => self.add(at, MarkKind::Up, format!("{fault} is up")),
                    false => self.add(at, MarkKind::Over, format!("over: {fault}")),
                }
            }
        }
    }

    /// The faults that stood when the process before ended, with the times of their last beginnings. An origin has its name alone.
    pub fn earlier(&self) -> impl Iterator<Item = (&str, u64)> {
        self.earlier.iter().map(|(fault, it)| (&**fault, it.0))
    }

    /// The number of the events of a fault, and the time of the first, if it repeats lately.
    pub fn repeated(&self, fault: &str, now: u64) -> Option<(u32, u64)> {
        let is_of = |it: &&HistoryMark| it.fault() == Some((true, fault));
        let found = self.marks.iter().rev().find(is_of)?;
        (found.count > 1 && now <= found.last.saturating_add(REPEATED)).then_some((found.count, found.at))
    }

    /// Puts the marks of a file, the oldest first, in front of those of this process.
    pub fn restore(&mut self, earlier: Vec<HistoryMark>) {
        let own: Vec<HistoryMark> = self.marks.drain(..).collect();
        self.unsaved = 0;
        for it in earlier {
            if let Some((stands, fault)) = it.fault() {
                match stands {
                    true => drop(self.earlier.insert(fault.to_owned(), (it.last, false))),
                    false => drop(self.earlier.remove(fault)),
                }
            }
            self.put(it);
        }
        for it in own {
            // In an upgrade the file comes after the first events.
            let stands = it.fault().filter(|it| it.0).and_then(|it| self.earlier.get_mut(it.1));
            match stands {
                Some(stands) => stands.1 = true,
                None => {
                    self.put(it);
                    self.unsaved = (self.unsaved + 1).min(self.marks.len());
                }
            }
        }
    }

    /// All marks, those with the oldest last event first.
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
        (0..3).for_each(|it| marks.add(1000 + it, MarkKind::Down, format!("{it}{}", "ä".repeat(LONGEST))));
        let earlier = |at| HistoryMark::new(at, MarkKind::Stop, String::new());
        marks.restore((0..MARKS as u64).map(earlier).collect());
        let at: Vec<u64> = marks.iter().map(|it| it.at).collect();
        assert_eq!((MARKS, 3, 1002), (at.len(), at[0], at[MARKS - 1]));
        assert_eq!(3, marks.unsaved().count());
        assert!(marks.iter().all(|it| it.what.len() <= LONGEST));
        for kind in MarkKind::ALL {
            assert_eq!(Some(kind), MarkKind::named(kind.name()));
        }
    }

    /// The marks: first and last time, number, kind, text.
    fn rows(marks: &MarkList) -> Vec<(u64, u64, u32, &'static str, &str)> {
        marks.iter().map(|it| (it.at, it.last, it.count, it.kind.name(), &*it.what)).collect()
    }

    /// Through the file and back.
    fn reread(marks: &MarkList) -> Vec<HistoryMark> {
        let stored = marks.iter().map(|it| (it.stored(), it.what.clone()));
        stored.map(|((at, kind), what)| HistoryMark::read(at, &kind, what).unwrap()).collect()
    }

    #[test]
    fn a_fault_that_returns_is_one_mark_with_its_number_and_times() {
        let mut marks = MarkList::new();
        for turn in 0..5 {
            marks.add(100 + 60 * turn, MarkKind::Down, "a is down".to_owned());
            marks.add(130 + 60 * turn, MarkKind::Up, "a is up".to_owned());
        }
        let flaps = [(100, 340, 5, "down", "a is down"), (370, 370, 1, "up", "a is up")];
        assert_eq!(flaps.to_vec(), rows(&marks));
        assert_eq!((Some((5, 100)), None), (marks.repeated("a", 400), marks.repeated("a", 341 + REPEATED)));
        assert_eq!(2, marks.unsaved().count());
        marks.saved();
        marks.add(400, MarkKind::Down, "a is down".to_owned());
        assert_eq!(1, marks.unsaved().count(), "it is written again");
        // What was appended before, and the whole file, give the same marks.
        let mut again = MarkList::new();
        let first = HistoryMark::new(100, MarkKind::Down, "a is down".to_owned());
        again.restore([vec![first], reread(&marks)].concat());
        assert_eq!(rows(&marks), rows(&again));
        again.add(400 + REPEATED + 1, MarkKind::Down, "a is down".to_owned());
        assert_eq!(3, again.iter().count(), "a later one is another");
    }

    #[test]
    fn a_fault_that_stood_at_the_end_of_the_process_before_keeps_its_time() {
        let mark = |at, kind, what: &str| HistoryMark::new(at, kind, what.to_owned());
        let earlier = || {
            vec![
                mark(10, MarkKind::Down, "a is down"),
                mark(20, MarkKind::Fault, "the purge log is not followed"),
                mark(25, MarkKind::Fault, "the disk tier is off"),
                mark(30, MarkKind::Over, "over: the disk tier is off"),
                mark(40, MarkKind::Down, "b is down"),
                mark(50, MarkKind::Stop, "larder stopped"),
            ]
        };
        let now = EventCounts {
            origins: [("a".to_owned(), (true, false))].into(),
            faults: ["the disk tier is off".to_owned()].into(),
            ..EventCounts::default()
        };
        let kinds = |marks: &MarkList| rows(marks).into_iter().map(|it| (it.0, it.3)).collect::<Vec<_>>();
        let mut marks = MarkList::new();
        marks.restore(earlier());
        let standing: Vec<_> = marks.earlier().map(|it| (it.0.to_owned(), it.1)).collect();
        let expect = [("a", 10), ("b", 40), ("the purge log is not followed", 20)];
        assert_eq!(expect.map(|it| (it.0.to_owned(), it.1)).to_vec(), standing);
        marks.record(1000, 5, now.clone());
        assert_eq!(
            (1000, "fault"),
            *kinds(&marks).last().unwrap(),
            "the disk tier is off again, and a still down"
        );
        marks.record(1000 + CONTINUED, CONTINUED, now.clone());
        let ends = [(1000 + CONTINUED, "up"), (1000 + CONTINUED, "over")];
        assert_eq!(ends, kinds(&marks)[7..], "{:?}", rows(&marks));
        assert_eq!(0, marks.earlier().count());
        // In an upgrade the file comes after the first events.
        let mut marks = MarkList::new();
        marks.add(990, MarkKind::Upgrade, "larder upgraded".to_owned());
        marks.record(1000, 5, now);
        marks.restore(earlier());
        let own = [(990, "upgrade"), (1000, "fault")];
        assert_eq!(own, kinds(&marks)[6..], "{:?}", rows(&marks));
        assert_eq!(2, marks.unsaved().count());
    }
}
