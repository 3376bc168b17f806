//! A request to an origin, in any protocol.

use crate::protocol::{ChannelNeeds, ChannelRequest};
use larder_semantics::cgi::{self, CgiRequest, Script};
use larder_semantics::field::FieldList;
use larder_semantics::miss_reason::MissReason;
use larder_semantics::request_view::path_of;
use larder_semantics::scheme::Scheme;
use larder_wire::message::{Framing, Request};
use larder_wire::proxy::ConnectionEnds;
use std::borrow::Cow;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

/// The request for the origin: end-to-end fields only, `Host` included, without framing fields.
#[derive(Clone, Debug)]
pub struct OutgoingRequest {
    /// Method and target.
    pub line: RequestLine,
    /// End-to-end fields; and `TE` with `trailers`, where the client wants those, which is for HTTP/2.
    pub fields: FieldList,
    /// `Empty`, `Length` or `Chunked`; `Close` is written as `Chunked`, since a request cannot end by closing.
    pub framing: Framing,
    /// The time of the request, by the precise clock, where known.
    pub asked: Option<u64>,
    /// Why the origin is asked, as far as that is known before its response; `None` for a request of larder's own.
    pub reason: Option<MissReason>,
    /// The ends of the client's connection, for origins that get a PROXY header; `None` for a request of larder's own.
    pub client: Option<ConnectionEnds>,
    /// The variables that the route sets for an application.
    pub variables: FieldList,
    /// The facts for an application apart from line and fields. `None` for origins with HTTP, and for requests of larder's own.
    pub application: Option<Box<ApplicationRequest>>,
}

/// The part of a request for an application that HTTP sends in another way, or not at all.
#[derive(Clone, Debug, Default)]
pub struct ApplicationRequest {
    /// The scheme of the client's request.
    pub scheme: Scheme,
    /// The authority of the client's request.
    pub authority: String,
    /// The client, behind trusted proxies; `None` if it is unknown, or must not be sent.
    pub client: Option<SocketAddr>,
    /// The local address of the client's connection.
    pub local: Option<SocketAddr>,
    /// The user that larder has authenticated, if the application may know it; empty without one.
    pub user: Vec<u8>,
    /// The script; `None` for an application that is no file.
    pub script: Option<Arc<Script>>,
}

/// The method, and the target in origin-form or `*`.
#[derive(Clone, Debug)]
pub enum RequestLine {
    /// Those of a shared request.
    Of(Rc<Request>),
    /// These.
    Own {
        /// The method.
        method: String,
        /// The target.
        target: String,
    },
}

impl RequestLine {
    pub(crate) fn method(&self) -> &str {
        match self {
            RequestLine::Of(request) => &request.method,
            RequestLine::Own { method, .. } => method,
        }
    }

    pub(crate) fn target(&self) -> &str {
        match self {
            RequestLine::Of(request) => &request.target,
            RequestLine::Own { target, .. } => target,
        }
    }
}

impl OutgoingRequest {
    /// A request of larder's own without a body. `fields` have `Host`.
    #[must_use]
    pub fn own(method: &str, target: &str, fields: FieldList) -> Self {
        let line = RequestLine::Own { method: method.to_owned(), target: target.to_owned() };
        Self {
            line,
            fields,
            framing: Framing::Empty,
            asked: None,
            reason: None,
            client: None,
            variables: FieldList::default(),
            application: None,
        }
    }

    /// Whether the request asks for an upgrade: the only hop-by-hop field that a caller may set, since the following
    /// bytes are its own.
    pub(crate) fn asks_for_upgrade(&self) -> bool {
        self.fields.contains("upgrade")
    }

    /// Its requirements for the connection.
    pub(crate) fn needs(&self) -> ChannelRequest {
        let needs = if self.asks_for_upgrade() { ChannelNeeds::Http1 } else { ChannelNeeds::Any };
        ChannelRequest { needs, client: self.client }
    }

    /// Its variables for an application (RFC 3875 §4.1). A request of larder's own names its path as the script, as the pages of
    /// php-fpm for health checks need it.
    pub(crate) fn variables(&self) -> FieldList {
        let target = self.line.target();
        let script = match self.application.as_deref() {
            Some(ApplicationRequest { script: Some(script), .. }) => Cow::Borrowed(&**script),
            Some(_) => Cow::Owned(Script::none(target)),
            None => Cow::Owned(Script { name: path_of(target).into(), ..Script::default() }),
        };
        self.variables_for(&script)
    }

    /// Its variables for this script.
    pub(crate) fn variables_for(&self, script: &Script) -> FieldList {
        let own = || ApplicationRequest {
            authority: self
                .fields
                .get("host")
                .map(|it| String::from_utf8_lossy(it).into_owned())
                .unwrap_or_default(),
            ..ApplicationRequest::default()
        };
        let application = self.application.as_deref().map_or_else(|| Cow::Owned(own()), Cow::Borrowed);
        cgi::variables(&CgiRequest {
            method: self.line.method(),
            target: self.line.target(),
            fields: &self.fields,
            length: self.length(),
            scheme: application.scheme,
            authority: &application.authority,
            client: application.client,
            local: application.local,
            user: &application.user,
            script,
            more: &self.variables,
        })
    }

    /// Bytes of the body, where it has one of known length.
    pub(crate) fn length(&self) -> Option<u64> {
        match self.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty | Framing::Chunked | Framing::Close => None,
        }
    }

    /// Whether it has the same effect twice as once (RFC 9110 §9.2.2).
    pub(crate) fn is_idempotent(&self) -> bool {
        is_idempotent(self.line.method())
    }

    /// Whether there is a body.
    pub(crate) fn has_body(&self) -> bool {
        !matches!(self.framing, Framing::Empty | Framing::Length(0))
    }

    /// Whether the body is held back until the origin sends 100 (RFC 9110 §10.1.1).
    pub(crate) fn expects_continue(&self) -> bool {
        self.framing != Framing::Empty
            && self.fields.get("expect").is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"))
    }
}

/// Whether the method has the same effect twice as once (RFC 9110 §9.2.2).
#[must_use]
pub fn is_idempotent(method: &str) -> bool {
    matches!(method, "GET" | "HEAD" | "QUERY" | "OPTIONS" | "TRACE" | "PUT" | "DELETE")
}
