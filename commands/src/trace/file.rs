//! The format of a trace file: lines of JSON, the first of which identifies it. docs/trace-format.md documents it; larder
//! reads files of any larder with the same version of the format.

use larder_gateway::stages::{RequestStage, SpentTimes};
use serde_json::{Value, json};
use std::io::{BufRead, Read};

/// The version of the format. Incremented if a reader of the old format would misinterpret the new one.
pub const VERSION: u64 = 1;

/// The name of the field in the first line with the version.
const MARK: &str = "larder_traces";

/// The most traces that are read from a file.
const MOST: usize = 2_000_000;
/// The most bytes of a line.
const LINE: u64 = 64 * 1024;

/// One traced request, as far as it is plotted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Its beginning, microseconds since the Unix epoch.
    pub start_us: u64,
    /// The route's name.
    pub route: String,
    /// The cache result, as in the access log.
    pub cache: String,
    /// The time in each stage.
    pub spent: SpentTimes,
}

/// The content of a trace file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTraces {
    /// The requests, in the order in which they ended.
    pub samples: Vec<Sample>,
    /// The number of further traces that are missing in the file.
    pub lost: u64,
}

/// The first line, without its end. `sampling` is larder's list of routes, and readers may ignore it.
#[must_use]
pub fn header(recorded_us: u64, sampling: &Value) -> String {
    let stages: Vec<&str> = RequestStage::ALL.iter().map(|it| it.name()).collect();
    json!({ MARK: VERSION, "recorded_us": recorded_us, "stages": stages, "sampling": sampling }).to_string()
}

/// A line that reports missing traces at this place.
#[must_use]
pub fn lost(count: u64) -> String {
    json!({ "lost": count }).to_string()
}

/// Reads a trace file.
///
/// # Errors
/// One sentence, with the line: the error, and a valid form.
pub fn read(file: &mut dyn BufRead) -> Result<RecordedTraces, String> {
    let mut recorded = RecordedTraces::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let count = (&mut *file).take(LINE).read_until(b'\n', &mut line);
        let count = count.map_err(|it| format!("line {number} cannot be read: {it}"))?;
        if count == 0 && number == 1 {
            return Err(no_header("the file is empty"));
        }
        if count == 0 {
            break;
        }
        if line.pop_if(|it| *it == b'\n').is_none() {
            let why = if count as u64 == LINE { "is longer than 64 KiB" } else { "is truncated" };
            return Err(format!("line {number} {why}; a trace is one line of JSON and a line end"));
        }
        let value: Value = serde_json::from_slice(&line).map_err(|it| match number {
            1 => no_header("line 1 is not JSON"),
            _ => format!("line {number} is not JSON ({it}); a trace is one line of JSON"),
        })?;
        if number == 1 {
            check_header(&value)?;
        } else if let Some(count) = value["lost"].as_u64() {
            recorded.lost = recorded.lost.saturating_add(count);
        } else {
            recorded.samples.push(sample(&value).map_err(|why| format!("line {number} {why}"))?);
        }
        if recorded.samples.len() > MOST {
            return Err(format!("line {number} exceeds the maximum of {MOST} traces"));
        }
    }
    Ok(recorded)
}

fn no_header(why: &str) -> String {
    format!(
        "{why}; the first line of a file of traces is {{\"{MARK}\":{VERSION},…}}, as `larder trace record` writes it"
    )
}

fn check_header(value: &Value) -> Result<(), String> {
    match &value[MARK] {
        Value::Null => Err(no_header(&format!("line 1 has no \"{MARK}\""))),
        version if version.as_u64() == Some(VERSION) => Ok(()),
        version => Err(format!("line 1 has format version {version}; this larder reads version {VERSION}")),
    }
}

/// The most microseconds of a time, and of a stage: the year 2255. Sums of some of them are numbers, too.
const LATEST: u64 = 9_000_000_000_000_000;

fn sample(value: &Value) -> Result<Sample, String> {
    let micros_of = |it: &Value| it.as_u64().filter(|it| *it <= LATEST);
    let start_us = micros_of(&value["start_us"]).ok_or("has no \"start_us\", a number of microseconds")?;
    let stages =
        value["stages"].as_object().ok_or("has no \"stages\", an object of microseconds by stage")?;
    let mut spent = SpentTimes::default();
    for (name, micros) in stages {
        let stage = RequestStage::named(name).ok_or_else(|| {
            let known: Vec<&str> = RequestStage::ALL.iter().map(|it| it.name()).collect();
            format!("has a stage {name:?}; there are {}", known.join(", "))
        })?;
        let micros = micros_of(micros);
        spent.add(
            stage,
            micros.ok_or_else(|| format!("has a stage {name:?} that is not a number of microseconds"))?,
        );
    }
    let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
    Ok(Sample { start_us, route: text("route"), cache: text("cache"), spent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<(usize, u64), &str>) {
        let read = read(&mut text.as_bytes()).map(|it| (it.samples.len(), it.lost));
        assert_eq!(expect.map_err(str::to_owned), read, "{text}");
    }

    #[test]
    fn a_trace_file_is_read_as_written() {
        let head = header(5, &json!([{ "route": "*/*", "every": 100 }]));
        let trace = r#"{"id":"1","start_us":7,"route":"*/*","cache":"hit","total_us":12,"stages":{"lookup":3,"write":9},"new":1}"#;
        let text = format!("{head}\n{trace}\n{}\n{trace}\n", lost(3));
        let recorded = read(&mut text.as_bytes()).unwrap();
        assert_eq!((2, 3), (recorded.samples.len(), recorded.lost));
        let first = &recorded.samples[0];
        assert_eq!(
            (7, "*/*", "hit", 12),
            (first.start_us, &*first.route, &*first.cache, first.spent.total())
        );
        assert_eq!(
            (Some(9), None),
            (first.spent.of(RequestStage::Write), first.spent.of(RequestStage::Read))
        );
        let golden = r#"{"larder_traces":1,"recorded_us":5,"stages":["parse","lookup","wait","queue","read","connect","first_byte","body","write"],"sampling":[{"route":"*/*","every":100}]}"#;
        assert_eq!(golden, head, "the form of version 1 does not change");
    }

    #[test]
    fn a_file_without_traces_is_rejected_in_one_sentence() {
        let head = "{\"larder_traces\":1}\n";
        let first = "the first line of a file of traces is {\"larder_traces\":1,…}, as `larder trace record` writes it";
        check("", Err(&format!("the file is empty; {first}")));
        check("start,queue\n1,2\n", Err(&format!("line 1 is not JSON; {first}")));
        check("[1]\n", Err(&format!("line 1 has no \"larder_traces\"; {first}")));
        check("{\"larder_traces\":2}\n", Err("line 1 has format version 2; this larder reads version 1"));
        check(
            "{\"larder_traces\":\"x\"}\n",
            Err("line 1 has format version \"x\"; this larder reads version 1"),
        );
        check(head, Ok((0, 0)));
        let line = |text: &str| format!("{head}{text}\n");
        check(&line("{}"), Err("line 2 has no \"start_us\", a number of microseconds"));
        for start in ["-1", "18446744073709551615"] {
            let text = format!("{{\"start_us\":{start}}}");
            check(&line(&text), Err("line 2 has no \"start_us\", a number of microseconds"));
        }
        check(
            &line(r#"{"start_us":1,"stages":{"read":18446744073709551615}}"#),
            Err("line 2 has a stage \"read\" that is not a number of microseconds"),
        );
        check(
            &line(r#"{"start_us":1}"#),
            Err("line 2 has no \"stages\", an object of microseconds by stage"),
        );
        check(
            &line(r#"{"start_us":1,"stages":{"nap":1}}"#),
            Err(
                "line 2 has a stage \"nap\"; there are parse, lookup, wait, queue, read, connect, first_byte, body, write",
            ),
        );
        check(
            &line(r#"{"start_us":1,"stages":{"read":"x"}}"#),
            Err("line 2 has a stage \"read\" that is not a number of microseconds"),
        );
        let cut = format!("{head}{{\"start_us\":1");
        check(&cut, Err("line 2 is truncated; a trace is one line of JSON and a line end"));
        check(
            &line(&" ".repeat(70_000)),
            Err("line 2 is longer than 64 KiB; a trace is one line of JSON and a line end"),
        );
    }

    proptest::proptest! {
        /// Whatever a file holds is read or refused.
        #[test]
        fn reading_any_bytes_as_traces_does_not_panic(bytes in proptest::collection::vec(proptest::arbitrary::any::<u8>(), 0..300), with in proptest::arbitrary::any::<bool>()) {
            let mut text = if with { b"{\"larder_traces\":1}\n".to_vec() } else { Vec::new() };
            text.extend(bytes);
            let _ = read(&mut &text[..]);
        }
    }
}
