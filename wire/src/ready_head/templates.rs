//! The lines that heads share: recognised by an earlier occurrence, stored once for all heads with them.

use super::{FORMS, HeadForm, HeadTemplate, ReadyHead};
use crate::http2::hpack::encode;
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

/// The lines of a head, separated into shared and own ones.
#[derive(Default)]
struct Split {
    /// The hash of the shared lines and of the positions of the others.
    hash: u64,
    /// The pieces: shared and own by turns, shared first.
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
        let split = self.split(text);
        let shared: usize = split.pieces.iter().step_by(2).map(Range::len).sum();
        let template = if shared < LEAST { None } else { self.find(text, &split) };
        match template.and_then(|it| own(text, &split, it)) {
            Some(it) => it,
            None if head.bytes(HeadForm::Hpack).is_empty() => ReadyHead::new(text),
            None => head,
        }
    }

    /// The number of templates.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.all.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn split(&self, text: &[u8]) -> Split {
        let mut hasher = Xxh3::new();
        let mut pieces: Vec<Range<usize>> = Vec::with_capacity(12);
        let mut at = 0;
        while at < text.len() {
            let end = memchr::memchr(b'\n', &text[at..]).map_or(text.len(), |it| at + it + 1);
            let line = &text[at..end];
            let is_shared = at == 0 || self.is_shared(line);
            // The parity of the number of pieces shows whether a shared line or an own one comes next.
            if is_shared == (pieces.len() % 2 == 1) {
                if let Some(last) = pieces.last_mut() {
                    last.end = end;
                }
            } else {
                pieces.push(at..end);
                hasher.update(&[u8::from(is_shared)]);
            }
            if is_shared {
                hasher.update(line);
            }
            at = end;
        }
        Split { hash: hasher.digest(), pieces }
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
        template.is_of(text, split).then_some(template)
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

/// The number of own runs of a head.
fn runs(split: &Split) -> usize {
    split.pieces.len() / 2
}

fn own(text: &[u8], split: &Split, template: Arc<HeadTemplate>) -> Option<ReadyHead> {
    let runs = runs(split);
    let mut own = vec![0; FORMS * runs];
    own.reserve(FORMS * text.len());
    for form in HeadForm::ALL {
        for (run, piece) in split.pieces.iter().skip(1).step_by(2).enumerate() {
            let before = own.len();
            form.write_fields(&text[piece.clone()], &mut own);
            own[FORMS * run + form as usize] = u8::try_from(own.len() - before).ok()?;
        }
    }
    // Copied: unused capacity of a vector would be kept as long.
    Some(ReadyHead { template: Some(template), own: Box::from(&own[..]) })
}

impl HeadTemplate {
    fn of(head: &[u8], split: &Split) -> Option<HeadTemplate> {
        let mut forms: [Vec<u8>; FORMS] = Default::default();
        let mut cuts = vec![[0; FORMS]; runs(split)];
        for form in HeadForm::ALL {
            let out = &mut forms[form as usize];
            for (at, piece) in split.pieces.iter().step_by(2).enumerate() {
                match at {
                    0 => form.write_head(&head[piece.clone()], out),
                    _ => form.write_fields(&head[piece.clone()], out),
                }
                if let Some(cut) = cuts.get_mut(at) {
                    cut[form as usize] = u32::try_from(out.len()).ok()?;
                }
            }
        }
        Some(HeadTemplate { forms: forms.map(Into::into), cuts: cuts.into() })
    }

    /// Whether it has exactly the shared lines of a head, at the same positions.
    fn is_of(&self, head: &[u8], split: &Split) -> bool {
        let mut at = 0;
        let mut cuts = self.cuts.iter();
        let mut left = runs(split);
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
