//! Medians, spreads and paired ratios of a few rounds, and whether a ratio keeps its bound.
//!
//! A ratio is taken within each round, where the two lanes ran a second apart, and the median of those
//! is reported: the machine's own speed drifts between rounds, and such a drift cancels.

/// The middle value; the mean of the two middle ones for an even count; `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|it| it.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    sorted.get(sorted.len() / 2 - 1).map(|lower| f64::midpoint(*lower, upper))
}

/// Half of the distance between the largest and the smallest, as a share of the median.
pub fn spread(values: &[f64]) -> Option<f64> {
    let middle = median(values)?;
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(*it), high.max(*it)));
    Some((high - low) / 2.0 / middle)
}

/// The median of `over / under`, round by round.
pub fn paired_ratio(over: &[f64], under: &[f64]) -> Option<f64> {
    let ratios: Vec<f64> = over.iter().zip(under).map(|(over, under)| over / under).collect();
    median(&ratios)
}

/// The condition for a figure to reach its target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// Between the two, both included.
    Between(f64, f64),
}

/// Whether a figure reaches its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Reached,
    /// It does not.
    Missed,
    /// One of the lanes did not run.
    NotMeasured,
}

impl Bound {
    /// Compares `figure` with the bound.
    pub fn judge(self, figure: Option<f64>) -> Verdict {
        let Some(figure) = figure else { return Verdict::NotMeasured };
        let reached = match self {
            Bound::AtLeast(least) => figure >= least,
            Bound::AtMost(most) => figure <= most,
            Bound::Between(least, most) => (least..=most).contains(&figure),
        };
        if reached { Verdict::Reached } else { Verdict::Missed }
    }
}

impl std::fmt::Display for Bound {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Bound::AtLeast(least) => write!(out, "≥ {least}"),
            Bound::AtMost(most) => write!(out, "≤ {most}"),
            Bound::Between(least, most) => write!(out, "{least} … {most}"),
        }
    }
}

impl Verdict {
    /// Its word in the tables.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Reached => "reached",
            Verdict::Missed => "missed",
            Verdict::NotMeasured => "not measured",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(None, median(&[]));
        assert_eq!(Some(3.0), median(&[9.0, 1.0, 3.0]));
        assert_eq!(Some(2.0), median(&[9.0, 1.0, 3.0, 1.0]));
        assert_eq!(Some(5.0), median(&[f64::NAN, 5.0]), "what could not be measured does not count");
        assert_eq!(Some(0.25), spread(&[4.0, 3.0, 5.0]));
    }

    #[test]
    fn a_drift_of_the_machine_cancels() {
        assert_eq!(Some(2.0), paired_ratio(&[2.0, 20.0, 200.0], &[1.0, 10.0, 100.0]));
        assert_eq!(None, paired_ratio(&[1.0], &[]));
    }

    #[test]
    fn bounds() {
        assert_eq!(Verdict::Reached, Bound::AtLeast(1.15).judge(Some(1.15)));
        assert_eq!(Verdict::Missed, Bound::AtMost(2048.0).judge(Some(2049.0)));
        assert_eq!(Verdict::Missed, Bound::Between(0.98, 1.02).judge(Some(1.03)));
        assert_eq!(Verdict::NotMeasured, Bound::AtLeast(1.0).judge(None));
    }
}
