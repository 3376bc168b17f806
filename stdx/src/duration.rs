//! Durations in the notation of the configuration: `50ms`, `60s`, `5m`, `1h30m`, `7d`, `1y`; `off` is not parsed here.

use std::time::Duration;

/// The units; a year has 365 days, as in other servers.
const UNITS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
    ("y", 31_536_000_000),
];
/// Those in which [`spell`] writes no duration.
const NOT_SPELLED: usize = 2;

/// Parses one or more number-and-unit pairs, largest first by custom but not by rule.
///
/// # Errors
/// One sentence with the invalid text and a valid form.
pub fn parse(text: &str) -> Result<Duration, String> {
    let bad = || {
        format!(
            "{text:?} is not a duration; write a number and a unit, such as \"50ms\", \"60s\" or \"1h30m\""
        )
    };
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    let mut millis: u64 = 0;
    if rest.is_empty() {
        return Err(bad());
    }
    while !rest.is_empty() {
        let digits = rest.find(|it: char| !it.is_ascii_digit()).ok_or_else(bad)?;
        let number: u64 = rest[..digits].parse().map_err(|_| bad())?;
        let after = rest[digits..].trim_start();
        let letters = after.find(|it: char| !it.is_ascii_alphabetic()).unwrap_or(after.len());
        let scale = UNITS.iter().find(|it| it.0 == &after[..letters]).ok_or_else(bad)?.1;
        let part = number.checked_mul(scale).ok_or_else(bad)?;
        millis = millis.checked_add(part).ok_or_else(bad)?;
        rest = after[letters..].trim_start();
    }
    Ok(Duration::from_millis(millis))
}

/// The hint for a duration that is a number without unit, or with the word of one, to be appended to "found 5": `, which has no unit; write "5s"`.
/// Empty for every other text.
#[must_use]
pub fn without_unit(text: &str) -> String {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, word) = text.split_at(digits);
    let unit = match word.trim() {
        "sec" | "secs" | "second" | "seconds" => "s",
        "min" | "mins" | "minute" | "minutes" => "m",
        "hour" | "hours" => "h",
        "day" | "days" => "d",
        "" if number != "0" => {
            return if number.is_empty() {
                String::new()
            } else {
                format!(", which has no unit; write \"{text}s\"")
            };
        }
        _ => return String::new(),
    };
    if number.is_empty() { String::new() } else { format!("; write \"{number}{unit}\"") }
}

/// The shortest exact notation that [`parse`] accepts; sub-millisecond parts are dropped.
#[must_use]
pub fn spell(duration: Duration) -> String {
    let mut millis = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    for (name, scale) in UNITS.iter().rev().skip(NOT_SPELLED) {
        if millis >= *scale {
            text.push_str(&format!("{}{name}", millis / scale));
            millis %= scale;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        assert_eq!(expect.map(Duration::from_millis), parse(text).ok(), "{text}");
    }

    #[test]
    fn a_number_alone_has_no_unit() {
        assert_eq!(", which has no unit; write \"5s\"", without_unit("5"));
        assert_eq!("; write \"1m\"", without_unit("1 minute"));
        assert_eq!("; write \"2d\"", without_unit("2days"));
        for text in ["", "0", "5s", "-5", "5.5", "off", "minute"] {
            assert_eq!("", without_unit(text), "{text}");
        }
    }

    #[test]
    fn durations() {
        check("50ms", Some(50));
        check("0", Some(0));
        check("1h30m", Some(5_400_000));
        check("7d", Some(604_800_000));
        check("2w", Some(1_209_600_000));
        check("1y", Some(31_536_000_000));
        check("10 s", Some(10_000));
        check("1h 30m", Some(5_400_000));
        check("1 minute", None);
        check("60", None);
        check("", None);
        check("-5s", None);
        check("5 parsecs", None);
        check("99999999999999999999s", None);
        for text in ["50ms", "1m", "1h30m", "1d1ms", "7d", "365d"] {
            assert_eq!(text, spell(parse(text).unwrap()));
        }
        assert_eq!("365d", spell(parse("1y").unwrap()));
    }
}
