//! The line ends of a head: one pass that rejects every line end except CRLF. The content of lines is not here.

/// The result of a pass over the bytes so far.
pub(super) struct HeadLines {
    /// Length of the first line without its CRLF, once it is complete.
    pub first: Option<usize>,
    /// Length of the head with the empty line that ends it, once it is complete.
    pub end: Option<usize>,
}

/// The reason why the lines are ambiguous, or too many.
pub(super) enum BadLines {
    /// A line feed without a carriage return before it.
    BareLineFeed,
    /// More lines than a head may have.
    TooMany,
}

/// Finds the first line and the end of the head in `window`.
///
/// A bare LF is found here, as soon as it arrives; a bare CR or a NUL is found by [`invalid_byte`] while the head is
/// incomplete and by the field parser when it is complete. The line count is limited here, so that a head which arrives
/// byte by byte is cheap to scan again.
pub(super) fn scan(window: &[u8]) -> Result<HeadLines, BadLines> {
    let mut lines = HeadLines { first: None, end: None };
    let mut start = 0;
    let mut seen = 0;
    for feed in memchr::memchr_iter(b'\n', window) {
        // `feed >= start`, since `start` is just behind the line feed before this one.
        if feed == start || window.get(feed.wrapping_sub(1)) != Some(&b'\r') {
            return Err(BadLines::BareLineFeed);
        }
        let length = feed - start - 1;
        if lines.first.is_none() {
            lines.first = Some(length);
        } else if length == 0 {
            lines.end = Some(feed + 1);
            return Ok(lines);
        }
        start = feed + 1;
        seen += 1;
        if seen > crate::message::MAX_FIELDS + 1 {
            return Err(BadLines::TooMany);
        }
    }
    Ok(lines)
}

/// Whether a line feed of `head` has no carriage return before it. Every byte is examined without early exit, so that the
/// loop is vectorised.
pub(super) fn has_bare_feed(head: &[u8]) -> bool {
    let pairs = head.iter().zip(head.get(1..).unwrap_or_default());
    let found = pairs.fold(false, |found, (before, it)| found | ((*it == b'\n') & (*before != b'\r')));
    found || head.first() == Some(&b'\n')
}

/// Whether `bytes` contain a NUL, or a CR without a following LF.
pub(super) fn invalid_byte(bytes: &[u8]) -> bool {
    memchr::memchr2_iter(b'\r', 0, bytes)
        .any(|at| bytes[at] == 0 || bytes.get(at + 1).is_some_and(|next| *next != b'\n'))
}
