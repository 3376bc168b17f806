//! An upgraded connection (RFC 9110 §7.8): bytes in both directions, each with an end of its own. The copying between the
//! two sides is not here.

use super::connection::Http1Connection;
use super::reply::AfterResponse;
use crate::body::BodyPiece;
use crate::client_socket::ClientGone;
use bytes::Bytes;
use larder_semantics::field::FieldList;
use larder_wire::http1::write;
use std::future::poll_fn;

/// See [`crate::handler::Http1Tunnel`].
pub(crate) struct Http1Tunnel<'c> {
    connection: &'c Http1Connection,
}

impl<'c> Http1Tunnel<'c> {
    /// Sends the head that ends HTTP on this connection.
    pub(super) async fn begin(
        connection: &'c Http1Connection,
        protocol: &[u8],
        fields: &FieldList,
    ) -> Result<Self, ClientGone> {
        connection.has_answer.set(true);
        connection.after.set(AfterResponse::Cut);
        connection.link.with_output(|it| {
            write::status_line(101, it.text());
            it.text().extend_from_slice(b"Connection: upgrade\r\n");
            write::field("Upgrade", protocol, it.text());
            it.text().extend_from_slice(fields.text());
            it.text().extend_from_slice(b"\r\n");
        });
        connection.link.flush().await?;
        Ok(Self { connection })
    }

    pub async fn read(&self) -> Result<Option<Bytes>, ClientGone> {
        let link = &self.connection.link;
        let kept = std::mem::take(&mut *self.connection.input.borrow_mut());
        if !kept.is_empty() {
            return Ok(Some(kept.into()));
        }
        let read = poll_fn(|context| {
            let mut scratch = link.worker.input.borrow_mut();
            link.read(context, &mut scratch).map_ok(|count| Bytes::copy_from_slice(&scratch[..count]))
        });
        match read.await {
            Ok(bytes) => Ok(Some(bytes).filter(|it| !it.is_empty())),
            Err(_) => Err(link.gone()),
        }
    }

    /// Done when the system has taken all of them.
    pub async fn write(&self, bytes: Bytes) -> Result<(), ClientGone> {
        self.connection.link.with_output(|it| it.push(BodyPiece::Bytes(bytes)));
        self.connection.link.flush().await
    }

    pub fn end(&self) {
        self.connection.link.end();
    }

    pub fn close(self) {
        self.connection.after.set(AfterResponse::Close);
    }
}
