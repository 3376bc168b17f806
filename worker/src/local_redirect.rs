//! Redirects within this server: a CGI program names a target in place of a response (RFC 3875 §6.2.2), and the client gets that
//! target's response, with its route, its admission and its cache. The loop over them is in `handler`.

use larder_gateway::request_id;
use larder_semantics::field::Field;
use larder_server::admission::RoutedRequest;
use larder_transport::{Reply, RequestBody, Synthetic};
use larder_wire::message::{Framing, Request};
use std::rc::Rc;

/// The most redirects of one request: as many as Apache follows.
const MOST: usize = 10;

/// A request on its way to a response: that of the client, or one for the target of a redirect.
pub struct RequestHop<'c> {
    /// The request.
    pub request: Rc<Request>,
    /// Its body; `None` after a redirect.
    pub body: Option<RequestBody<'c>>,
    /// Of which nothing was sent.
    pub reply: Reply<'c>,
    /// The redirects so far, if there are any.
    pub redirected: Option<Redirected>,
}

/// The redirects that led to a request.
pub struct Redirected {
    /// The request of the client as admitted, for logs.
    pub asked: Request,
    /// The time at which it was routed, by the precise clock; `None` without measuring.
    pub started: Option<u64>,
    /// Whether it has an identifier, which stays.
    pub is_identified: bool,
    /// The `Set-Cookie` lines of the admissions so far.
    pub cookies: Vec<Vec<u8>>,
    /// The number of redirects.
    pub count: usize,
    /// The number of requests that it stands for if it is recorded.
    pub weight: Option<u32>,
}

impl Redirected {
    /// Before the first redirect of the request `asked`.
    pub fn begin(
        asked: &Request,
        routed: &RoutedRequest<'_>,
        started: Option<u64>,
        weight: Option<u32>,
    ) -> Self {
        let target = routed.admitted.borrow().target(&asked.target).to_owned();
        let asked = Request { target, ..asked.clone() };
        Self { asked, started, is_identified: false, cookies: Vec::new(), count: 0, weight }
    }

    /// After one more redirect, of the request `routed`.
    pub fn and(mut self, routed: &RoutedRequest<'_>, is_identified: bool) -> Self {
        self.cookies.extend_from_slice(routed.admitted.borrow().cookies());
        Self { is_identified, count: self.count + 1, ..self }
    }

    /// The page in place of one more redirect.
    pub fn too_often(&self) -> Option<Synthetic> {
        let page =
            || Synthetic::page(502, "The programs of this server redirect to one another without an end.");
        (self.count > MOST).then(page).map(|it| it.with("Cache-Control", "no-store"))
    }
}

/// The request for the `target` of a redirect: a GET, or a HEAD for a HEAD, without the body. Preconditions and ranges of another
/// method were not about this target. It keeps its identifier `id`.
#[must_use]
pub fn request_for(request: &Request, target: String, id: Option<&[u8]>) -> Request {
    let is_read = matches!(request.method.as_str(), "GET" | "HEAD");
    let method = if is_read { request.method.clone() } else { "GET".to_owned() };
    let mut next = Request {
        method,
        target,
        protocol: None,
        framing: Framing::Empty,
        expects_continue: false,
        ..request.clone()
    };
    next.fields.retain(|it| !describes_body(&it) && (is_read || !is_condition(&it)));
    if let Some(id) = id {
        request_id::give(&mut next.fields, id);
    }
    next
}

fn describes_body(field: &Field<'_>) -> bool {
    begins(field, "content-") || ["transfer-encoding", "trailer", "expect"].iter().any(|it| field.is(it))
}

fn is_condition(field: &Field<'_>) -> bool {
    begins(field, "if-") || field.is("range")
}

fn begins(field: &Field<'_>, prefix: &str) -> bool {
    field.name.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix))
}
