//! Whether a condition can be true at all: simple contradictions, such as `method == "GET" && method == "POST"`.

use super::{Expression, ExpressionNode, Match, TextName};

/// The alternatives of a condition that are examined; beyond, it counts as possible.
const MOST_STEPS: usize = 2000;

/// The values that requests of a route can have.
pub struct RequestDomain<'a> {
    /// The methods; `None` for all.
    pub methods: Option<&'a [String]>,
    /// The names of the listeners.
    pub listeners: &'a [String],
    /// Whether a path in its normal form is one of the route.
    pub path: &'a dyn Fn(&[u8]) -> bool,
}

impl Expression {
    /// Whether a request of the domain can fulfil the condition. `false` is sure; `true` also where this is not decided: only
    /// comparisons with constants are examined.
    #[must_use]
    pub fn is_possible(&self, domain: &RequestDomain<'_>) -> bool {
        let mut search = Contradictions { domain, tests: Vec::new(), steps: 0 };
        search.any(&mut vec![(&self.0.root, true)])
    }
}

/// The search for a combination of alternatives that is free of contradictions.
struct Contradictions<'a, 'd> {
    domain: &'d RequestDomain<'d>,
    /// The tests of texts that have to be true, or false.
    tests: Vec<(TextName, &'a Match, bool)>,
    steps: usize,
}

impl<'a> Contradictions<'a, '_> {
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
            ExpressionNode::Text(name, test) => {
                self.tests.push((*name, test, truth));
                let found = self.any(&mut pending.clone());
                self.tests.pop();
                found
            }
            ExpressionNode::Named(..)
            | ExpressionNode::Client(_)
            | ExpressionNode::Number(..)
            | ExpressionNode::Tag(_) => self.any(&mut pending.clone()),
        };
        pending.push((node, truth));
        found
    }

    /// Whether every text with a limited choice of values has one that passes all of its tests.
    fn is_consistent(&self) -> bool {
        let names = [TextName::Method, TextName::Scheme, TextName::Listener];
        let tested = self.tests.iter().map(|it| it.0);
        names.into_iter().chain(tested).all(|name| {
            let Some(values) = self.values(name) else { return true };
            values.iter().any(|value| self.passes(name, value))
        })
    }

    /// The values that a text can have at most; `None` if they are not limited.
    fn values(&self, name: TextName) -> Option<Vec<&[u8]>> {
        let own: Option<Vec<&[u8]>> = match name {
            TextName::Method => self.domain.methods.map(|it| it.iter().map(|it| it.as_bytes()).collect()),
            TextName::Scheme => Some(vec![b"http", b"https"]),
            TextName::Listener => Some(self.domain.listeners.iter().map(|it| it.as_bytes()).collect()),
            _ => None,
        };
        let constants = self.tests.iter().filter(|it| it.0 == name && it.2).find_map(|it| match it.1 {
            Match::Is(value) => Some(vec![&**value]),
            Match::OneOf(values) => Some(values.iter().map(|it| &**it).collect()),
            _ => None,
        });
        own.or(constants)
    }

    fn passes(&self, name: TextName, value: &[u8]) -> bool {
        let of_route = match name {
            TextName::Path => (self.domain.path)(value),
            TextName::Host => !value.iter().any(u8::is_ascii_uppercase),
            _ => true,
        };
        of_route && self.tests.iter().filter(|it| it.0 == name).all(|it| it.1.holds(value) == it.2)
    }
}
