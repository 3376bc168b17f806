//! Tests of a condition that are surely mistakes: those that no request passes, whatever its route, such as
//! `client == "10.0.0.0/8"`, and those that read a spelling of the client.

use super::possible::is_value;
use super::{Compare, Expression, ExpressionNode, Match, Named, Number, TextName, parse};
use crate::host::host_of;
use crate::method;
use crate::network::Network;
use std::net::IpAddr;

impl Expression {
    /// Each test that is never true, with a remedy: one clause.
    #[must_use]
    pub fn never_true(&self) -> Vec<String> {
        let mut found = Vec::new();
        self.0.root.each_test(&mut |it| found.extend(never_true(it)));
        found
    }

    /// Each test of a text in the spelling of the client, with a remedy: one clause. A client can avoid such a test by a spelling
    /// of the same resource, such as `%61` for `a`.
    #[must_use]
    pub fn spelled_tests(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        self.0.root.each_test(&mut |it| found.extend(spelled(it).filter(|it| !found.contains(it))));
        found
    }
}

impl ExpressionNode {
    fn each_test<'a>(&'a self, test: &mut dyn FnMut(&'a ExpressionNode)) {
        match self {
            ExpressionNode::Any(all) | ExpressionNode::All(all) => {
                all.iter().for_each(|it| it.each_test(test));
            }
            ExpressionNode::Not(it) => it.each_test(test),
            one => test(one),
        }
    }
}

fn never_true(test: &ExpressionNode) -> Option<String> {
    match test {
        ExpressionNode::Text(name, Match::Is(value)) => never_is(*name, value),
        ExpressionNode::Text(name, Match::OneOf(values)) => values.iter().find_map(|it| never_is(*name, it)),
        ExpressionNode::Text(name, Match::Begins(part)) => never_has(*name, part, "begins with"),
        ExpressionNode::Text(name, Match::Ends(part)) => never_has(*name, part, "ends with"),
        ExpressionNode::Text(name, Match::Contains(part)) => never_has(*name, part, "contains"),
        ExpressionNode::Number(Number::Status, compare, than) if !compare.holds_between(*than, 100, 599) => {
            Some(format!("status is never {} {than}: it is a number from 100 to 599", compare.sign()))
        }
        _ => None,
    }
}

/// A value that a text never has, and the right one.
fn never_is(name: TextName, value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(value).ok()?;
    let remedy = match name {
        TextName::Method => {
            let upper = text.to_ascii_uppercase();
            let is_mistake = upper != text && method::REGISTERED.contains(&upper.as_str());
            is_mistake.then(|| format!("methods are case-sensitive; write \"{upper}\""))?
        }
        TextName::Type => {
            let plain = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            (plain != text).then(|| format!("it is in lower case, without parameters; write \"{plain}\""))?
        }
        _ if is_value(name, value) => return None,
        TextName::Client => match text.parse::<IpAddr>() {
            Ok(it) => format!("write \"{}\"", it.to_canonical()),
            Err(_) if Network::parse(text).is_some() => {
                format!("it is one address; for a network, write client in \"{text}\"")
            }
            Err(_) => "it is an address, such as \"192.0.2.7\"".to_owned(),
        },
        TextName::Host => {
            format!("it is in lower case and without port; write \"{}\"", host_of(text).to_ascii_lowercase())
        }
        TextName::Path => format!("it begins with \"/\"; write \"/{text}\""),
        TextName::Scheme => "it is \"http\" or \"https\"".to_owned(),
        TextName::Country => "it is two letters in upper case, such as \"DE\"".to_owned(),
        _ => return None,
    };
    Some(format!("{} is never \"{text}\": {remedy}", parse::name_of(name)))
}

/// A part that a text never has, and the right one. `how` says where.
fn never_has(name: TextName, part: &[u8], how: &str) -> Option<String> {
    let text = std::str::from_utf8(part).ok()?;
    let remedy = match name {
        TextName::Host if part.iter().any(u8::is_ascii_uppercase) => {
            format!("it is in lower case; write \"{}\"", text.to_ascii_lowercase())
        }
        TextName::Path if how == "begins with" && !part.is_empty() && part[0] != b'/' => {
            format!("it begins with \"/\"; write \"^/{text}\"")
        }
        TextName::Client if part.contains(&b'/') => {
            "it is one address; for a network, write client in \"10.0.0.0/8\"".to_owned()
        }
        _ => return None,
    };
    Some(format!("{} never {how} \"{text}\": {remedy}", parse::name_of(name)))
}

fn spelled(test: &ExpressionNode) -> Option<&'static str> {
    match test {
        // An empty query is empty in every spelling.
        ExpressionNode::Text(TextName::Query, Match::Is(it)) if it.is_empty() => None,
        ExpressionNode::Text(TextName::Query, _) => Some(
            "query is tested as the client spells it, so that \"%61\" is not \"a\"; test query.NAME, which is decoded",
        ),
        ExpressionNode::Text(TextName::Url, _) => Some(
            "url is tested as the client spells it, so that \"%61\" is not \"a\"; test host, path or query.NAME, which are \
             normalized",
        ),
        ExpressionNode::Named(Named::Header, name, _) if name.eq_ignore_ascii_case("host") => Some(
            "header.Host is tested as the client spells it, in upper or lower case and with or without a port; test host",
        ),
        _ => None,
    }
}

impl Compare {
    /// Whether some number of this range passes the comparison with `than`.
    fn holds_between(self, than: i64, least: i64, most: i64) -> bool {
        [least, most, than].into_iter().any(|it| (least..=most).contains(&it) && self.holds(it, than))
    }

    fn sign(self) -> &'static str {
        match self {
            Compare::Equal => "==",
            Compare::Other => "!=",
            Compare::Less => "<",
            Compare::AtMost => "<=",
            Compare::More => ">",
            Compare::AtLeast => ">=",
        }
    }
}
