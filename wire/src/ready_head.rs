//! A head that is ready for clients of each protocol. Its creation, and the fields added when it is sent, are not here.
//!
//! Most lines of most heads are the same for many responses (`Server`, `Cache-Control`, `Content-Type`): a stored head
//! may have these, and the names of all other lines, in a shared template, and store only its own values, in every form. The
//! order is unchanged:
//!
//! ```text
//! template   HTTP/1.1 200 OK, Server: a, Date: │, Content-Type: b, ETag: │, Content-Length: │
//! own                                          c                         d                  e
//! ```

use crate::http2::hpack::{Encoder, PreparedLiteral, encode};
use crate::http3::qpack;
use larder_semantics::client_ttl::{self, PRIVATE};
use larder_semantics::field::{Field, NameSet};
use private::{PrivateChange, PrivatePlace};
use std::fmt;
use std::sync::Arc;

mod private;
mod templates;

pub use templates::{RecentTemplates, Templates};

/// A form in which a head is stored. A protocol with a form of its own gets a variant and a writer; the layout of stored
/// heads and of templates follows from [`HeadForm::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HeadForm {
    /// HTTP/1.1 text, without the empty line. The other forms are made from it, so it always exists.
    Text,
    /// An HPACK block with the static table only (RFC 7541 Appendix A).
    Hpack,
    /// A QPACK section with the static table only (RFC 9204 Appendix A), without its prefix. Its strings are those of HPACK
    /// (RFC 9204 §4.1.2), so it is in templates alone, and takes no memory of a head.
    Qpack,
}

/// The number of forms, and of those that heads have of their own.
const FORMS: usize = HeadForm::ALL.len();
const OWN_FORMS: usize = HeadForm::OWN.len();

impl HeadForm {
    const ALL: [HeadForm; 3] = [HeadForm::Text, HeadForm::Hpack, HeadForm::Qpack];
    const OWN: [HeadForm; 2] = [HeadForm::Text, HeadForm::Hpack];

    /// The form of its own values.
    const fn own(self) -> HeadForm {
        match self {
            HeadForm::Text => HeadForm::Text,
            HeadForm::Hpack | HeadForm::Qpack => HeadForm::Hpack,
        }
    }

    /// Appends a head with this text: a status line and field lines.
    fn write_head(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(text),
            HeadForm::Hpack => encode::compact_head(text, out),
            HeadForm::Qpack => qpack::encode::head(text, out),
        }
    }

    /// Appends the status line that this is.
    fn write_status(self, line: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(line),
            HeadForm::Hpack => encode::status_of(line, out),
            HeadForm::Qpack => qpack::encode::status(encode::status_in(line), out),
        }
    }

    /// Appends what comes before the value of a field.
    fn write_name(self, name: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(&[name, b": "].concat()),
            HeadForm::Hpack => encode::compact_name(name, out),
            HeadForm::Qpack => qpack::encode::name(name, out),
        }
    }

    /// Appends the value of a field.
    fn write_value(self, value: &[u8], out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(value),
            HeadForm::Hpack | HeadForm::Qpack => encode::compact(value, out),
        }
    }

    /// Appends what comes behind the value of a field.
    fn write_end(self, out: &mut Vec<u8>) {
        match self {
            HeadForm::Text => out.extend_from_slice(b"\r\n"),
            HeadForm::Hpack | HeadForm::Qpack => {}
        }
    }

    /// Appends a field up to what comes behind its value.
    fn write_field(self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        if self == HeadForm::Qpack {
            // The static table has values, too.
            return qpack::encode::field(name, value, out);
        }
        self.write_name(name, out);
        self.write_value(value, out);
    }
}

/// A status line and field lines in every `HeadForm`, each valid on every connection of its protocol.
#[derive(Clone)]
pub struct ReadyHead {
    /// The parts shared with other heads.
    template: Option<Arc<HeadTemplate>>,
    /// With a template: the lengths of each own value, one byte for each of [`HeadForm::OWN`]; then all values in the first form,
    /// then in the next. Without: the lengths of all these forms but the last in four bytes each; the names of its fields, as a
    /// set; where it becomes private; then the text, and the other forms if kept.
    own: Box<[u8]>,
}

/// The names of the fields in a head with this text.
fn names_of(text: &[u8]) -> NameSet {
    let mut names = NameSet::default();
    let mut lines = ReadyLines::of(text);
    // The status line.
    lines.next_line();
    lines.for_each(|it| names.insert(it.name));
    names
}

/// The common parts of many heads, the status line first.
#[derive(Debug, PartialEq, Eq)]
struct HeadTemplate {
    forms: [Box<[u8]>; FORMS],
    /// The positions in each form after which an own value follows.
    cuts: Box<[[u32; FORMS]]>,
    /// The fields of the form that is HPACK, whose status comes before them.
    literals: Box<[TemplateLiteral]>,
    status: usize,
    /// The names of its fields.
    names: NameSet,
    /// Where its text becomes private.
    private: PrivatePlace,
}

/// A field of a template as HPACK has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TemplateLiteral {
    /// Where it ends in the template.
    end: u32,
    /// Whether its value is each head's own, so that only its name is in the template.
    is_own: bool,
    known: PreparedLiteral,
}

/// Bytes of the lengths of a head without template: of each form but the last, which ends with the head.
const LENGTHS: usize = size_of::<u32>() * (OWN_FORMS - 1);
/// Bytes before its forms.
const PREFIX: usize = LENGTHS + NameSet::SIZE + PrivatePlace::SIZE;

impl ReadyHead {
    /// A head in all forms. `text` has no empty line at its end, and no field that HTTP/2 forbids.
    #[must_use]
    pub fn new(text: &[u8]) -> Self {
        Self::without_template(text, &HeadForm::OWN)
    }

    /// A head as text only, for responses that are not stored: another form is made for each client that needs it.
    #[must_use]
    pub fn passing(text: &[u8]) -> Self {
        Self::without_template(text, &[HeadForm::Text])
    }

    /// A head without template, in these forms.
    fn without_template(text: &[u8], forms: &[HeadForm]) -> Self {
        let mut bytes = Vec::with_capacity(PREFIX + forms.len() * text.len());
        bytes.resize(LENGTHS, 0);
        // A head that is sent once is searched when it is sent, if at all.
        let (names, private) = match forms.len() < OWN_FORMS {
            true => (NameSet::ALL, PrivatePlace::default()),
            false => (names_of(text), PrivatePlace::of(text)),
        };
        bytes.extend_from_slice(&names.to_bytes());
        bytes.extend_from_slice(&private.to_bytes());
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
        let lengths = self.own.get(..LENGTHS).unwrap_or_default();
        let mut rest = self.own.get(PREFIX..).unwrap_or_default();
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

    /// Appends its text, made private. `false` where nothing was written: other lines would have to change, too.
    #[inline]
    pub fn write_private_text(&self, out: &mut Vec<u8>) -> bool {
        let place = match &self.template {
            Some(it) => it.private_place(&self.own),
            None => self.own_private_place().get(),
        };
        let Some((place, change)) = place else { return false };
        let at = out.len() + place;
        self.write_text(out);
        let end = out.len();
        match change {
            PrivateChange::Prefix => {
                out.extend_from_slice(PRIVATE.as_bytes());
                out.copy_within(at..end, at + PRIVATE.len());
                out[at..at + PRIVATE.len()].copy_from_slice(PRIVATE.as_bytes());
            }
            PrivateChange::Value => {
                let length = memchr::memchr(b'\r', &out[at..]).unwrap_or(end - at);
                out.extend_from_within(at..at + length);
                client_ttl::make_private(out, end);
                out.extend_from_within(at + length..end);
                // Over the former value and what follows it.
                out.drain(at..end);
            }
        }
        true
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
            Some(it) => it.encode(&self.own, encoder, out),
            None => match self.bytes(HeadForm::Hpack) {
                [] => encoder.head(self.bytes(HeadForm::Text), out),
                block => encoder.block(block, out),
            },
        }
    }

    /// Appends it as QPACK, without the prefix of the section.
    #[inline]
    pub fn write_section(&self, out: &mut Vec<u8>) {
        match &self.template {
            Some(it) => it.write(HeadForm::Qpack, &self.own, out),
            None => match self.bytes(HeadForm::Hpack) {
                [] => qpack::encode::head(self.bytes(HeadForm::Text), out),
                block => qpack::encode::block(self.status(), block, out),
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
            None => ReadyLines::of(self.bytes(HeadForm::Text)),
            Some(it) => ReadyLines {
                rest: &it.forms[HeadForm::Text as usize],
                at: 0,
                own: it.values(HeadForm::Text, &self.own),
                cuts: &it.cuts,
            },
        };
        // The status line.
        lines.next_line();
        lines
    }

    /// Whether it may have a field of these names.
    #[inline]
    #[must_use]
    pub fn may_have(&self, names: NameSet) -> bool {
        match &self.template {
            Some(it) => it.names.may_meet(names),
            None => self.own_names().may_meet(names),
        }
    }

    /// The names of the fields of a head without template.
    #[inline]
    fn own_names(&self) -> NameSet {
        self.own.get(LENGTHS..).and_then(<[u8]>::first_chunk).map_or(NameSet::ALL, NameSet::from_bytes)
    }

    /// Where the text of a head without template becomes private.
    #[inline]
    fn own_private_place(&self) -> PrivatePlace {
        let bytes = self.own.get(LENGTHS + NameSet::SIZE..).and_then(<[u8]>::first_chunk);
        bytes.copied().map_or_else(PrivatePlace::default, PrivatePlace::from_bytes)
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> u16 {
        let text = match &self.template {
            None => self.bytes(HeadForm::Text),
            Some(it) => &it.forms[HeadForm::Text as usize],
        };
        // "HTTP/1.1 200 OK"
        let digits = text.get(9..12).and_then(|it| std::str::from_utf8(it).ok());
        digits.and_then(|it| it.parse().ok()).unwrap_or(0)
    }

    /// The first byte of its own storage, for a caller that needs the bytes in the caches of the processor.
    #[must_use]
    pub fn first_own_byte(&self) -> u8 {
        self.own.first().copied().unwrap_or_default()
    }

    /// Bytes of its own storage.
    #[must_use]
    pub fn size(&self) -> usize {
        self.own.len()
    }
}

/// Own values in one form, one after the other.
#[derive(Clone)]
struct OwnValues<'a> {
    lengths: &'a [[u8; OWN_FORMS]],
    form: usize,
    rest: &'a [u8],
}

impl<'a> OwnValues<'a> {
    #[inline]
    fn next(&mut self) -> &'a [u8] {
        let Some((lengths, after)) = self.lengths.split_first() else { return &[] };
        self.lengths = after;
        let (value, rest) = self.rest.split_at(usize::from(lengths[self.form]));
        self.rest = rest;
        value
    }
}

impl HeadTemplate {
    /// The own values in one form.
    #[inline]
    fn values<'a>(&self, form: HeadForm, own: &'a [u8]) -> OwnValues<'a> {
        let form = form.own() as usize;
        let (lengths, rest) = own.split_at(OWN_FORMS * self.cuts.len());
        let lengths = lengths.as_chunks::<OWN_FORMS>().0;
        // Those in the forms before this one.
        let skipped: usize = lengths.iter().flat_map(|it| &it[..form]).map(|it| usize::from(*it)).sum();
        OwnValues { lengths, form, rest: &rest[skipped..] }
    }

    /// Where the text of a head with these own values becomes private.
    #[inline]
    fn private_place(&self, own: &[u8]) -> Option<(usize, PrivateChange)> {
        let (place, change) = self.private.get()?;
        let lengths =
            own.as_chunks::<OWN_FORMS>().0.iter().map(|it| usize::from(it[HeadForm::Text as usize]));
        let before = self.cuts.iter().zip(lengths);
        let before = before.take_while(|it| (it.0[HeadForm::Text as usize] as usize) < place);
        Some((place + before.map(|it| it.1).sum::<usize>(), change))
    }

    /// Appends a head with these own values in one form.
    #[inline]
    fn write(&self, form: HeadForm, own: &[u8], out: &mut Vec<u8>) {
        let shared = &self.forms[form as usize];
        out.reserve(shared.len() + own.len());
        let mut values = self.values(form, own);
        let mut from = 0;
        for cut in &self.cuts {
            let cut = cut[form as usize] as usize;
            out.extend_from_slice(&shared[from..cut]);
            out.extend_from_slice(values.next());
            from = cut;
        }
        out.extend_from_slice(&shared[from..]);
    }

    /// Appends it as HPACK, with what the connection's table has of it named by its index.
    #[inline]
    fn encode(&self, own: &[u8], encoder: &mut Encoder, out: &mut Vec<u8>) {
        let shared = &self.forms[HeadForm::Hpack as usize];
        out.reserve(shared.len() + own.len());
        let mut values = self.values(HeadForm::Hpack, own);
        let mut from = self.status;
        out.extend_from_slice(&shared[..from]);
        for literal in &self.literals {
            let bytes = &shared[from..literal.end as usize];
            from = literal.end as usize;
            if literal.is_own {
                encoder.named_literal(bytes, values.next(), literal.known, out);
            } else {
                encoder.literal(bytes, literal.known, out);
            }
        }
    }
}

/// The field lines of a head.
#[derive(Clone)]
pub struct ReadyLines<'a> {
    rest: &'a [u8],
    /// Where `rest` begins in its template.
    at: usize,
    own: OwnValues<'a>,
    cuts: &'a [[u32; FORMS]],
}

impl<'a> ReadyLines<'a> {
    /// The lines of a text of field lines.
    #[must_use]
    pub fn of(text: &'a [u8]) -> Self {
        let own = OwnValues { lengths: &[], form: HeadForm::Text as usize, rest: b"" };
        Self { rest: text, at: 0, own, cuts: &[] }
    }

    fn next_line(&mut self) -> Option<&'a [u8]> {
        let end = memchr::memchr(b'\n', self.rest).map_or(self.rest.len(), |it| it + 1);
        let (line, after) = self.rest.split_at(end);
        self.rest = after;
        self.at += end;
        (end > 0).then_some(line)
    }
}

impl<'a> Iterator for ReadyLines<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let line = self.next_line()?;
        let (name, mut value) = encode::parts(line).unwrap_or_default();
        let end_of = |cut: &[u32; FORMS]| cut[HeadForm::Text as usize] as usize;
        if let Some((_, after)) = self.cuts.split_first().filter(|it| end_of(it.0) < self.at) {
            self.cuts = after;
            value = self.own.next();
        }
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
