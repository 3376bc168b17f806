//! One scatter plot as SVG text: axes, labels, percentile lines, points by kind. The data come from `plot`.

use super::scale::{Decades, SecondsAxis, percentile, spell_micros};
use larder_stdx::html::escape;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The source of a response, which determines the colour of its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PointKind {
    /// The cache.
    Hit,
    /// The origin, or another request's fetch.
    Miss,
    /// Neither.
    Other,
}

impl PointKind {
    /// All, in the order of the legend.
    pub const ALL: [PointKind; 3] = [PointKind::Hit, PointKind::Miss, PointKind::Other];

    /// The class of the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            PointKind::Hit => "hit",
            PointKind::Miss => "miss",
            PointKind::Other => "other",
        }
    }

    /// The label in the legend.
    pub fn label(self) -> &'static str {
        match self {
            PointKind::Hit => "from the cache",
            PointKind::Miss => "from the origin",
            PointKind::Other => "from neither",
        }
    }
}

/// One point: microseconds since the first start, its duration in microseconds.
pub type Point = (u64, u64, PointKind);

/// The size of a drawing, in its own units.
#[derive(Clone, Copy, Debug)]
pub struct DrawingSize {
    pub width: u32,
    pub height: u32,
}

const LEFT: u32 = 58;
const RIGHT: u32 = 78;
const TOP: u32 = 12;
const BOTTOM: u32 = 40;
/// Percentiles with a line.
const LINES: [usize; 3] = [50, 90, 99];
/// The least distance of two labels.
const APART: f64 = 12.0;

/// Draws `points` into `out`. `title` is for screen readers.
pub fn scatter(title: &str, points: &[Point], x: &SecondsAxis, size: DrawingSize, out: &mut String) {
    let DrawingSize { width, height } = size;
    let y = Decades::of(points.iter().map(|it| it.1));
    let inner = (f64::from(width - LEFT - RIGHT), f64::from(height - TOP - BOTTOM));
    let left = |at: f64| f64::from(LEFT) + at * inner.0;
    let top = |at: f64| f64::from(TOP) + (1.0 - at) * inner.1;
    let _ =
        writeln!(out, "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{}\">", escape(title));
    let (right, bottom) = (width - RIGHT, height - BOTTOM);
    for it in y.ticks() {
        let at = top(y.at(it));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"y\" x=\"{}\" y=\"{:.1}\">{}</text>",
            LEFT - 8,
            at + 4.0,
            spell_micros(it)
        );
    }
    if y.zero > 0.0 {
        let at = top(y.at(0)) + 4.0;
        let _ = writeln!(out, "<text class=\"y\" x=\"{}\" y=\"{at:.1}\">0</text>", LEFT - 8);
    }
    for it in x.ticks() {
        let at = left(x.at(it));
        let _ = writeln!(
            out,
            "<path class=\"grid\" d=\"M{at:.1} {TOP}V{bottom}\"/><text class=\"x\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            bottom + 16,
            seconds(it, x.step)
        );
    }
    let _ = writeln!(out, "<path class=\"axis\" d=\"M{LEFT} {TOP}V{bottom}H{right}\"/>");
    let middle = left(0.5);
    let _ = writeln!(out, "<text class=\"x\" x=\"{middle:.1}\" y=\"{}\">start, seconds</text>", height - 6);
    for kind in PointKind::ALL {
        // Tenths of a unit; coinciding points are drawn once.
        #[allow(clippy::cast_possible_truncation, reason = "within the drawing")]
        let place = |(at, took, _): &Point| {
            ((left(x.at(*at)) * 10.0).round() as i64, (top(y.at(*took)) * 10.0).round() as i64)
        };
        let places: BTreeSet<(i64, i64)> = points.iter().filter(|it| it.2 == kind).map(place).collect();
        if places.is_empty() {
            continue;
        }
        let _ = write!(out, "<path class=\"dots {}\" d=\"", kind.class());
        for (x, y) in places {
            let _ = write!(out, "M{}.{} {}.{}h0", x / 10, x % 10, y / 10, y % 10);
        }
        out.push_str("\"/>\n");
    }
    lines(points, &y, right, top, out);
    out.push_str("</svg>\n");
}

/// The percentile lines, with non-overlapping labels.
fn lines(points: &[Point], y: &Decades, right: u32, top: impl Fn(f64) -> f64, out: &mut String) {
    let mut values: Vec<u64> = points.iter().map(|it| it.1).collect();
    values.sort_unstable();
    let mut lowest = f64::MAX;
    for percent in LINES {
        let Some(value) = percentile(&values, percent) else { return };
        let at = top(y.at(value));
        let label = (at + 4.0).min(lowest - APART);
        lowest = label;
        let _ = writeln!(
            out,
            "<path class=\"percentile\" d=\"M{LEFT} {at:.1}H{right}\"/><text class=\"percentile\" x=\"{}\" y=\"{label:.1}\">p{percent} {}</text>",
            right + 5,
            spell_micros(value)
        );
    }
}

/// A time of the axis, with the decimals that its steps need.
fn seconds(micros: u64, step: u64) -> String {
    let places =
        [1_000_000, 100_000, 10_000, 1_000, 100, 10].iter().position(|it| step % it == 0).unwrap_or(6);
    let (whole, rest) = (micros / 1_000_000, format!("{:06}", micros % 1_000_000));
    if places == 0 { whole.to_string() } else { format!("{whole}.{}", &rest[..places]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_seconds() {
        let check = |micros, step, expect: &str| assert_eq!(expect, seconds(micros, step));
        check(2_000_000, 1_000_000, "2");
        check(500_000, 500_000, "0.5");
        check(1_020_000, 20_000, "1.02");
        check(7, 1, "0.000007");
    }
}
