//! The stream to a database server: TCP or a Unix socket, in the clear or through TLS.

use crate::database_url::DatabaseServer;
use crate::error::SqlError;
use larder_stdx::error::plain;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::fmt;
use std::future::Future;
use std::io::{self, Read as _, Write as _};
use std::mem;
use std::net;
use std::os::unix;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
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
    /// A TCP socket whose packets wake no thread.
    IdleTcp(net::TcpStream),
    /// A Unix socket whose packets wake no thread.
    IdleUnix(unix::net::UnixStream),
    /// The operating system has rejected it.
    Failed,
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
        !matches!(self, Self::Tcp(_) | Self::IdleTcp(_))
    }

    /// Takes it out of the events of the thread: until a read or a write has to wait, its packets wake no thread. With TLS it does nothing.
    ///
    /// # Errors
    /// The operating system rejects it.
    pub fn rest(&mut self) -> io::Result<()> {
        *self = match mem::replace(self, Self::Failed) {
            Self::Tcp(it) => Self::IdleTcp(it.into_std()?),
            Self::Unix(it) => Self::IdleUnix(it.into_std()?),
            other => other,
        };
        Ok(())
    }

    /// Reads the bytes that have arrived, without a wait.
    ///
    /// # Errors
    /// Nothing has arrived ([`io::ErrorKind::WouldBlock`]), or the stream has failed.
    pub fn read_arrived(&mut self, to: &mut ReadBuf<'_>) -> io::Result<()> {
        let read = match self {
            Self::IdleTcp(it) => it.read(to.initialize_unfilled())?,
            Self::IdleUnix(it) => it.read(to.initialize_unfilled())?,
            watched => {
                let mut context = Context::from_waker(Waker::noop());
                return match Pin::new(watched).poll_read(&mut context, to) {
                    Poll::Ready(read) => read,
                    Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
                };
            }
        };
        to.advance(read);
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        matches!(self, Self::IdleTcp(_) | Self::IdleUnix(_))
    }

    fn write_at_rest(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::IdleTcp(it) => it.write(bytes),
            Self::IdleUnix(it) => it.write(bytes),
            _ => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    /// The opposite of [`DatabaseStream::rest`].
    fn watch(&mut self) -> io::Result<()> {
        *self = match mem::replace(self, Self::Failed) {
            Self::IdleTcp(it) => Self::Tcp(TcpStream::from_std(it)?),
            Self::IdleUnix(it) => Self::Unix(UnixStream::from_std(it)?),
            other => other,
        };
        Ok(())
    }
}

impl AsyncRead for DatabaseStream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        if stream.is_at_rest() {
            match stream.read_arrived(to) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.watch()?,
                read => return Poll::Ready(read),
            }
        }
        match stream {
            Self::Tcp(it) => Pin::new(it).poll_read(cx, to),
            Self::Unix(it) => Pin::new(it).poll_read(cx, to),
            Self::Tls(it) => Pin::new(it).poll_read(cx, to),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }
}

impl AsyncWrite for DatabaseStream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = self.get_mut();
        if stream.is_at_rest() {
            // A runtime may not be left.
            match stream.write_at_rest(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => stream.watch()?,
                written => return Poll::Ready(written),
            }
        }
        match stream {
            Self::Tcp(it) => Pin::new(it).poll_write(cx, bytes),
            Self::Unix(it) => Pin::new(it).poll_write(cx, bytes),
            Self::Tls(it) => Pin::new(it).poll_write(cx, bytes),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tls(it) => Pin::new(it).poll_flush(cx),
            // A socket has no buffer of this process.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.get_mut();
        stream.watch()?;
        match stream {
            Self::Tcp(it) => Pin::new(it).poll_shutdown(cx),
            Self::Unix(it) => Pin::new(it).poll_shutdown(cx),
            Self::Tls(it) => Pin::new(it).poll_shutdown(cx),
            _ => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    fn arrived(stream: &mut DatabaseStream) -> Result<Vec<u8>, io::ErrorKind> {
        let mut room = [0; 16];
        let mut room = ReadBuf::new(&mut room);
        stream.read_arrived(&mut room).map_err(|it| it.kind())?;
        Ok(room.filled().to_vec())
    }

    #[tokio::test]
    async fn a_stream_at_rest_has_what_arrived_and_a_read_waits_for_more() {
        let (stream, mut server) = UnixStream::pair().unwrap();
        let mut stream = DatabaseStream::Unix(stream);
        for _ in 0..2 {
            stream.rest().unwrap();
            assert_eq!(Err(io::ErrorKind::WouldBlock), arrived(&mut stream));
            server.write_all(b"one").await.unwrap();
            assert_eq!(Ok(b"one".to_vec()), arrived(&mut stream));
            assert!(matches!(stream, DatabaseStream::IdleUnix(_)));
            // Neither what is here nor what comes later is lost by a read that may wait.
            server.write_all(b"two").await.unwrap();
            let mut read = [0; 3];
            stream.read_exact(&mut read).await.unwrap();
            assert_eq!(b"two", &read);
            let later = async {
                tokio::task::yield_now().await;
                server.write_all(b"end").await.unwrap();
            };
            tokio::join!(later, async { stream.read_exact(&mut read).await.unwrap() });
            assert_eq!(b"end", &read);
        }
        stream.rest().unwrap();
        drop(server);
        assert_eq!(Ok(Vec::new()), arrived(&mut stream), "the end");
    }

    #[test]
    fn a_stream_at_rest_sends_after_the_end_of_its_runtime() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        let (mut stream, server) = runtime.block_on(async {
            let (stream, server) = UnixStream::pair().unwrap();
            let mut stream = DatabaseStream::Unix(stream);
            stream.rest().unwrap();
            (stream, server.into_std().unwrap())
        });
        drop(runtime);
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut stream).poll_write(&mut context, b"end"), Poll::Ready(Ok(3))));
        let mut read = [0; 3];
        (&server).read_exact(&mut read).unwrap();
        assert_eq!(b"end", &read);
    }
}
