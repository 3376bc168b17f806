//! An upgraded stream (RFC 8441, RFC 9113 §8.5): the data of its frames in both directions, each with an end of its own.
//! The copying between the two sides is not here.

use super::stream::{ClientStream, StreamEnd};
use super::waiting::{StreamSide, wait};
use super::{StreamReset, StreamsLink};
use crate::body::BodyPiece;
use crate::client_socket::ClientGone;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http2::frame::EndFlag;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

/// See [`crate::handler::Tunnel`].
pub(crate) struct StreamTunnel {
    connection: Rc<dyn StreamsLink>,
    stream: Rc<ClientStream>,
}

impl StreamTunnel {
    /// Sends the head that ends HTTP on this stream.
    pub(super) fn begin(
        connection: &Rc<dyn StreamsLink>,
        stream: &Rc<ClientStream>,
        fields: &FieldList,
    ) -> Self {
        connection.write_head(stream, 200, &mut fields.iter(), None, EndFlag::Open);
        stream.has_answer.set(true);
        Self { connection: connection.clone(), stream: stream.clone() }
    }

    pub async fn read(&self) -> Result<Option<Bytes>, ClientGone> {
        let stream = &self.stream;
        let read = poll_fn(|context| {
            if let Some(gone) = stream.gone.get() {
                return Poll::Ready(Err(gone));
            }
            let body = &mut *stream.body.borrow_mut();
            if let Some(bytes) = body.bytes.take() {
                return Poll::Ready(Ok(Some(bytes)));
            }
            if body.is_whole {
                return Poll::Ready(Ok(None));
            }
            stream.wait(context);
            Poll::Pending
        });
        let bytes = read.await?;
        if let Some(bytes) = &bytes {
            self.connection.give_credit(stream, bytes.len());
        }
        Ok(bytes)
    }

    /// Done when all of them are in frames that are being written.
    pub async fn write(&self, bytes: Bytes) -> Result<(), ClientGone> {
        if let Some(gone) = self.stream.gone.get() {
            return Err(gone);
        }
        self.stream.push(BodyPiece::Bytes(bytes));
        self.connection.has_work(&self.stream);
        wait(&*self.connection, &self.stream, StreamSide::Takes, || self.stream.queued.get() == 0).await
    }

    pub fn end(&self) {
        *self.stream.end.borrow_mut() = StreamEnd::Last;
        self.connection.has_work(&self.stream);
    }

    pub async fn gone(&self) {
        self.stream.until_closed().await;
    }

    pub async fn close(self) {
        let _ = wait(&*self.connection, &self.stream, StreamSide::Takes, || self.stream.is_answered()).await;
    }
}

impl Drop for StreamTunnel {
    fn drop(&mut self) {
        // As a proxy reports a lost connection (RFC 9113 §8.5).
        if !(self.stream.is_answered() && self.stream.body.borrow().is_whole) {
            self.connection.reset(&self.stream, StreamReset::Connect, ClientGone::Closed);
        }
    }
}
