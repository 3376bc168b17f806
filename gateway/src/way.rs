//! Fields that a server before an application writes, and frameworks believe: by which way a request came, and what is meant by
//! it. larder is that server. What a client writes there is in no key, so a page that was made for it must not be
//! anybody else's (statements 7 and 9). What an application may make of any other field is for its `Vary` to say, or for
//! `cache.key.headers`.

/// What becomes of such a field of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    /// It reaches no origin: larder knows nothing of what is offered.
    Drop,
    /// It reaches no origin, as larder says by which way the request came. Where `cache.key.headers` names it, a server before
    /// larder knows that better: it is passed on, in place of what larder says, and its value is in the key.
    Way,
    /// It says who asks, and larder says that itself (`X-Forwarded-For`): it reaches no origin but from a proxy that is believed.
    Who,
    /// It is passed on, and the request uses no cache: the application may take it for another target, method or base, and some
    /// operator may want that. Where `cache.key.headers` names it, its value is in the key, and the cache is used.
    Bypass,
}

/// By name; the rest of [`FAMILIES`] is [`Deed::Bypass`]. Fields that change the method are known to
/// `semantics::request`, too.
const FIELDS: &[(&str, Deed)] = &[
    ("host", Deed::Drop),
    ("forwarded", Deed::Way),
    // The scheme, host and port that the client asked for.
    ("x-forwarded-proto", Deed::Way),
    ("x-forwarded-host", Deed::Way),
    ("x-forwarded-port", Deed::Way),
    ("x-forwarded-server", Deed::Way),
    ("x-forwarded-scheme", Deed::Way),
    ("x-forwarded-protocol", Deed::Way),
    ("x-forwarded-ssl", Deed::Way),
    ("x-forwarded-https", Deed::Way),
    ("x-proto", Deed::Way),
    ("x-scheme", Deed::Way),        // Tornado
    ("x-url-scheme", Deed::Way),    // Rack, WSGI middleware
    ("front-end-https", Deed::Way), // IIS
    ("x-arr-ssl", Deed::Way),
    ("wl-proxy-ssl", Deed::Way), // WebLogic
    ("cloudfront-forwarded-proto", Deed::Way),
    ("cf-visitor", Deed::Way),
    ("x-host", Deed::Way),
    ("x-original-host", Deed::Way),
    ("x-http-host-override", Deed::Way),
    // The same in the words of lists of names by which such fields are looked for, and of clouds.
    ("proxy-host", Deed::Way),
    ("proxy-port", Deed::Way),
    ("x-server-name", Deed::Way),
    ("x-server-port", Deed::Way),
    ("x-client-host", Deed::Way),
    ("x-real-host", Deed::Way),
    ("x-real-port", Deed::Way),
    ("x-real-scheme", Deed::Way),
    ("x-request-host", Deed::Way),
    ("x-http-host", Deed::Way),
    ("x-http-scheme", Deed::Way),
    ("x-https", Deed::Way),
    ("x-ssl", Deed::Way),
    ("https", Deed::Way),
    ("ssl-offloaded", Deed::Way),
    ("https-from-lb", Deed::Way),
    ("x-forward-proto", Deed::Way),
    ("x-forward-host", Deed::Way),
    ("forwarded-proto", Deed::Way),
    ("forwarded-host", Deed::Way),
    ("x-remote-protocol", Deed::Way),
    ("x-orchestra-scheme", Deed::Way),
    ("x-nfsn-https", Deed::Way),
    ("x-original-proto", Deed::Way),
    ("x-original-scheme", Deed::Way),
    ("x-original-port", Deed::Way),
    ("x-original-forwarded-host", Deed::Way),
    ("x-original-forwarded-proto", Deed::Way),
    ("x-originally-forwarded-proto", Deed::Way),
    ("x-amzn-remapped-host", Deed::Way),
    ("x-envoy-original-host", Deed::Way),
    ("x-appengine-https", Deed::Way),
    ("x-appservice-proto", Deed::Way),
    ("disguised-host", Deed::Way),
    ("was-default-hostname", Deed::Way),
    ("fly-forwarded-proto", Deed::Way),
    ("fly-forwarded-ssl", Deed::Way),
    ("fly-forwarded-port", Deed::Way),
    // What the server before offers: Rack answers X-Sendfile-Type without a body, Symfony a surrogate with ESI's tags. `Proxy` is no
    // field of HTTP: as `HTTP_PROXY` it told applications behind a CGI by which proxy to go (CVE-2016-5385 and others).
    ("proxy", Deed::Drop),
    ("x-sendfile-type", Deed::Drop),
    ("x-accel-mapping", Deed::Drop),
    ("surrogate-capability", Deed::Drop),
    // What CGI calls the target and its parts. No client has a reason to.
    ("request-uri", Deed::Drop),
    ("unencoded-url", Deed::Drop),
    ("path-info", Deed::Drop),
    ("script-name", Deed::Drop),
    ("context-path", Deed::Drop),
    // Whose request it is, in the words of whoever sends it.
    ("x-forwarded-for", Deed::Who),
    ("x-real-ip", Deed::Who),
    ("x-client-ip", Deed::Who),
    ("x-remote-ip", Deed::Who),
    ("x-remote-addr", Deed::Who),
    ("x-originating-ip", Deed::Who),
    ("x-cluster-client-ip", Deed::Who),
    ("x-azure-clientip", Deed::Who),
    ("client-ip", Deed::Who),
    ("true-client-ip", Deed::Who),
    ("cf-connecting-ip", Deed::Who),
    ("cf-connecting-ipv6", Deed::Who),
    ("fastly-client-ip", Deed::Who),
    ("proxy-client-ip", Deed::Who),
    ("wl-proxy-client-ip", Deed::Who),
    ("http-client-ip", Deed::Who),
    ("forwarded-for", Deed::Who),
    ("forwarded-for-ip", Deed::Who),
    ("x-forward-for", Deed::Who),
    ("x-forwarder-for", Deed::Who),
    ("x-original-forwarded-for", Deed::Who),
    ("x-originally-forwarded-for", Deed::Who),
    ("x-original-remote-addr", Deed::Who),
    ("x-clientip", Deed::Who),
    ("x-true-client-ip", Deed::Who),
    ("x-source-ip", Deed::Who),
    ("x-coming-from", Deed::Who),
    ("real-ip", Deed::Who),
    ("remote-addr", Deed::Who),
    ("incap-client-ip", Deed::Who),
    ("x-sucuri-clientip", Deed::Who),
    ("x-azure-socketip", Deed::Who),
    ("x-vercel-forwarded-for", Deed::Who),
    ("fly-client-ip", Deed::Who),
    ("x-nf-client-connection-ip", Deed::Who),
    ("x-appengine-user-ip", Deed::Who),
    ("x-envoy-external-address", Deed::Who),
    ("ali-cdn-real-ip", Deed::Who),
    ("cdn-src-ip", Deed::Who),
    ("x-forward", Deed::Way),
    ("x-forwarded", Deed::Way),
    ("x-host-override", Deed::Way),
    ("x-backend-host", Deed::Way),
    ("x-proxy-host", Deed::Way),
    ("x-original-url", Deed::Bypass), // Symfony, Zend, IIS
    ("x-original-path", Deed::Bypass),
    ("x-rewrite-uri", Deed::Bypass),
    ("x-override-url", Deed::Bypass),
    ("x-http-path-override", Deed::Bypass),
    ("x-proxy-url", Deed::Bypass),
    ("x-pathname", Deed::Bypass),
    // Next.js and React Router to themselves (CVE-2024-46982, CVE-2025-29927, CVE-2025-43864, CVE-2025-43865).
    ("x-now-route-matches", Deed::Bypass),
    ("x-matched-path", Deed::Bypass),
    ("x-invoke-path", Deed::Bypass),
    ("x-invoke-status", Deed::Bypass),
    ("x-invoke-query", Deed::Bypass),
    ("x-invoke-output", Deed::Bypass),
    ("x-middleware-prefetch", Deed::Bypass),
    ("x-middleware-subrequest", Deed::Bypass),
    ("x-middleware-rewrite", Deed::Bypass),
    ("x-react-router-spa-mode", Deed::Bypass),
    ("x-react-router-prerender-data", Deed::Bypass),
    ("x-rewrite-url", Deed::Bypass),
    ("x-original-uri", Deed::Bypass), // nginx's auth_request
    ("x-original-method", Deed::Bypass),
    ("x-request-uri", Deed::Bypass),
    ("x-script-name", Deed::Bypass), // uWSGI, Flask
    ("x-envoy-original-path", Deed::Bypass),
    ("x-http-destinationurl", Deed::Bypass),
    ("x-proxycontextpath", Deed::Bypass),
    ("x-ning-request-uri", Deed::Bypass),
    ("x-cf-url", Deed::Bypass),
    ("x-waws-unencoded-url", Deed::Bypass),
    ("x-ms-original-url", Deed::Bypass),
    ("x-amz-website-redirect-location", Deed::Bypass),
    ("x-environment-override", Deed::Bypass),
    ("x-ajax-real-method", Deed::Bypass),
    ("x-wikimedia-debug", Deed::Bypass),
    ("x-xhprof-debug", Deed::Bypass),
    ("translate", Deed::Bypass), // IIS: the source in place of the page
    // What a server in front says of who asks, and where applications look for another target.
    ("x-proxyuser-ip", Deed::Bypass),
    ("x-custom-ip-authorization", Deed::Bypass),
    ("http-url", Deed::Way),
    ("base-url", Deed::Way),
    ("base-uri", Deed::Bypass),
    ("uri", Deed::Bypass),
    ("url", Deed::Bypass),
    ("path", Deed::Bypass),
    ("x-uri", Deed::Bypass),
    ("x-url", Deed::Bypass),
    ("x-path", Deed::Bypass),
    ("x-rewrite", Deed::Bypass),
    ("x-redirect", Deed::Bypass),
    ("redirect", Deed::Bypass),
    ("x-destination", Deed::Bypass),
    ("destination", Deed::Bypass),
    ("query-string", Deed::Bypass),
    ("document-uri", Deed::Bypass),
    ("request-method", Deed::Bypass),
    ("server-name", Deed::Way),
    ("server-port", Deed::Way),
    ("remote-ip", Deed::Who),
    ("x-remote-user", Deed::Bypass),
    ("auth-user", Deed::Bypass),
    ("auth-type", Deed::Bypass),
    ("x-arr-clientcert", Deed::Bypass),
    ("x-wap-profile", Deed::Bypass), // an address that applications fetch
];

/// Of all others of these families nobody knows what they change: `X-Forwarded-Prefix` (Spring, Symfony), `-Path`, `-Uri` and `-Method`
/// (Traefik), `-Context`, `-User`; what stood in a request before somebody rewrote it; what shows more than a page; and whom a server in
/// front has let in, by a password, a token or a certificate.
const FAMILIES: &[&str] = &[
    "x-forwarded-",
    "x-original-",
    "x-rewrite-",
    "x-override-",
    "x-middleware-",
    "x-invoke-",
    "x-debug",
    "redirect-", // Apache's, of what it rewrote
    "http-",     // what CGI calls a field, once more
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

/// Which lengths names have that begin with a letter, a bit each: most fields are told apart by that.
const LENGTHS: [u64; 26] = {
    let (mut lengths, mut at) = ([0; 26], 0);
    while at < FIELDS.len() {
        let name = FIELDS[at].0.as_bytes();
        lengths[(name[0] - b'a') as usize] |= 1 << name.len();
        at += 1;
    }
    lengths
};

/// What tells most fields from those that are [`Deed::Bypass`], by the last five bits of their first letter: which lengths the rows have
/// that begin so, and what comes third in the families, a bit for each.
const QUICK: [(u64, u32); 32] = {
    let (mut quick, mut at) = ([(0, 0); 32], 0);
    while at < FIELDS.len() {
        let name = FIELDS[at].0.as_bytes();
        if matches!(FIELDS[at].1, Deed::Bypass) {
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

fn deed(name: &str) -> Option<Deed> {
    let letter = (name.as_bytes().first()? | 0x20).wrapping_sub(b'a');
    let lengths = *LENGTHS.get(usize::from(letter))?;
    let is_known = name.len() < 64 && lengths >> name.len() & 1 == 1;
    let known = || FIELDS.iter().find(|it| name.eq_ignore_ascii_case(it.0)).map(|it| it.1);
    let of_family = |it: &&str| name.get(..it.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(it));
    let family = || FAMILIES.iter().any(of_family).then_some(Deed::Bypass);
    is_known.then(known).flatten().or_else(family)
}

/// Whether a client's field of that name is passed on. Not where applications may take it for another: CGI and its kin
/// have one name, `HTTP_X_HOST`, for `X-Host`, `X_Host` and some for `X.Host`. What is known of the first, that it is in the
/// key, or no client's to send, would not hold of the others. nginx drops them as well.
/// `believed` says that a proxy which is believed (`clients.trusted`) sent it, `in_key` whether a field is in the route's key by its name.
pub fn reaches_an_origin(name: &str, believed: bool, in_key: impl Fn(&str) -> bool) -> bool {
    name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-')
        && match deed(name) {
            Some(Deed::Drop) => false,
            Some(Deed::Who) => believed && !name.eq_ignore_ascii_case("x-forwarded-for"),
            Some(Deed::Way) => in_key(name),
            Some(Deed::Bypass) | None => true,
        }
}

/// Whether a field says who asks, also where it says more (`Forwarded`): nobody but a proxy that is believed may say that.
#[must_use]
pub fn says_who(name: &str) -> bool {
    deed(name) == Some(Deed::Who) || name.eq_ignore_ascii_case("forwarded")
}

/// Whether a field is such as clients send with every request and no answer has to obey: content that is negotiated, hints, conditions (larder
/// answers these), and who made a request, by which way, at which time. Where the key is strict it is left out of what is asked for the cache.
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

/// Whether a field may have the application act on another target, method or base, or for another user.
pub fn overrides(name: &str) -> bool {
    let [first, _, third, ..] = name.as_bytes() else { return false };
    // Asked of every field of every hit.
    let (lengths, thirds) = QUICK[usize::from(first & 31)];
    let may_be = lengths >> (name.len() & 63) | u64::from(thirds >> (third & 31));
    may_be & 1 == 1 && deed(name) == Some(Deed::Bypass)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_selects_no_variant() {
        for (name, deed) in FIELDS.iter().chain(&[("forwarded", Deed::Who), ("via", Deed::Who)]) {
            assert!(*deed != Deed::Who || larder_semantics::vary::is_told(name), "{name}");
        }
    }

    #[test]
    fn every_row_is_found_in_any_case() {
        for (name, expect) in FIELDS {
            assert_eq!(Some(*expect), deed(name), "{name}");
            assert_eq!(Some(*expect), deed(&name.to_ascii_uppercase()), "{name}");
            assert_eq!(*expect == Deed::Bypass, overrides(name), "{name}");
            assert_eq!(*expect == Deed::Who || *name == "forwarded", says_who(name), "{name}");
        }
        assert!(overrides("X-Forwarded-Prefix") && overrides("x-forwarded-anything") && overrides("X-Debug"));
        assert!(
            !overrides("X-Requested-With") && !overrides("x-original-proto") && !overrides(&"x".repeat(99))
        );
        assert!(!overrides("x-forwarded-for") && !overrides("x-real-ip") && !overrides("x-forward"));
    }

    /// They are asked about with every hit: by two letters and a length none of them is one.
    #[test]
    fn what_browsers_send_overrides_nothing() {
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
    fn what_reads_as_another_reaches_no_origin() {
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
