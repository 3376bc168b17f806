//! Keys of access. The types of rows are in `super`.

use super::*;

#[rustfmt::skip]
pub(super) const ROWS: &[Key] = &[
    both("site[].route[].access.allow", ValueKind::List(TextForm::AccessAddress), None,
        "Clients that are admitted: networks, addresses, `unix`, countries (`country:DE`) or autonomous systems (`asn:64496`). All others get 403. An address without a known country is in none. `deny` has precedence. Default: every client.", r#"["10.0.0.0/8"]"#),
    both("site[].route[].access.deny", ValueKind::List(TextForm::AccessAddress), None,
        "Clients that get 403, even if `allow` or their credentials would admit them.", r#"["10.0.0.13", "2001:db8::/32"]"#),
    both("site[].route[].access.allow_when", ValueKind::One(TextForm::AccessCondition), None,
        "A condition that requests must meet. A request that does not meet it gets 403. The language is that of `when`.", r#"'method in ["GET", "HEAD"]'"#),
    both("site[].route[].access.deny_when", ValueKind::One(TextForm::AccessCondition), None,
        "Requests that meet this condition get 403. It has precedence over `allow_when`.", r#"'header["User-Agent"] ~ "(?i)badbot"'"#),
    both("site[].route[].access.satisfy", ValueKind::OneOf(&["all", "any"]), Some("all"),
        "`all`: a client needs an address of `allow` and credentials. `any`: one of them is enough. `deny` refuses in either case.", r#""any""#),
    both("site[].route[].access.basic.realm", ValueKind::One(TextForm::FieldValue), Some("larder"),
        "Name of the protected area, which browsers show when they ask for a password.", r#""staging""#),
    both("site[].route[].access.basic.users", ValueKind::List(TextForm::Secret), None,
        "Users with their password hashes: `NAME:HASH` as `htpasswd -nB NAME` prints it, bcrypt or argon2id. A verified password is remembered for 5 minutes. After 20 wrong passwords a network (/64) gets 429.", r#"["deploy:$2y$05$bvIG6Nmid91Mu9RcmmWZfO5HJIMCT8riNW0hEp8f6/FuA2/mHZFpe"]"#),
    both("site[].route[].access.basic.file", ValueKind::One(TextForm::Path), None,
        "File of more users, as `htpasswd -B` writes it. A changed file is read within a second. A broken one is logged, and the users read before stay in force.", r#""htpasswd""#),
    both("site[].route[].access.key", ValueKind::OneOf(&["none", "identity"]), Some("none"),
        "`identity`: each admitted user has a cache of their own, as the name of the user is part of the key. By default a route with credentials does not use the cache.", r#""identity""#),
    both("site[].route[].access.shared", ValueKind::Bool, Some("false"),
        "All admitted users get the same responses, from one cache. Set it only if no page depends on the user.", "true"),
    both("site[].route[].access.pass_authorization", ValueKind::Bool, Some("false"),
        "Send the `Authorization` field that admitted the request to the origin as well. By default it is removed.", "true"),
    both("site[].route[].access.limit.rate", ValueKind::One(TextForm::Rate), None,
        "Limit the rate of requests of each client, hits included. Requests above it get 429 with `Retry-After`. The limit of a site counts the requests of all routes that inherit it.", r#""5/s""#),
    both("site[].route[].access.limit.burst", integer(0, 1_000_000), Some("0"),
        "Requests that may exceed the rate at once.", "20"),
    both("site[].route[].access.limit.by", ValueKind::One(TextForm::LimitKey), Some("client"),
        "Requests that are counted together: those of an address (`client`; of a /64 for IPv6), of a /24 or /48 (`network`), of a value of `header:NAME` or `cookie:NAME`, or all of the route (`route`). A request without the field or cookie is counted by its address.", r#""header:X-Api-Key""#),
    both("site[].route[].access.limit.concurrency", integer(1, 65_535), None,
        "Maximum number of requests in progress of each client. Requests above it get 429. A response that is sent at once, from RAM, counts only while it is made.", "10"),
];
