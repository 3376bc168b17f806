//! The changes of a query by a rewrite (`site.route.query`).

use crate::parameter::{decoded, matches_decoded, name_of};
use crate::request_view::RequestView;
use crate::target;
use crate::template::Template;

/// The replacement for a value that is not shown.
const HIDDEN: &str = "***";

/// The changes of a query. A trailing `*` in a name of `remove` and `keep` matches any rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Only these are kept; all where it is empty.
    pub keep: Vec<String>,
    /// These are removed.
    pub remove: Vec<String>,
    /// These get a value in place of those of the client, behind all others.
    pub set: Vec<(String, Template)>,
}

impl Parameters {
    /// Appends the query for the origin to a path: `query` is the client's with its `?`, or empty. Without a change it
    /// stays byte for byte. `view` has the values of variables.
    pub fn write(&self, query: &str, view: &RequestView<'_>, out: &mut String) {
        if *self == Self::default() {
            return out.push_str(query);
        }
        let mut mark = '?';
        let mut push = |parameter: &str| {
            out.push(mark);
            out.push_str(parameter);
            mark = '&';
        };
        let rest = query.strip_prefix('?').unwrap_or_default();
        rest.split('&').filter(|it| !it.is_empty() && self.keeps(it)).for_each(&mut push);
        for (name, value) in &self.set {
            let mut pair = Vec::new();
            name.bytes().for_each(|it| target::encode(it, target::is_unreserved, &mut pair));
            pair.push(b'=');
            // Encoded as one value, whatever a variable has.
            let mut made = Vec::new();
            value.expand(view, &mut made);
            made.into_iter().for_each(|it| target::encode(it, target::is_query_value_byte, &mut pair));
            push(&String::from_utf8_lossy(&pair));
        }
    }

    fn keeps(&self, parameter: &str) -> bool {
        let name = name_of(parameter);
        let named = |it: &String| matches_decoded(it, name);
        (self.keep.is_empty() || self.keep.iter().any(named))
            && !self.remove.iter().any(named)
            && !self.set.iter().any(|it| decoded(name).eq(it.0.bytes()))
    }

    /// The same for `explain`: a value is hidden unless it consists of variables of the request, since its text may be a secret of the origin.
    pub(crate) fn shown(&self) -> Self {
        let mut shown = self.clone();
        for (_, value) in &mut shown.set {
            if let Some(hidden) = Template::parse(HIDDEN).ok().filter(|_| value.has_literal()) {
                *value = hidden;
            }
        }
        shown
    }

    /// The changes, for `explain`.
    pub(crate) fn describe(&self) -> Vec<String> {
        let set: Vec<&str> = self.set.iter().map(|it| it.0.as_str()).collect();
        let parts = [
            ("with, of the query, only ", self.keep.join(", ")),
            ("without the query parameters ", self.remove.join(", ")),
            ("with the query parameters ", set.join(", ")),
        ];
        parts.into_iter().filter(|it| !it.1.is_empty()).map(|it| it.0.to_owned() + &it.1).collect()
    }
}
