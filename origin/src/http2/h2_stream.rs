//! One request and its response as a stream of a shared connection. `exchange` decides what is sent when, how long that
//! may take, and whether a request is repeated.
//!
//! Dropping it before both sides have ended resets the stream (RFC 9113 §8.4's CANCEL) and leaves the connection open. An
//! incomplete body never ends like a complete one.

use super::head::{self, Follows};
use super::session::{Http2Session, StreamPermit};
use crate::connection::History;
use crate::deadline::Alarms;
use crate::error::OriginError;
use crate::protocol::{Closing, Event};
use crate::request::OutgoingRequest;
use crate::send_buffer::{BodyRetention, SendBuffer};
use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use larder_wire::message::{BadResponse, Framing, ResponseHead};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// A stream.
pub(crate) struct H2Stream {
    permit: StreamPermit,
    /// Whether it is the first of its connection.
    pub(crate) history: History,
    response: StreamResponse,
    send_side: SendSide,
    pub(crate) alarms: Alarms,
}

/// The origin's side.
enum StreamResponse {
    /// The request is not sent yet.
    NotSent(SendRequest<Bytes>),
    /// No final head yet.
    Awaited(ResponseFuture),
    /// A final head that was not requested yet.
    Arrived(http::Response<RecvStream>),
    /// A body with the number of missing bytes, where known.
    Body(RecvStream, Option<u64>),
    Failed(OriginError),
}

/// larder's side.
enum SendSide {
    Open(SendStream<Bytes>),
    /// The last frame was passed on, or there is none.
    Ended,
}

impl H2Stream {
    /// A stream of `session`, if that accepts one more now.
    pub(super) fn of(session: &Rc<Http2Session>) -> Option<Self> {
        let (permit, sender, history) = session.permit()?;
        Some(Self {
            permit,
            history,
            response: StreamResponse::NotSent(sender),
            send_side: SendSide::Ended,
            alarms: Alarms::default(),
        })
    }

    /// Sends the head. Reading the response reports an error.
    pub(crate) fn write_head(&mut self, outgoing: &OutgoingRequest, unsent: &mut SendBuffer) {
        self.send_head(outgoing);
        // For any method: an origin may refuse it unprocessed.
        unsent.begin(Bytes::new(), 1, BodyRetention::Body);
    }

    fn send_head(&mut self, outgoing: &OutgoingRequest) {
        let StreamResponse::NotSent(sender) = &mut self.response else { return };
        let ends = matches!(outgoing.framing, Framing::Empty | Framing::Length(0));
        let Some(request) = head::request(outgoing, self.permit.0.scheme.clone()) else {
            self.response = StreamResponse::Failed(OriginError::Unrepresentable);
            return;
        };
        self.response = match sender.send_request(request, ends) {
            Ok((response, stream)) => {
                self.permit.0.counters.origin_http2_streams.add(1);
                self.send_side = if ends { SendSide::Ended } else { SendSide::Open(stream) };
                StreamResponse::Awaited(response)
            }
            Err(error) => StreamResponse::Failed(self.error_of(&error)),
        };
    }

    /// Whether only unsent bytes of the request are missing.
    pub(crate) fn is_ended(&self) -> bool {
        !matches!(self.send_side, SendSide::Open(_))
    }

    /// Passes on a part of the body, or its end; ready once that was done.
    ///
    /// # Errors
    /// [`OriginError::Refused`]; otherwise [`OriginError::Disconnected`], and reading the response returns the reason.
    pub(crate) fn poll_write(
        &mut self,
        unsent: &mut SendBuffer,
        closing: Closing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        self.poll_send(unsent, closing, cx).map_err(|error| match error {
            OriginError::Refused => error,
            _ => OriginError::Disconnected,
        })
    }

    fn poll_send(
        &mut self,
        unsent: &mut SendBuffer,
        closing: Closing,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), OriginError>> {
        let SendSide::Open(stream) = &mut self.send_side else {
            return Poll::Ready(Err(self.send_error(cx)));
        };
        let Some(length) = unsent.first() else {
            let sent = match (closing, &unsent.trailers) {
                (Closing::NotYet, _) => return Poll::Ready(Ok(())),
                (Closing::End, None) => stream.send_data(Bytes::new(), true),
                (Closing::End, Some(list)) => stream.send_trailers(head::trailers(list)),
            };
            return Poll::Ready(self.after_send(sent.is_ok(), true, cx));
        };
        stream.reserve_capacity(length);
        while stream.capacity() == 0 {
            match ready!(stream.poll_capacity(cx)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(Err(self.send_error(cx))),
            }
        }
        let piece = unsent.take(stream.capacity());
        let ends = unsent.first().is_none() && closing == Closing::End && unsent.trailers.is_none();
        let sent = stream.send_data(piece, ends);
        Poll::Ready(self.after_send(sent.is_ok(), ends, cx))
    }

    fn after_send(&mut self, is_sent: bool, is_ended: bool, cx: &mut Context<'_>) -> Result<(), OriginError> {
        if !is_sent {
            return Err(self.send_error(cx));
        }
        if is_ended {
            self.send_side = SendSide::Ended;
        }
        Ok(())
    }

    /// The reason why no more is accepted. A response may nevertheless be there; then only that is reported.
    fn send_error(&mut self, cx: &mut Context<'_>) -> OriginError {
        if let StreamResponse::Awaited(response) = &mut self.response {
            match Pin::new(response).poll(cx) {
                Poll::Ready(Ok(response)) => self.response = StreamResponse::Arrived(response),
                Poll::Ready(Err(error)) => self.response = StreamResponse::Failed(self.error_of(&error)),
                Poll::Pending => {}
            }
        }
        match &self.response {
            StreamResponse::Failed(error) => error.clone(),
            _ => OriginError::Disconnected,
        }
    }

    /// The next event of the response.
    pub(crate) fn poll_read(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Event, OriginError>> {
        match self.response {
            StreamResponse::Body(..) => self.poll_next(cx),
            _ => self.poll_head(method, limit, cx).map_ok(Event::Head),
        }
    }

    /// The next head.
    fn poll_head(
        &mut self,
        method: &str,
        limit: usize,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ResponseHead, OriginError>> {
        if let StreamResponse::Awaited(response) = &mut self.response {
            match response.poll_informational(cx) {
                Poll::Ready(Some(Ok(interim))) => {
                    let read = head::response(&interim.into_parts().0, method, limit, Follows::Something);
                    return Poll::Ready(read.map_err(OriginError::BadHead));
                }
                Poll::Ready(Some(Err(error))) => {
                    self.response = StreamResponse::Failed(self.error_of(&error))
                }
                Poll::Ready(None) => match ready!(Pin::new(response).poll(cx)) {
                    Ok(response) => self.response = StreamResponse::Arrived(response),
                    Err(error) => self.response = StreamResponse::Failed(self.error_of(&error)),
                },
                Poll::Pending => return Poll::Pending,
            }
        }
        let nothing = StreamResponse::Failed(OriginError::Disconnected);
        match std::mem::replace(&mut self.response, nothing) {
            StreamResponse::Arrived(response) => Poll::Ready(self.begin_body(response, method, limit)),
            StreamResponse::Failed(error) => {
                self.response = StreamResponse::Failed(error.clone());
                Poll::Ready(Err(error))
            }
            other => {
                self.response = other;
                Poll::Ready(Err(OriginError::Disconnected))
            }
        }
    }

    fn begin_body(
        &mut self,
        response: http::Response<RecvStream>,
        method: &str,
        limit: usize,
    ) -> Result<ResponseHead, OriginError> {
        let (head, body) = response.into_parts();
        let follows = if body.is_end_stream() { Follows::Nothing } else { Follows::Something };
        let response = head::response(&head, method, limit, follows).map_err(OriginError::BadHead)?;
        let left = match response.framing {
            Framing::Length(length) => Some(length),
            Framing::Empty => Some(0),
            Framing::Chunked | Framing::Close => None,
        };
        self.response = StreamResponse::Body(body, left);
        Ok(response)
    }

    /// Whether the response has reached its end, as far as known without waiting.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(&self.response, StreamResponse::Body(body, _) if body.is_end_stream())
    }

    /// The next bytes of the body, or its end, which the origin signals and which agrees with the announced length.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event, OriginError>> {
        loop {
            let StreamResponse::Body(body, left) = &mut self.response else {
                return Poll::Ready(Err(OriginError::Disconnected));
            };
            let Some(response) = ready!(body.poll_data(cx)) else {
                let missing = left.is_some_and(|it| it > 0);
                return Poll::Ready(match ready!(body.poll_trailers(cx)) {
                    Ok(_) if missing => Err(OriginError::Disconnected),
                    Ok(trailers) => {
                        Ok(Event::End(Bytes::new(), trailers.as_ref().and_then(head::read_trailers)))
                    }
                    Err(error) => Err(body_error(self.error_of(&error))),
                });
            };
            let bytes = match response {
                Ok(bytes) => bytes,
                Err(error) => return Poll::Ready(Err(body_error(self.error_of(&error)))),
            };
            // The consumer has only this piece: the next may be sent.
            let _ = body.flow_control().release_capacity(bytes.len());
            if let Some(left) = left {
                match left.checked_sub(bytes.len() as u64) {
                    Some(rest) => *left = rest,
                    None => return Poll::Ready(Err(OriginError::BadBody)),
                }
            }
            if !bytes.is_empty() {
                return Poll::Ready(Ok(Event::Body(bytes)));
            }
        }
    }

    /// Whether there is a response or may be one, as far as known without waiting.
    ///
    /// # Errors
    /// There will be none, for a reason that allows the request to be repeated.
    pub(crate) fn answered(&self) -> Result<(), OriginError> {
        match &self.response {
            StreamResponse::Failed(error @ (OriginError::Disconnected | OriginError::NotHttp2)) => {
                Err(error.clone())
            }
            // Its data is no answer: the reader gets the error.
            _ => Ok(()),
        }
    }

    /// The origin was silent for too long.
    pub(crate) fn note_silence(&self) {
        self.permit.0.note_silence();
    }

    /// The meaning of an error of the library.
    fn error_of(&self, error: &h2::Error) -> OriginError {
        match error.reason() {
            // For a stream after the last one that GOAWAY names, or one started after it.
            Some(_) if error.is_remote() && error.is_go_away() => {
                self.permit.0.counters.origin_http2_refused.add(1);
                OriginError::Refused
            }
            Some(Reason::REFUSED_STREAM) if error.is_remote() => {
                self.permit.0.was_refused();
                OriginError::Refused
            }
            Some(Reason::REFUSED_STREAM) if error.is_library() => OriginError::BadHead(BadResponse::TooLarge),
            Some(_) if error.is_library() && error.is_go_away() => OriginError::NotHttp2,
            Some(_) if error.is_library() => OriginError::BadHead(BadResponse::Field),
            _ => OriginError::Disconnected,
        }
    }
}

/// The same after a head has arrived.
fn body_error(error: OriginError) -> OriginError {
    match error {
        OriginError::BadHead(_) => OriginError::BadBody,
        OriginError::Refused => OriginError::Disconnected,
        other => other,
    }
}
