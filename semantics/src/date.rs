//! HTTP dates (RFC 9110 §5.6.7) as wall time, independent of their field.

use larder_stdx::clock::WallTime;
use std::cell::Cell;

/// The last second that four digits of a year can express: `Fri, 31 Dec 9999 23:59:59 GMT`.
const LAST: u64 = 253_402_300_799;

/// The text of the first second.
const EPOCH: DateText = *b"Thu, 01 Jan 1970 00:00:00 GMT";

/// Two-digit years from this one on belong to the last century (RFC 9110 §5.6.7: "more than 50 years in the future" is
/// the past; there is no clock here, so the limit is fixed).
const CENTURY: u64 = 77;

const MONTHS: [[u8; 3]; 12] = [
    *b"Jan", *b"Feb", *b"Mar", *b"Apr", *b"May", *b"Jun", *b"Jul", *b"Aug", *b"Sep", *b"Oct", *b"Nov",
    *b"Dec",
];

/// Parses any of the three forms, in any case (RFC 9111 §4.2); `None` for other text, including zones other than GMT and
/// impossible days. A date before 1970 is the epoch. A weekday must be a weekday's name, but is not compared with the
/// date.
#[must_use]
pub fn parse(value: &[u8]) -> Option<WallTime> {
    let comma = value.iter().position(|it| *it == b',');
    match comma {
        Some(3) => imf_fixdate(value),
        Some(at) => rfc850(value.get(..at)?, value.get(at + 1..)?),
        None => asctime(value),
    }
}

/// Parses a time of logs, `2026-01-31T10:00:00Z` (RFC 3339, in UTC and whole seconds); `None` for other text. A time before 1970 is
/// the epoch.
#[must_use]
pub fn parse_rfc3339(value: &[u8]) -> Option<WallTime> {
    let value: &[u8; 20] = value.try_into().ok()?;
    let month = number(&value[5..7]).filter(|it| (1..=12).contains(it))?;
    let fits = shape(value, &[(4, b'-'), (7, b'-'), (10, b'T'), (19, b'Z')]);
    fits.then(|| time(number(&value[..4])?, month, number(&value[8..10])?, &value[11..19]))?
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`
fn imf_fixdate(value: &[u8]) -> Option<WallTime> {
    let value: &[u8; 29] = value.try_into().ok()?;
    let marks = [3, 4, 7, 11, 16, 19, 22, 25].map(|at| value[at]);
    let fits = is_short_weekday(&value[..3]) && marks == *b",    :: " && lower(&value[26..]) == *b"gmt";
    if !fits {
        return None;
    }
    let two = |at: usize| pair(value[at], value[at + 1]);
    let year = two(12)? * 100 + two(14)?;
    time_of(year, month(&value[8..11])?, two(5)?, [two(17)?, two(20)?, two(23)?])
}

/// Two digits.
fn pair(tens: u8, ones: u8) -> Option<u64> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    (tens < 10 && ones < 10).then(|| u64::from(tens) * 10 + u64::from(ones))
}

/// `Sunday, 06-Nov-94 08:49:37 GMT`, split at the comma.
fn rfc850(weekday: &[u8], rest: &[u8]) -> Option<WallTime> {
    let rest: &[u8; 23] = rest.try_into().ok()?;
    let fits = is_weekday(weekday)
        && shape(rest, &[(0, b' '), (3, b'-'), (7, b'-'), (10, b' '), (19, b' ')])
        && rest[20..].eq_ignore_ascii_case(b"GMT");
    if !fits {
        return None;
    }
    let year = number(&rest[8..10])?;
    let year = if year < CENTURY { 2000 + year } else { 1900 + year };
    time(year, month(&rest[4..7])?, number(&rest[1..3])?, &rest[11..19])
}

/// `Sun Nov  6 08:49:37 1994`
fn asctime(value: &[u8]) -> Option<WallTime> {
    let value: &[u8; 24] = value.try_into().ok()?;
    let fits = is_short_weekday(&value[..3]) && shape(value, &[(3, b' '), (7, b' '), (10, b' '), (19, b' ')]);
    if !fits {
        return None;
    }
    let day = if value[8] == b' ' { number(&value[9..10])? } else { number(&value[8..10])? };
    time(number(&value[20..24])?, month(&value[4..7])?, day, &value[11..19])
}

const WEEKDAYS: &[&str] = &["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

fn is_short_weekday(name: &[u8]) -> bool {
    matches!(&lower(name), b"mon" | b"tue" | b"wed" | b"thu" | b"fri" | b"sat" | b"sun")
}

/// A name of three letters in lower case; zeros where it is longer or shorter.
fn lower(name: &[u8]) -> [u8; 3] {
    match *name {
        // No other byte becomes a lower-case letter.
        [a, b, c] => [a | 0x20, b | 0x20, c | 0x20],
        _ => [0; 3],
    }
}

fn is_weekday(name: &[u8]) -> bool {
    WEEKDAYS.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(name))
}

fn shape(value: &[u8], marks: &[(usize, u8)]) -> bool {
    marks.iter().all(|(at, mark)| value.get(*at) == Some(mark))
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, it| it.is_ascii_digit().then(|| sum * 10 + u64::from(it - b'0')))
}

fn month(name: &[u8]) -> Option<u64> {
    Some(match &lower(name) {
        b"jan" => 1,
        b"feb" => 2,
        b"mar" => 3,
        b"apr" => 4,
        b"may" => 5,
        b"jun" => 6,
        b"jul" => 7,
        b"aug" => 8,
        b"sep" => 9,
        b"oct" => 10,
        b"nov" => 11,
        b"dec" => 12,
        _ => return None,
    })
}

/// A day with a time of that day, `08:49:37`.
fn time(year: u64, month: u64, day: u64, clock: &[u8]) -> Option<WallTime> {
    let &[h1, h2, b':', n1, n2, b':', s1, s2] = <&[u8; 8]>::try_from(clock).ok()? else { return None };
    time_of(year, month, day, [pair(h1, h2)?, pair(n1, n2)?, pair(s1, s2)?])
}

fn time_of(year: u64, month: u64, day: u64, [hour, minute, second]: [u64; 3]) -> Option<WallTime> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    let valid = (1..=days).contains(&day) && hour < 24 && minute < 60 && second <= 60; // A leap second (RFC 9110 §5.6.7).
    if !valid {
        return None;
    }
    if year < 1970 {
        return Some(WallTime(0));
    }
    // Years that begin in March, so that a leap day is a year's last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let before = 365 * year + year / 4 - year / 100 + year / 400;
    let day = before + (153 * month + 2) / 5 + day - 1;
    // 719,468 days from 1 March of the year 0 to 1 January 1970.
    Some(WallTime((day - 719_468) * 86_400 + hour * 3600 + minute * 60 + second))
}

/// The IMF-fixdate of `time`, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn format(time: WallTime) -> String {
    let mut out = Vec::with_capacity(29);
    write(time, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// The text of a date: `Thu, 01 Jan 1970 00:00:00 GMT`.
type DateText = [u8; 29];

/// Appends the IMF-fixdate of `time`: 29 bytes; allocates only to grow `out`. The last date of a thread is kept: responses of the
/// same second have it.
pub fn write(time: WallTime, out: &mut Vec<u8>) {
    thread_local! {
        static LAST_WRITTEN: Cell<(WallTime, DateText)> = const { Cell::new((WallTime(0), EPOCH)) };
    }
    let (last, mut text) = LAST_WRITTEN.get();
    if last != time {
        text = text_of(time);
        LAST_WRITTEN.set((time, text));
    }
    out.extend_from_slice(&text);
}

fn text_of(time: WallTime) -> DateText {
    const SINCE_THURSDAY: [[u8; 3]; 7] = [*b"Thu", *b"Fri", *b"Sat", *b"Sun", *b"Mon", *b"Tue", *b"Wed"];
    let seconds = time.0.min(LAST);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut text = EPOCH;
    let digits = |it: u64| [b'0' + (it / 10 % 10) as u8, b'0' + (it % 10) as u8];
    text[..3].copy_from_slice(&SINCE_THURSDAY[(days % 7) as usize]);
    text[5..7].copy_from_slice(&digits(day));
    text[8..11].copy_from_slice(&MONTHS[month]);
    text[12..14].copy_from_slice(&digits(year / 100));
    text[14..16].copy_from_slice(&digits(year));
    text[17..19].copy_from_slice(&digits(second / 3600));
    text[20..22].copy_from_slice(&digits(second / 60 % 60));
    text[23..25].copy_from_slice(&digits(second % 60));
    text
}

/// Year, month from 0, and day of a number of days since 1970: counted in eras of 400 years that begin in March, so that the leap
/// day is the last day of a year.
fn civil(days: u64) -> (u64, usize, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153; // From March.
    let date = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year + u64::from(month >= 10);
    (year, ((month + 2) % 12) as usize, date)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(value: &str, expect: Option<u64>) {
        assert_eq!(expect, parse(value.as_bytes()).map(|it| it.0), "{value}");
    }

    #[test]
    fn times_of_logs_are_those_of_the_calendar() {
        for (text, expect) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T23:59:59Z", Some(951_868_799)),
            ("2026-01-31T10:00:00Z", Some(1_769_853_600)),
            ("2026-13-31T10:00:00Z", None),
            ("2026-01-31 10:00:00Z", None),
            ("2026-01-31T10:00:00", None),
            ("1969-12-31T23:59:59Z", Some(0)),
            ("2026-02-29T10:00:00Z", None),
            ("ä026-01-31T10:00:00", None),
        ] {
            assert_eq!(expect, parse_rfc3339(text.as_bytes()).map(|it| it.0), "{text}");
        }
    }

    #[test]
    fn the_three_forms() {
        check("Sun, 06 Nov 1994 08:49:37 GMT", Some(784_111_777));
        check("Sunday, 06-Nov-94 08:49:37 GMT", Some(784_111_777));
        check("Sun Nov  6 08:49:37 1994", Some(784_111_777));
        check("Sun Nov 06 08:49:37 1994", Some(784_111_777));
        check("sun, 06 nOV 1994 08:49:37 gmt", Some(784_111_777));
        check("Thu, 01 Jan 1970 00:00:00 GMT", Some(0));
        check("Fri, 01 Jan 1960 00:00:00 GMT", Some(0));
        check("Thu, 18 Aug 2050 02:01:18 GMT", Some(2_544_400_878));
        check("Thursday, 18-Aug-50 02:01:18 GMT", Some(2_544_400_878));
        check("Tue, 29 Feb 2000 00:00:00 GMT", Some(951_782_400));
        check("Fri, 31 Dec 9999 23:59:59 GMT", Some(LAST));
    }

    #[test]
    fn a_malformed_date_is_none() {
        check("", None);
        check("0", None);
        check("-1", None);
        check("Sun, 06 Nov 1994 8:49:37 GMT", None);
        check("Sun, 06 Nov 1994 08:49:37 AEST", None);
        check("Sun, 06 Nov 1994 08:49:37 UTC", None);
        check("Sun, 06-Nov-1994 08:49:37 GMT", None);
        check("Sun  06 Nov 1994 08:49:37 GMT", None);
        check("Sun,  06 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06 Nov 1994 08.49.37 GMT", None);
        check("Sun, 06 Nov 1994 08:49:37", None);
        check("Foo, 06 Nov 1994 08:49:37 GMT", None);
        check("Sun, 31 Feb 1994 08:49:37 GMT", None);
        check("Thu, 29 Feb 1900 08:49:37 GMT", None);
        check("Sun, 00 Nov 1994 08:49:37 GMT", None);
        check("Sun, 06 Nov 1994 24:00:00 GMT", None);
        check("Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT", None);
    }

    proptest! {
        #[test]
        fn never_panics(value in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = parse(&value);
        }

        #[test]
        fn a_date_is_read_as_written(seconds in 0..=LAST) {
            let mut out = Vec::new();
            write(WallTime(seconds), &mut out);
            let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
            prop_assert_eq!(httpdate::fmt_http_date(time).into_bytes(), out.clone());
            prop_assert_eq!(Some(WallTime(seconds)), parse(&out));
        }
    }
}
