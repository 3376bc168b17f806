//! Fields by which an application orders a server in front of it to send a file in place of the body: `X-Accel-Redirect` of
//! nginx, `X-Sendfile` of Apache and lighttpd. They have paths of the server, and the body is empty.

use larder_semantics::field::{Field, FieldList};
use larder_semantics::policy::Policy;

const NAMES: [&str; 3] = ["x-accel-redirect", "x-sendfile", "x-lighttpd-send-file"];

/// Removes them, so that no client sees a path of the server. The response is not stored: it is not the one that was meant.
pub(crate) fn remove(policy: &Policy, fields: &mut FieldList) {
    let is_order = |it: &Field<'_>| NAMES.iter().any(|name| it.is(name));
    if !fields.iter().any(|it| is_order(&it)) {
        return;
    }
    fields.retain(|it| !is_order(&it) && !policy.targets.iter().any(|name| it.is(name)));
    fields.set("Cache-Control", "no-store");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_removed_and_other_responses_stay() {
        let check = |names: &[&str], expect: &str| {
            let fields: Vec<_> = names.iter().map(|name| Field { name, value: b"/private/a" }).collect();
            let mut fields = FieldList::from_fields(&fields);
            remove(&Policy::default(), &mut fields);
            assert_eq!(expect, String::from_utf8_lossy(fields.text()).replace("\r\n", "|"));
        };
        check(&["X-A"], "X-A: /private/a|");
        for name in ["X-Accel-Redirect", "x-sendfile", "X-LIGHTTPD-send-file"] {
            check(&["X-A", name], "X-A: /private/a|Cache-Control: no-store|");
        }
    }
}
