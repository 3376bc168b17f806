//! The finish of responses: rules over their fields, the lifetime for clients, and error pages. They apply when a response is
//! sent, over every protocol and at both speeds, to hits, files and errors alike; nothing of it is stored. The settings of a
//! route, and the values with variables, are made by the server.

use bytes::Bytes;
use larder_semantics::client_ttl::{self, ClientLifetime, ClientTtl};
use larder_semantics::conditional;
use larder_semantics::field::{Field, FieldList, NameSet};
use larder_wire::ready_head::ReadyHead;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The rules for the fields of one name, in one response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResponseFieldRule {
    /// The name.
    pub name: String,
    /// Whether the lines of the response are removed.
    pub removes: bool,
    /// The values of added lines.
    pub adds: Vec<Vec<u8>>,
    /// The value of a line that is added to responses without one.
    pub default: Option<Vec<u8>>,
    /// The value of a line that replaces those of the response, if it has any.
    pub replacement: Option<Vec<u8>>,
}

/// A page in place of errors; shared by the responses of a worker.
#[derive(Debug, Default)]
pub struct ErrorPage {
    /// The media type and the body; `None` as long as it could not be had.
    content: RefCell<Option<(Rc<str>, Bytes)>>,
    /// Whether it was looked for since [`Self::take_use`].
    is_used: Cell<bool>,
}

impl ErrorPage {
    /// A page with this body.
    #[must_use]
    pub fn new(media_type: &str, body: Bytes) -> Self {
        let page = Self::default();
        page.replace(media_type, body);
        page
    }

    /// Replaces the body for later responses.
    pub fn replace(&self, media_type: &str, body: Bytes) {
        self.content.replace(Some((media_type.into(), body)));
    }

    /// Takes over the body of a page of an earlier configuration, if it has one.
    pub fn inherit(&self, other: &Self) {
        self.content.replace(other.content.borrow().clone());
    }

    /// Records that it was looked for.
    pub fn note_use(&self) {
        self.is_used.set(true);
    }

    /// Whether it was looked for since this was last called.
    pub fn take_use(&self) -> bool {
        self.is_used.take()
    }

    fn content(&self) -> Option<(Rc<str>, Bytes)> {
        self.note_use();
        self.content.borrow().clone()
    }
}

/// The error pages of a route; shared by its responses.
#[derive(Clone, Debug, Default)]
pub struct ErrorPages {
    /// A status, or 4 or 5 for a class of them, and its page.
    pub pages: Vec<(u16, Rc<ErrorPage>)>,
    /// Whether they also replace errors of the origin.
    pub replaces_origins: bool,
}

/// The finish of one response.
#[derive(Clone, Debug, Default)]
pub struct ResponseFinish {
    rules: Vec<ResponseFieldRule>,
    /// The names whose lines in a response matter.
    names: NameSet,
    /// The same without those that matter to a private response only.
    names_of_rules: NameSet,
    client_ttl: Option<ClientTtl>,
    /// Whether only the client's own cache may keep the response.
    is_private: bool,
    pages: Rc<ErrorPages>,
    /// `Set-Cookie` lines for the client of this response.
    cookies: Vec<Vec<u8>>,
}

/// The fields that let a cache keep a response with `Set-Cookie` lines of its client.
const CACHE_FIELDS: [&str; 4] = ["cache-control", "expires", "cdn-cache-control", "surrogate-control"];

/// The most rules with a default: one bit each while a response is written.
pub const MAX_RULES: usize = 64;

impl ResponseFinish {
    /// A finish by `rules`, of which the first [`MAX_RULES`] count; `client_ttl` is the lifetime for clients.
    #[must_use]
    pub fn new(
        mut rules: Vec<ResponseFieldRule>,
        client_ttl: Option<ClientTtl>,
        pages: Rc<ErrorPages>,
    ) -> Self {
        rules.truncate(MAX_RULES);
        let mut names = NameSet::default();
        for it in rules.iter().filter(|it| it.removes || it.default.is_some()) {
            names.insert(&it.name);
        }
        if client_ttl.is_some() {
            client_ttl::FIELDS.iter().for_each(|it| names.insert(it));
        }
        let names_of_rules = names;
        Self { rules, names, names_of_rules, client_ttl, is_private: false, pages, cookies: Vec::new() }
    }

    /// The same for responses that only the client's own cache may keep.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.is_private = true;
        self.names.insert("cache-control");
        client_ttl::FOR_SHARED_CACHES.iter().for_each(|it| self.names.insert(it));
        self
    }

    /// The same with `Set-Cookie` lines for one client, whose response no shared cache may keep.
    #[must_use]
    pub fn with_cookies(mut self, lines: &[Vec<u8>]) -> Self {
        self.cookies.extend_from_slice(lines);
        (self.client_ttl, self.is_private) = (None, false);
        CACHE_FIELDS.iter().for_each(|it| self.names.insert(it));
        self
    }

    /// The names whose lines in a response matter.
    #[must_use]
    pub fn names(&self) -> NameSet {
        self.names
    }

    /// Whether it depends on the fields of a response before they are written.
    #[inline]
    pub(crate) fn reads_fields(&self) -> bool {
        self.client_ttl.is_some()
    }

    /// Whether a head becomes final by being made private, apart from lines that are added at its end.
    #[inline]
    pub(crate) fn makes_private_only(&self, head: &ReadyHead) -> bool {
        self.is_private && !head.may_have(self.names_of_rules)
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &[ResponseFieldRule] {
        &self.rules
    }

    /// Whether errors of the origin with this status are replaced by a page.
    #[must_use]
    pub fn replaces(&self, status: u16) -> bool {
        self.pages.replaces_origins && self.has_page(status)
    }

    /// Whether there is an error page for a status.
    #[must_use]
    pub fn has_page(&self, status: u16) -> bool {
        self.page(status).is_some()
    }

    /// The media type and body of the error page of a status.
    pub(crate) fn page(&self, status: u16) -> Option<(Rc<str>, Bytes)> {
        let of = |wanted: u16| self.pages.pages.iter().find(|it| it.0 == wanted)?.1.content();
        if status < 400 { None } else { of(status).or_else(|| of(status / 100)) }
    }

    /// The fields of a response with its rules applied.
    #[must_use]
    pub fn apply(&self, status: u16, fields: &FieldList) -> FieldList {
        let mut pass = FinishPass::begin(self, status, fields.iter());
        let mut finished =
            FieldList::with_capacity(fields.iter().len() + self.rules.len() + 1, fields.text().len() + 64);
        let mut text = Vec::new();
        for it in fields.iter() {
            match pass.action(self, it.name) {
                FieldAction::Sent => finished.push(it.name, it.value),
                FieldAction::Removed => {}
                FieldAction::Private => {
                    text.clear();
                    text.extend_from_slice(it.value);
                    client_ttl::make_private(&mut text, 0);
                    finished.push(it.name, &text);
                }
            }
        }
        pass.end(self, |name, value| {
            text.clear();
            value.write(&mut text);
            finished.push(name, &text);
        });
        finished
    }
}

/// The value of a line that the finish adds.
pub(crate) enum AddedValue<'a> {
    Text(&'a [u8]),
    Lifetime(ClientLifetime),
}

impl AddedValue<'_> {
    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            AddedValue::Text(text) => out.extend_from_slice(text),
            AddedValue::Lifetime(it) => it.write(out),
        }
    }
}

/// The treatment of a line of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldAction {
    /// It is sent.
    Sent,
    /// It is not sent.
    Removed,
    /// It is sent with the value that [`client_ttl::make_private`] makes of its own.
    Private,
}

/// The state of one response while its fields are written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FinishPass {
    status: u16,
    /// The rules with a default whose field the response has: a bit each.
    seen: u64,
    /// The lifetime for clients; with it the fields of lifetimes are removed.
    lifetime: Option<ClientLifetime>,
    /// Whether a line says that the response is private.
    is_marked: bool,
}

impl FinishPass {
    /// The pass over a response with these fields.
    pub fn begin<'f>(
        finish: &ResponseFinish,
        status: u16,
        fields: impl Iterator<Item = Field<'f>> + Clone,
    ) -> Self {
        let sets_own =
            || finish.rules.iter().any(|it| it.removes && it.name.eq_ignore_ascii_case("cache-control"));
        let lifetime = finish.client_ttl.filter(|_| !sets_own());
        let lifetime = lifetime.and_then(|it| ClientLifetime::of(it, status, fields));
        let lifetime = lifetime.map(|it| if finish.is_private { it.private() } else { it });
        Self { status, seen: 0, lifetime, is_marked: lifetime.is_some() }
    }

    /// Records that a line says that the response is private.
    #[inline]
    pub fn note_private(&mut self) {
        self.is_marked = true;
    }

    /// The treatment of a line of this name; records it.
    #[inline]
    pub fn action(&mut self, finish: &ResponseFinish, name: &str) -> FieldAction {
        if finish.names.may_have(name) { self.action_for_named(finish, name) } else { FieldAction::Sent }
    }

    /// The same for a name that a rule may have.
    fn action_for_named(&mut self, finish: &ResponseFinish, name: &str) -> FieldAction {
        if !self.keeps(finish, name) {
            return FieldAction::Removed;
        }
        if finish.is_private && name.eq_ignore_ascii_case("cache-control") {
            self.is_marked = true;
            return FieldAction::Private;
        }
        FieldAction::Sent
    }

    fn keeps(&mut self, finish: &ResponseFinish, name: &str) -> bool {
        if finish.is_private && client_ttl::FOR_SHARED_CACHES.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            return false;
        }
        if self.lifetime.is_some() && client_ttl::REPLACED.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            return false;
        }
        if !finish.cookies.is_empty() && CACHE_FIELDS.iter().any(|it| name.eq_ignore_ascii_case(it)) {
            return false;
        }
        let Some(at) = finish.rules.iter().position(|it| name.eq_ignore_ascii_case(&it.name)) else {
            return true;
        };
        self.seen |= 1 << at;
        !finish.rules[at].removes
    }

    /// Adds the lines that follow those of the response.
    pub fn end(&mut self, finish: &ResponseFinish, mut add: impl FnMut(&str, AddedValue<'_>)) {
        if let Some(it) = self.lifetime {
            add("Cache-Control", AddedValue::Lifetime(it));
        }
        if !finish.cookies.is_empty() {
            add("Cache-Control", AddedValue::Text(b"private, no-cache"));
            finish.cookies.iter().for_each(|it| add("Set-Cookie", AddedValue::Text(it)));
        }
        let is_settled = |name: &str| {
            !finish.cookies.is_empty() && CACHE_FIELDS.iter().any(|it| name.eq_ignore_ascii_case(it))
        };
        let status = self.status;
        let fits = |name: &str| (status != 304 || conditional::in_not_modified(name)) && !is_settled(name);
        for (at, rule) in finish.rules.iter().enumerate().filter(|it| fits(&it.1.name)) {
            rule.adds.iter().for_each(|it| add(&rule.name, AddedValue::Text(it)));
            let is_seen = self.seen & (1 << at) != 0;
            let other = if is_seen { &rule.replacement } else { &rule.default };
            if let Some(value) = other {
                add(&rule.name, AddedValue::Text(value));
            }
            let gives = other.is_some() || !rule.adds.is_empty();
            self.is_marked |= gives && rule.name.eq_ignore_ascii_case("cache-control");
        }
        if finish.is_private && !self.is_marked {
            add("Cache-Control", AddedValue::Text(b"private"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: &str, removes: bool, adds: &[&str], default: Option<&str>) -> ResponseFieldRule {
        let adds = adds.iter().map(|it| it.as_bytes().to_vec()).collect();
        ResponseFieldRule {
            name: name.to_owned(),
            removes,
            adds,
            default: default.map(|it| it.as_bytes().to_vec()),
            replacement: None,
        }
    }

    #[track_caller]
    fn check(
        rules: &[ResponseFieldRule],
        client_ttl: Option<u32>,
        status: u16,
        fields: &[(&str, &str)],
        expected: &str,
    ) {
        let mut list = FieldList::new();
        fields.iter().for_each(|it| list.push(it.0, it.1));
        let client_ttl = client_ttl.map(|seconds| ClientTtl { seconds, is_shareable: false });
        let finish = ResponseFinish::new(rules.to_vec(), client_ttl, Rc::default());
        let text = finish.apply(status, &list).text().to_vec();
        assert_eq!(expected.replace('\n', "\r\n"), String::from_utf8(text).unwrap());
    }

    #[test]
    fn rules_remove_add_and_default() {
        let fields = [("Server", "a"), ("X-A", "1"), ("x-a", "2"), ("B", "3")];
        check(&[rule("x-a", true, &[], None)], None, 200, &fields, "Server: a\nB: 3\n");
        check(&[rule("X-A", true, &["new"], None)], None, 200, &fields, "Server: a\nB: 3\nX-A: new\n");
        check(&[rule("B", false, &["4", "5"], None)], None, 200, &fields[3..], "B: 3\nB: 4\nB: 5\n");
        check(&[rule("b", false, &[], Some("6"))], None, 200, &fields[3..], "B: 3\n");
        check(&[rule("C", false, &[], Some("6"))], None, 200, &fields[3..], "B: 3\nC: 6\n");
    }

    #[test]
    fn a_304_gets_nothing_that_describes_its_representation() {
        let rules = [rule("Content-Type", true, &["a/b"], None), rule("X", true, &["y"], None)];
        check(&rules, None, 304, &[("ETag", "\"a\"")], "ETag: \"a\"\nX: y\n");
    }

    #[test]
    fn a_lifetime_for_clients_replaces_that_of_the_cache() {
        let fields = [("Cache-Control", "public, s-maxage=600"), ("Expires", "0"), ("Age", "5"), ("A", "b")];
        check(&[], Some(60), 200, &fields, "A: b\nCache-Control: public, max-age=60\n");
        let private = [("Cache-Control", "private"), ("A", "b")];
        check(&[], Some(60), 200, &private, "Cache-Control: private\nA: b\n");
    }
}
