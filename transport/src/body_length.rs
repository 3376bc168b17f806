//! The remaining length of a response body, for every protocol: neither more nor less than announced.

use crate::client_socket::ClientGone;

/// The way in which the end of a response body is marked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseBody {
    /// No body follows, with any fields (HEAD, 204, 304).
    None,
    /// Exactly this many bytes; the reply writes `Content-Length` if the fields have none.
    Length(u64),
    /// Unknown: until the end of the stream for HTTP/2, chunked for HTTP/1.1, until close for HTTP/1.0.
    Stream,
}

/// The rest of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyRest {
    /// The whole body: no head was sent yet.
    NotStarted,
    /// No body follows; further bytes are ignored.
    None,
    /// This number of bytes.
    Length(u64),
    /// Unknown.
    Stream,
}

impl BodyRest {
    /// After a head with this status. A response to `HEAD` counts like one to `GET`: the missing body is handled later.
    pub fn of(status: u16, body: ResponseBody) -> Self {
        match body {
            _ if matches!(status, 100..=199 | 204 | 304) => BodyRest::None,
            ResponseBody::None => BodyRest::None,
            ResponseBody::Length(left) => BodyRest::Length(left),
            ResponseBody::Stream => BodyRest::Stream,
        }
    }

    /// Whether the next `bytes` are to be sent.
    ///
    /// # Errors
    /// They are more than announced: the client would interpret them as something else.
    pub fn takes(&mut self, bytes: u64) -> Result<bool, ClientGone> {
        match self {
            BodyRest::None | BodyRest::NotStarted => return Ok(false),
            BodyRest::Length(left) => *left = left.checked_sub(bytes).ok_or(ClientGone::Closed)?,
            BodyRest::Stream => {}
        }
        Ok(bytes > 0)
    }

    /// Whether it may end here.
    ///
    /// # Errors
    /// No head was sent, or the body is shorter than announced.
    pub fn end(self) -> Result<(), ClientGone> {
        match self {
            BodyRest::NotStarted => Err(ClientGone::Closed),
            BodyRest::Length(left) if left > 0 => Err(ClientGone::Closed),
            BodyRest::None | BodyRest::Length(_) | BodyRest::Stream => Ok(()),
        }
    }
}
