//! The parts of a response that purge rules compare: key, facts, fields and tags. `rules` has the rules.

use crate::entry::{Stored, StoredArc};
use larder_semantics::expression::{ExpressionFacts, Number, TextName, part_of_key};
use larder_semantics::field::{Field, FieldList};
use larder_semantics::purged::PurgeVerdict;
use larder_semantics::stored::Meta;
use larder_semantics::tags;
use larder_stdx::clock::WallTime;

/// The facts that rules compare.
pub(crate) struct RuleSubject<'a> {
    pub key: &'a [u8],
    pub meta: &'a Meta,
    pub fields: SubjectFields<'a>,
    pub tags: &'a [u64],
    /// Bytes of its body, where known.
    pub size: Option<u64>,
}

/// The place of a response's field lines.
#[derive(Clone, Copy)]
pub(crate) enum SubjectFields<'a> {
    Listed(&'a FieldList),
    Of(&'a Stored),
}

impl Stored {
    pub(crate) fn subject<'a>(&'a self, key: &'a [u8]) -> RuleSubject<'a> {
        let (meta, tags, size) = (&self.meta, self.tags(), Some(self.body.len()));
        RuleSubject { key, meta, fields: SubjectFields::Of(self), tags, size }
    }

    /// The response after a verdict.
    pub(crate) fn after(this: &StoredArc, verdict: PurgeVerdict) -> Option<StoredArc> {
        match verdict {
            PurgeVerdict::Keep => Some(this.clone()),
            _ => Some(StoredArc::new(this.with_meta(verdict.apply(&this.meta)?))),
        }
    }
}

/// The values that expressions see of a response at a moment.
pub(crate) struct ResponseAt<'a> {
    pub subject: &'a RuleSubject<'a>,
    pub now: WallTime,
}

impl ExpressionFacts for ResponseAt<'_> {
    fn text(&self, name: TextName, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        part_of_key(self.subject.key, name).is_some_and(test)
    }

    fn number(&self, name: Number) -> Option<i64> {
        let meta = self.subject.meta;
        match name {
            Number::Status => Some(i64::from(meta.status)),
            Number::Age => Some(i64::from(meta.age(self.now))),
            Number::Ttl => Some(i64::from(meta.lifetime.seconds) - i64::from(meta.age(self.now))),
            Number::Size => i64::try_from(self.subject.size?).ok(),
            Number::Bytes | Number::Duration | Number::Origin | Number::Asn => None,
        }
    }

    fn has_tag(&self, tag: &str) -> bool {
        tags::contain(self.subject.tags, tag)
    }

    fn header(&self, name: &str, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut test = |it: Field<'_>| it.is(name) && test(it.value);
        match self.subject.fields {
            SubjectFields::Listed(list) => list.iter().any(&mut test),
            SubjectFields::Of(stored) => stored.lines().any(&mut test),
        }
    }
}
