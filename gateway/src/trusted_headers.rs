//! Fields that a server in front of an application writes, and that frameworks trust: how a request arrived, and which
//! resource it means. larder is that server. A client's value of such a field is in no key, so a page made for it must
//! not reach other clients (statements 7 and 9). The effect of any other field is declared by the application's `Vary`,
//! or by `cache.key.headers`.

/// The treatment of such a field from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FieldRule {
    /// It reaches no origin: larder does not implement the offer.
    Drop,
    /// It reaches no origin, as larder writes how the request arrived. Where `cache.key.headers` names it, a server in
    /// front of larder knows that better: the field is passed on in place of larder's, and its value is in the key.
    Way,
    /// It names the client, which larder does itself (`X-Forwarded-For`): it reaches the origin only from a trusted
    /// proxy.
    Who,
    /// It is passed on, and the request bypasses the cache: the application may take it for another target, method or
    /// base, and an operator may want that. Where `cache.key.headers` names it, its value is in the key, and the cache is
    /// used.
    Bypass,
}

/// By name; other fields of [`FAMILIES`] are [`FieldRule::Bypass`]. `semantics::request` knows the fields that change the
/// method, too.
const FIELDS: &[(&str, FieldRule)] = &[
    ("host", FieldRule::Drop),
    ("forwarded", FieldRule::Way),
    // The scheme, host and port of the client's request.
    ("x-forwarded-proto", FieldRule::Way),
    ("x-forwarded-host", FieldRule::Way),
    ("x-forwarded-port", FieldRule::Way),
    ("x-forwarded-server", FieldRule::Way),
    ("x-forwarded-scheme", FieldRule::Way),
    ("x-forwarded-protocol", FieldRule::Way),
    ("x-forwarded-ssl", FieldRule::Way),
    ("x-forwarded-https", FieldRule::Way),
    ("x-proto", FieldRule::Way),
    ("x-scheme", FieldRule::Way),        // Tornado
    ("x-url-scheme", FieldRule::Way),    // Rack, WSGI middleware
    ("front-end-https", FieldRule::Way), // IIS
    ("x-arr-ssl", FieldRule::Way),
    ("wl-proxy-ssl", FieldRule::Way), // WebLogic
    ("cloudfront-forwarded-proto", FieldRule::Way),
    ("cf-visitor", FieldRule::Way),
    ("x-host", FieldRule::Way),
    ("x-original-host", FieldRule::Way),
    ("x-http-host-override", FieldRule::Way),
    // The same, in the names of word lists for finding such fields, and of cloud providers.
    ("proxy-host", FieldRule::Way),
    ("proxy-port", FieldRule::Way),
    ("x-server-name", FieldRule::Way),
    ("x-server-port", FieldRule::Way),
    ("x-client-host", FieldRule::Way),
    ("x-real-host", FieldRule::Way),
    ("x-real-port", FieldRule::Way),
    ("x-real-scheme", FieldRule::Way),
    ("x-request-host", FieldRule::Way),
    ("x-http-host", FieldRule::Way),
    ("x-http-scheme", FieldRule::Way),
    ("x-https", FieldRule::Way),
    ("x-ssl", FieldRule::Way),
    ("https", FieldRule::Way),
    ("ssl-offloaded", FieldRule::Way),
    ("https-from-lb", FieldRule::Way),
    ("x-forward-proto", FieldRule::Way),
    ("x-forward-host", FieldRule::Way),
    ("forwarded-proto", FieldRule::Way),
    ("forwarded-host", FieldRule::Way),
    ("x-remote-protocol", FieldRule::Way),
    ("x-orchestra-scheme", FieldRule::Way),
    ("x-nfsn-https", FieldRule::Way),
    ("x-original-proto", FieldRule::Way),
    ("x-original-scheme", FieldRule::Way),
    ("x-original-port", FieldRule::Way),
    ("x-original-forwarded-host", FieldRule::Way),
    ("x-original-forwarded-proto", FieldRule::Way),
    ("x-originally-forwarded-proto", FieldRule::Way),
    ("x-amzn-remapped-host", FieldRule::Way),
    ("x-envoy-original-host", FieldRule::Way),
    ("x-appengine-https", FieldRule::Way),
    ("x-appservice-proto", FieldRule::Way),
    ("disguised-host", FieldRule::Way),
    ("was-default-hostname", FieldRule::Way),
    ("fly-forwarded-proto", FieldRule::Way),
    ("fly-forwarded-ssl", FieldRule::Way),
    ("fly-forwarded-port", FieldRule::Way),
    // Offers of the server in front: Rack answers X-Sendfile-Type without a body, Symfony sends a surrogate ESI tags.
    // `Proxy` is not an HTTP field: as `HTTP_PROXY` it selected the proxy of CGI applications (CVE-2016-5385 and others).
    ("proxy", FieldRule::Drop),
    ("x-sendfile-type", FieldRule::Drop),
    ("x-sendfile", FieldRule::Drop),
    ("x-accel-redirect", FieldRule::Drop),
    ("x-lighttpd-send-file", FieldRule::Drop),
    ("x-accel-mapping", FieldRule::Drop),
    ("surrogate-capability", FieldRule::Drop),
    // CGI's names for the target and its parts, which a client has no reason to send.
    ("request-uri", FieldRule::Drop),
    ("unencoded-url", FieldRule::Drop),
    ("path-info", FieldRule::Drop),
    ("script-name", FieldRule::Drop),
    ("context-path", FieldRule::Drop),
    // The identity of the client, in the sender's words.
    ("x-forwarded-for", FieldRule::Who),
    ("x-real-ip", FieldRule::Who),
    ("x-client-ip", FieldRule::Who),
    ("x-remote-ip", FieldRule::Who),
    ("x-remote-addr", FieldRule::Who),
    ("x-originating-ip", FieldRule::Who),
    ("x-cluster-client-ip", FieldRule::Who),
    ("x-azure-clientip", FieldRule::Who),
    ("client-ip", FieldRule::Who),
    ("true-client-ip", FieldRule::Who),
    ("cf-connecting-ip", FieldRule::Who),
    ("cf-connecting-ipv6", FieldRule::Who),
    ("fastly-client-ip", FieldRule::Who),
    ("proxy-client-ip", FieldRule::Who),
    ("wl-proxy-client-ip", FieldRule::Who),
    ("http-client-ip", FieldRule::Who),
    ("forwarded-for", FieldRule::Who),
    ("forwarded-for-ip", FieldRule::Who),
    ("x-forward-for", FieldRule::Who),
    ("x-forwarder-for", FieldRule::Who),
    ("x-original-forwarded-for", FieldRule::Who),
    ("x-originally-forwarded-for", FieldRule::Who),
    ("x-original-remote-addr", FieldRule::Who),
    ("x-clientip", FieldRule::Who),
    ("x-true-client-ip", FieldRule::Who),
    ("x-source-ip", FieldRule::Who),
    ("x-coming-from", FieldRule::Who),
    ("real-ip", FieldRule::Who),
    ("remote-addr", FieldRule::Who),
    ("incap-client-ip", FieldRule::Who),
    ("x-sucuri-clientip", FieldRule::Who),
    ("x-azure-socketip", FieldRule::Who),
    ("x-vercel-forwarded-for", FieldRule::Who),
    ("fly-client-ip", FieldRule::Who),
    ("x-nf-client-connection-ip", FieldRule::Who),
    ("x-appengine-user-ip", FieldRule::Who),
    ("x-envoy-external-address", FieldRule::Who),
    ("ali-cdn-real-ip", FieldRule::Who),
    ("cdn-src-ip", FieldRule::Who),
    ("x-forward", FieldRule::Way),
    ("x-forwarded", FieldRule::Way),
    ("x-host-override", FieldRule::Way),
    ("x-backend-host", FieldRule::Way),
    ("x-proxy-host", FieldRule::Way),
    ("host-override", FieldRule::Way),
    ("x-origin-host", FieldRule::Way),
    ("x-server-host", FieldRule::Way),
    ("x-hostname", FieldRule::Way),
    ("x-host-name", FieldRule::Way),
    ("x-host-header", FieldRule::Way),
    ("x-vhost", FieldRule::Way),
    ("x-virtual-host", FieldRule::Way),
    ("x-http-url", FieldRule::Bypass),
    ("x-real-url", FieldRule::Bypass),
    ("x-request-url", FieldRule::Bypass),
    ("x-full-url", FieldRule::Bypass),
    ("x-site-url", FieldRule::Bypass),
    ("x-root-url", FieldRule::Bypass),
    ("x-app-url", FieldRule::Bypass),
    ("x-base-url", FieldRule::Bypass),
    ("x-base-uri", FieldRule::Bypass),
    ("x-base-path", FieldRule::Bypass),
    ("x-context-path", FieldRule::Bypass),
    ("x-path-info", FieldRule::Bypass),
    ("x-query-string", FieldRule::Bypass),
    ("x-original-url", FieldRule::Bypass), // Symfony, Zend, IIS
    ("x-original-path", FieldRule::Bypass),
    ("x-rewrite-uri", FieldRule::Bypass),
    ("x-override-url", FieldRule::Bypass),
    ("x-http-path-override", FieldRule::Bypass),
    ("x-proxy-url", FieldRule::Bypass),
    ("x-pathname", FieldRule::Bypass),
    // Internal fields of Next.js and React Router (CVE-2024-46982, CVE-2025-29927, CVE-2025-43864, CVE-2025-43865).
    ("x-now-route-matches", FieldRule::Bypass),
    ("x-matched-path", FieldRule::Bypass),
    ("x-invoke-path", FieldRule::Bypass),
    ("x-invoke-status", FieldRule::Bypass),
    ("x-invoke-query", FieldRule::Bypass),
    ("x-invoke-output", FieldRule::Bypass),
    ("x-middleware-prefetch", FieldRule::Bypass),
    ("x-middleware-subrequest", FieldRule::Bypass),
    ("x-middleware-rewrite", FieldRule::Bypass),
    ("x-react-router-spa-mode", FieldRule::Bypass),
    ("x-react-router-prerender-data", FieldRule::Bypass),
    ("x-rewrite-url", FieldRule::Bypass),
    ("x-original-uri", FieldRule::Bypass), // nginx's auth_request
    ("x-original-method", FieldRule::Bypass),
    ("x-request-uri", FieldRule::Bypass),
    ("x-script-name", FieldRule::Bypass), // uWSGI, Flask
    ("x-envoy-original-path", FieldRule::Bypass),
    ("x-http-destinationurl", FieldRule::Bypass),
    ("x-proxycontextpath", FieldRule::Bypass),
    ("x-ning-request-uri", FieldRule::Bypass),
    ("x-cf-url", FieldRule::Bypass),
    ("x-waws-unencoded-url", FieldRule::Bypass),
    ("x-ms-original-url", FieldRule::Bypass),
    ("x-amz-website-redirect-location", FieldRule::Bypass),
    ("x-environment-override", FieldRule::Bypass),
    ("x-ajax-real-method", FieldRule::Bypass),
    ("x-wikimedia-debug", FieldRule::Bypass),
    ("x-xhprof-debug", FieldRule::Bypass),
    ("translate", FieldRule::Bypass), // IIS: the source in place of the page
    // Fields of a server in front that name the client, and fields in which applications look for another target.
    ("x-proxyuser-ip", FieldRule::Bypass),
    ("x-custom-ip-authorization", FieldRule::Bypass),
    ("http-url", FieldRule::Way),
    ("base-url", FieldRule::Way),
    ("base-uri", FieldRule::Bypass),
    ("uri", FieldRule::Bypass),
    ("url", FieldRule::Bypass),
    ("path", FieldRule::Bypass),
    ("x-uri", FieldRule::Bypass),
    ("x-url", FieldRule::Bypass),
    ("x-path", FieldRule::Bypass),
    ("x-rewrite", FieldRule::Bypass),
    ("x-redirect", FieldRule::Bypass),
    ("redirect", FieldRule::Bypass),
    ("x-destination", FieldRule::Bypass),
    ("destination", FieldRule::Bypass),
    ("query-string", FieldRule::Bypass),
    ("document-uri", FieldRule::Bypass),
    ("request-method", FieldRule::Bypass),
    ("server-name", FieldRule::Way),
    ("server-port", FieldRule::Way),
    ("remote-ip", FieldRule::Who),
    ("x-remote-user", FieldRule::Bypass),
    ("auth-user", FieldRule::Bypass),
    ("auth-type", FieldRule::Bypass),
    ("x-arr-clientcert", FieldRule::Bypass),
    ("x-wap-profile", FieldRule::Bypass), // an address that applications fetch
];

/// The effects of the other fields in these families are unknown: `X-Forwarded-Prefix` (Spring, Symfony), `-Path`, `-Uri`
/// and `-Method` (Traefik), `-Context`, `-User`; the original values of rewritten requests; fields that reveal more than
/// a page; and identities that a server in front has authenticated by password, token or certificate.
const FAMILIES: &[&str] = &[
    "x-forwarded-",
    "x-original-",
    "x-rewrite-",
    "x-override-",
    "x-middleware-",
    "x-invoke-",
    "x-debug",
    "redirect-", // Apache's, of what it rewrote
    "http-",     // the name of a field in CGI, once more
    "remote-",   // CGI; Authelia
    "x-auth-request-",
    "x-webauth-",
    "x-authentik-",
    "x-goog-authenticated-",
    "x-goog-iap-",
    "x-ms-client-principal",
    "x-ms-token-",
    "x-amzn-oidc-",
    "cf-access-",
    "oidc-",
    "ssl-client-",
    "x-ssl-",
    "x-tls-",
    "x-client-cert",
    "x-client-verify",
    "x-client-dn",
    "client-cert", // RFC 9440
    "client-verify",
];

/// The lengths of the names that begin with each letter, one bit each: they exclude most fields.
const LENGTHS: [u64; 26] = {
    let (mut lengths, mut at) = ([0; 26], 0);
    while at < FIELDS.len() {
        let name = FIELDS[at].0.as_bytes();
        lengths[(name[0] - b'a') as usize] |= 1 << name.len();
        at += 1;
    }
    lengths
};

/// A quick test that excludes most fields that are not [`FieldRule::Bypass`], by the last five bits of the first letter:
/// the lengths of the rows that begin so, and the third letters in the families, one bit each.
const QUICK: [(u64, u32); 32] = {
    let (mut quick, mut at) = ([(0, 0); 32], 0);
    while at < FIELDS.len() {
        let name = FIELDS[at].0.as_bytes();
        if matches!(FIELDS[at].1, FieldRule::Bypass) {
            quick[(name[0] & 31) as usize].0 |= 1 << name.len();
        }
        at += 1;
    }
    at = 0;
    while at < FAMILIES.len() {
        let name = FAMILIES[at].as_bytes();
        quick[(name[0] & 31) as usize].1 |= 1 << (name[2] & 31);
        at += 1;
    }
    quick
};

/// The third letters of the families that begin with the first letter of a name.
fn thirds_of(name: &str) -> u32 {
    name.as_bytes().first().map_or(0, |it| QUICK[usize::from(it & 31)].1)
}

fn field_rule(name: &str) -> Option<FieldRule> {
    let letter = (name.as_bytes().first()? | 0x20).wrapping_sub(b'a');
    let lengths = *LENGTHS.get(usize::from(letter))?;
    let is_known = name.len() < 64 && lengths >> name.len() & 1 == 1;
    let known = || FIELDS.iter().find(|it| name.eq_ignore_ascii_case(it.0)).map(|it| it.1);
    let of_family = |it: &&str| name.get(..it.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(it));
    let may_be_of_family = name.as_bytes().get(2).is_some_and(|it| thirds_of(name) >> (it & 31) & 1 == 1);
    let family = || (may_be_of_family && FAMILIES.iter().any(of_family)).then_some(FieldRule::Bypass);
    is_known.then(known).flatten().or_else(family)
}

/// Whether a client's field of that name is passed on. It is not where applications may confuse it with another: CGI has
/// one name, `HTTP_X_HOST`, for `X-Host`, `X_Host` and sometimes `X.Host`. Rules for the first, such as being in the key,
/// would not hold for the others. nginx drops them as well. `believed` says that a trusted proxy (`clients.trusted`) sent
/// it, `in_key` whether a field is in the route's key by its name.
pub fn reaches_an_origin(name: &str, believed: bool, in_key: impl Fn(&str) -> bool) -> bool {
    name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
        && match field_rule(name) {
            Some(FieldRule::Drop) => false,
            Some(FieldRule::Who) => believed && !name.eq_ignore_ascii_case("x-forwarded-for"),
            Some(FieldRule::Way) => in_key(name),
            Some(FieldRule::Bypass) | None => true,
        }
}

/// Whether a field names the client, also among other facts (`Forwarded`): only a trusted proxy may send it.
#[must_use]
pub fn names_client(name: &str) -> bool {
    field_rule(name) == Some(FieldRule::Who) || name.eq_ignore_ascii_case("forwarded")
}

/// Whether clients send a field with every request and no answer has to obey it: content negotiation, hints, conditions
/// (which larder answers), and facts about the client, the way and the time. Where the key is strict, requests for the
/// cache omit it.
#[must_use]
pub fn is_left_out(name: &str) -> bool {
    let mut lower = [0; 32];
    let Some(lower) = lower.get_mut(..name.len()) else { return false };
    lower.copy_from_slice(name.as_bytes());
    lower.make_ascii_lowercase();
    match &*lower {
        b"host" | b"content-length" | b"content-type" | b"date" | b"expect" | b"max-forwards" => true,
        b"accept-charset" | b"accept-datetime" | b"accept-encoding" | b"accept-language" => true,
        b"user-agent" | b"referer" | b"from" | b"dnt" | b"priority" | b"upgrade-insecure-requests" => true,
        b"cache-control" | b"pragma" | b"early-data" => true,
        b"range" | b"if-range" | b"if-match" | b"if-none-match" | b"if-modified-since" => true,
        b"if-unmodified-since" => true,
        b"save-data" | b"device-memory" | b"dpr" | b"width" | b"viewport-width" => true,
        b"rtt" | b"downlink" | b"ect" | b"purpose" | b"x-purpose" | b"x-moz" => true,
        b"via" | b"traceparent" | b"tracestate" | b"baggage" | b"b3" | b"uber-trace-id" => true,
        b"x-request-id" | b"x-correlation-id" | b"x-request-start" | b"x-queue-start" => true,
        b"x-amzn-trace-id" | b"x-cloud-trace-context" | b"cf-ray" | b"x-varnish" => true,
        _ => lower.starts_with(b"sec-") || lower.starts_with(b"x-b3-"),
    }
}

/// Whether a field may make the application use another target, method or base, or act for another user.
pub fn overrides(name: &str) -> bool {
    let [first, _, third, ..] = name.as_bytes() else { return false };
    // Evaluated for every field of every hit.
    let (lengths, thirds) = QUICK[usize::from(first & 31)];
    let may_be = lengths >> (name.len() & 63) | u64::from(thirds >> (third & 31));
    may_be & 1 == 1 && field_rule(name) == Some(FieldRule::Bypass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_field_that_names_the_client_selects_a_variant() {
        for (name, deed) in FIELDS.iter().chain(&[("forwarded", FieldRule::Who), ("via", FieldRule::Who)]) {
            assert!(*deed != FieldRule::Who || larder_semantics::vary::is_client_fact(name), "{name}");
        }
    }

    #[test]
    fn every_row_is_found_in_any_case() {
        for (name, expect) in FIELDS {
            assert_eq!(Some(*expect), field_rule(name), "{name}");
            assert_eq!(Some(*expect), field_rule(&name.to_ascii_uppercase()), "{name}");
            assert_eq!(*expect == FieldRule::Bypass, overrides(name), "{name}");
            assert_eq!(*expect == FieldRule::Who || *name == "forwarded", names_client(name), "{name}");
        }
        assert!(overrides("X-Forwarded-Prefix") && overrides("x-forwarded-anything") && overrides("X-Debug"));
        assert!(
            !overrides("X-Requested-With") && !overrides("x-original-proto") && !overrides(&"x".repeat(99))
        );
        assert!(!overrides("x-forwarded-for") && !overrides("x-real-ip") && !overrides("x-forward"));
    }

    /// They are asked about with every hit: by two letters and a length none of them is one.
    #[test]
    fn no_field_of_browsers_is_an_override() {
        for name in [
            "host",
            "user-agent",
            "accept",
            "accept-encoding",
            "accept-language",
            "cookie",
            "referer",
            "connection",
            "cache-control",
            "pragma",
            "upgrade-insecure-requests",
            "sec-fetch-mode",
            "sec-ch-ua",
            "if-none-match",
            "range",
            "origin",
            "priority",
            "te",
            "dnt",
            "x-requested-with",
            "via",
        ] {
            assert!(!overrides(name), "{name}");
        }
    }

    #[test]
    fn fields_that_read_as_other_fields_reach_no_origin() {
        for name in ["X_Host", "X.Host", "X!Host", "Accept_Language", "x-scheme", "Proxy"] {
            assert!(!reaches_an_origin(name, true, |_| name != "x-scheme"), "{name}");
        }
        assert!(reaches_an_origin("X-Forwarded-Proto", false, |it| it == "X-Forwarded-Proto"));
        for name in ["Accept-Language", "X-1", "ETag", "X-Forwarded-Prefix", "Priority"] {
            assert!(reaches_an_origin(name, false, |_| false), "{name}");
        }
        let real = |believed| reaches_an_origin("X-Real-IP", believed, |_| false);
        assert_eq!((true, false), (real(true), real(false)));
        assert!(!reaches_an_origin("X-Forwarded-For", true, |_| true));
    }
}
