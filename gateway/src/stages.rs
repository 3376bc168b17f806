//! Where the time of one request went, by stage. A measured request has a stop watch that is always in exactly one stage,
//! so that stages do not overlap and add up to the whole. Other modules decide which requests are measured, and use the
//! readings.

use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::ResponseWriter;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The stages of a request: its work and its waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RequestStage {
    /// From the first byte of the head (over HTTP/2, its first frame) to its last; and reading a small body before the
    /// origin is asked.
    Parse,
    /// Deciding: routing, the key, the lookup in RAM, the rules.
    Lookup,
    /// For another request's fetch, another node's turn, or a compressed form.
    Wait,
    /// For a free reader of the disk, or a connection to the fleet.
    Queue,
    /// For the bytes of the disk, the fleet or a file.
    Read,
    /// For a connection to the origin: a permit of the pool, the handshake, and writing the head.
    Connect,
    /// For the head of the origin's response.
    FirstByte,
    /// For more of a body that is on its way from the origin.
    Body,
    /// For the client to take the response.
    Write,
}

/// The number of stages.
pub const COUNT: usize = 9;

impl RequestStage {
    /// All, in the order in which a request meets them.
    pub const ALL: [RequestStage; COUNT] = [
        RequestStage::Parse,
        RequestStage::Lookup,
        RequestStage::Wait,
        RequestStage::Queue,
        RequestStage::Read,
        RequestStage::Connect,
        RequestStage::FirstByte,
        RequestStage::Body,
        RequestStage::Write,
    ];

    /// Its name in JSON, in trace files and in `Server-Timing`: a stable interface, and a token (RFC 9110 §5.6.2).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            RequestStage::Parse => "parse",
            RequestStage::Lookup => "lookup",
            RequestStage::Wait => "wait",
            RequestStage::Queue => "queue",
            RequestStage::Read => "read",
            RequestStage::Connect => "connect",
            RequestStage::FirstByte => "first_byte",
            RequestStage::Body => "body",
            RequestStage::Write => "write",
        }
    }

    /// The stage of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<RequestStage> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Microseconds by stage, for the stages that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpentTimes {
    micros: [u64; COUNT],
    met: u16,
}

impl SpentTimes {
    /// Adds `micros` to a stage, which thereby has occurred.
    pub fn add(&mut self, stage: RequestStage, micros: u64) {
        let sum = &mut self.micros[stage as usize];
        *sum = sum.saturating_add(micros);
        self.met |= 1 << stage as u16;
    }

    /// The time of a stage; `None` where it did not occur.
    #[must_use]
    pub fn of(&self, stage: RequestStage) -> Option<u64> {
        (self.met & 1 << stage as u16 != 0).then_some(self.micros[stage as usize])
    }

    /// The stages that occurred, in their order.
    pub fn iter(&self) -> impl Iterator<Item = (RequestStage, u64)> + '_ {
        RequestStage::ALL.into_iter().filter_map(|it| self.of(it).map(|micros| (it, micros)))
    }

    /// The sum of all stages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.micros.iter().fold(0, |sum, it| sum.saturating_add(*it))
    }
}

/// The most steps of a request that are kept; further ones are left out.
const MOST_STEPS: usize = 48;

/// A step of a request, or of the fill that it started, with its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime {
    /// `request` or `fill`.
    pub machine: &'static str,
    /// The name of the step, as in the drawings of ARCHITECTURE.
    pub step: &'static str,
    /// Microseconds from the beginning of the request to the step.
    pub at: u64,
}

/// The prefix of larder's metrics in `Server-Timing`, which distinguishes them from an origin's.
pub const SERVER_TIMING_PREFIX: &str = "larder-";

/// Appends the value of a `Server-Timing` field (W3C Server Timing §3): milliseconds, with three places.
pub fn write_server_timing(spent: &SpentTimes, out: &mut Vec<u8>) {
    for (at, (stage, micros)) in spent.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(SERVER_TIMING_PREFIX.as_bytes());
        out.extend_from_slice(stage.name().as_bytes());
        out.extend_from_slice(b";dur=");
        out.extend_from_slice(itoa::Buffer::new().format(micros / 1000).as_bytes());
        let rest = micros % 1000;
        let digit = |it: u64| b'0' + u8::try_from(it % 10).unwrap_or(0);
        out.extend_from_slice(&[b'.', digit(rest / 100), digit(rest / 10), digit(rest)]);
    }
}

/// Appends a line of `Server-Timing` for a fast answer that began at `began`, by the precise clock.
pub fn append_lookup_time(began: u64, answer: &mut ResponseWriter<'_>) {
    let mut spent = SpentTimes::default();
    spent.add(RequestStage::Lookup, clock::precise_micros().saturating_sub(began));
    answer.field_with("Server-Timing", |text| write_server_timing(&spent, text));
}

/// Whether a value of `Server-Timing` was written by a larder: by the origin, where this larder writes none.
#[must_use]
pub fn is_ours(server_timing: &[u8]) -> bool {
    server_timing.get(..SERVER_TIMING_PREFIX.len()).is_some_and(|it| it == SERVER_TIMING_PREFIX.as_bytes())
}

/// Removes another larder's report about one request from a response that is about to be stored: it would be taken for
/// this larder's.
pub fn drop_ours(kept: &mut FieldList) {
    kept.retain(|it| !(it.is("server-timing") && is_ours(it.value)));
}

/// The stop watch of one request.
struct StopWatch {
    /// The first microsecond of the request, by the precise clock.
    began: u64,
    /// The time at which it entered `stage`.
    since: Cell<u64>,
    stage: Cell<RequestStage>,
    spent: Cell<SpentTimes>,
    /// Changes when the request itself continues, so that a fill's later readings no longer count.
    turn: Cell<u32>,
    /// The steps so far, at most [`MOST_STEPS`].
    steps: RefCell<Vec<StepTime>>,
}

impl StopWatch {
    fn enter(&self, stage: RequestStage) {
        let now = clock::precise_micros();
        let mut spent = self.spent.get();
        spent.add(self.stage.get(), now.saturating_sub(self.since.get()));
        self.spent.set(spent);
        self.since.set(now);
        self.stage.set(stage);
    }

    fn step(&self, machine: &'static str, step: &'static str) {
        let mut steps = self.steps.borrow_mut();
        if steps.len() < MOST_STEPS {
            steps.push(StepTime { machine, step, at: clock::precise_micros().saturating_sub(self.began) });
        }
    }
}

/// The observed durations and facts of a request.
#[derive(Clone, Copy)]
pub struct RequestObservation<'a> {
    /// The stop watch of its stages.
    pub stages: &'a Stages,
    /// Whether it is recorded: a trial of a configuration needs facts of its answer, whose hash takes time.
    pub is_recorded: bool,
}

/// The stop watch of one request, or none: then nothing is measured and no clock is read.
#[derive(Clone, Default)]
pub struct Stages(Option<Rc<StopWatch>>);

impl Stages {
    /// Measures nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self(None)
    }

    /// A watch that is now in `Lookup`. `began` is the arrival of the head's first byte, by the precise clock, and 0 for
    /// the current time.
    #[must_use]
    pub fn begin(began: u64) -> Self {
        let now = clock::precise_micros();
        let mut spent = SpentTimes::default();
        if began != 0 {
            spent.add(RequestStage::Parse, now.saturating_sub(began));
        }
        Self(Some(Rc::new(StopWatch {
            began: if began == 0 { now } else { began.min(now) },
            since: Cell::new(now),
            stage: Cell::new(RequestStage::Lookup),
            spent: Cell::new(spent),
            turn: Cell::new(0),
            steps: RefCell::default(),
        })))
    }

    /// Whether anything is measured.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// The request is in `stage` from now on, also if fills working for it report others.
    pub fn enter(&self, stage: RequestStage) {
        if let Some(watch) = &self.0 {
            watch.turn.set(watch.turn.get().wrapping_add(1));
            watch.enter(stage);
        }
    }

    /// The request is at a step of its machine.
    pub(crate) fn step(&self, step: &'static str) {
        if let Some(watch) = &self.0 {
            watch.step("request", step);
        }
    }

    /// The steps until now, in their order.
    #[must_use]
    pub fn steps(&self) -> Vec<StepTime> {
        self.0.as_ref().map(|it| it.steps.borrow().clone()).unwrap_or_default()
    }

    /// Appends a `Server-Timing` line to the fields of a response; nothing where nothing is measured.
    pub fn add_server_timing(&self, fields: &mut FieldList) {
        if let Some((_, spent)) = self.reading() {
            let mut value = Vec::with_capacity(128);
            write_server_timing(&spent, &mut value);
            fields.push("Server-Timing", value);
        }
    }

    /// For a fill that works for this request while it waits: its stages count until the request itself continues.
    #[must_use]
    pub fn of_fill(&self) -> FillStages {
        FillStages(self.0.as_ref().map(|it| (it.clone(), it.turn.get())))
    }

    /// The start of the request, by the precise clock, and its times until now; `None` where nothing is measured.
    #[must_use]
    pub fn reading(&self) -> Option<(u64, SpentTimes)> {
        let watch = self.0.as_ref()?;
        watch.enter(watch.stage.get());
        Some((watch.began, watch.spent.get()))
    }
}

/// A fill's handle to the stop watch of the request that started it; or to none.
#[derive(Clone, Default)]
pub struct FillStages(Option<(Rc<StopWatch>, u32)>);

impl FillStages {
    /// The request waits for this from now on.
    pub fn enter(&self, stage: RequestStage) {
        if let Some((watch, turn)) = &self.0
            && watch.turn.get() == *turn
        {
            watch.enter(stage);
        }
    }

    /// The fill is at a step of its machine. Steps count until the request ends.
    pub(crate) fn step(&self, step: &'static str) {
        if let Some((watch, _)) = &self.0 {
            watch.step("fill", step);
        }
    }

    /// Ends a read that was entered as `Queue`: `queued` microseconds of it were waiting, the rest reading.
    pub fn has_read(&self, queued: u64) {
        if let Some((watch, turn)) = &self.0
            && watch.turn.get() == *turn
            && watch.stage.get() == RequestStage::Queue
        {
            let now = clock::precise_micros();
            let took = now.saturating_sub(watch.since.get());
            let mut spent = watch.spent.get();
            if queued > 0 {
                spent.add(RequestStage::Queue, took.min(queued));
            }
            spent.add(RequestStage::Read, took.saturating_sub(queued));
            watch.spent.set(spent);
            watch.since.set(now);
            watch.stage.set(RequestStage::Lookup);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_that_are_off_record_nothing() {
        let stages = Stages::off();
        stages.enter(RequestStage::Wait);
        stages.of_fill().enter(RequestStage::Read);
        assert!(!stages.is_on() && stages.reading().is_none());
    }

    #[test]
    fn stages_add_up_to_the_whole() {
        let began = clock::precise_micros().max(1);
        let stages = Stages::begin(began);
        let of_fill = stages.of_fill();
        of_fill.enter(RequestStage::Queue);
        while clock::precise_micros() < began + 3_000 {}
        of_fill.has_read(1_000);
        of_fill.enter(RequestStage::Connect);
        stages.enter(RequestStage::Write);
        let written = clock::precise_micros() + 1_000;
        while clock::precise_micros() < written {}
        let (first, spent) = stages.reading().unwrap();
        assert_eq!(began, first);
        let since = clock::precise_micros() - began;
        assert!((4_000..=since).contains(&spent.total()), "{spent:?} of {since}");
        assert_eq!(Some(1_000), spent.of(RequestStage::Queue));
        assert!(
            spent.of(RequestStage::Read) >= Some(1_500) && spent.of(RequestStage::Write) >= Some(500),
            "{spent:?}"
        );
        assert_eq!(None, spent.of(RequestStage::Body), "was not met");
    }

    #[test]
    fn a_fill_without_its_request_records_no_stage() {
        let stages = Stages::begin(0);
        let of_fill = stages.of_fill();
        stages.enter(RequestStage::Write);
        of_fill.enter(RequestStage::Body);
        of_fill.has_read(5);
        let (_, spent) = stages.reading().unwrap();
        assert_eq!(None, spent.of(RequestStage::Body));
        assert_eq!(None, spent.of(RequestStage::Read));
    }

    #[test]
    fn names_are_found_again() {
        for it in RequestStage::ALL {
            assert_eq!(Some(it), RequestStage::named(it.name()));
            assert!(it.name().bytes().all(|it| it.is_ascii_lowercase() || it == b'_'), "a token");
        }
        assert_eq!(None, RequestStage::named("Parse"));
    }

    #[test]
    fn server_timing() {
        let mut spent = SpentTimes::default();
        let mut out = Vec::new();
        write_server_timing(&spent, &mut out);
        assert_eq!(b"", &*out);
        spent.add(RequestStage::FirstByte, 12_345);
        spent.add(RequestStage::Lookup, 7);
        write_server_timing(&spent, &mut out);
        assert_eq!(
            "larder-lookup;dur=0.007, larder-first_byte;dur=12.345",
            String::from_utf8(out.clone()).unwrap()
        );
        assert!(is_ours(&out) && !is_ours(b"db;dur=5, larder-x") && !is_ours(b""));
    }
}
