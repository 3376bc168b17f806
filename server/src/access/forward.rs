//! Forward auth: a service admits each request, or says how it is refused (`access.forward`). The question and the meaning of its
//! answer are here; the exchange is in [`crate::internal_client`].

use super::verification::{
    Checked, UnverifiedCredential, UnverifiedRequest, ValidCredentials, VerifyContext, identity,
};
use super::{AccessState, is_spelling, no_store};
use crate::internal_client::InternalAnswer;
use larder_config::access::{ForwardConfig, ForwardKey};
use larder_gateway::{request_headers, trusted_headers};
use larder_observe::log::Level;
use larder_semantics::field::{self, Field, FieldList};
use larder_semantics::request_view::{REQUEST_ID, RequestView, host_of};
use larder_semantics::target;
use larder_semantics::unambiguous_target::UnambiguousTarget;
use larder_stdx::clock;
use larder_transport::Synthetic;
use larder_transport::body::BodyPiece;
use larder_wire::message::fields::{is_hop_by_hop, strip_hop_by_hop_into};
use parking_lot::RwLock;
use ring::{digest, hmac};
use std::collections::HashMap;
use std::sync::Arc;

/// Bytes of the fields that one answer gives a request.
const LARGEST_FIELDS: usize = 16 << 10;
/// Bytes of the fields of an answer that is remembered.
const LARGEST_REMEMBERED: usize = 2 << 10;
/// The most remembered answers; when they are reached the service is asked again.
const MOST_REMEMBERED: usize = 16_384;
/// Bytes of an identity that is kept in clear text; a longer one is a digest.
const LONGEST_IDENTITY: usize = 200;

/// Answers that admit, of all routes.
pub(super) struct RememberedAnswers {
    key: hmac::Key,
    until: RwLock<HashMap<[u8; 32], RememberedAnswer>>,
}

/// The time at which an answer expires, and the fields that it gave.
type RememberedAnswer = (u64, Arc<[CopiedField]>);

/// A field that a request gets from the answer of the service.
type CopiedField = (String, Vec<u8>);

impl Default for RememberedAnswers {
    fn default() -> Self {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &ring::rand::SystemRandom::new());
        // As for passwords: without random numbers the process cannot serve TLS either.
        Self { key: key.unwrap_or_else(|_| std::process::abort()), until: RwLock::default() }
    }
}

impl RememberedAnswers {
    fn get(&self, name: &[u8; 32]) -> Option<Arc<[CopiedField]>> {
        let until = self.until.read();
        until.get(name).filter(|it| clock::monotonic().0 < it.0).map(|it| it.1.clone())
    }

    fn keep(&self, name: [u8; 32], millis: u64, fields: Arc<[CopiedField]>) {
        let (mut until, now) = (self.until.write(), clock::monotonic().0);
        if until.len() >= MOST_REMEMBERED {
            until.retain(|_, it| now < it.0);
            if until.len() >= MOST_REMEMBERED {
                until.clear();
            }
        }
        until.insert(name, (now + millis, fields));
    }
}

/// The service of a route.
pub(super) struct ForwardAuth {
    config: ForwardConfig,
    state: Arc<AccessState>,
    /// Whether it gets the client's `Authorization`.
    tells_authorization: bool,
    /// The settings as text: answers under other settings are not reused.
    scope: String,
    /// See [`ForwardAuth::removed`].
    removed: Vec<String>,
}

impl ForwardAuth {
    pub fn new(config: &ForwardConfig, state: Arc<AccessState>, tells_authorization: bool) -> Self {
        let scope = format!("{config:?}");
        let copied: Vec<String> =
            config.copy.iter().map(|it| it.to_ascii_lowercase().replace('_', "-")).collect();
        let families = copied.iter().filter_map(|it| family(it)).map(|it| format!("{it}*"));
        let mut removed: Vec<String> = copied.iter().cloned().chain(families).collect();
        removed.sort();
        removed.dedup();
        Self { config: config.clone(), state, tells_authorization, scope, removed }
    }

    /// The fields that a client cannot send: those that are copied, and the others of their families. An application may read more fields of
    /// the service than are copied.
    pub fn removed(&self) -> Vec<String> {
        self.removed.clone()
    }

    /// The name of the service.
    pub fn service(&self) -> String {
        self.config.to.name()
    }

    /// Looks for a remembered answer.
    pub fn check(&self, view: &RequestView<'_>) -> Checked {
        if UnambiguousTarget::of(view.target).is_none() {
            return Checked::Invalid(ambiguous());
        }
        let name = if self.config.ttl.is_zero() { None } else { self.name(view) };
        match name.and_then(|it| self.state.answers.get(&it)) {
            Some(fields) => Checked::Valid(proven(fields.to_vec())),
            None => Checked::Unknown(UnverifiedCredential::Forward(UnverifiedRequest(name))),
        }
    }

    /// Asks the service.
    pub async fn verify(
        &self,
        it: UnverifiedRequest,
        view: &RequestView<'_>,
        context: &VerifyContext<'_>,
    ) -> Result<ValidCredentials, Synthetic> {
        let Some(target) = UnambiguousTarget::of(view.target) else { return Err(ambiguous()) };
        let Some(service) = context.service else { return Err(closed()) };
        if context.gateway.has_passed(view.fields) {
            return Err(no_store(Synthetic::page(508, "The service that admits requests leads back here.")));
        }
        context.counters.access_forward_asked.add(1);
        let fields = self.question(view, context, &target);
        let answer = match service.authorize(fields).await {
            Ok(answer) => answer,
            Err(why) => return Err(self.failed(context, &why)),
        };
        match answer.status {
            200..=299 => self
                .admitted(it, &answer)
                .ok_or_else(|| self.failed(context, "the fields of its answer are larger than 16KiB")),
            300..=399 | 401 | 403 => match &answer.body {
                Some(body) => Err(self.refusal(&answer.fields, answer.status, body, view, &target)),
                None => Err(self.failed(context, "the body of its answer is larger than 1MiB")),
            },
            status => Err(self.failed(context, &format!("it answered {status}"))),
        }
    }

    /// The findings of an answer with 2xx; `None` if its fields are too large.
    fn admitted(&self, it: UnverifiedRequest, answer: &InternalAnswer) -> Option<ValidCredentials> {
        let mut fields: Vec<CopiedField> = Vec::new();
        for name in &self.config.copy {
            fields.extend(answer.fields.get_all(name).map(|value| (name.clone(), value.to_vec())));
        }
        let cookies: Vec<Vec<u8>> = answer.fields.get_all("set-cookie").map(<[u8]>::to_vec).collect();
        let size = |it: &[CopiedField]| it.iter().map(|it| it.0.len() + it.1.len()).sum::<usize>();
        if size(&fields) + cookies.iter().map(Vec::len).sum::<usize>() > LARGEST_FIELDS {
            return None;
        }
        if let Some(name) = it.0.filter(|_| cookies.is_empty() && size(&fields) <= LARGEST_REMEMBERED) {
            let millis = u64::try_from(self.config.ttl.as_millis()).unwrap_or(u64::MAX);
            self.state.answers.keep(name, millis, fields.clone().into());
        }
        Some(ValidCredentials { cookies, ..proven(fields) })
    }

    /// The answer of the service to the client; with `redirect` the way to sign in.
    fn refusal(
        &self,
        fields: &FieldList,
        status: u16,
        body: &bytes::Bytes,
        view: &RequestView<'_>,
        target: &UnambiguousTarget,
    ) -> Synthetic {
        let may_sign_in = status == 401 && matches!(view.method, "GET" | "HEAD");
        if let Some(to) = self.config.redirect.as_ref().filter(|_| may_sign_in) {
            let encoded = |text: &str| {
                let mut encoded = Vec::new();
                text.bytes().for_each(|it| target::encode(it, target::is_unreserved, &mut encoded));
                String::from_utf8_lossy(&encoded).into_owned()
            };
            let url = format!("{}://{}{}", view.scheme.name(), host(view), target.uri);
            let to = to.replace("{url}", &encoded(&url)).replace("{uri}", &encoded(&target.uri));
            let page =
                Synthetic::page(302, "The page to sign in is at the URL in Location.").with("Location", to);
            let page = fields.get_all("set-cookie").fold(page, |page, it| page.with("Set-Cookie", it));
            return no_store(page);
        }
        // The error page of the route may take its place.
        let mut page = Synthetic { is_error_page: status >= 400, ..Synthetic::empty(status) };
        let is_sent = |it: &Field<'_>| !OWN_OF_REFUSALS.iter().any(|name| it.is(name));
        strip_hop_by_hop_into(fields.iter(), is_sent, &mut page.fields);
        if !body.is_empty() {
            page.body.push(BodyPiece::Bytes(body.clone()));
        }
        no_store(page)
    }

    /// Logs that the service cannot be asked. Nothing is admitted then.
    fn failed(&self, context: &VerifyContext<'_>, why: &str) -> Synthetic {
        context.counters.access_forward_failures.add(1);
        if let Some(errors) = self.state.errors.get() {
            let service = self.config.to.name();
            let meaning = "requests of its routes get 503";
            let values = [("service", service.as_str()), ("why", why), ("meaning", meaning)];
            errors.seldom_of(Level::Error, "auth-service-failed", &service, &values);
        }
        closed()
    }

    /// The fields of the question.
    fn question(
        &self,
        view: &RequestView<'_>,
        context: &VerifyContext<'_>,
        target: &UnambiguousTarget,
    ) -> FieldList {
        let mut fields = FieldList::with_room_for(view.fields, 512 + 2 * target.uri.len());
        strip_hop_by_hop_into(view.fields.iter().copied(), |it| self.sends(it.name), &mut fields);
        let (host, scheme) = (host(view), view.scheme.name());
        fields.push("CDN-Loop", context.gateway.id.as_bytes());
        request_headers::add_client_address(&mut fields, context.client);
        if let Some(id) = context.request_id {
            fields.push(REQUEST_ID, id);
        }
        fields.push("X-Forwarded-Method", view.method);
        fields.push("X-Forwarded-Proto", scheme);
        fields.push("X-Forwarded-Host", &host);
        fields.push("X-Forwarded-Uri", &target.uri);
        fields.push("X-Original-Method", view.method);
        fields.push("X-Original-URI", &target.uri);
        fields.push("X-Original-URL", format!("{scheme}://{host}{}", target.uri));
        fields
    }

    /// Whether the service gets a field of the client: none that describes a body or asks for a part, none that larder writes, and
    /// none that would name the client or another resource.
    fn sends(&self, name: &str) -> bool {
        let is = |it: &str| name.eq_ignore_ascii_case(it);
        if is("authorization") {
            return self.tells_authorization;
        }
        trusted_headers::reaches_an_origin(name, false, |_| false)
            && !trusted_headers::overrides(name)
            && !request_headers::METHODS.iter().any(|it| is(it))
            && !NOT_TOLD.iter().any(|it| is(it))
            && !self.removed.iter().any(|it| is_spelling(name, it))
    }

    /// The name under which the answer about a request is remembered. `None` where the key names fields and cookies, and the request has
    /// none of them: the service knew its client by something else, if at all.
    fn name(&self, view: &RequestView<'_>) -> Option<[u8; 32]> {
        let (mut are_named, mut is_known) = (false, false);
        let mut context = hmac::Context::with_key(&self.state.answers.key);
        let mut part = |text: &[u8]| {
            context.update(&(text.len() as u64).to_ne_bytes());
            context.update(text);
        };
        part(self.scope.as_bytes());
        part(host(view).as_bytes());
        part(view.scheme.name().as_bytes());
        let client = || view.client.map_or_else(String::new, |it| it.to_canonical().to_string());
        for key in &self.config.key {
            match key {
                ForwardKey::Method => part(view.method.as_bytes()),
                ForwardKey::Url => part(view.target.as_bytes()),
                ForwardKey::Client => part(client().as_bytes()),
                ForwardKey::Header(name) => {
                    are_named = true;
                    is_known |= parts(field::all(view.fields, name), &mut part);
                }
                ForwardKey::Cookie(name) => {
                    are_named = true;
                    is_known |= parts(view.cookies(name), &mut part);
                    // A session that is too large for one cookie is cut into pieces.
                    for (piece, value) in view.cookie_pieces(name) {
                        is_known = true;
                        part(piece);
                        part(value);
                    }
                }
            }
        }
        if are_named && !is_known {
            return None;
        }
        if self.config.key.is_empty() {
            for text in [view.method, view.target, &client()] {
                part(text.as_bytes());
            }
            let is_told = |it: &&Field<'_>| {
                !is_hop_by_hop(it.name) && (self.sends(it.name) || OF_PROXIES.iter().any(|name| it.is(name)))
            };
            for it in view.fields.iter().filter(is_told) {
                part(it.name.to_ascii_lowercase().as_bytes());
                part(it.value);
            }
        }
        let mut name = [0; 32];
        name.copy_from_slice(context.sign().as_ref());
        Some(name)
    }
}

/// Fields that a question has not: of the body, of a part or a condition, of a coding, and the marks of one request.
const NOT_TOLD: [&str; 20] = [
    "content-type",
    "content-encoding",
    "content-language",
    "content-location",
    "content-range",
    "expect",
    "range",
    "if-range",
    "if-match",
    "if-none-match",
    "if-modified-since",
    "if-unmodified-since",
    "accept-encoding",
    "max-forwards",
    "x-request-id",
    "traceparent",
    "tracestate",
    "upgrade-insecure-requests",
    "via",
    "priority",
];

/// Fields by which trusted proxies say how a request arrived: larder passes their meaning to the service.
const OF_PROXIES: [&str; 3] = ["forwarded", "x-forwarded-for", "x-forwarded-proto"];

/// Fields of a refusal that larder writes itself, and those that would let a cache keep it.
const OWN_OF_REFUSALS: [&str; 9] = [
    "date",
    "age",
    "cache-control",
    "cdn-cache-control",
    "surrogate-control",
    "expires",
    "pragma",
    "alt-svc",
    "content-length",
];

/// The values of a list, and their number: another list has another name. Whether one of them has content.
fn parts<'v>(values: impl Iterator<Item = &'v [u8]>, part: &mut impl FnMut(&[u8])) -> bool {
    let (mut count, mut has_content) = (0_u64, false);
    for it in values {
        part(it);
        count += 1;
        has_content |= !it.is_empty();
    }
    part(&count.to_ne_bytes());
    has_content
}

/// The beginning of the names of all fields that a service sends about its clients, by one of them: `x-auth-request-` of
/// `x-auth-request-user`. `None` where other fields begin so as well.
fn family(name: &str) -> Option<&str> {
    let end = name.rfind('-')? + 1;
    Some(&name[..end]).filter(|it| !SHARED_BEGINNINGS.contains(it))
}

/// Beginnings of names that say nothing about the sender.
const SHARED_BEGINNINGS: [&str; 10] = [
    "x-",
    "x-forwarded-",
    "x-original-",
    "x-real-",
    "x-request-",
    "x-requested-",
    "accept-",
    "content-",
    "if-",
    "sec-",
];

/// The findings about an admitted request. Its identity is made of the copied fields.
fn proven(fields: Vec<CopiedField>) -> ValidCredentials {
    let mut text = Vec::new();
    for (name, value) in &fields {
        text.extend_from_slice(name.to_ascii_lowercase().as_bytes());
        text.push(b'=');
        text.extend_from_slice(value);
        text.push(b'\n');
    }
    let identity = match fields.len() {
        0 => None,
        _ if text.len() <= LONGEST_IDENTITY => Some(identity("forward", &text)),
        _ => Some(identity("forward-digest", &hex(digest::digest(&digest::SHA256, &text).as_ref()))),
    };
    let user = fields.first().map(|it| it.1.clone());
    ValidCredentials { identity, user, fields, ..ValidCredentials::default() }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|it| format!("{it:02x}").into_bytes()).collect()
}

/// The host of a request in its one spelling: in lower case, without a dot at its end, with a port that is not the default.
fn host(view: &RequestView<'_>) -> String {
    let port = match view.scheme.without_port(view.authority).rsplit_once(':') {
        Some((_, port)) if !port.contains(']') => format!(":{port}"),
        _ => String::new(),
    };
    host_of(view.authority).to_ascii_lowercase() + &port
}

/// The response while the service cannot be asked.
fn closed() -> Synthetic {
    no_store(Synthetic::page(503, "The service that admits requests to this page cannot be asked."))
}

fn ambiguous() -> Synthetic {
    let text = "The path is ambiguous: the service that admits requests and the application may interpret it differently.";
    no_store(Synthetic::page(400, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        let spelled = |authority: &str| host(&RequestView { authority, ..RequestView::default() });
        assert_eq!("h.test", spelled("H.Test."));
        assert_eq!("h.test", spelled("h.test:80"));
        assert_eq!("h.test:8080", spelled("h.test.:8080"));
        assert_eq!("[::1]:81", spelled("[::1]:81"));
        assert_eq!("[::1]", spelled("[::1]"));
    }

    #[test]
    fn identities_are_those_of_the_copied_fields() {
        let of = |fields: &[(&str, &str)]| {
            let fields = fields.iter().map(|it| (it.0.to_owned(), it.1.as_bytes().to_vec())).collect();
            proven(fields).identity.map(|it| it.to_string())
        };
        assert_eq!(None, of(&[]));
        assert_eq!(Some("forward:x-user%3dalice%0a"), of(&[("X-User", "alice")]).as_deref());
        // No value can spell another pair of fields.
        assert_ne!(of(&[("A", "b\nc=d")]), of(&[("A", "b"), ("C", "e")]));
        let long = of(&[("A", &"b".repeat(300))]).unwrap();
        assert!(long.starts_with("forward-digest:") && long.len() == 79, "{long}");
        assert_ne!(Some(long), of(&[("A", &"c".repeat(300))]));
    }
}
