//! Failures of exchanges with an origin: the cause, the status for the client, and the sentence.

use larder_wire::fastcgi::BadRecord;
use larder_wire::message::BadResponse;
use std::borrow::Cow;

/// Why an exchange failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OriginError {
    /// No connection: refused, unreachable, name not found.
    Connect(String),
    /// No connection within `connect`.
    ConnectTimeout,
    /// It has the wrong identity, or does not speak TLS.
    Tls(String),
    /// This process has no descriptor left for a connection.
    NoDescriptor,
    /// It closed or reset the connection before a head, or within the body.
    Disconnected,
    /// A time limit passed.
    Timeout(TimeLimit),
    /// Its head is not valid HTTP.
    BadHead(BadResponse),
    /// Its body is not valid: a broken chunk, or more bytes than announced.
    BadBody,
    /// Its records are not those of FastCGI.
    BadRecord(BadRecord),
    /// The application ended the request with this status, other than 0.
    ApplicationFailed(u32),
    /// More interim responses than allowed.
    InterimFlood,
    /// Every connection is in use and waiting took too long.
    Busy,
    /// Every origin of the route is unhealthy, ejected or drained.
    Ejected,
    /// Every origin of the route is drained by an operator.
    Drained,
    /// It did not begin to process the request (RFC 9113 §8.7).
    Refused,
    /// It violated the rules of HTTP/2, or does not speak it.
    NotHttp2,
    /// The request cannot be expressed in HTTP/2.
    Unrepresentable,
    /// The variables of the request exceed the limit of the uwsgi protocol.
    VariablesTooLarge,
    /// uWSGI closed the connection without an answer to a block of variables of this many bytes, which may exceed its `buffer-size`.
    BlockUnanswered(usize),
    /// A CGI program ended, or closed its output, before its response was complete: which, and how.
    ProgramEnded(String),
    /// A response that is made here could not be made; the status for the client, and why.
    LocalFailure(u16, String),
    /// Its status is one of the configured failures; an error only where another origin is asked then.
    Status(u16),
}

/// A time limit of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// `proxy.first_byte_timeout`.
    FirstByte,
    /// `proxy.between_bytes_timeout`.
    BetweenBytes,
    /// `proxy.total_timeout`.
    Total,
}

/// The side at fault for an error: it decides the level at which it is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The origin, or the way to it.
    Origin,
    /// A limit of larder.
    Us,
}

impl OriginError {
    /// The status code of the answer to the client (RFC 9110 §15.6): 502, 503 or 504; 431 for a request that cannot be sent.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::ConnectTimeout | Self::Timeout(_) => 504,
            Self::Busy | Self::NoDescriptor | Self::Ejected | Self::Drained => 503,
            Self::VariablesTooLarge => 431,
            Self::Status(status) | Self::LocalFailure(status, _) => *status,
            Self::Connect(_)
            | Self::Tls(_)
            | Self::Refused
            | Self::NotHttp2
            | Self::Unrepresentable
            | Self::Disconnected
            | Self::BlockUnanswered(_)
            | Self::ProgramEnded(_)
            | Self::BadHead(_)
            | Self::BadBody
            | Self::BadRecord(_)
            | Self::ApplicationFailed(_)
            | Self::InterimFlood => 502,
        }
    }

    /// Whether no connection, or no stream of one, could be had: the origin has not worked on the request, which
    /// therefore cannot have caused the failure.
    #[must_use]
    pub fn is_without_connection(&self) -> bool {
        matches!(
            self,
            Self::Connect(_)
                | Self::Tls(_)
                | Self::ConnectTimeout
                | Self::NoDescriptor
                | Self::Refused
                | Self::Busy
                | Self::Ejected
                | Self::Drained
        )
    }

    /// The side at fault.
    #[must_use]
    pub fn blame(&self) -> Blame {
        match self {
            Self::Busy
            | Self::NoDescriptor
            | Self::Unrepresentable
            | Self::Drained
            | Self::VariablesTooLarge => Blame::Us,
            _ => Blame::Origin,
        }
    }

    /// One sentence for the log and the error page, without the origin's address.
    #[must_use]
    pub fn sentence(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::LocalFailure(_, why) => return Cow::Owned(why.clone()),
            Self::Connect(why) => return Cow::Owned(format!("the origin cannot be reached: {why}")),
            Self::Tls(why) => return Cow::Owned(format!("TLS handshake with the origin failed: {why}")),
            Self::ProgramEnded(how) => {
                return Cow::Owned(format!("the program {how} before its response was complete"));
            }
            Self::ConnectTimeout => "the connection to the origin timed out",
            Self::NoDescriptor => "no file descriptor is free for a connection to the origin",
            Self::Disconnected => "the origin closed the connection before its response was complete",
            Self::BlockUnanswered(bytes) => {
                return Cow::Owned(format!(
                    "the application closed the connection without a response to {bytes} bytes of variables; uWSGI does so above its \
                     buffer-size (4096 unless set): set buffer-size = 65535 there"
                ));
            }
            Self::Timeout(TimeLimit::FirstByte) => "the origin timed out (`proxy.first_byte_timeout`)",
            Self::Timeout(TimeLimit::BetweenBytes) => "the origin timed out (`proxy.between_bytes_timeout`)",
            Self::Timeout(TimeLimit::Total) => "the origin timed out (`proxy.total_timeout`)",
            Self::BadHead(why) => {
                return Cow::Owned(format!(
                    "the origin's response is not valid HTTP: {}",
                    bad_response_sentence(*why)
                ));
            }
            Self::BadBody => {
                "the response body of the origin has invalid chunks, or is longer than its Content-Length"
            }
            Self::BadRecord(why) => {
                return Cow::Owned(format!(
                    "the response is not valid FastCGI: {}",
                    bad_record_sentence(*why)
                ));
            }
            Self::ApplicationFailed(status) => {
                return Cow::Owned(format!(
                    "the application ended the request with status {status}; its error output may name the reason"
                ));
            }
            Self::Refused => "the origin refused the request without processing it",
            Self::NotHttp2 => "the origin violated the HTTP/2 protocol, or does not support it",
            Self::Unrepresentable => "the request cannot be represented in HTTP/2",
            Self::VariablesTooLarge => {
                "the request's fields exceed what can be sent: 65,535 bytes in the uwsgi protocol, or the environment of a program"
            }
            Self::InterimFlood => "the origin sent too many interim (1xx) responses",
            Self::Busy => "every connection to the origin is in use",
            Self::Ejected => "every origin of the route is unhealthy, ejected or drained",
            Self::Drained => "every origin of the route is drained",
            Self::Status(status) => return Cow::Owned(format!("the origin answered {status}")),
        })
    }
}

fn bad_response_sentence(why: BadResponse) -> &'static str {
    match why {
        BadResponse::StatusLine => {
            "its status line is malformed, or it switches protocols without an upgrade request"
        }
        BadResponse::Field => "a header line is malformed",
        BadResponse::TooLarge => "its head is larger than proxy.head_size allows",
        BadResponse::TooManyFields => "its head has too many fields",
        BadResponse::Length => "its Content-Length is invalid or contradictory",
        BadResponse::TransferEncoding => "its Transfer-Encoding is not supported",
    }
}

fn bad_record_sentence(why: BadRecord) -> &'static str {
    match why {
        BadRecord::Version => {
            "a record has another version; an HTTP server needs http:// in proxy.to, an application of SCGI or uWSGI scgi:// or uwsgi://"
        }
        BadRecord::Request => "a record belongs to another request",
        BadRecord::Kind => "a record has a type that applications do not send",
        BadRecord::Length => "the record at its end has another length",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(error: OriginError, status: u16, sentence: &str) {
        assert_eq!((status, sentence), (error.status(), &*error.sentence()), "{error:?}");
    }

    #[test]
    fn statuses_and_sentences() {
        use OriginError::{Busy, Connect, ConnectTimeout, Disconnected};
        let timeout = OriginError::Timeout(TimeLimit::FirstByte);
        check(Connect("refused".into()), 502, "the origin cannot be reached: refused");
        check(ConnectTimeout, 504, "the connection to the origin timed out");
        check(Disconnected, 502, "the origin closed the connection before its response was complete");
        check(timeout.clone(), 504, "the origin timed out (`proxy.first_byte_timeout`)");
        check(Busy, 503, "every connection to the origin is in use");
        check(OriginError::NoDescriptor, 503, "no file descriptor is free for a connection to the origin");
        assert_eq!(502, OriginError::BadHead(BadResponse::Length).status());
        assert!(Busy.is_without_connection() && ConnectTimeout.is_without_connection());
        assert!(!timeout.is_without_connection() && !Disconnected.is_without_connection());
        assert_eq!(Blame::Us, Busy.blame());
        assert_eq!(Blame::Origin, timeout.blame());
    }
}
