//! Plots a trace file as one HTML page without scripts: the start of each request against its waiting time, in total and
//! stage by stage. Modelled on the plots of lighttpd's `LOG_TIMING` patch.

use super::file::{self, RecordedTraces};
use super::scale::{SecondsAxis, percentile, spell_micros};
use super::svg::{self, DrawingSize, Point, PointKind};
use crate::cli;
use larder_gateway::stages::{RequestStage, SpentTimes};
use larder_semantics::date;
use larder_stdx::clock::WallTime;
use larder_stdx::error::plain;
use larder_stdx::html::escape;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::path::Path;

const WIDE: DrawingSize = DrawingSize { width: 1120, height: 300 };
const SMALL: DrawingSize = DrawingSize { width: 380, height: 230 };

/// The sums with a wide plot: title, explanation, stages.
const SUMS: [(&str, &str, &[RequestStage]); 4] = [
    ("Queue wait", "waiting for a disk reader thread, or for the queue of the fleet", &[RequestStage::Queue]),
    (
        "Queue wait + read",
        "until the data of a lower tier or a file was read",
        &[RequestStage::Queue, RequestStage::Read],
    ),
    (
        "Queue wait + read + write",
        "and until the client had received the response",
        &[RequestStage::Queue, RequestStage::Read, RequestStage::Write],
    ),
    (
        "Whole request",
        "all stages, from the first byte of the request head to the last byte of the response",
        &RequestStage::ALL,
    ),
];

/// Plots the named file, and returns a message with the place of the page.
///
/// # Errors
/// One sentence: the file cannot be read or is not a trace file, or the page cannot be written.
pub fn run(order: &cli::Plot) -> Result<String, String> {
    let cannot = |path: &Path, what: &str, it: &std::io::Error| {
        format!("{} cannot be {what}: {}.", path.display(), plain(it))
    };
    let file = File::open(&order.file).map_err(|it| cannot(&order.file, "read", &it))?;
    let recorded =
        file::read(&mut BufReader::new(file)).map_err(|it| format!("{}: {it}.", order.file.display()))?;
    let name = order.file.file_name().map_or_else(String::new, |it| it.to_string_lossy().into_owned());
    let page = page(&recorded, &name);
    let count = recorded.samples.len();
    if order.out == Path::new("-") {
        // The reader of the output may have gone.
        let _ = std::io::stdout().lock().write_all(page.as_bytes());
        return Ok(format!("plotted {count} requests."));
    }
    std::fs::write(&order.out, page).map_err(|it| cannot(&order.out, "written", &it))?;
    Ok(format!("plotted {count} requests in {}.", order.out.display()))
}

/// The page.
#[must_use]
pub fn page(recorded: &RecordedTraces, title: &str) -> String {
    let samples = &recorded.samples;
    let first = samples.iter().map(|it| it.start_us).min().unwrap_or(0);
    let last = samples.iter().map(|it| it.start_us).max().unwrap_or(0);
    let length = last - first;
    let mut out = String::with_capacity(256 * 1024);
    let title = escape(title);
    let _ = writeln!(
        out,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>"
    );
    let lost = match recorded.lost {
        0 => String::new(),
        lost => format!("; {lost} more were dropped while recording"),
    };
    let _ = writeln!(
        out,
        "<p>{} traced requests in {}, from {}{lost}.</p>",
        samples.len(),
        spell_micros(length),
        date::format(WallTime(first / 1_000_000))
    );
    if samples.is_empty() {
        out.push_str("<p>No traces to plot.</p>\n</body>\n</html>\n");
        return out;
    }
    legend(&mut out);
    routes(recorded, &mut out);
    let points = |value_of: &dyn Fn(&SpentTimes) -> Option<u64>| -> Vec<Point> {
        let point =
            |it: &super::file::Sample| Some((it.start_us - first, value_of(&it.spent)?, kind(&it.cache)));
        samples.iter().filter_map(point).collect()
    };
    for (title, tells, stages) in SUMS {
        let sum = |it: &SpentTimes| Some(stages.iter().filter_map(|stage| it.of(*stage)).sum());
        let _ = writeln!(out, "<section>\n<h2>{title}</h2>\n<p>{tells}</p>");
        svg::scatter(title, &points(&sum), &SecondsAxis::new(length, 12), WIDE, &mut out);
        out.push_str("</section>\n");
    }
    out.push_str("<h2>By stage</h2>\n<p>Only requests that entered the stage.</p>\n<div class=\"stages\">\n");
    for stage in RequestStage::ALL {
        let points = points(&|it| it.of(stage));
        let (name, count) = (stage.name(), points.len());
        let _ = writeln!(
            out,
            "<section>\n<h3>{name}</h3>\n<p>{} <span>{count} requests</span></p>",
            description(stage)
        );
        if points.is_empty() {
            out.push_str("<p class=\"none\">No request entered this stage.</p>\n");
        } else {
            svg::scatter(name, &points, &SecondsAxis::new(length, 5), SMALL, &mut out);
        }
        out.push_str("</section>\n");
    }
    out.push_str("</div>\n</body>\n</html>\n");
    out
}

fn kind(cache: &str) -> PointKind {
    match cache {
        "hit" | "hit-disk" | "hit-fleet" | "hit-stale" | "overlay" => PointKind::Hit,
        "" | "only-if-cached" => PointKind::Other,
        _ => PointKind::Miss,
    }
}

fn description(stage: RequestStage) -> &'static str {
    match stage {
        RequestStage::Parse => "from the accept, or the first byte, to the complete head",
        RequestStage::Lookup => "cache decision and lookup in RAM",
        RequestStage::Wait => "waiting for a shared fetch, another node or an encoding",
        RequestStage::Queue => "waiting for a disk reader thread or the fleet",
        RequestStage::Read => "reading from disk, fleet or file",
        RequestStage::Connect => "waiting for a connection to the origin",
        RequestStage::FirstByte => "waiting for the response head of the origin",
        RequestStage::Body => "waiting for the response body of the origin",
        RequestStage::Write => "waiting for the client to read",
    }
}

fn legend(out: &mut String) {
    out.push_str("<p class=\"legend\">");
    for it in PointKind::ALL {
        let _ = write!(
            out,
            "<svg viewBox=\"0 0 10 10\" aria-hidden=\"true\"><path class=\"dots {}\" d=\"M5 5h0\"/></svg>{} ",
            it.class(),
            it.label()
        );
    }
    out.push_str("</p>\n");
}

/// A table: for each route the number and the durations.
fn routes(recorded: &RecordedTraces, out: &mut String) {
    let mut routes: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for it in &recorded.samples {
        routes.entry(&it.route).or_default().push(it.spent.total());
    }
    out.push_str("<table>\n<tr><th>route</th><th>requests</th><th>p50</th><th>p90</th><th>p99</th><th>longest</th></tr>\n");
    for (route, mut totals) in routes {
        totals.sort_unstable();
        let _ = write!(out, "<tr><td>{}</td><td>{}</td>", escape(route), totals.len());
        for percent in [50, 90, 99, 100] {
            let _ = write!(
                out,
                "<td>{}</td>",
                percentile(&totals, percent).map_or_else(String::new, spell_micros)
            );
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table>\n");
}

/// Both themes have a contrast of at least 4.5 for text, and of 3 for points.
const STYLE: &str = "\
:root { color-scheme: light dark; --back: #fff; --text: #1c2430; --soft: #596273; --grid: #e6e9ee; --axis: #9aa3b2;
  --hit: #1668c7; --miss: #c4510f; --other: #6b7280; --line: #8b1a5c; }
@media (prefers-color-scheme: dark) { :root { --back: #12161c; --text: #e4e8ef; --soft: #9ba5b5; --grid: #262d38; --axis: #5b6677;
  --hit: #5aa9ff; --miss: #ff9a57; --other: #a3acba; --line: #f08ac6; } }
body { background: var(--back); color: var(--text); font: 15px/1.45 system-ui, sans-serif; max-width: 1160px; margin: 2em auto; padding: 0 20px; }
h1 { font-size: 1.5em; margin: 0; } h2 { font-size: 1.15em; margin: 1.6em 0 0; } h3 { font-size: 1em; margin: 0; }
p { color: var(--soft); margin: 0.2em 0 0.6em; } section p span { float: right; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: 2px 14px 2px 0; border-bottom: 1px solid var(--grid); } th { color: var(--soft); font-weight: 500; }
th:first-child, td:first-child { text-align: left; }
.stages { display: grid; grid-template-columns: repeat(auto-fill, minmax(340px, 1fr)); gap: 22px; }
.none { padding: 3em 0; text-align: center; }
svg { display: block; width: 100%; height: auto; }
.legend svg { display: inline-block; width: 0.9em; height: 0.9em; margin: 0 0.3em 0 0.9em; vertical-align: -0.1em; }
.legend .dots { stroke-width: 8; stroke-opacity: 1; }
svg text { fill: var(--soft); font: 11px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
.x { text-anchor: middle; } .y { text-anchor: end; }
.grid { stroke: var(--grid); } .axis { stroke: var(--axis); fill: none; }
.dots { fill: none; stroke-width: 4; stroke-linecap: round; stroke-opacity: 0.7; }
.hit { stroke: var(--hit); } .miss { stroke: var(--miss); } .other { stroke: var(--other); }
path.percentile { stroke: var(--line); stroke-dasharray: 5 4; } text.percentile { fill: var(--line); }
";

#[cfg(test)]
mod tests {
    use super::super::picture::{golden, is_golden};
    use super::*;

    #[test]
    fn a_fixed_file_gives_the_golden_page() {
        let text = std::fs::read(golden("traces.jsonl")).unwrap();
        let recorded = file::read(&mut &text[..]).unwrap();
        assert!(recorded.samples.len() >= 200 && recorded.lost == 7, "the file has what is to be drawn");
        let page = page(&recorded, "traces.jsonl");
        is_golden("traces.html", &page);
        assert!(
            !page.contains("<script") && !page.contains("http://") && !page.contains("https://"),
            "stands alone"
        );
        for stage in RequestStage::ALL {
            assert!(page.contains(&format!("<h3>{}</h3>", stage.name())));
        }
    }

    #[test]
    fn a_plot_without_traces_and_with_names_that_look_like_html() {
        assert!(page(&RecordedTraces::default(), "none").contains("No traces to plot."));
        let text = "{\"larder_traces\":1}\n{\"start_us\":7,\"route\":\"<b>&\",\"cache\":\"hit\",\"stages\":{\"lookup\":0}}\n";
        let recorded = file::read(&mut text.as_bytes()).unwrap();
        let page = page(&recorded, "<i>");
        assert!(page.contains("&lt;b&gt;&amp;") && page.contains("<title>&lt;i&gt;</title>"), "{page}");
        assert!(!page.contains("NaN") && !page.contains("inf"), "{page}");
    }
}
