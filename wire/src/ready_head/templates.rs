//! The lines that heads share: recognised by an earlier occurrence, stored once for all heads with them.

use super::{FORMS, HeadForm, HeadTemplate, OWN_FORMS, PrivatePlace, ReadyHead, TemplateLiteral};
use crate::http2::hpack::{PreparedLiteral, encode};
use larder_semantics::field::NameSet;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The most templates; with more kinds of heads some have none.
pub(super) const MOST: usize = 1024;

/// The number of recorded lines and splits of heads.
const SEEN: usize = 4096;

/// Shared lines of fewer bytes than this need no template.
const LEAST: usize = 32;

/// Fields that differ between responses, or over time: never shared, so that no template is made for each of their
/// values.
const OWN: [&[u8]; 6] = [b"date", b"etag", b"last-modified", b"expires", b"content-length", b"location"];

/// The templates.
pub struct Templates {
    /// Hashes of recorded lines and splits, each in its slot.
    seen: Box<[AtomicU32]>,
    all: RwLock<HashMap<u64, Arc<HeadTemplate>>>,
}

impl Default for Templates {
    fn default() -> Self {
        Self { seen: (0..SEEN).map(|_| AtomicU32::new(0)).collect(), all: RwLock::default() }
    }
}

/// The latest templates of a sequence of heads, whose lines mostly differ by their own values alone.
#[derive(Default)]
pub struct RecentTemplates {
    /// The latest first.
    latest: Vec<Arc<HeadTemplate>>,
    split: Split,
    own: Vec<u8>,
}

impl RecentTemplates {
    /// The number of them.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.latest.len()
    }
}

/// The number of [`RecentTemplates`].
const RECENT: usize = 8;

/// A head, divided.
#[derive(Default)]
struct Split {
    /// The hash of the shared parts and of the places of own values.
    hash: u64,
    /// The pieces in order: shared and own alternate, shared first and last.
    pieces: Vec<Range<usize>>,
}

impl Templates {
    /// The same head in all forms, with its shared lines in a template.
    #[must_use]
    pub fn keep(&self, head: ReadyHead) -> ReadyHead {
        if head.template.is_some() {
            return head;
        }
        let text = head.bytes(HeadForm::Text);
        match self.with_template(text) {
            Some(it) => it,
            None if head.bytes(HeadForm::Hpack).is_empty() => ReadyHead::new(text),
            None => head,
        }
    }

    /// The same for a head with this text (see [`ReadyHead::new`]), which is not copied twice.
    #[must_use]
    pub fn ready(&self, text: &[u8]) -> ReadyHead {
        self.with_template(text).unwrap_or_else(|| ReadyHead::new(text))
    }

    /// The same as one of several heads: where it has a template of `recent`, its lines are compared with that alone.
    #[must_use]
    pub fn ready_as(&self, recent: &mut RecentTemplates, text: &[u8]) -> ReadyHead {
        let RecentTemplates { latest, split, own } = recent;
        if let Some(at) = latest.iter().position(|it| it.divide(text, split) && self.are_own(text, split)) {
            let template = latest[at].clone();
            latest.swap(0, at);
            return with_own_values(text, split, template, own).unwrap_or_else(|| ReadyHead::new(text));
        }
        let head = self.ready(text);
        if let Some(template) = &head.template {
            latest.truncate(RECENT - 1);
            latest.insert(0, template.clone());
        }
        head
    }

    /// Whether no line with an own value occurred before: otherwise it is shared, in another template. Records them.
    fn are_own(&self, text: &[u8], split: &Split) -> bool {
        split.pieces.iter().skip(1).step_by(2).all(|value| {
            let begin = memchr::memrchr(b'\n', &text[..value.start]).map_or(0, |it| it + 1);
            let line = text.get(begin..value.end + b"\r\n".len());
            line.is_some_and(|it| !self.is_shared(it))
        })
    }

    fn with_template(&self, text: &[u8]) -> Option<ReadyHead> {
        let split = self.split(text)?;
        with_own_values(text, &split, self.find(text, &split)?, &mut Vec::new())
    }

    /// The number of templates.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Divides a head; `None` where there is too little to share, or a line is of no usual form.
    fn split(&self, text: &[u8]) -> Option<Split> {
        let mut hasher = Xxh3::new();
        let mut pieces: Vec<Range<usize>> = Vec::with_capacity(16);
        // Where the shared piece begins, and the line.
        let (mut from, mut at) = (0, 0);
        while let Some(end) = memchr::memchr(b'\n', &text[at..]).map(|it| at + it + 1) {
            let line = &text[at..end];
            if at > 0 && !self.is_shared(line) {
                let value = own_value(line)?;
                let own = at + value.start..at + value.end;
                hasher.update(&text[from..own.start]);
                hasher.update(b"\n");
                pieces.extend([from..own.start, own.clone()]);
                from = own.end;
            }
            at = end;
        }
        hasher.update(&text[from..]);
        pieces.push(from..text.len());
        let shared: usize = pieces.iter().step_by(2).map(Range::len).sum();
        (shared >= LEAST && at == text.len()).then(|| Split { hash: hasher.digest(), pieces })
    }

    /// Whether a line occurred before; records it.
    fn is_shared(&self, line: &[u8]) -> bool {
        let Some((name, _)) = encode::parts(line) else { return false };
        if OWN.iter().any(|it| it.eq_ignore_ascii_case(name)) {
            return false;
        }
        self.was_seen(xxh3_64(line))
    }

    /// Whether this hash occurred before; records it.
    fn was_seen(&self, hash: u64) -> bool {
        #[allow(clippy::cast_possible_truncation, reason = "parts of a hash")]
        let (place, mark) = (&self.seen[hash as usize % SEEN], (hash >> 32) as u32 | 1);
        place.load(Relaxed) == mark || {
            place.store(mark, Relaxed);
            false
        }
    }

    fn find(&self, text: &[u8], split: &Split) -> Option<Arc<HeadTemplate>> {
        let found = self.all.read().unwrap_or_else(PoisonError::into_inner).get(&split.hash).cloned();
        let template = match found {
            Some(it) => it,
            // A split that occurs only once would take more memory than it saves.
            None if self.was_seen(split.hash) => self.make(text, split)?,
            None => return None,
        };
        // An origin could construct two heads with the same hash.
        template.matches(text, split).then_some(template)
    }

    fn make(&self, text: &[u8], split: &Split) -> Option<Arc<HeadTemplate>> {
        let template = Arc::new(HeadTemplate::of(text, split)?);
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST {
            // Templates without a head.
            all.retain(|_, it| Arc::strong_count(it) > 1);
        }
        (all.len() < MOST).then(|| all.entry(split.hash).or_insert(template).clone())
    }
}

/// Where a field line has its value; `None` where it is not as all are that are written here.
fn own_value(line: &[u8]) -> Option<Range<usize>> {
    let colon = memchr::memchr(b':', line)?;
    let value = colon + 2..line.len().checked_sub(2)?;
    (line.get(colon..value.start) == Some(b": ") && line.get(value.end..) == Some(b"\r\n")).then_some(value)
}

/// Own values of a head: how many there are.
fn values(split: &Split) -> usize {
    split.pieces.len() / 2
}

/// The head with this template; `own` is reused.
fn with_own_values(
    text: &[u8],
    split: &Split,
    template: Arc<HeadTemplate>,
    own: &mut Vec<u8>,
) -> Option<ReadyHead> {
    own.clear();
    own.reserve(OWN_FORMS * (values(split) + text.len()));
    own.resize(OWN_FORMS * values(split), 0);
    for form in HeadForm::OWN {
        for (at, piece) in split.pieces.iter().skip(1).step_by(2).enumerate() {
            let before = own.len();
            form.write_value(&text[piece.clone()], own);
            own[OWN_FORMS * at + form as usize] = u8::try_from(own.len() - before).ok()?;
        }
    }
    // Copied: unused capacity of a vector would be kept as long.
    Some(ReadyHead { template: Some(template), own: Box::from(&own[..]) })
}

impl HeadTemplate {
    fn of(head: &[u8], split: &Split) -> Option<HeadTemplate> {
        let mut forms: [Vec<u8>; FORMS] = Default::default();
        let mut cuts = vec![[0; FORMS]; values(split)];
        let (mut status, mut literals, mut names) = (0, Vec::new(), NameSet::default());
        for form in HeadForm::ALL {
            let out = &mut forms[form as usize];
            let mut own = split.pieces.iter().skip(1).step_by(2).zip(&mut cuts).peekable();
            let (mut from, mut ends) = (0, memchr::memchr_iter(b'\n', head).map(|it| it + 1));
            from = ends.next().inspect(|end| form.write_status(&head[from..*end], out))?;
            if form == HeadForm::Hpack {
                status = out.len();
            }
            for end in ends {
                let begin = out.len();
                let own = own.next_if(|it| it.0.start < end);
                let is_own = own.is_some();
                if let Some((name, value)) = encode::parts(&head[from..end]) {
                    names.insert(std::str::from_utf8(name).unwrap_or_default());
                    match own {
                        Some((_, cut)) => {
                            form.write_name(name, out);
                            cut[form as usize] = u32::try_from(out.len()).ok()?;
                        }
                        None => form.write_field(name, value, out),
                    }
                    form.write_end(out);
                }
                if form == HeadForm::Hpack && out.len() > begin {
                    let (known, end) = (PreparedLiteral::of(&out[begin..])?, u32::try_from(out.len()).ok()?);
                    literals.push(TemplateLiteral { end, is_own, known });
                }
                from = end;
            }
        }
        // A value that is each head's own is empty here; it is replaced where it is.
        let private = PrivatePlace::of(&forms[HeadForm::Text as usize]);
        Some(HeadTemplate {
            forms: forms.map(Into::into),
            cuts: cuts.into(),
            literals: literals.into(),
            status,
            names,
            private,
        })
    }

    /// Divides a head with these shared lines into `split`, but for its hash; returns whether it is one.
    fn divide(&self, head: &[u8], split: &mut Split) -> bool {
        let shared = &self.forms[HeadForm::Text as usize];
        split.pieces.clear();
        // In the template, and in the head.
        let (mut from, mut at) = (0, 0);
        for cut in &self.cuts {
            let cut = cut[HeadForm::Text as usize] as usize;
            let end = at + cut - from;
            if head.get(at..end) != Some(&shared[from..cut]) {
                return false;
            }
            // A value has no line end, which the next shared piece begins with.
            let Some(length) = memchr::memchr(b'\r', &head[end..]) else { return false };
            split.pieces.extend([at..end, end..end + length]);
            (from, at) = (cut, end + length);
        }
        split.pieces.push(at..head.len());
        head[at..] == shared[from..]
    }

    /// Whether it has the very bytes that a head shares, in the same places.
    fn matches(&self, head: &[u8], split: &Split) -> bool {
        let mut at = 0;
        let mut cuts = self.cuts.iter();
        let mut left = values(split);
        let text = &self.forms[HeadForm::Text as usize];
        let all = split.pieces.iter().step_by(2).all(|piece| {
            let is_same = text.get(at..at + piece.len()) == Some(&head[piece.clone()]);
            at += piece.len();
            let is_cut =
                left == 0 || cuts.next().is_some_and(|it| it[HeadForm::Text as usize] as usize == at);
            left = left.saturating_sub(1);
            is_same && is_cut
        });
        all && at == text.len() && cuts.next().is_none()
    }
}
