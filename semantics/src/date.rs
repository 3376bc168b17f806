//! HTTP dates (RFC 9110 §5.6.7) as wall time.

use larder_stdx::clock::WallTime;

/// Reads any of the three forms; `None` for anything else. A date before 1970 is the epoch.
#[must_use]
pub fn parse(value: &[u8]) -> Option<WallTime> {
    let text = std::str::from_utf8(value).ok()?;
    let time = httpdate::parse_http_date(text).ok()?;
    Some(WallTime(time.duration_since(std::time::UNIX_EPOCH).map_or(0, |it| it.as_secs())))
}

/// The IMF-fixdate of `time`, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
#[must_use]
pub fn format(time: WallTime) -> String {
    httpdate::fmt_http_date(
        std::time::UNIX_EPOCH + std::time::Duration::from_secs(time.0.min(253_402_300_799)),
    )
}
