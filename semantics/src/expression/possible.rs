//! Whether conditions can be true or false at once: contradictions such as `method == "GET" && method == "POST"`, over the values
//! that requests of a route can have.

use super::{Expression, ExpressionNode, Match, Number, TextName};
use crate::host::host_of;
use crate::network::Network;
use crate::scheme::Scheme;
use std::net::IpAddr;

/// The alternatives of a condition that are examined; beyond, it counts as possible.
const MOST_STEPS: usize = 2000;

/// The values that requests of a route can have.
pub struct RequestDomain<'a> {
    /// The methods; `None` for all.
    pub methods: Option<&'a [String]>,
    /// The names of the listeners; `None` for all.
    pub listeners: Option<&'a [String]>,
    /// The schemes.
    pub schemes: &'a [Scheme],
    /// The paths, in the normal form.
    pub paths: TextDomain<'a>,
    /// The hosts, in lower case and without port.
    pub hosts: TextDomain<'a>,
}

/// The values that one text can have.
#[derive(Clone, Copy)]
pub struct TextDomain<'a> {
    /// All of them; `None` if they are not limited to a list.
    pub only: Option<&'a [Vec<u8>]>,
    /// The bytes that each of them begins with.
    pub prefix: &'a [u8],
    /// Whether a value is one of them.
    pub has: &'a dyn Fn(&[u8]) -> bool,
}

impl TextDomain<'_> {
    /// Every value.
    pub const ALL: TextDomain<'static> = TextDomain { only: None, prefix: b"", has: &|_| true };
}

impl RequestDomain<'_> {
    /// Every request.
    pub const ALL: RequestDomain<'static> = RequestDomain {
        methods: None,
        listeners: None,
        schemes: &[Scheme::Http, Scheme::Https],
        paths: TextDomain::ALL,
        hosts: TextDomain::ALL,
    };
}

impl Expression {
    /// Whether a request of the domain can fulfil the condition. `false` is sure; `true` also where this is not decided.
    #[must_use]
    pub fn is_possible(&self, domain: &RequestDomain<'_>) -> bool {
        Self::are_possible(&[(self, true)], domain)
    }

    /// Whether each of these conditions can have the given truth for one request of the domain. `false` is sure.
    #[must_use]
    pub fn are_possible(conditions: &[(&Expression, bool)], domain: &RequestDomain<'_>) -> bool {
        let mut search = Contradictions { domain, tests: Vec::new(), steps: 0 };
        search.any(&mut conditions.iter().map(|(it, truth)| (&it.0.root, *truth)).collect())
    }
}

/// The search for a combination of alternatives that is free of contradictions.
struct Contradictions<'a, 'd> {
    domain: &'d RequestDomain<'d>,
    /// The tests that have to be true, or false.
    tests: Vec<(&'a ExpressionNode, bool)>,
    steps: usize,
}

impl<'a, 'd> Contradictions<'a, 'd> {
    /// Whether all of `pending` can have the given truth at once, together with the tests so far.
    fn any(&mut self, pending: &mut Vec<(&'a ExpressionNode, bool)>) -> bool {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return true;
        }
        let Some((node, truth)) = pending.pop() else { return self.is_consistent() };
        let found = match node {
            ExpressionNode::Not(it) => {
                pending.push((it, !truth));
                let found = self.any(pending);
                pending.pop();
                found
            }
            ExpressionNode::All(all) | ExpressionNode::Any(all)
                if matches!(node, ExpressionNode::All(_)) == truth =>
            {
                let before = pending.len();
                pending.extend(all.iter().map(|it| (it, truth)));
                let found = self.any(&mut pending.clone());
                pending.truncate(before);
                found
            }
            ExpressionNode::All(all) | ExpressionNode::Any(all) => all.iter().any(|it| {
                let mut next = pending.clone();
                next.push((it, truth));
                self.any(&mut next)
            }),
            test if self.tests.iter().any(|it| it.1 != truth && it.0.is_same_test(test)) => false,
            test => {
                self.tests.push((test, truth));
                let found = self.any(&mut pending.clone());
                self.tests.pop();
                found
            }
        };
        pending.push((node, truth));
        found
    }

    /// Whether each part of a request has a value that passes all of its tests.
    fn is_consistent(&self) -> bool {
        let mut names = vec![TextName::Method, TextName::Scheme, TextName::Listener, TextName::Path];
        names.push(TextName::Host);
        let mut numbers: Vec<Number> = Vec::new();
        for (test, _) in &self.tests {
            match test {
                ExpressionNode::Text(name, _) if !names.contains(name) => names.push(*name),
                ExpressionNode::Number(name, ..) if !numbers.contains(name) => numbers.push(*name),
                _ => {}
            }
        }
        names.into_iter().all(|name| self.has_text(name))
            && numbers.into_iter().all(|name| self.has_number(name))
            && self.has_client()
    }

    fn texts(&self, name: TextName) -> impl Iterator<Item = (&'a Match, bool)> {
        self.tests.iter().filter_map(move |(test, truth)| match test {
            ExpressionNode::Text(found, test) if *found == name => Some((test, *truth)),
            _ => None,
        })
    }

    fn has_text(&self, name: TextName) -> bool {
        match self.values(name) {
            Some(values) => values.iter().any(|value| self.passes(name, value)),
            None => self.ends_agree(name),
        }
    }

    /// The values that a text can have at most; `None` if they are not limited.
    fn values(&self, name: TextName) -> Option<Vec<&[u8]>> {
        let texts = |all: &'d [String]| all.iter().map(String::as_bytes).collect();
        let own: Option<Vec<&[u8]>> = match name {
            TextName::Method => self.domain.methods.map(texts),
            TextName::Scheme => Some(self.domain.schemes.iter().map(|it| it.name().as_bytes()).collect()),
            TextName::Listener => self.domain.listeners.map(texts),
            TextName::Path => self.domain.paths.only.map(|all| all.iter().map(Vec::as_slice).collect()),
            TextName::Host => self.domain.hosts.only.map(|all| all.iter().map(Vec::as_slice).collect()),
            _ => None,
        };
        let constants = self.texts(name).filter(|it| it.1).find_map(|it| match it.0 {
            Match::Is(value) => Some(vec![&**value]),
            Match::OneOf(values) => Some(values.iter().map(|it| &**it).collect()),
            _ => None,
        });
        own.or(constants)
    }

    fn passes(&self, name: TextName, value: &[u8]) -> bool {
        let of_route = match name {
            TextName::Path => (self.domain.paths.has)(value),
            TextName::Host => (self.domain.hosts.has)(value),
            _ => true,
        };
        of_route && is_value(name, value) && self.texts(name).all(|it| it.0.holds(value) == it.1)
    }

    /// Whether the texts that a value has to begin with, to end with and to contain, and those that it must not, do not
    /// contradict one another.
    fn ends_agree(&self, name: TextName) -> bool {
        let of_domain = match name {
            TextName::Path if self.domain.paths.prefix.is_empty() => b"/",
            TextName::Path => self.domain.paths.prefix,
            _ => &b""[..],
        };
        let (mut begins, mut ends, mut parts) = (vec![of_domain], Vec::<&[u8]>::new(), vec![of_domain]);
        for test in self.texts(name).filter(|it| it.1).map(|it| it.0) {
            match test {
                Match::Begins(it) => begins.push(it),
                Match::Ends(it) => ends.push(it),
                Match::Contains(it) => parts.push(it),
                Match::Is(_) | Match::OneOf(_) | Match::Like(_) => {}
            }
        }
        parts.extend(begins.iter().chain(&ends).copied());
        let (begin, end) = (longest(&begins), longest(&ends));
        let is_lower = |it: &&[u8]| !it.iter().any(u8::is_ascii_uppercase);
        let fits = begins.iter().all(|it| begin.starts_with(it)) && ends.iter().all(|it| end.ends_with(it));
        let is_excluded = |test: &Match| match test {
            Match::Begins(it) => begin.starts_with(it),
            Match::Ends(it) => end.ends_with(it),
            Match::Contains(it) => parts.iter().any(|part| contains(part, it)),
            Match::Is(_) | Match::OneOf(_) | Match::Like(_) => false,
        };
        // Without a value, as the address of a client of a Unix socket, every test that has to be false is.
        let has_value = is_always_known(name) || self.texts(name).any(|it| it.1);
        fits && (name != TextName::Host || parts.iter().all(is_lower))
            && !(has_value && self.texts(name).any(|it| !it.1 && is_excluded(it.0)))
    }

    /// Whether a number passes all of its tests; an unknown one passes those that have to be false.
    fn has_number(&self, name: Number) -> bool {
        let tests = || {
            self.tests.iter().filter_map(move |(test, truth)| match test {
                ExpressionNode::Number(found, compare, than) if *found == name => {
                    Some((*compare, *than, *truth))
                }
                _ => None,
            })
        };
        let (least, most, is_known) = bounds(name);
        if !is_known && tests().all(|it| !it.2) {
            return true;
        }
        let near = tests().flat_map(|it| [it.1.saturating_sub(1), it.1, it.1.saturating_add(1)]);
        let passes = |it: i64| tests().all(|(compare, than, truth)| compare.holds(it, than) == truth);
        near.chain([least, most]).filter(|it| (least..=most).contains(it)).any(passes)
    }

    /// Whether an address is in all networks in which it has to be, and in no other.
    fn has_client(&self) -> bool {
        let lists = || {
            self.tests.iter().filter_map(|(test, truth)| match test {
                ExpressionNode::Client(networks) => Some((networks, *truth)),
                _ => None,
            })
        };
        let constants = self.values(TextName::Client);
        if constants.is_none() && lists().all(|it| !it.1) {
            return true;
        }
        let address = |it: &&[u8]| std::str::from_utf8(it).ok()?.parse::<IpAddr>().ok();
        let candidates: Vec<IpAddr> = match &constants {
            Some(values) => values.iter().filter_map(address).collect(),
            // An address that fulfils all is the first of a network, or the next behind one.
            None => lists()
                .flat_map(|(networks, truth)| {
                    networks.iter().filter_map(move |it| if truth { Some(it.first()) } else { it.next() })
                })
                .collect(),
        };
        let is_in = |networks: &[Network], it: IpAddr| networks.iter().any(|network| network.contains(it));
        candidates.into_iter().any(|it| lists().all(|(networks, truth)| is_in(networks, it) == truth))
    }
}

impl ExpressionNode {
    /// Whether another test has the same result for every request.
    fn is_same_test(&self, other: &ExpressionNode) -> bool {
        match (self, other) {
            (ExpressionNode::Text(a, one), ExpressionNode::Text(b, two)) => a == b && one.is_same(two),
            (ExpressionNode::Named(kind, a, one), ExpressionNode::Named(other_kind, b, two)) => {
                kind == other_kind && a == b && one.is_same(two)
            }
            (ExpressionNode::Client(a), ExpressionNode::Client(b)) => a == b,
            (ExpressionNode::Number(a, one, n), ExpressionNode::Number(b, two, m)) => {
                a == b && one == two && n == m
            }
            (ExpressionNode::Tag(a), ExpressionNode::Tag(b)) => a == b,
            _ => false,
        }
    }
}

impl Match {
    fn is_same(&self, other: &Match) -> bool {
        match (self, other) {
            (Match::Is(a), Match::Is(b))
            | (Match::Contains(a), Match::Contains(b))
            | (Match::Begins(a), Match::Begins(b))
            | (Match::Ends(a), Match::Ends(b)) => a == b,
            (Match::OneOf(a), Match::OneOf(b)) => a == b,
            (Match::Like(a), Match::Like(b)) => a.as_str() == b.as_str(),
            _ => false,
        }
    }
}

/// Whether a text of this name can have a value, in any route.
pub(super) fn is_value(name: TextName, value: &[u8]) -> bool {
    let text = std::str::from_utf8(value).unwrap_or_default();
    match name {
        TextName::Host => !value.iter().any(u8::is_ascii_uppercase) && host_of(text).len() == value.len(),
        TextName::Path => value.starts_with(b"/"),
        TextName::Scheme => matches!(value, b"http" | b"https"),
        // That of a client of a Unix socket is empty.
        TextName::Client => {
            value.is_empty() || text.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().to_string() == text)
        }
        TextName::Country => value.is_empty() || value.len() == 2 && value.iter().all(u8::is_ascii_uppercase),
        _ => true,
    }
}

/// The least and the largest value of a number, and whether it is always known.
fn bounds(name: Number) -> (i64, i64, bool) {
    match name {
        Number::Status => (100, 599, true),
        Number::Asn => (0, u32::MAX.into(), false),
        Number::Ttl => (i64::MIN, i64::MAX, false),
        Number::Age | Number::Size | Number::Bytes | Number::Duration | Number::Origin => {
            (0, i64::MAX, false)
        }
    }
}

/// Whether every request and response has a text of this name, which may be empty.
fn is_always_known(name: TextName) -> bool {
    matches!(
        name,
        TextName::Method
            | TextName::Scheme
            | TextName::Host
            | TextName::Path
            | TextName::Query
            | TextName::Listener
    )
}

fn longest<'t>(texts: &[&'t [u8]]) -> &'t [u8] {
    texts.iter().copied().max_by_key(|it| it.len()).unwrap_or_default()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || text.windows(part.len()).any(|it| it == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::ExpressionSubject;

    fn parse(text: &str) -> Expression {
        Expression::parse_about(ExpressionSubject::Request, text).unwrap_or_else(|it| panic!("{text}: {it}"))
    }

    #[test]
    fn conditions_of_several_rules_at_once() {
        let check = |conditions: &[(&str, bool)], expect: bool| {
            let parsed: Vec<_> = conditions.iter().map(|it| (parse(it.0), it.1)).collect();
            let all: Vec<_> = parsed.iter().map(|it| (&it.0, it.1)).collect();
            assert_eq!(expect, Expression::are_possible(&all, &RequestDomain::ALL), "{conditions:?}");
        };
        check(&[("cookie.a == \"1\"", true), ("cookie.a == \"1\"", false)], false);
        check(&[("cookie.a == \"1\"", true), ("cookie.a == \"2\"", false)], true);
        check(&[("asn > 9", true), ("asn > 5", false)], false);
        check(&[("asn > 9", false), ("asn <= 9", false)], true);
        check(&[("client in \"10.1.2.0/24\"", true), ("client in [\"10.0.0.0/8\", \"::/0\"]", false)], false);
        check(&[("client in \"::/0\"", false), ("client in \"0.0.0.0/0\"", false)], true);
        check(&[("path ~ \"^/a/b\"", true), ("path ~ \"^/a\"", false)], false);
        check(&[("path ~ \"^/a\"", true), ("path ~ \"^/a/b\"", false)], true);
        check(&[("path contains \"xyz\"", true), ("path contains \"y\"", false)], false);
        check(
            &[("method == \"GET\" || method == \"PUT\"", true), ("method in [\"GET\", \"PUT\"]", false)],
            false,
        );
        check(&[("client == \"10.0.0.1\"", true), ("client ~ \"^10\"", false)], false);
        check(&[("client ~ \"^10\"", false), ("client ~ \"^1\"", true)], true);
        check(&[("country == \"DE\"", true), ("country in [\"DE\", \"AT\"]", false)], false);
    }
}
