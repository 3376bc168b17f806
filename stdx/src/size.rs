//! Byte sizes in the notation of the configuration: `64KiB`, `1.5GiB`, `200MB`, `4096`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(pub u64);

const UNITS: &[(&str, u64)] = &[
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("KB", 1_000),
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("k", 1 << 10),
    ("B", 1),
    ("", 1),
];

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad =
            || format!("{text:?} is not a size; write a number and a unit, such as \"64KiB\" or \"1GiB\"");
        let split = text.find(|it: char| !it.is_ascii_digit() && it != '.').unwrap_or(text.len());
        let (number, unit) = (&text[..split], text[split..].trim());
        let scale = UNITS.iter().find(|it| it.0.eq_ignore_ascii_case(unit)).ok_or_else(bad)?.1;
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(scale).map(ByteSize).ok_or_else(bad);
        }
        let value: f64 = number.parse().map_err(|_| bad())?;
        #[allow(clippy::cast_precision_loss, reason = "scales are powers far below 2^53")]
        let bytes = value * scale as f64;
        if !(0.0..9.0e18).contains(&bytes) {
            return Err(bad());
        }
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(ByteSize(bytes as u64))
    }
}

/// The hint for a small size without unit, to be appended to "found 64": it counts bytes. Empty for every other text.
#[must_use]
pub fn without_unit(text: &str) -> String {
    let text = text.trim();
    match text.parse::<u64>() {
        Ok(1..=0xFFFF) => ", which is in bytes; add a unit (KiB, MiB or GiB)".to_owned(),
        _ => String::new(),
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, scale) in UNITS.iter().take(4) {
            if self.0 >= *scale && self.0.is_multiple_of(*scale) {
                return write!(f, "{}{name}", self.0 / scale);
            }
        }
        write!(f, "{}B", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<u64>) {
        assert_eq!(expect, text.parse::<ByteSize>().ok().map(|it| it.0), "{text}");
    }

    #[test]
    fn a_small_number_without_a_unit_gets_a_hint() {
        assert_eq!(", which is in bytes; add a unit (KiB, MiB or GiB)", without_unit("64"));
        for text in ["", "0", "64KiB", "1048576", "-1"] {
            assert_eq!("", without_unit(text), "{text}");
        }
    }

    #[test]
    fn sizes() {
        check("0", Some(0));
        check("4096", Some(4096));
        check("64KiB", Some(65536));
        check("1.5 MiB", Some(1_572_864));
        check("200MB", Some(200_000_000));
        check("1g", Some(1 << 30));
        check("1GB ", Some(1_000_000_000));
        check("", None);
        check("-1", None);
        check("1 parsec", None);
        check("99999999999999999999", None);
        check("20000000TiB", None);
        assert_eq!("64KiB", ByteSize(65536).to_string());
        assert_eq!("65537B", ByteSize(65537).to_string());
    }
}
