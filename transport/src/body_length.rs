//! How much of the body of an answer is to come, whichever protocol brings it: neither more than was announced nor less.

use crate::client_socket::ClientGone;
use crate::handler::ResponseBody;

/// How much of a body is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyRest {
    /// All that there will be: no head was sent yet.
    NotStarted,
    /// Nothing follows; what comes is ignored.
    None,
    /// So many bytes.
    Length(u64),
    /// Unknown.
    Stream,
}

impl BodyRest {
    /// Behind a head with this status. What `HEAD` is answered with says the same as to `GET`: that it has no body is for later.
    pub fn of(status: u16, body: ResponseBody) -> Self {
        match body {
            _ if matches!(status, 100..=199 | 204 | 304) => BodyRest::None,
            ResponseBody::None => BodyRest::None,
            ResponseBody::Length(left) => BodyRest::Length(left),
            ResponseBody::Stream => BodyRest::Stream,
        }
    }

    /// Whether `bytes` that come now are to be sent.
    ///
    /// # Errors
    /// They are more than was announced: they would be taken for something else.
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
    /// No head was sent, or the body is shorter than was announced.
    pub fn end(self) -> Result<(), ClientGone> {
        match self {
            BodyRest::NotStarted => Err(ClientGone::Closed),
            BodyRest::Length(left) if left > 0 => Err(ClientGone::Closed),
            BodyRest::None | BodyRest::Length(_) | BodyRest::Stream => Ok(()),
        }
    }
}
