//! The texts that a path pattern captured from the path of a request.

/// The largest number of texts that a pattern may capture.
pub const MOST_CAPTURES: usize = 9;

/// Positions of captures in a path.
pub(crate) type CaptureSpans = [(u32, u32); MOST_CAPTURES];

/// The texts that a pattern captured from a path; borrowed from both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Captures<'a> {
    path: &'a [u8],
    names: &'a [Box<str>],
    spans: CaptureSpans,
}

impl<'a> Captures<'a> {
    /// The captures at `spans` of a path, with the names of their pattern.
    pub(crate) fn new(path: &'a [u8], names: &'a [Box<str>], spans: CaptureSpans) -> Self {
        Captures { path, names, spans }
    }

    /// The capture with this number; the first is 1. Empty if the pattern has fewer, or if this part matched nothing.
    #[must_use]
    pub fn number(&self, number: usize) -> &'a [u8] {
        let (from, to) = number.checked_sub(1).and_then(|it| self.spans.get(it)).copied().unwrap_or_default();
        self.path.get(from as usize..to as usize).unwrap_or_default()
    }

    /// The capture of this name; empty if the pattern has none.
    #[must_use]
    pub fn named(&self, name: &str) -> &'a [u8] {
        self.names.iter().position(|it| **it == *name).map_or(&[], |it| self.number(it + 1))
    }
}
