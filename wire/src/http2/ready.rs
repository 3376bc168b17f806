//! A head that is kept ready for clients of either protocol. Who makes it, and what is added when it is sent, is not here.

use super::hpack::encode;
use std::fmt;

/// A status line and field lines as HTTP/1.1 has them, and behind them the same as a block of HPACK that uses no table but
/// the static one, so that it is right on every connection.
#[derive(Clone)]
pub struct ReadyHead {
    bytes: Box<[u8]>,
    text: u32,
}

impl ReadyHead {
    /// In both forms. `text` has no empty line at its end, and no field that HTTP/2 forbids.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(2 * text.len());
        bytes.extend_from_slice(text);
        encode::compact_head(text, &mut bytes);
        // Copied: what a vector has too much of would be kept for as long.
        Self { bytes: Box::from(&bytes[..]), text: u32::try_from(text.len()).unwrap_or(u32::MAX) }
    }

    /// As text alone, for what is not kept: the other form is made for each client that wants it.
    #[must_use]
    pub fn passing(text: &[u8]) -> Self {
        Self { bytes: Box::from(text), text: u32::try_from(text.len()).unwrap_or(u32::MAX) }
    }

    /// The same in both forms.
    #[must_use]
    pub fn kept(self) -> Self {
        if self.block().is_some() { self } else { Self::new(self.text()) }
    }

    /// As HTTP/1.1 has it, without the empty line.
    #[inline]
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.bytes[..self.bytes.len().min(self.text as usize)]
    }

    /// As HPACK, if it is kept.
    #[inline]
    #[must_use]
    pub fn block(&self) -> Option<&[u8]> {
        self.bytes.get(self.text as usize..).filter(|it| !it.is_empty())
    }

    /// Bytes of all that is kept.
    #[must_use]
    pub fn size(&self) -> usize {
        self.bytes.len()
    }
}

impl fmt::Debug for ReadyHead {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", String::from_utf8_lossy(self.text()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::hpack::{Decoder, Section, TABLE};
    use proptest::prelude::*;

    /// What a client reads in a block, as HTTP/1.1 would have it with names in lower case.
    fn said(block: &[u8]) -> String {
        let mut section = Section::default();
        section.begin(1 << 20);
        Decoder::new(TABLE).decode(block, &mut section).unwrap();
        assert_eq!(None, section.flaw());
        let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
        section.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
    }

    proptest! {
        #[test]
        fn both_forms_say_the_same(
            status in 100..=999u16,
            fields in proptest::collection::vec(
                ("(Date|ETag|Via|Age|x|Set-Cookie|[A-Za-z0-9-]{1,40})", "[!-~\u{80}-\u{2ff}]([ -~]{0,300}[!-~])?|"), 0..12
            )
        ) {
            prop_assume!(!fields.iter().any(|it| it.0.eq_ignore_ascii_case("cookie")));
            let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
            let text = format!("HTTP/1.1 {status} Any\r\n{lines}");
            let head = ReadyHead::new(text.as_bytes());
            let lower = |it: &(String, String)| format!("{}: {}\n", it.0.to_ascii_lowercase(), it.1);
            let expect: String = fields.iter().map(lower).collect();
            prop_assert_eq!(text.as_bytes(), head.text());
            prop_assert_eq!(format!(":status: {status}\n{expect}"), said(head.block().unwrap()));
            let passing = ReadyHead::passing(text.as_bytes());
            prop_assert_eq!((text.as_bytes(), None), (passing.text(), passing.block()));
            let kept = passing.kept();
            prop_assert_eq!(head.block(), kept.block());
            let mut sent = Vec::new();
            encode::head(text.as_bytes(), &mut sent);
            prop_assert_eq!(said(&sent), said(head.block().unwrap()));
        }
    }

    #[test]
    fn it_takes_less_than_the_text() {
        let text = "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 22:30:00 GMT\r\nContent-Type: text/html\r\n\
            Cache-Control: max-age=86400\r\nETag: \"page-1\"\r\nVia: 1.1 larder\r\nContent-Length: 1795\r\n";
        let head = ReadyHead::new(text.as_bytes());
        assert_eq!((179, 82), (text.len(), head.block().unwrap().len()));
    }
}
