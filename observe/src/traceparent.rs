//! `traceparent` (W3C Trace Context, level 1 §3.2): the trace of a request. The exported spans are in `telemetry`.

use std::fmt;

/// The trace context of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent {
    /// The whole trace; never 0.
    pub trace: u128,
    /// The parent span; never 0.
    pub span: u64,
    /// The sampled flag of the sender.
    pub sampled: bool,
}

impl TraceParent {
    /// Parses a field value; `None` if it is invalid: then the field is ignored.
    #[must_use]
    pub fn read(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?.trim();
        let lower = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
        let (version, rest) = text.split_at_checked(2)?;
        let rest = rest.strip_prefix('-')?;
        let (trace, rest) = rest.split_at_checked(32)?;
        let (span, rest) = rest.strip_prefix('-')?.split_at_checked(16)?;
        let (flags, rest) = rest.strip_prefix('-')?.split_at_checked(2)?;
        // Later versions may append fields.
        let ends = rest.is_empty() || (version != "00" && rest.starts_with('-'));
        let hex = [version, trace, span, flags].iter().all(|it| it.bytes().all(lower));
        if !ends || !hex || version == "ff" {
            return None;
        }
        let it = Self {
            trace: u128::from_str_radix(trace, 16).ok()?,
            span: u64::from_str_radix(span, 16).ok()?,
            sampled: u8::from_str_radix(flags, 16).ok()? & 1 == 1,
        };
        (it.trace != 0 && it.span != 0).then_some(it)
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, u8::from(self.sampled))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<bool>) {
        assert_eq!(expect, TraceParent::read(text.as_bytes()).map(|it| it.sampled), "{text}");
    }

    #[test]
    fn values_of_the_recommendation() {
        let good = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";
        check(&format!("{good}-01"), Some(true));
        check(&format!("{good}-00"), Some(false));
        check(&format!("{good}-03"), Some(true));
        check(&format!("{good}-01-more"), None);
        check(&format!("cc{}-01-more", &good[2..]), Some(true));
        check(&format!("cc{}-01more", &good[2..]), None);
        check(&format!("ff{}-01", &good[2..]), None);
        check(&format!("{}-01", good.to_uppercase()), None);
        check(good, None);
        check("00-00000000000000000000000000000000-00f067aa0ba902b7-01", None);
        check("00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01", None);
        let read = TraceParent::read(format!("{good}-01").as_bytes()).unwrap();
        assert_eq!(format!("{good}-01"), read.to_string());
    }

    proptest::proptest! {
        /// Whatever is sent is read, and read again as it is written, or is nothing.
        #[test]
        fn reading_any_traceparent_does_not_panic(text in "\\PC{0,70}|[0-9a-f-]{50,60}") {
            if let Some(it) = TraceParent::read(text.as_bytes()) {
                proptest::prop_assert_eq!(Some(it), TraceParent::read(it.to_string().as_bytes()));
            }
        }
    }
}
