//! The figures as JSON and as Markdown.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::cases::{Claim, Lane, Of, Origin};
use crate::idle::{Figures, OpenSocket};
use crate::load::{Manner, Sample};
use crate::million::Purged;
use crate::overload::{self, Overloaded, Point};
use crate::passwords::Passwords;
use crate::run::{Finished, Outcome, middle};
use crate::statistics::{Bound, Verdict, median, spread};
use crate::stopped::Stopped;

/// All results of a run.
#[derive(Debug)]
pub struct Report {
    /// The day, as 2026-01-31.
    pub date: String,
    /// The result of `machine::describe`.
    pub machine: Value,
    /// How it was run: the command line.
    pub command: String,
    /// Rounds and seconds of a turn.
    pub turns: (u32, u32),
    /// The share of the machine that other processes used meanwhile.
    pub others: f64,
    /// The cases.
    pub cases: Vec<Finished>,
    /// The servers with idle connections; empty where not requested.
    pub idle: Vec<OpenSocket>,
    /// One of three memcached servers stopped, where requested.
    pub stopped: Option<Result<Stopped, String>>,
    /// Servers with an overloaded application; empty where not requested.
    pub overload: Overloaded,
    /// Passwords during hits, where requested.
    pub passwords: Option<Result<Passwords, String>>,
    /// A million responses purged, where requested.
    pub million: Option<Result<Purged, String>>,
}

/// One line of the table of targets.
struct Line {
    case: String,
    claim: String,
    bound: Option<Bound>,
    figure: Option<f64>,
    verdict: Verdict,
}

/// The most resident bytes that an idle connection may add.
const IDLE_BYTES: Bound = Bound::AtMost(2048.0);
/// Origin CPU per request, in µs, up to which a cache counts as answering by itself.
const ORIGIN_QUIET_US: f64 = 0.2;
/// The most that idle connections may add to a request's CPU time.
const IDLE_EFFECT: Bound = Bound::AtMost(1.03);
/// How much the p99 of pages may rise whose server is not the stopped one.
const STOPPED_EFFECT: Bound = Bound::AtMost(1.05);

impl Report {
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for finished in &self.cases {
            for claim in &finished.case.claims {
                let (figure, verdict) = finished.judge(claim);
                let case = finished.case.title.to_owned();
                lines.push(Line { case, claim: sentence(claim), bound: claim.bound, figure, verdict });
            }
        }
        for (name, figures) in &self.idle {
            let ours = *name == "larder";
            let figures = figures.as_ref().ok();
            let case = format!("{} idle keep-alive connections", figures.map_or(0, |it| it.held));
            for (claim, bound, figure) in [
                ("resident bytes each", IDLE_BYTES, figures.map(|it| it.bytes_each)),
                (
                    "CPU per request of 20 busy ones, with ÷ without",
                    IDLE_EFFECT,
                    figures.and_then(Figures::effect),
                ),
            ] {
                let (case, claim) = (case.clone(), format!("{name}: {claim}"));
                let verdict = bound.judge(figure);
                lines.push(Line { case, claim, bound: ours.then_some(bound), figure, verdict });
            }
        }
        if let Some(stopped) = &self.stopped {
            let case = "hits of the fleet, one of three memcacheds stopped".to_owned();
            let claim = "p99 of keys on the others, with ÷ without".to_owned();
            let figure = stopped.as_ref().ok().and_then(Stopped::effect);
            let (bound, verdict) = (Some(STOPPED_EFFECT), STOPPED_EFFECT.judge(figure));
            lines.push(Line { case, claim, bound, figure, verdict });
        }
        for (claim, bound, figure, verdict) in overload::judged(&self.overload) {
            let case = "an application that is asked for four times what it can do".to_owned();
            lines.push(Line { case, claim, bound, figure, verdict });
        }
        if let Some(seen) = &self.passwords {
            for (claim, bound, figure, verdict) in Passwords::judged(seen.as_ref().ok()) {
                let case = "passwords (argon2id) beside 2,000 hits a second".to_owned();
                lines.push(Line { case, claim, bound: Some(bound), figure, verdict });
            }
        }
        if let Some(seen) = &self.million {
            for (claim, bound, figure, verdict) in Purged::judged(seen.as_ref().ok()) {
                let case = "a purge of a million responses under one tag".to_owned();
                lines.push(Line { case, claim, bound: Some(bound), figure, verdict });
            }
        }
        lines
    }

    /// All samples and all comparisons.
    pub fn json(&self) -> Value {
        let cases: Vec<Value> = self.cases.iter().map(case_json).collect();
        let targets: Vec<Value> = self.lines().iter().map(line_json).collect();
        let idle: Vec<Value> = self.idle.iter().map(|(name, figures)| idle_json(name, figures)).collect();
        json!({
            "date": self.date, "machine": self.machine, "command": self.command,
            "rounds": self.turns.0, "seconds": self.turns.1, "share_of_machine_used_by_others": self.others,
            "targets": targets, "cases": cases, "idle": idle,
            "million": self.million.as_ref().and_then(|it| it.as_ref().ok()).map(Purged::json),
            "overload": self.overload.iter().map(|(name, points)| overload_json(name, points)).collect::<Vec<_>>(),
        })
    }

    /// Tables: the targets first, then every lane of every case.
    pub fn markdown(&self) -> String {
        let mut out = String::new();
        let machine = |name: &str| self.machine[name].to_string().trim_matches('"').to_owned();
        let _ = writeln!(
            out,
            "Measured {} at revision {} with `{}`: {} rounds of {} s. {}, {} cores, Linux {}, congestion control {}; other processes used {:.0} % \
             of the machine meanwhile.\n",
            self.date,
            machine("revision"),
            self.command,
            self.turns.0,
            self.turns.1,
            machine("processor"),
            machine("cores"),
            machine("kernel"),
            machine("congestion"),
            100.0 * self.others
        );
        if let Some(versions) = self.machine["versions"].as_object() {
            let all: Vec<String> =
                versions.values().filter_map(|it| it.as_str()).map(str::to_owned).collect();
            let _ = writeln!(out, "Versions: {}.\n", all.join("; "));
        }
        out.push_str("| case | compared | target | measured | |\n|---|---|---|---|---|\n");
        for line in self.lines() {
            let bound = line.bound.map_or("–".to_owned(), |it| it.to_string());
            let verdict = line.bound.map_or("", |_| line.verdict.word());
            let figure = number(line.figure);
            let _ = writeln!(out, "| {} | {} | {bound} | {figure} | {verdict} |", line.case, line.claim);
        }
        out.push_str(MISSES);
        for finished in &self.cases {
            case_markdown(&mut out, finished);
        }
        if !self.overload.is_empty() {
            overload_markdown(&mut out, &self.overload);
        }
        if let Some(seen) = &self.passwords {
            let sentence =
                seen.as_ref().map_or_else(|why| format!("not measured: {why}"), Passwords::sentence);
            let _ = writeln!(out, "\n#### Passwords\n\n{sentence}");
        }
        if let Some(seen) = &self.million {
            let sentence = seen.as_ref().map_or_else(|why| format!("not measured: {why}"), Purged::sentence);
            let _ = writeln!(out, "\n#### A purge of a million responses\n\n{sentence}");
        }
        out
    }
}

/// Where misses are explained.
const MISSES: &str =
    "\nFor missed targets, rejected changes and the distribution of the time see [profile.md](profile.md).\n";

fn sentence(claim: &Claim) -> String {
    let Claim { lane, against, .. } = claim;
    match claim.of {
        Of::PerCpu => format!("requests per CPU-second, {lane} ÷ {against}"),
        Of::PerWholeCpu => format!("requests per CPU-second of all processes, {lane} ÷ {against}"),
        Of::Rate => format!("requests per second, {lane} ÷ {against}"),
        Of::Scaling => format!("twice CPU per request, {against} ÷ {lane}"),
        Of::Errors => format!("errors of {lane}"),
    }
}

/// Three significant digits, or whole where larger.
fn number(figure: Option<f64>) -> String {
    match figure {
        None => "–".to_owned(),
        Some(it) if it >= 100.0 => format!("{it:.0}"),
        Some(it) if it >= 10.0 => format!("{it:.1}"),
        Some(it) => format!("{it:.2}"),
    }
}

fn case_markdown(out: &mut String, finished: &Finished) {
    let _ = writeln!(out, "\n### {}\n", finished.case.title);
    out.push_str("| server | CPU µs per request | ± | requests/s | 99 % within µs | errors |\n|---|---|---|---|---|---|\n");
    for (lane, outcome) in finished.case.lanes.iter().zip(&finished.outcomes) {
        if let Outcome::Absent(why) = outcome {
            let why = why.replace('|', "/");
            let _ = writeln!(out, "| {} | not measured: {} | | | | |", lane.name, why.trim());
            continue;
        }
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            lane_name(finished, lane, outcome),
            number(middle(outcome, Sample::cpu_us)),
            spread(&outcome.each(Sample::cpu_us)).map_or("–".into(), |it| format!("{:.0} %", 100.0 * it)),
            number(middle(outcome, Sample::rate)),
            number(median(&outcome.each(latency)).filter(|it| *it > 0.0)),
            outcome.errors(),
        );
    }
}

/// The lane, marked where a cache that should answer by itself kept the origin busy.
fn lane_name(finished: &Finished, lane: &Lane, outcome: &Outcome) -> String {
    let origin = middle(outcome, Sample::origin_us).unwrap_or(0.0);
    match finished.case.origin {
        Origin::Storable if lane.manner != Manner::Distinct && origin > ORIGIN_QUIET_US => {
            format!("{} (asked the origin too)", lane.name)
        }
        _ => lane.name.to_owned(),
    }
}

#[allow(clippy::cast_precision_loss, reason = "microseconds of some seconds")]
fn latency(sample: &Sample) -> f64 {
    sample.latency_us.1 as f64
}

fn line_json(line: &Line) -> Value {
    json!({
        "case": line.case, "claim": line.claim, "measured": line.figure,
        "target": line.bound.map(|it| it.to_string()), "verdict": line.bound.map(|_| line.verdict.word()),
    })
}

fn case_json(finished: &Finished) -> Value {
    let lanes: Vec<Value> = finished
        .case
        .lanes
        .iter()
        .zip(&finished.outcomes)
        .map(|(lane, outcome)| match outcome {
            Outcome::Absent(why) => json!({ "lane": lane.name, "absent": why }),
            Outcome::Measured(samples) => json!({
                "lane": lane.name,
                "server": format!("{:?}", lane.server),
                "connections": lane.connections,
                "manner": format!("{:?}", lane.manner),
                "cpu_us": middle(outcome, Sample::cpu_us),
                "origin_cpu_us": middle(outcome, Sample::origin_us),
                "requests_per_second": middle(outcome, Sample::rate),
                "errors": outcome.errors(),
                "samples": samples.iter().map(sample_json).collect::<Vec<_>>(),
            }),
        })
        .collect();
    json!({ "name": finished.case.name, "title": finished.case.title, "bytes": finished.case.page, "lanes": lanes })
}

fn sample_json(it: &Sample) -> Value {
    json!({
        "requests": it.requests, "seconds": it.seconds, "bytes": it.bytes, "errors": it.errors,
        "cpu_us": it.cpu_us(), "origin_cpu_us": it.origin_us(),
        "latency_us": { "p50": it.latency_us.0, "p99": it.latency_us.1 },
    })
}

fn idle_json(name: &str, figures: &Result<Figures, String>) -> Value {
    match figures {
        Err(why) => json!({ "server": name, "absent": why }),
        Ok(it) => json!({
            "server": name, "held": it.held, "resident_bytes_each": it.bytes_each, "effect": it.effect(),
            "without": it.without.iter().map(sample_json).collect::<Vec<_>>(),
            "with": it.with.iter().map(sample_json).collect::<Vec<_>>(),
        }),
    }
}

fn overload_json(name: &str, points: &Result<Vec<Point>, String>) -> Value {
    let seen = |it: &overload::Seen| {
        json!({
            "per_second": it.good, "refused": it.refused, "late": it.late,
            "latency_us": { "p50": it.micros.0, "p99": it.micros.1 },
        })
    };
    let point = |it: &Point| json!({ "load": it.load, "misses": seen(&it.misses), "hits": seen(&it.hits) });
    match points {
        Err(why) => json!({ "server": name, "absent": why }),
        Ok(all) => json!({ "server": name, "points": all.iter().map(point).collect::<Vec<_>>() }),
    }
}

/// The curve: a row for each server and load.
fn overload_markdown(out: &mut String, all: &Overloaded) {
    out.push_str(
        "\n### An overloaded application\n\nLoad is a multiple of the application's capacity; for each miss three \
         hits are sent. A response after more than a second counts as late.\n\n\
         | server | load | misses/s | half within ms | 99 % within ms | refused | late | hits/s | half within µs | 99 % within µs |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (name, points) in all {
        let points = match points {
            Ok(points) => points,
            Err(why) => {
                let _ = writeln!(
                    out,
                    "| {name} | not measured: {} | | | | | | | | |",
                    why.replace('|', "/").trim()
                );
                continue;
            }
        };
        for Point { load, misses, hits } in points {
            let _ = writeln!(
                out,
                "| {name} | {load} | {:.0} | {} | {} | {} | {} | {:.0} | {} | {} |",
                misses.good,
                misses.micros.0 / 1000,
                misses.micros.1 / 1000,
                misses.refused + hits.refused,
                misses.late + hits.late,
                hits.good,
                hits.micros.0,
                hits.micros.1,
            );
        }
    }
}

/// Puts `table` between the two marks of the page `text`, or at its end where it has none.
pub fn insert(text: &str, table: &str) -> String {
    const BEGIN: &str = "<!-- figures: written by make bench -->";
    const END: &str = "<!-- end of figures -->";
    let before = text.split_once(BEGIN).map_or(text, |it| it.0);
    let after = text.split_once(END).map_or("\n", |it| it.1);
    format!("{}\n\n{BEGIN}\n\n{}\n\n{END}{after}", before.trim_end(), table.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::all;

    fn report() -> Report {
        let sample = Sample { requests: 1000, seconds: 1.0, cpu_ns: 5_000_000, ..Sample::default() };
        let finished = |case: crate::cases::Case| {
            let mut outcomes = vec![Outcome::Measured(vec![sample; 3]); case.lanes.len()];
            outcomes[1] = Outcome::Absent("not installed | at all".into());
            Finished { case, outcomes }
        };
        Report {
            date: "2026-01-31".into(),
            machine: json!({ "processor": "P", "cores": 2, "kernel": "6", "congestion": "cubic", "versions": { "nginx": "1.22" }, "revision": "abc" }),
            command: "make bench".into(),
            turns: (3, 1),
            others: 0.25,
            cases: all().into_iter().map(finished).collect(),
            stopped: None,
            overload: vec![("larder", Err("not built".into()))],
            passwords: Some(Err("not built".into())),
            million: Some(Err("not built".into())),
            idle: vec![("larder", Err("not built".into()))],
        }
    }

    #[test]
    fn every_target_of_every_case_is_in_both_forms() {
        let report = report();
        let (json, text) = (report.json(), report.markdown());
        let claims: usize = report.cases.iter().map(|it| it.case.claims.len()).sum();
        assert_eq!(claims + 2 + 3 + 2 + 3, json["targets"].as_array().unwrap().len());
        for finished in &report.cases {
            assert!(text.contains(finished.case.title), "{text}");
        }
        assert!(text.contains("not measured: not installed / at all"), "{text}");
        assert!(text.contains("| ≥ 1.15 | 1.00 | missed |"), "{text}");
        assert!(text.contains("](profile.md)"), "{text}");
        assert!(text.contains("other processes used 25 %"), "{text}");
    }

    #[test]
    fn the_table_replaces_the_last_one() {
        let once = insert("# Page\n\nProse.\n", "first");
        let twice = insert(&format!("{once}More prose.\n"), "second");
        assert!(
            twice.contains("Prose.") && twice.contains("second") && twice.contains("More prose."),
            "{twice}"
        );
        assert!(!twice.contains("first"), "{twice}");
    }

    #[test]
    fn numbers_are_short() {
        let cases = [(0.123, "0.12"), (7.654, "7.65"), (76.54, "76.5"), (85_000.4, "85000")];
        for (figure, text) in cases {
            assert_eq!(text, number(Some(figure)));
        }
        assert_eq!("–", number(None));
    }
}
