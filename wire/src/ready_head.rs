//! A head that is kept ready for clients of either protocol. Who makes it, and what is added when it is sent, is not here.
//!
//! Most lines of most heads are the same for many responses (`Server`, `Cache-Control`, `Content-Type`): a kept head may leave
//! those to a template that all of them share, and keep only its own lines, in both forms. Order stays as it was:
//!
//! ```text
//! template   HTTP/1.1 200 OK, Server │ Content-Type, Cache-Control │ (nothing)
//! own                               Date                          ETag, Content-Length
//! ```

use crate::http2::hpack::{Encoder, encode};
use larder_semantics::field::Field;
use std::fmt;
use std::sync::Arc;

mod templates;

pub use templates::Templates;

/// A status line and field lines as HTTP/1.1 has them, and the same as a block of HPACK that uses no table but
/// the static one, so that it is right on every connection.
#[derive(Clone)]
pub struct ReadyHead {
    /// The lines that it shares with others.
    template: Option<Arc<HeadTemplate>>,
    /// With a template, the lengths of each run of own lines, as text and as HPACK, one byte each; then the texts, then the
    /// HPACK. Without, the length of the text in four bytes, the text, and the HPACK if it is kept.
    own: Box<[u8]>,
}

/// Lines that many heads share, the status line first.
#[derive(Debug, PartialEq, Eq)]
struct HeadTemplate {
    text: Box<[u8]>,
    block: Box<[u8]>,
    /// Behind which bytes of both there is a run of own lines.
    cuts: Box<[Cut]>,
}

/// Where in a template a head's own lines stand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cut {
    text: u32,
    block: u32,
}

/// Bytes of the length of a text that stands alone.
const LENGTH: usize = size_of::<u32>();

impl ReadyHead {
    /// In both forms. `text` has no empty line at its end, and no field that HTTP/2 forbids.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(2 * text.len() + LENGTH);
        Self::begin(text, &mut bytes);
        encode::compact_head(text, &mut bytes);
        Self::alone(&bytes)
    }

    /// As text alone, for what is not kept: the other form is made for each client that wants it.
    #[must_use]
    pub fn passing(text: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(text.len() + LENGTH);
        Self::begin(text, &mut bytes);
        Self::alone(&bytes)
    }

    fn begin(text: &[u8], bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_ne_bytes());
        bytes.extend_from_slice(text);
    }

    fn alone(bytes: &[u8]) -> Self {
        // Copied: what a vector has too much of would be kept for as long.
        Self { template: None, own: Box::from(bytes) }
    }

    /// Where what stands alone is divided: text, HPACK.
    #[inline]
    fn halves(&self) -> (&[u8], &[u8]) {
        let (length, rest) = self.own.split_first_chunk().unwrap_or((&[0; LENGTH], &[]));
        rest.split_at(rest.len().min(u32::from_ne_bytes(*length) as usize))
    }

    /// Appends it as HTTP/1.1 has it, without the empty line.
    #[inline]
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.template {
            None => out.extend_from_slice(self.halves().0),
            Some(it) => it.write_text(&self.own, out),
        }
    }

    /// Appends it as HPACK.
    #[inline]
    pub fn write_block(&self, out: &mut Vec<u8>) {
        match &self.template {
            Some(it) => it.write_block(&self.own, out),
            None => match self.halves() {
                (text, []) => encode::head(text, out),
                (_, block) => out.extend_from_slice(block),
            },
        }
    }

    /// Appends it as HPACK, with what the connection's table has of it named by its index.
    #[inline]
    pub fn encode(&self, encoder: &mut Encoder, out: &mut Vec<u8>) {
        match &self.template {
            Some(it) => it.each_block(&self.own, |piece| encoder.block(piece, out)),
            None => match self.halves() {
                (text, []) => encoder.head(text, out),
                (_, block) => encoder.block(block, out),
            },
        }
    }

    /// As HTTP/1.1 has it, without the empty line.
    #[must_use]
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write_text(&mut text);
        text
    }

    /// Its field lines in order.
    #[must_use]
    pub fn lines(&self) -> ReadyLines<'_> {
        let mut lines = match &self.template {
            None => ReadyLines { rest: self.halves().0, pieces: None },
            Some(it) => ReadyLines {
                rest: b"",
                pieces: Some(Pieces { template: it, own: &self.own, next: 0, at: 0 }),
            },
        };
        // The status line.
        lines.next_line();
        lines
    }

    /// Bytes of its own that are kept.
    #[must_use]
    pub fn size(&self) -> usize {
        self.own.len()
    }
}

impl HeadTemplate {
    /// Bytes of the texts of all own runs.
    #[inline]
    fn texts(&self, own: &[u8]) -> usize {
        own.iter().step_by(2).take(self.cuts.len()).map(|it| usize::from(*it)).sum()
    }

    #[inline]
    fn write_text(&self, own: &[u8], out: &mut Vec<u8>) {
        let (lengths, mut rest) = own.split_at(2 * self.cuts.len());
        out.reserve(self.text.len() + rest.len());
        let mut from = 0;
        for (cut, lengths) in self.cuts.iter().zip(lengths.chunks_exact(2)) {
            out.extend_from_slice(&self.text[from..cut.text as usize]);
            from = cut.text as usize;
            let (run, after) = rest.split_at(usize::from(lengths[0]));
            out.extend_from_slice(run);
            rest = after;
        }
        out.extend_from_slice(&self.text[from..]);
    }

    #[inline]
    fn write_block(&self, own: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.block.len() + own.len());
        self.each_block(own, |piece| out.extend_from_slice(piece));
    }

    /// Hands over the pieces of the HPACK in order; each is whole fields, the first with the status.
    #[inline]
    fn each_block(&self, own: &[u8], mut piece: impl FnMut(&[u8])) {
        let (lengths, rest) = own.split_at(2 * self.cuts.len());
        let mut rest = &rest[self.texts(own)..];
        let mut from = 0;
        for (cut, lengths) in self.cuts.iter().zip(lengths.chunks_exact(2)) {
            piece(&self.block[from..cut.block as usize]);
            from = cut.block as usize;
            let (run, after) = rest.split_at(usize::from(lengths[1]));
            piece(run);
            rest = after;
        }
        piece(&self.block[from..]);
    }
}

/// The field lines of a head.
#[derive(Clone)]
pub struct ReadyLines<'a> {
    rest: &'a [u8],
    pieces: Option<Pieces<'a>>,
}

/// The pieces of a head with a template that are still to come.
#[derive(Clone)]
struct Pieces<'a> {
    template: &'a HeadTemplate,
    own: &'a [u8],
    /// Twice the number of its cut, and one more for the run behind it.
    next: usize,
    /// How far the texts of own runs have been taken.
    at: usize,
}

impl<'a> Pieces<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        let HeadTemplate { text, cuts, .. } = self.template;
        let cut = self.next / 2;
        let is_own = self.next % 2 == 1;
        self.next += 1;
        if is_own {
            if cut >= cuts.len() {
                return None;
            }
            let length = usize::from(*self.own.get(2 * cut)?);
            let from = 2 * cuts.len() + self.at;
            self.at += length;
            return self.own.get(from..from + length);
        }
        let end = |at: usize| cuts.get(at).map_or(text.len(), |it| it.text as usize);
        let from = cut.checked_sub(1).map_or(0, end);
        (cut <= cuts.len()).then(|| &text[from..end(cut)])
    }
}

impl<'a> ReadyLines<'a> {
    /// Those of a text of field lines.
    #[must_use]
    pub fn of(text: &'a [u8]) -> Self {
        Self { rest: text, pieces: None }
    }

    fn next_line(&mut self) -> Option<&'a [u8]> {
        while self.rest.is_empty() {
            self.rest = self.pieces.as_mut()?.next()?;
        }
        let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |it| it + 1);
        let (line, after) = self.rest.split_at(end);
        self.rest = after;
        Some(line)
    }
}

impl<'a> Iterator for ReadyLines<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let line = self.next_line()?;
        let (name, value) = encode::parts(line).unwrap_or_default();
        Some(Field { name: std::str::from_utf8(name).unwrap_or_default(), value })
    }
}

impl fmt::Debug for ReadyHead {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:?}", String::from_utf8_lossy(&self.text()))
    }
}

#[cfg(test)]
mod tests;
