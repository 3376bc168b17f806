//! Targeted cache control (RFC 9213): the field whose directives are in force.
//!
//! A targeted field is a structured dictionary (RFC 9651), not another `Cache-Control`: upper case in a name, a space
//! next to the `=` or a stray comma is an error, and an error makes the whole field count as absent (§2.1). A well-formed
//! member of the wrong type (`max-age="60"`, `max-age=1.5`) is no directive; a field with only such members counts as
//! absent, too.

use crate::cache_control::{MAX_DELTA, Qualified, ResponseDirectives};
use crate::field::{Field, all};
use crate::policy::Policy;
use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef, Parser};
use std::convert::Infallible;

/// The directives in force and their field: the first target of the policy that is present and a valid, non-empty
/// structured dictionary, otherwise `Cache-Control`. `Expires` and `Cache-Control` are ignored when a targeted field is
/// in force (RFC 9213 §2.1).
#[must_use]
pub fn directives<'p>(fields: &[Field<'_>], policy: &'p Policy) -> (ResponseDirectives, Option<&'p str>) {
    for target in &policy.targets {
        if let Some(found) = read(fields, target) {
            return (found, Some(target));
        }
    }
    (ResponseDirectives::read(fields), None)
}

/// The directives of the targeted field `name`; `None` if it is absent, empty or invalid.
#[must_use]
pub fn read(fields: &[Field<'_>], name: &str) -> Option<ResponseDirectives> {
    let mut lines = all(fields, name);
    let first = lines.next()?;
    let mut members = DirectiveMembers::default();
    // Several lines are one list (RFC 9651 §4.2); joining them allocates, but is rare.
    let parsed = match lines.next() {
        None => Parser::new(first).parse_dictionary_with_visitor(&mut members),
        Some(_) => {
            let joined = all(fields, name).collect::<Vec<_>>().join(&b", "[..]);
            Parser::new(&joined).parse_dictionary_with_visitor(&mut members)
        }
    };
    let usable = members.usable || (members.any && !members.mistyped);
    (parsed.is_ok() && usable).then_some(members.found)
}

/// The members found so far. Duplicate keys: the last one wins (RFC 9651 §4.2.2).
#[derive(Default)]
struct DirectiveMembers {
    found: ResponseDirectives,
    any: bool,
    usable: bool,
    mistyped: bool,
}

/// One known directive that waits for its value.
struct PendingDirective<'m> {
    members: &'m mut DirectiveMembers,
    name: DirectiveName,
    list: Vec<u8>,
}

#[derive(Clone, Copy)]
enum DirectiveName {
    MaxAge,
    SMaxAge,
    StaleWhileRevalidate,
    StaleIfError,
    NoCache,
    Private,
    NoStore,
    NoTransform,
    Public,
    MustRevalidate,
    ProxyRevalidate,
    MustUnderstand,
    Immutable,
}

impl DirectiveName {
    fn of(key: &str) -> Option<DirectiveName> {
        Some(match key {
            "max-age" => DirectiveName::MaxAge,
            "s-maxage" => DirectiveName::SMaxAge,
            "stale-while-revalidate" => DirectiveName::StaleWhileRevalidate,
            "stale-if-error" => DirectiveName::StaleIfError,
            "no-cache" => DirectiveName::NoCache,
            "private" => DirectiveName::Private,
            "no-store" => DirectiveName::NoStore,
            "no-transform" => DirectiveName::NoTransform,
            "public" => DirectiveName::Public,
            "must-revalidate" => DirectiveName::MustRevalidate,
            "proxy-revalidate" => DirectiveName::ProxyRevalidate,
            "must-understand" => DirectiveName::MustUnderstand,
            "immutable" => DirectiveName::Immutable,
            _ => return None,
        })
    }
}

impl DirectiveMembers {
    /// Takes a value for `name`; false if its type is not the directive's.
    fn set(&mut self, name: DirectiveName, value: &BareItemFromInput<'_>) -> bool {
        let it = &mut self.found;
        let slot = match name {
            DirectiveName::MaxAge => &mut it.max_age,
            DirectiveName::SMaxAge => &mut it.s_maxage,
            DirectiveName::StaleWhileRevalidate => &mut it.stale_while_revalidate,
            DirectiveName::StaleIfError => &mut it.stale_if_error,
            DirectiveName::NoCache => return qualify(&mut it.no_cache, value),
            DirectiveName::Private => return qualify(&mut it.private, value),
            DirectiveName::NoStore => return flag(&mut it.no_store, value),
            DirectiveName::NoTransform => return flag(&mut it.no_transform, value),
            DirectiveName::Public => return flag(&mut it.public, value),
            DirectiveName::MustRevalidate => return flag(&mut it.must_revalidate, value),
            DirectiveName::ProxyRevalidate => return flag(&mut it.proxy_revalidate, value),
            DirectiveName::MustUnderstand => return flag(&mut it.must_understand, value),
            DirectiveName::Immutable => return flag(&mut it.immutable, value),
        };
        *slot = None;
        let BareItemFromInput::Integer(seconds) = value else { return false };
        // Negative is stale; beyond 2^31 is 2^31 (RFC 9111 §1.2.2).
        let clamped = i64::from(*seconds).clamp(0, i64::from(MAX_DELTA));
        *slot = Some(u32::try_from(clamped).unwrap_or(MAX_DELTA));
        true
    }

    fn note(&mut self, fits: bool) {
        self.usable |= fits;
        self.mistyped |= !fits;
    }
}

fn flag(slot: &mut bool, value: &BareItemFromInput<'_>) -> bool {
    let BareItemFromInput::Boolean(on) = value else {
        *slot = false;
        return false;
    };
    *slot = *on;
    true
}

fn qualify(slot: &mut Qualified, value: &BareItemFromInput<'_>) -> bool {
    let mut found = Qualified::Absent;
    *slot = Qualified::Absent;
    match value {
        BareItemFromInput::Boolean(true) => found = Qualified::Whole,
        BareItemFromInput::Boolean(false) => {}
        BareItemFromInput::String(names) => found.add_names(names.as_str().as_bytes()),
        BareItemFromInput::Token(name) => found.add_names(name.as_str().as_bytes()),
        _ => return false,
    }
    *slot = found;
    true
}

impl<'de> DictionaryVisitor<'de> for DirectiveMembers {
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        self.any = true;
        Ok(DirectiveName::of(key.as_str()).map(|name| PendingDirective {
            members: self,
            name,
            list: Vec::new(),
        }))
    }
}

impl<'de> ItemVisitor<'de> for PendingDirective<'_> {
    type Error = Infallible;

    fn bare_item(self, value: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de>, Infallible> {
        let fits = self.members.set(self.name, &value);
        self.members.note(fits);
        Ok(Ignored)
    }
}

impl<'de> EntryVisitor<'de> for PendingDirective<'_> {
    /// `no-cache=("a" "b")`: an inner list of names.
    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        Ok(self)
    }
}

impl<'de> InnerListVisitor<'de> for PendingDirective<'_> {
    type Error = Infallible;

    fn item(&mut self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(ListItem(&mut self.list))
    }

    fn finish(self) -> Result<impl ParameterVisitor<'de>, Infallible> {
        let slot = match self.name {
            DirectiveName::NoCache => Some(&mut self.members.found.no_cache),
            DirectiveName::Private => Some(&mut self.members.found.private),
            _ => None,
        };
        let fits = slot.is_some();
        if let Some(slot) = slot {
            *slot = Qualified::Absent;
            slot.add_names(&self.list);
        }
        self.members.note(fits);
        Ok(Ignored)
    }
}

/// One name of an inner list; a member other than a string or token makes the list invalid.
struct ListItem<'l>(&'l mut Vec<u8>);

impl<'de> ItemVisitor<'de> for ListItem<'_> {
    type Error = Infallible;

    fn bare_item(self, value: BareItemFromInput<'de>) -> Result<impl ParameterVisitor<'de>, Infallible> {
        match &value {
            BareItemFromInput::String(name) => self.0.extend_from_slice(name.as_str().as_bytes()),
            BareItemFromInput::Token(name) => self.0.extend_from_slice(name.as_str().as_bytes()),
            _ => self.0.push(b'?'),
        }
        self.0.push(b',');
        Ok(Ignored)
    }
}

#[cfg(test)]
mod tests;
