//! The samples of the history in three resolutions: 1 s for 15 minutes, 10 s for 6 hours, 1 min for 7 days. Each value takes 16 bits
//! (`larder_wire::history`). The readings are in `columns`.

use super::columns::{COLUMNS, HistoryReading, LEVELS, SUMS, names};
use larder_counters::Snapshot;
use larder_wire::history::{HistoryRecord, StoredRow, pack, unpack};
use std::collections::VecDeque;

/// The steps that are kept, in seconds, and the number of samples of each.
pub const STEPS: [(u16, usize); 3] = [(1, 900), (10, 2160), (60, 10_080)];
/// Milliseconds between two readings of durations.
const LATENCY_STEP: u64 = 10_000;
/// The readings of a minute, over which durations are measured.
const MINUTE: usize = 6;
/// The samples by which the memory of a ring grows.
const GROWTH: usize = 256;
/// The most samples of one record in the file.
const OF_RECORD: usize = 4096;

/// One step.
#[derive(Clone, Copy)]
pub struct HistorySample {
    /// Its end, Unix seconds.
    pub at: u32,
    /// Its length, milliseconds.
    pub millis: u32,
    values: [u16; COLUMNS],
}

impl HistorySample {
    /// The values of all columns.
    pub fn values(&self) -> impl Iterator<Item = u64> {
        self.values.iter().map(|it| unpack(*it))
    }

    fn stored(&self) -> StoredRow {
        StoredRow { at: self.at, millis: self.millis, values: self.values.to_vec() }
    }

    /// One sample for several that follow each other: sums are added, levels are those of the last, durations the longest.
    fn joined(group: &[&Self]) -> Option<([u64; 2], Vec<u64>)> {
        let last = group.last()?;
        let mut values: Vec<u64> = last.values().collect();
        for (at, value) in values.iter_mut().enumerate() {
            let all = group.iter().map(|it| unpack(it.values[at]));
            if at < SUMS {
                *value = all.sum();
            } else if at >= SUMS + LEVELS {
                *value = all.max().unwrap_or(0);
            }
        }
        let millis = group.iter().map(|it| u64::from(it.millis)).sum();
        Some(([u64::from(last.at), millis], values))
    }
}

/// The samples of one step.
struct SampleRing {
    seconds: u16,
    kept: usize,
    samples: VecDeque<HistorySample>,
    /// The time and the sums of the last sample.
    last: Option<(u64, [u64; SUMS])>,
    /// The samples at the end that are not in the file.
    unsaved: usize,
}

impl SampleRing {
    fn new((seconds, kept): (u16, usize)) -> Self {
        Self { seconds, kept, samples: VecDeque::new(), last: None, unsaved: 0 }
    }

    fn step(&self) -> u64 {
        u64::from(self.seconds) * 1000
    }

    /// Whether the step of the last reading is over. Steps are of a grid, so that a late look does not shift them.
    fn is_due(&self, uptime: u64) -> bool {
        self.last.is_none_or(|it| it.0 / self.step() != uptime / self.step())
    }

    /// Ends a step; the first reading only begins one.
    fn take(&mut self, reading: &HistoryReading, times: [u64; 4]) {
        if let Some((uptime, sums)) = self.last {
            let mut values = [0; COLUMNS];
            for (at, value) in values[..SUMS].iter_mut().enumerate() {
                // The counters of a removed route are gone.
                *value = pack(reading.sums[at].saturating_sub(sums[at]));
            }
            let gauges = reading.levels.into_iter().chain(times);
            values[SUMS..].iter_mut().zip(gauges).for_each(|(value, it)| *value = pack(it));
            let millis = u32::try_from(reading.uptime.saturating_sub(uptime)).unwrap_or(u32::MAX);
            self.push(HistorySample { at: u32::try_from(reading.at).unwrap_or(u32::MAX), millis, values });
            self.unsaved = (self.unsaved + 1).min(self.samples.len());
        }
        self.last = Some((reading.uptime, reading.sums));
    }

    fn push(&mut self, sample: HistorySample) {
        if self.samples.len() == self.kept {
            self.samples.pop_front();
        } else if self.samples.len() == self.samples.capacity() {
            // A doubling would take up to twice the memory of what is kept.
            self.samples.reserve_exact(GROWTH.min(self.kept - self.samples.len()));
        }
        self.samples.push_back(sample);
    }

    /// Puts the samples of a file, the oldest first, in front of those of this process.
    fn restore(&mut self, earlier: &[HistorySample]) {
        let room = self.kept - self.samples.len();
        // In the order of arrival, whatever their times are: the clock may have been set.
        self.samples.reserve_exact(earlier.len().min(room));
        earlier.iter().rev().take(room).for_each(|it| self.samples.push_front(*it));
    }

    fn records(&self, count: usize, out: &mut Vec<u8>) {
        let rows: Vec<&HistorySample> = self.samples.iter().skip(self.samples.len() - count).collect();
        for group in rows.chunks(OF_RECORD) {
            HistoryRecord::Rows(self.seconds, group.iter().map(|it| it.stored()).collect()).write(out);
        }
    }
}

/// The durations since the start at one moment.
struct LatencyReading {
    uptime: u64,
    hit: Snapshot,
    miss: Snapshot,
}

/// The steps that a reading ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepEnd {
    /// Those that are over.
    Over,
    /// All: the process ends.
    All,
}

/// Bytes of the readings of durations.
const OF_LATENCIES: usize =
    MINUTE * (size_of::<LatencyReading>() + 2 * larder_counters::histogram::BUCKETS * 8);

/// The samples of all steps.
pub struct SampleRings {
    rings: [SampleRing; 3],
    /// The latest readings of durations, of a minute; the newest is the last.
    latencies: VecDeque<LatencyReading>,
}

impl SampleRings {
    /// None yet.
    pub fn new() -> Self {
        Self { rings: STEPS.map(SampleRing::new), latencies: VecDeque::with_capacity(MINUTE) }
    }

    /// Whether a step of any ring is over.
    pub fn is_due(&self, uptime: u64) -> bool {
        self.rings.iter().any(|it| it.is_due(uptime))
    }

    /// Ends the steps that are over, or all before the `end` of the process; returns whether a minute has ended.
    pub fn take(&mut self, reading: HistoryReading, end: StepEnd) -> bool {
        let times = self.latencies.front().map_or([0; 4], |first| {
            let (hit, miss) = (reading.hit.since(&first.hit), reading.miss.since(&first.miss));
            [hit.percentile(0.5), hit.percentile(0.99), miss.percentile(0.5), miss.percentile(0.99)]
        });
        let mut ended = false;
        for ring in &mut self.rings {
            if end == StepEnd::All || ring.is_due(reading.uptime) {
                ended |= ring.seconds == 60 && ring.last.is_some();
                ring.take(&reading, times);
            }
        }
        let is_next = |it: &LatencyReading| it.uptime / LATENCY_STEP != reading.uptime / LATENCY_STEP;
        if self.latencies.back().is_none_or(is_next) {
            if self.latencies.len() == MINUTE {
                self.latencies.pop_front();
            }
            let HistoryReading { uptime, hit, miss, .. } = reading;
            self.latencies.push_back(LatencyReading { uptime, hit, miss });
        }
        ended
    }

    /// Time and length (milliseconds) of each sample after `since`, and its values, the oldest first. A step of several minutes is joined from those of a
    /// minute. After the clock was set back, samples from the future are left out until their time has come, and a `since` in the future
    /// means all.
    pub fn read(&self, seconds: u64, since: u64, now: u64) -> Vec<([u64; 2], Vec<u64>)> {
        let ring = self.rings.iter().rev().find(|it| u64::from(it.seconds) <= seconds);
        let Some(ring) = ring else { return Vec::new() };
        let since = past(since, now);
        let rows = ring.samples.iter().filter(|it| (since + 1..=now).contains(&it.at.into()));
        let mut rows: Vec<&HistorySample> = rows.collect();
        rows.sort_by_key(|it| it.at);
        if u64::from(ring.seconds) == seconds {
            return rows.iter().map(|it| ([it.at.into(), it.millis.into()], it.values().collect())).collect();
        }
        let mut groups: Vec<Vec<&HistorySample>> = Vec::new();
        // A sample that ends with a step belongs to it.
        let number = |it: &HistorySample| (u64::from(it.at).max(1) - 1) / seconds;
        for it in rows {
            match groups
                .last_mut()
                .filter(|group| group.first().is_some_and(|first| number(first) == number(it)))
            {
                Some(group) => group.push(it),
                None => groups.push(vec![it]),
            }
        }
        groups.iter().filter_map(|it| HistorySample::joined(it)).collect()
    }

    /// Writes the samples that are not in the file.
    pub fn write_unsaved(&self, out: &mut Vec<u8>) {
        self.rings.iter().for_each(|it| it.records(it.unsaved, out));
    }

    /// Writes all samples.
    pub fn write_all(&self, out: &mut Vec<u8>) {
        self.rings.iter().for_each(|it| it.records(it.samples.len(), out));
    }

    /// All samples are in the file.
    pub fn saved(&mut self) {
        self.rings.iter_mut().for_each(|it| it.unsaved = 0);
    }

    /// Puts samples of a file in front of those of this process.
    pub fn restore(&mut self, earlier: &LoadedRows) {
        self.rings.iter_mut().zip(&earlier.rows).for_each(|(ring, it)| ring.restore(it));
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let samples: usize = self.rings.iter().map(|it| it.samples.capacity()).sum();
        samples * size_of::<HistorySample>() + OF_LATENCIES
    }

    /// The most bytes of memory.
    pub const fn most_bytes() -> usize {
        (STEPS[0].1 + STEPS[1].1 + STEPS[2].1) * size_of::<HistorySample>() + OF_LATENCIES
    }
}

/// The time after which samples and marks are returned: a request's `since`, or all if that is in the future.
pub fn past(since: u64, now: u64) -> u64 {
    if since > now { 0 } else { since }
}

/// The samples of a file, by step.
pub struct LoadedRows {
    rows: [Vec<HistorySample>; 3],
    /// For each of our columns its position in the samples that follow.
    places: [Option<usize>; COLUMNS],
}

impl LoadedRows {
    /// None yet; the columns are those of this version.
    pub fn new() -> Self {
        Self { rows: Default::default(), places: std::array::from_fn(Some) }
    }

    /// The samples that follow have these columns.
    pub fn columns(&mut self, of_file: &[String]) {
        for (place, name) in self.places.iter_mut().zip(names()) {
            *place = of_file.iter().position(|it| it == name);
        }
    }

    /// Adds samples.
    pub fn add(&mut self, seconds: u16, rows: &[StoredRow]) {
        let Some(ring) = STEPS.iter().position(|it| it.0 == seconds) else { return };
        for row in rows {
            let value = |place: &Option<usize>| place.and_then(|it| row.values.get(it)).copied().unwrap_or(0);
            let values = std::array::from_fn(|it| value(&self.places[it]));
            self.rows[ring].push(HistorySample { at: row.at, millis: row.millis, values });
        }
        // A file has more than are kept.
        let most = STEPS[ring].1;
        if self.rows[ring].len() > 2 * most {
            let surplus = self.rows[ring].len() - most;
            self.rows[ring].drain(..surplus);
        }
    }

    /// The end of the last sample, Unix seconds; 0 without any.
    pub fn latest(&self) -> u64 {
        self.rows.iter().filter_map(|it| it.last()).map(|it| u64::from(it.at)).max().unwrap_or(0)
    }
}

/// The record that names our columns.
pub fn columns_record() -> HistoryRecord {
    HistoryRecord::Columns(names().map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Later than all samples.
    const NOW: u64 = 100_000_000;

    #[test]
    fn samples_are_in_the_order_of_their_times_after_the_clock_was_set_back() {
        let mut rings = SampleRings::new();
        let take = |rings: &mut SampleRings, uptime: u64, at: u64| {
            rings.take(HistoryReading { at, ..reading(uptime, uptime) }, StepEnd::Over);
        };
        let times = |rings: &SampleRings, since, now| -> Vec<u64> {
            rings.read(1, since, now).iter().map(|it| it.0[0]).collect()
        };
        (0..=3).for_each(|it| take(&mut rings, it, 5000 + it));
        (4..=6).for_each(|it| take(&mut rings, it, 2000 + it));
        assert_eq!([2004, 2005, 2006], *times(&rings, 0, 2006), "the others are from the future");
        assert_eq!(
            [2004, 2005, 2006],
            *times(&rings, 5002, 2006),
            "its requester has samples from the future"
        );
        assert_eq!([2006], *times(&rings, 2005, 2006));
        // The clock was wrong for a while only: nothing is lost.
        take(&mut rings, 7, 5007);
        assert_eq!([2004, 2005, 2006, 5001, 5002, 5003, 5007], *times(&rings, 0, 5007));
        assert_eq!([5007], *times(&rings, 5003, 5007));
    }

    fn reading(second: u64, requests: u64) -> HistoryReading {
        let mut sums = [0; SUMS];
        sums[0] = requests;
        let (hit, miss) = (Snapshot::default(), Snapshot::default());
        HistoryReading { at: 1000 + second, uptime: 1000 * second, sums, levels: [7, 0, 0, 0], hit, miss }
    }

    #[test]
    fn a_step_has_the_requests_in_it_and_the_first_reading_only_begins_one() {
        let mut rings = SampleRings::new();
        assert!(rings.is_due(0));
        rings.take(reading(0, 50), StepEnd::Over);
        assert!(rings.read(1, 0, NOW).is_empty());
        assert!(!rings.is_due(999) && rings.is_due(1000));
        for second in 1..=120 {
            assert_eq!(
                second % 60 == 0,
                rings.take(reading(second, 50 + 3 * second), StepEnd::Over),
                "{second}"
            );
        }
        let of = |step: u64, since| -> Vec<(u64, u64, u64)> {
            rings.read(step, since, NOW).iter().map(|it| (it.0[0], it.0[1], it.1[0])).collect()
        };
        assert_eq!(vec![(1119, 1000, 3), (1120, 1000, 3)], of(1, 1118));
        assert_eq!((12, (1010, 10_000, 30)), (of(10, 0).len(), of(10, 0)[0]));
        assert_eq!(vec![(1060, 60_000, 180), (1120, 60_000, 180)], of(60, 0));
        assert_eq!(vec![(1120, 120_000, 360)], of(600, 0), "1001 to 1200 are one step of ten minutes");
        assert_eq!(7, rings.read(60, 0, NOW)[0].1[SUMS]);
    }

    #[test]
    fn a_counter_that_fell_counts_as_none_and_a_late_step_is_as_long_as_it_was() {
        let mut rings = SampleRings::new();
        rings.take(reading(0, 50), StepEnd::Over);
        rings.take(HistoryReading { uptime: 2900, ..reading(2, 40) }, StepEnd::Over);
        let rows = rings.read(1, 0, NOW);
        assert_eq!(([1002, 2900], 0), (rows[0].0, rows[0].1[0]));
    }

    #[test]
    fn all_steps_are_kept_in_their_memory() {
        let mut rings = SampleRings::new();
        for second in 0..(STEPS[2].1 as u64 + 5) {
            rings.take(reading(60 * second, second), StepEnd::Over);
        }
        assert_eq!(STEPS.map(|it| it.1), [1, 10, 60].map(|it| rings.read(it, 0, NOW).len()));
        assert!(rings.bytes() <= SampleRings::most_bytes(), "{}", rings.bytes());
        assert!(SampleRings::most_bytes() <= 960 << 10, "{}", SampleRings::most_bytes());
    }

    #[test]
    fn samples_are_restored_from_their_records_by_the_names_of_the_columns() {
        let mut rings = SampleRings::new();
        for second in 0..=130 {
            rings.take(reading(second, 2 * second), StepEnd::Over);
        }
        let mut bytes = Vec::new();
        rings.write_all(&mut bytes);
        let mut loaded = LoadedRows::new();
        let mut rest = &bytes[..];
        while let larder_wire::history::ReadHistory::Record(record, length) = HistoryRecord::read(rest) {
            let HistoryRecord::Rows(step, rows) = record else { panic!("rows alone") };
            loaded.add(step, &rows);
            rest = &rest[length..];
        }
        assert_eq!((0, 1130), (rest.len(), loaded.latest()));
        let mut next = SampleRings::new();
        next.take(reading(200, 0), StepEnd::Over);
        next.take(reading(201, 9), StepEnd::Over);
        next.restore(&loaded);
        assert_eq!(131, next.read(1, 0, NOW).len());
        assert_eq!(rings.read(60, 0, NOW), next.read(60, 0, NOW));
        let mut bytes = Vec::new();
        next.write_unsaved(&mut bytes);
        let one = HistoryRecord::read(&bytes);
        let expect = |it: &HistoryRecord| matches!(it, HistoryRecord::Rows(1, rows) if rows.len() == 1);
        assert!(matches!(&one, larder_wire::history::ReadHistory::Record(it, _) if expect(it)), "{one:?}");
        // Another version had other columns in another order.
        let mut other = LoadedRows::new();
        other.columns(&["foreign".to_owned(), "requests".to_owned()]);
        other.add(60, &[StoredRow { at: 5, millis: 6, values: vec![1, 2] }]);
        let mut old = SampleRings::new();
        old.restore(&other);
        let (at, values) = old.read(60, 0, NOW).remove(0);
        assert_eq!(([5, 6], 2, 2), (at, values[0], values.iter().sum::<u64>()));
    }
}
