//! The stream to a database server: TCP or a Unix socket, in the clear or through TLS.

use crate::database_url::DatabaseServer;
use crate::error::SqlError;
use larder_stdx::error::plain;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// TLS to a database: the trusted certificates, and the name in its own.
#[derive(Clone)]
pub struct DatabaseTls {
    /// The files and rules that it was made of.
    made_of: String,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl DatabaseTls {
    /// TLS to a server with a certificate for this name or address. Two with the same `made_of` are equal.
    ///
    /// # Errors
    /// One sentence: no certificate can be for the name.
    pub fn new(config: ClientConfig, made_of: String, name: &str) -> Result<Self, String> {
        let wrong = |_| format!("no certificate can be for the name \"{name}\"");
        let server = ServerName::try_from(name.to_owned()).map_err(wrong)?;
        Ok(Self { made_of, config: Arc::new(config), name: server })
    }

    async fn shake_hands<S>(&self, stream: S) -> Result<TlsStream<S>, String>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shaken = TlsConnector::from(self.config.clone()).connect(self.name.clone(), stream).await;
        shaken.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => "the connection was closed during the TLS handshake".to_owned(),
            _ => format!("TLS handshake: {error}"),
        })
    }
}

impl PartialEq for DatabaseTls {
    /// Whether the settings are the same: not whether their files have the same content.
    fn eq(&self, other: &Self) -> bool {
        self.made_of == other.made_of && self.name == other.name
    }
}

impl Eq for DatabaseTls {}

impl fmt::Debug for DatabaseTls {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_tuple("DatabaseTls").field(&self.name).finish()
    }
}

/// A stream of any kind.
pub(crate) enum DatabaseStream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Connects.
///
/// # Errors
/// The server does not listen there.
pub(crate) async fn connect(to: &DatabaseServer) -> Result<DatabaseStream, SqlError> {
    let failed = |it: io::Error| SqlError::Unreachable(plain(&it));
    match to {
        DatabaseServer::Tcp(host, port) => {
            let stream = TcpStream::connect((&**host, *port)).await.map_err(failed)?;
            // It only delays.
            let _ = stream.set_nodelay(true);
            Ok(DatabaseStream::Tcp(stream))
        }
        DatabaseServer::Unix(path) | DatabaseServer::File(path) => {
            UnixStream::connect(path).await.map(DatabaseStream::Unix).map_err(failed)
        }
    }
}

impl DatabaseStream {
    /// The stream after a TLS handshake. A Unix socket needs none.
    ///
    /// # Errors
    /// The server has another identity.
    pub async fn secure(self, tls: &DatabaseTls) -> Result<Self, SqlError> {
        match self {
            Self::Tcp(stream) => {
                let secured = tls.shake_hands(stream).await.map_err(SqlError::Unreachable)?;
                Ok(Self::Tls(Box::new(secured)))
            }
            other => Ok(other),
        }
    }

    /// Whether no third party reads it.
    pub fn is_private(&self) -> bool {
        !matches!(self, Self::Tcp(_))
    }
}

impl AsyncRead for DatabaseStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_read(cx, to),
            Self::Unix(it) => Pin::new(it).poll_read(cx, to),
            Self::Tls(it) => Pin::new(it).poll_read(cx, to),
        }
    }
}

impl AsyncWrite for DatabaseStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_write(cx, bytes),
            Self::Unix(it) => Pin::new(it).poll_write(cx, bytes),
            Self::Tls(it) => Pin::new(it).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_flush(cx),
            Self::Unix(it) => Pin::new(it).poll_flush(cx),
            Self::Tls(it) => Pin::new(it).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(it) => Pin::new(it).poll_shutdown(cx),
            Self::Unix(it) => Pin::new(it).poll_shutdown(cx),
            Self::Tls(it) => Pin::new(it).poll_shutdown(cx),
        }
    }
}

/// TLS as `tokio-postgres` asks for it.
#[derive(Clone)]
pub(crate) struct PostgresTls(pub DatabaseTls);

/// A stream of `tokio-postgres` through TLS.
pub(crate) struct PostgresTlsStream<S>(TlsStream<S>);

type Shaking<S> = Pin<Box<dyn Future<Output = Result<PostgresTlsStream<S>, String>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for PostgresTls {
    type Stream = PostgresTlsStream<S>;
    type TlsConnect = Self;
    type Error = String;

    fn make_tls_connect(&mut self, _: &str) -> Result<Self, String> {
        Ok(self.clone())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for PostgresTls {
    type Stream = PostgresTlsStream<S>;
    type Error = String;
    type Future = Shaking<S>;

    fn connect(self, stream: S) -> Shaking<S> {
        Box::pin(async move { self.0.shake_hands(stream).await.map(PostgresTlsStream) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> tokio_postgres::tls::TlsStream for PostgresTlsStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        // The certificate of the server was verified.
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for PostgresTlsStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        to: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, to)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for PostgresTlsStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
