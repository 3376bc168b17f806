//! The fields that a route sets and removes in requests to its origins (`site.route.request_headers`).
//!
//! A request whose response may be shared contains only what its key determines. A value that reads anything else is
//! left out of it, with the client's own field of that name; the client's address is sent as `X-Forwarded-For` is.

use crate::field::FieldList;
use crate::key::KeyRecipe;
use crate::policy::IDENTITY;
use crate::request_view::RequestView;
use crate::template::{Template, TemplateInput};

/// The rules of a route.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestFields {
    /// Names, each with its value.
    pub set: Vec<(String, Template)>,
    /// Names of fields that are not sent.
    pub remove: Vec<String>,
}

impl RequestFields {
    /// Sets a field, in place of an earlier rule about it.
    pub fn set(&mut self, name: &str, value: Template) {
        self.forget(name);
        self.set.push((name.to_owned(), value));
    }

    /// Removes a field, in place of an earlier rule about it.
    pub fn remove(&mut self, name: &str) {
        self.forget(name);
        self.remove.push(name.to_owned());
    }

    fn forget(&mut self, name: &str) {
        self.set.retain(|it| !is_same(&it.0, name));
        self.remove.retain(|it| !is_same(it, name));
    }

    /// Whether there are no rules.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.set.is_empty() && self.remove.is_empty()
    }

    /// Applies the rules to the fields for an origin. `shared` is the key of the request if its response may be shared.
    pub fn apply(&self, view: &RequestView<'_>, shared: Option<&KeyRecipe>, fields: &mut FieldList) {
        let is_named = |name: &str| {
            self.set.iter().any(|it| is_same(&it.0, name)) || self.remove.iter().any(|it| is_same(it, name))
        };
        if fields.iter().any(|it| is_named(it.name)) {
            fields.retain(|it| !is_named(it.name));
        }
        let mut value = Vec::new();
        for (name, template) in &self.set {
            if shared.is_some_and(|key| undetermined(template, key).is_some()) {
                continue;
            }
            value.clear();
            template.expand(view, &mut value);
            if !value.trim_ascii().is_empty() {
                fields.push(name, value.trim_ascii());
            }
        }
    }

    /// The changes, for `explain`.
    #[must_use]
    pub fn describe(&self) -> String {
        let set: Vec<&str> = self.set.iter().map(|it| it.0.as_str()).collect();
        let parts = [("sets ", set.join(", ")), ("removes ", self.remove.join(", "))];
        let parts: Vec<String> =
            parts.into_iter().filter(|it| !it.1.is_empty()).map(|it| it.0.to_owned() + &it.1).collect();
        parts.join("; ")
    }
}

/// The first part of a request that a template reads and the key does not determine. The client's address and the
/// identifier are sent although they are not in the key, unless that is strict: applications log them.
#[must_use]
pub fn undetermined<'t>(template: &'t Template, key: &KeyRecipe) -> Option<TemplateInput<'t>> {
    template.inputs().find(|it| match it {
        TemplateInput::Url => false,
        TemplateInput::Client | TemplateInput::RequestId => key.strict,
        TemplateInput::Country => !key.has_country(),
        TemplateInput::User => !key.headers.iter().any(|it| it == IDENTITY),
        TemplateInput::Method | TemplateInput::Listener | TemplateInput::Asn => true,
        TemplateInput::Header(name) => !key.headers.iter().any(|it| it.eq_ignore_ascii_case(name)),
        TemplateInput::Cookie(name) => !key.cookies.iter().any(|it| it == name),
    })
}

/// Whether two names are one for an application: behind CGI and the like underscores are hyphens (RFC 3875 §4.1.18).
fn is_same(ours: &str, theirs: &str) -> bool {
    let plain = |it: u8| if it == b'_' { b'-' } else { it.to_ascii_lowercase() };
    ours.len() == theirs.len() && ours.bytes().map(plain).eq(theirs.bytes().map(plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Field;

    fn rules(set: &[(&str, &str)], remove: &[&str]) -> RequestFields {
        RequestFields {
            set: set.iter().map(|it| (it.0.to_owned(), Template::parse(it.1).unwrap())).collect(),
            remove: remove.iter().map(|it| (*it).to_owned()).collect(),
        }
    }

    #[track_caller]
    fn check(rules: &RequestFields, shared: Option<&KeyRecipe>, expect: &str) {
        let sent = [("A", "client"), ("X_User", "forged"), ("B", "2")];
        let sent = sent.map(|(name, value)| Field { name, value: value.as_bytes() });
        let client = [Field { name: "X-In", value: b"in" }, Field { name: "Cookie", value: b"c=d" }];
        let view = RequestView {
            client: Some("10.1.2.3".parse().unwrap()),
            fields: &client,
            ..RequestView::default()
        };
        let mut fields = FieldList::from_fields(&sent);
        rules.apply(&view, shared, &mut fields);
        assert_eq!(expect, String::from_utf8_lossy(fields.text()).replace("\r\n", "|"));
    }

    #[test]
    fn fields_are_set_and_removed() {
        check(&rules(&[("A", "x{path}")], &["b"]), None, "X_User: forged|A: x/|");
        check(&rules(&[("X-User", "u")], &[]), None, "A: client|B: 2|X-User: u|");
        check(&rules(&[("A", "{header.none}")], &[]), None, "X_User: forged|B: 2|");
        check(&rules(&[], &["c"]), None, "A: client|X_User: forged|B: 2|");
    }

    #[test]
    fn a_shared_request_has_only_fields_that_its_key_determines() {
        let all = rules(
            &[
                ("A", "{header.x-in}"),
                ("C", "{cookie.c}"),
                ("D", "{client}"),
                ("E", "{uri}"),
                ("F", "{method}"),
            ],
            &["X-User", "B"],
        );
        check(&all, None, "A: in|C: c=d|D: 10.1.2.3|E: /|F: GET|".replace("c=d", "d").as_str());
        let mut key = KeyRecipe::default();
        check(&all, Some(&key), "D: 10.1.2.3|E: /|");
        key.headers = vec!["X-In".to_owned()];
        key.cookies = vec!["c".to_owned()];
        check(&all, Some(&key), "A: in|C: d|D: 10.1.2.3|E: /|");
        key.strict = true;
        check(&all, Some(&key), "A: in|C: d|E: /|");
        let user = Template::parse("{remote_user}").unwrap();
        assert_eq!(Some(TemplateInput::User), undetermined(&user, &key));
        key.headers.push(IDENTITY.to_owned());
        assert_eq!(None, undetermined(&user, &key));
    }
}
