//! The text of a time in the lines of logs.

use larder_stdx::clock::WallTime;
use std::fmt::Write as _;

/// The text of the last second: it is formatted once per second, not once per line.
#[derive(Debug, Default)]
pub struct Stamp {
    second: Option<WallTime>,
    common: String,
    rfc3339: String,
}

impl Stamp {
    /// `21/Nov/2026:07:42:06 +0000`.
    pub fn common(&mut self, time: WallTime) -> &[u8] {
        self.spell(time);
        self.common.as_bytes()
    }

    /// `2026-11-21T07:42:06Z`.
    pub fn rfc3339(&mut self, time: WallTime) -> &[u8] {
        self.spell(time);
        self.rfc3339.as_bytes()
    }

    fn spell(&mut self, time: WallTime) {
        const MONTHS: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        if self.second == Some(time) {
            return;
        }
        self.second = Some(time);
        let (year, month, day) = civil(time.0 / 86_400);
        let (hour, minute, second) = (time.0 / 3600 % 24, time.0 / 60 % 60, time.0 % 60);
        let name =
            usize::try_from(month).ok().and_then(|it| MONTHS.get(it.wrapping_sub(1))).unwrap_or(&"???");
        self.common.clear();
        self.rfc3339.clear();
        let _ = write!(self.common, "{day:02}/{name}/{year:04}:{hour:02}:{minute:02}:{second:02} +0000");
        let _ = write!(self.rfc3339, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    }
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar. Years are counted
/// from March, so that the leap day is the last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // Since 0000-03-01.
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}
