//! Dates and times of databases in the forms of RFC 3339 and ISO 8601.

use std::fmt::Write as _;

/// Microseconds of a day.
pub const DAY_MICROS: i64 = 86_400_000_000;

/// Appends the date that is this number of days after 1970-01-01. Years above 9999 have a sign, as in ISO 8601.
pub fn write_date(days: i64, out: &mut String) {
    // The civil calendar from days; the era of 400 years begins on 0000-03-01.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let _ = match year {
        0..=9999 => write!(out, "{year:04}-{month:02}-{day:02}"),
        _ => write!(out, "{year:+05}-{month:02}-{day:02}"),
    };
}

/// Appends a time of day, or a span of hours, minutes and seconds, with the fraction that it has. A negative one has a sign.
pub fn write_time(micros: i64, out: &mut String) {
    let (sign, micros) = if micros < 0 { ("-", micros.unsigned_abs()) } else { ("", micros.unsigned_abs()) };
    let seconds = micros / 1_000_000;
    let (hours, minutes) = (seconds / 3_600, seconds / 60 % 60);
    let _ = write!(out, "{sign}{hours:02}:{minutes:02}:{:02}", seconds % 60);
    write_fraction(micros % 1_000_000, out);
}

/// Appends the fraction of a second without zeros at its end; nothing for a whole second.
pub fn write_fraction(micros: u64, out: &mut String) {
    if micros > 0 {
        let _ = write!(out, ".{micros:06}");
        out.truncate(out.trim_end_matches('0').len());
    }
}

/// Appends a span of time in the form of ISO 8601: `P1Y2M3DT4H5M6.5S`.
pub fn write_interval(months: i32, days: i32, micros: i64, out: &mut String) {
    out.push('P');
    let begin = out.len();
    for (number, unit) in [(months / 12, 'Y'), (months % 12, 'M'), (days, 'D')] {
        if number != 0 {
            let _ = write!(out, "{number}{unit}");
        }
    }
    if micros != 0 {
        out.push('T');
        let seconds = micros / 1_000_000;
        for (number, unit) in [(seconds / 3_600, 'H'), (seconds / 60 % 60, 'M')] {
            if number != 0 {
                let _ = write!(out, "{number}{unit}");
            }
        }
        if micros % 60_000_000 != 0 {
            let sign = if micros < 0 { "-" } else { "" };
            let _ = write!(out, "{sign}{}", (seconds % 60).unsigned_abs());
            write_fraction((micros % 1_000_000).unsigned_abs(), out);
            out.push('S');
        }
    }
    if out.len() == begin {
        out.push_str("T0S");
    }
}

/// The time of RFC 3339, with an offset, as UTC without one: `2026-01-31 10:00:00.5`, as MariaDB and SQLite write times. `None` for
/// another text.
pub fn in_utc(text: &str) -> Option<String> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hours, minutes, seconds) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let rest = text.get(19..)?;
    let at = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
    let (fraction, offset) = rest.split_at(at);
    let east = match offset.as_bytes() {
        b"Z" | b"z" => 0,
        [sign, ..] => {
            let minutes =
                offset.get(1..3)?.parse::<i64>().ok()? * 60 + offset.get(4..6)?.parse::<i64>().ok()?;
            if *sign == b'-' { -minutes } else { minutes }
        }
        [] => return None,
    };
    let all = days_of(year, month, day) * 86_400 + hours * 3_600 + (minutes - east) * 60 + seconds;
    let mut out = String::new();
    write_date(all.div_euclid(86_400), &mut out);
    out.push(' ');
    write_time(all.rem_euclid(86_400) * 1_000_000, &mut out);
    out.push_str(fraction);
    Some(out)
}

/// Days from 1970-01-01 to a date of the civil calendar.
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    // The year begins in March, so that its last day is the one that varies.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(write: impl Fn(&mut String)) -> String {
        let mut out = String::new();
        write(&mut out);
        out
    }

    #[test]
    fn dates() {
        for (days, expect) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_783, "2026-11-26"),
            (-719_528, "0000-01-01"),
            (-719_529, "-0001-12-31"),
            (2_932_896, "9999-12-31"),
            (2_932_897, "+10000-01-01"),
        ] {
            assert_eq!(expect, made(|it| write_date(days, it)), "{days}");
        }
    }

    #[test]
    fn times() {
        assert_eq!("24:00:00", made(|it| write_time(DAY_MICROS, it)));
        assert_eq!("-838:59:59", made(|it| write_time(-3_020_399_000_000, it)));
    }

    #[test]
    fn times_with_an_offset_in_utc() {
        for (text, expect) in [
            ("2026-01-31 12:00:00Z", "2026-01-31 12:00:00"),
            ("2026-01-01 00:30:00.123456789+01:00", "2025-12-31 23:30:00.123456789"),
            ("2024-02-28 23:59:59.5-00:30", "2024-02-29 00:29:59.5"),
            ("1969-12-31 23:59:59-23:59", "1970-01-01 23:58:59"),
        ] {
            assert_eq!(Some(expect), in_utc(text).as_deref(), "{text}");
        }
        for days in (-800_000..800_000).step_by(997) {
            let date = made(|it| write_date(days, it));
            if date.len() == 10 {
                let part = |from: usize, to: usize| date[from..to].parse().unwrap();
                assert_eq!(days, days_of(part(0, 4), part(5, 7), part(8, 10)), "{date}");
            }
        }
        assert_eq!(None, in_utc("2026-01-31"));
    }

    #[test]
    fn intervals() {
        assert_eq!("PT0S", made(|it| write_interval(0, 0, 0, it)));
        assert_eq!("P1Y2M3DT4H5M6.5S", made(|it| write_interval(14, 3, 14_706_500_000, it)));
        assert_eq!("P-1M-2DT-1H", made(|it| write_interval(-1, -2, -3_600_000_000, it)));
        assert_eq!("PT-0.5S", made(|it| write_interval(0, 0, -500_000, it)));
    }
}
