//! A head that is ready for clients of each protocol. Its creation, and the fields added when it is sent, are not here.
//!
//! Most lines of most heads are the same for many responses (`Server`, `Cache-Control`, `Content-Type`): a stored head
//! may have these in a shared template, and store only its own lines, in every form. The order is unchanged:
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

/// A form in which a head is stored. A protocol with a form of its own gets a variant and a writer; the layout of stored
/// heads and of templates follows from [`HeadForm::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadForm {
    /// HTTP/1.1 text, without the empty line. The other forms are made from it, so it always exists.
    Text,
    /// An HPACK block with the static table only (RFC 7541 Appendix A).
    Hpack,
}

/// The number of forms.
const FORMS: usize = HeadForm::ALL.len();

impl HeadForm {
    const ALL: [HeadForm; 2] = [HeadForm::Text, HeadForm::Hpack];

    /// Appends a head with this text: a status line and field lines.
    fn write_head(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(text),
            HeadForm::Hpack => encode::compact_head(text, out),
        }
    }

    /// Appends field lines with this text.
    fn write_fields(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(text),
            HeadForm::Hpack => encode::compact_fields(text, out),
        }
    }
}

/// A status line and field lines in every [`HeadForm`], each valid on every connection of its protocol.
#[derive(Clone)]
pub struct ReadyHead {
    /// The shared lines.
    template: Option<Arc<HeadTemplate>>,
    /// With a template, the lengths of each run of own lines, a byte for each form; then all runs in the first form, then
    /// in the next. Without, the lengths of all forms but the last in four bytes each, then the forms: the text, and further
    /// ones if stored.
    own: Box<[u8]>,
}

/// Lines that several heads share, the status line first.
#[derive(Debug, PartialEq, Eq)]
struct HeadTemplate {
    forms: [Box<[u8]>; FORMS],
    /// The byte positions in each form after which a run of own lines follows.
    cuts: Box<[[u32; FORMS]]>,
}

/// Bytes of the lengths of a head without template: of each form but the last, which ends with the head.
const LENGTHS: usize = size_of::<u32>() * (FORMS - 1);

impl ReadyHead {
    /// A head in all forms. `text` has no empty line at its end, and no field that HTTP/2 forbids.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self::alone(text, &HeadForm::ALL)
    }

    /// A head as text only, for responses that are not stored: another form is made for each client that needs it.
    #[must_use]
    pub fn passing(text: &[u8]) -> Self {
        Self::alone(text, &[HeadForm::Text])
    }

    /// A head without template, in these forms.
    fn alone(text: &[u8], forms: &[HeadForm]) -> Self {
        let mut bytes = Vec::with_capacity(LENGTHS + forms.len() * text.len());
        bytes.resize(LENGTHS, 0);
        for (at, form) in forms.iter().enumerate() {
            let before = bytes.len();
            form.write_head(text, &mut bytes);
            let length = u32::try_from(bytes.len() - before).unwrap_or(u32::MAX).to_ne_bytes();
            // The last has none.
            if let Some(room) = bytes[..LENGTHS].chunks_exact_mut(length.len()).nth(at) {
                room.copy_from_slice(&length);
            }
        }
        // Copied: unused capacity of a vector would be kept as long.
        Self { template: None, own: Box::from(&bytes[..]) }
    }

    /// The bytes of a head without template in this form; empty if it is not stored.
    #[inline]
    fn bytes(&self, form: HeadForm) -> &[u8] {
        let (lengths, mut rest) = self.own.split_at_checked(LENGTHS).unwrap_or_default();
        let mut lengths = lengths.as_chunks().0.iter().map(|it| u32::from_ne_bytes(*it) as usize);
        for _ in 0..form as usize {
            rest = rest.get(lengths.next().unwrap_or_default()..).unwrap_or_default();
        }
        &rest[..lengths.next().map_or(rest.len(), |it| it.min(rest.len()))]
    }

    /// Appends its HTTP/1.1 text, without the empty line.
    #[inline]
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match &self.template {
            None => out.extend_from_slice(self.bytes(HeadForm::Text)),
            Some(it) => it.write(HeadForm::Text, &self.own, out),
        }
    }

    /// Appends it as HPACK.
    #[inline]
    pub fn write_block(&self, out: &mut Vec<u8>) {
        match &self.template {
            Some(it) => it.write(HeadForm::Hpack, &self.own, out),
            None => match self.bytes(HeadForm::Hpack) {
                [] => encode::head(self.bytes(HeadForm::Text), out),
                block => out.extend_from_slice(block),
            },
        }
    }

    /// Appends it as HPACK, with entries of the connection's table replaced by their index.
    #[inline]
    pub fn encode(&self, encoder: &mut Encoder, out: &mut Vec<u8>) {
        match &self.template {
            Some(it) => it.each_piece(HeadForm::Hpack, &self.own, |piece| encoder.block(piece, out)),
            None => match self.bytes(HeadForm::Hpack) {
                [] => encoder.head(self.bytes(HeadForm::Text), out),
                block => encoder.block(block, out),
            },
        }
    }

    /// Its HTTP/1.1 text, without the empty line.
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
            None => ReadyLines { rest: self.bytes(HeadForm::Text), pieces: None },
            Some(it) => ReadyLines {
                rest: b"",
                pieces: Some(Pieces { template: it, own: &self.own, next: 0, at: 0 }),
            },
        };
        // The status line.
        lines.next_line();
        lines
    }

    /// Bytes of its own storage.
    #[must_use]
    pub fn size(&self) -> usize {
        self.own.len()
    }
}

impl HeadTemplate {
    /// Appends a head with these own lines in one form.
    #[inline]
    fn write(&self, form: HeadForm, own: &[u8], out: &mut Vec<u8>) {
        out.reserve(self.forms[form as usize].len() + own.len());
        self.each_piece(form, own, |piece| out.extend_from_slice(piece));
    }

    /// Passes the pieces of one form in order; each has complete lines, the first the status.
    #[inline]
    fn each_piece(&self, form: HeadForm, own: &[u8], mut piece: impl FnMut(&[u8])) {
        let (form, shared) = (form as usize, &self.forms[form as usize]);
        let (lengths, rest) = own.split_at(FORMS * self.cuts.len());
        let lengths = lengths.as_chunks::<FORMS>().0;
        // The runs in the forms before this one.
        let skipped: usize = lengths.iter().flat_map(|it| &it[..form]).map(|it| usize::from(*it)).sum();
        let mut rest = &rest[skipped..];
        let mut from = 0;
        for (cut, lengths) in self.cuts.iter().zip(lengths) {
            piece(&shared[from..cut[form] as usize]);
            from = cut[form] as usize;
            let (run, after) = rest.split_at(usize::from(lengths[form]));
            piece(run);
            rest = after;
        }
        piece(&shared[from..]);
    }
}

/// The field lines of a head.
#[derive(Clone)]
pub struct ReadyLines<'a> {
    rest: &'a [u8],
    pieces: Option<Pieces<'a>>,
}

/// The remaining pieces of a head with a template.
#[derive(Clone)]
struct Pieces<'a> {
    template: &'a HeadTemplate,
    own: &'a [u8],
    /// Twice the index of its cut, plus one for the run behind it.
    next: usize,
    /// The position in the texts of own runs.
    at: usize,
}

impl<'a> Pieces<'a> {
    fn next(&mut self) -> Option<&'a [u8]> {
        const TEXT: usize = HeadForm::Text as usize;
        let HeadTemplate { forms, cuts } = self.template;
        let text = &forms[TEXT];
        let cut = self.next / 2;
        let is_own = self.next % 2 == 1;
        self.next += 1;
        if is_own {
            if cut >= cuts.len() {
                return None;
            }
            let length = usize::from(*self.own.get(FORMS * cut + TEXT)?);
            let from = FORMS * cuts.len() + self.at;
            self.at += length;
            return self.own.get(from..from + length);
        }
        let end = |at: usize| cuts.get(at).map_or(text.len(), |it| it[TEXT] as usize);
        let from = cut.checked_sub(1).map_or(0, end);
        (cut <= cuts.len()).then(|| &text[from..end(cut)])
    }
}

impl<'a> ReadyLines<'a> {
    /// The lines of a text of field lines.
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
