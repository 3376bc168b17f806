//! The connection to MariaDB or MySQL: packets over a stream, and the login. Their forms are in `larder_wire::mysql`.

use crate::error::SqlError;
use crate::settings::DatabaseSettings;
use crate::stream::{self, DatabaseStream};
use bytes::{Buf as _, Bytes, BytesMut};
use larder_wire::mysql::{
    AuthSwitch, BadPacket, CommandAnswer, Greeting, LONGEST_PAYLOAD, LoginAnswer, LoginRequest,
    ServerFailure, ability, query, read_answer, scramble,
};
use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use tokio::io::{AsyncRead as _, AsyncWrite as _};

/// Bytes of the largest packet that is read: the most that a server permits.
const LARGEST: usize = 1 << 30;
/// Bytes that are read at once.
const READ: usize = 16 << 10;

/// The command that ends a connection. It has no answer.
const QUIT: u8 = 1;

/// A logged-in connection.
pub(super) struct MySqlPacketStream {
    io: RefCell<PacketIo>,
    greeting: Greeting,
    /// No packet is between columns and rows.
    pub no_eof: bool,
    /// Columns have the names of further types.
    pub is_extended: bool,
}

struct PacketIo {
    stream: DatabaseStream,
    arrived: BytesMut,
    /// The parts of a message that is longer than a packet.
    parts: BytesMut,
    /// The number of the next packet.
    number: u8,
    is_broken: bool,
}

impl PacketIo {
    /// The payload of the next message; without a context only if it has arrived.
    fn poll_packet(&mut self, mut context: Option<&mut Context<'_>>) -> Poll<Result<Bytes, SqlError>> {
        loop {
            if self.arrived.len() >= 4 {
                let head = &self.arrived[..4];
                let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
                if head[3] != self.number || self.parts.len() + length > LARGEST {
                    return Poll::Ready(Err(self.fails()));
                }
                if self.arrived.len() >= 4 + length {
                    self.number = self.number.wrapping_add(1);
                    self.arrived.advance(4);
                    let payload = self.arrived.split_to(length);
                    if length == LONGEST_PAYLOAD || !self.parts.is_empty() {
                        self.parts.extend_from_slice(&payload);
                        if length == LONGEST_PAYLOAD {
                            continue;
                        }
                        return Poll::Ready(Ok(self.parts.split().freeze()));
                    }
                    return Poll::Ready(Ok(payload.freeze()));
                }
                self.arrived.reserve(4 + length - self.arrived.len());
            }
            if ready!(self.poll_fill(context.as_deref_mut())).is_err() {
                return Poll::Ready(Err(self.fails()));
            }
        }
    }

    /// Reads once into the buffer.
    fn poll_fill(&mut self, context: Option<&mut Context<'_>>) -> Poll<Result<(), ()>> {
        let mut room = [MaybeUninit::uninit(); READ];
        let mut room = tokio::io::ReadBuf::uninit(&mut room);
        let read = match context {
            Some(context) => ready!(Pin::new(&mut self.stream).poll_read(context, &mut room)),
            None => match self.stream.read_arrived(&mut room) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                read => read,
            },
        };
        self.arrived.extend_from_slice(room.filled());
        Poll::Ready(if read.is_err() || room.filled().is_empty() { Err(()) } else { Ok(()) })
    }

    fn poll_send(&mut self, context: &mut Context<'_>, out: &mut BytesMut) -> Poll<Result<(), SqlError>> {
        while !out.is_empty() {
            match ready!(Pin::new(&mut self.stream).poll_write(context, out)) {
                Ok(count) if count > 0 => out.advance(count),
                _ => return Poll::Ready(Err(self.fails())),
            }
        }
        let flushed = ready!(Pin::new(&mut self.stream).poll_flush(context));
        Poll::Ready(flushed.map_err(|_| self.fails()))
    }

    fn fails(&mut self) -> SqlError {
        self.is_broken = true;
        SqlError::Lost
    }

    /// A message as packets.
    fn packets(&mut self, payload: &[u8]) -> BytesMut {
        let mut out = BytesMut::with_capacity(payload.len() + 4);
        let mut rest = payload;
        loop {
            let (part, behind) = rest.split_at(rest.len().min(LONGEST_PAYLOAD));
            out.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
            out.extend_from_slice(&[self.number]);
            out.extend_from_slice(part);
            self.number = self.number.wrapping_add(1);
            rest = behind;
            if part.len() < LONGEST_PAYLOAD {
                return out;
            }
        }
    }
}

impl MySqlPacketStream {
    /// Connects and logs in.
    ///
    /// # Errors
    /// The server is unreachable, or rejects the login.
    pub async fn open(settings: &DatabaseSettings) -> Result<Self, SqlError> {
        let stream = stream::connect(&settings.place.server).await?;
        let io = PacketIo {
            stream,
            arrived: BytesMut::new(),
            parts: BytesMut::new(),
            number: 0,
            is_broken: false,
        };
        let mut io = RefCell::new(io);
        let payload = packet(&io).await.map_err(|_| unreachable("it closed the connection"))?;
        let greeting =
            Greeting::read(&payload).map_err(|_| unreachable("it is neither MariaDB nor MySQL"))?;
        let greeting = greeting.map_err(|it| login_failure(&it))?;
        let tls = settings.tls.as_ref();
        let abilities = greeting.shared(tls.is_some(), !settings.place.database.is_empty());
        let of_mariadb = greeting.of_mariadb & ability::EXTENDED_METADATA;
        let password = settings.password.as_ref().map_or("", |it| it.expose()).as_bytes();
        let usual = scramble(&greeting.auth, password, &greeting.challenge);
        let request = LoginRequest {
            abilities,
            of_mariadb,
            user: &settings.place.user,
            hash: usual.as_deref().unwrap_or_default(),
            database: &settings.place.database,
            auth: if usual.is_some() { &greeting.auth } else { "mysql_native_password" },
        };
        if let Some(tls) = tls {
            if abilities & ability::TLS == 0 {
                return Err(unreachable(
                    "it has no TLS; configure ssl_cert and ssl_key there, or use a url without +tls",
                ));
            }
            send(&io, &request.head()).await?;
            let PacketIo { stream, number, .. } = io.into_inner();
            let stream = stream.secure(tls).await?;
            let (arrived, parts) = (BytesMut::new(), BytesMut::new());
            io = RefCell::new(PacketIo { stream, arrived, parts, number, is_broken: false });
        }
        send(&io, &request.write()).await?;
        let is_private = io.borrow().stream.is_private();
        log_in(&io, password, is_private).await?;
        let (no_eof, is_extended) = (abilities & ability::NO_EOF != 0, of_mariadb != 0);
        Ok(Self { io, greeting, no_eof, is_extended })
    }

    /// The version and the abilities of the server.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// Whether the connection has failed.
    pub fn is_broken(&self) -> bool {
        self.io.borrow().is_broken
    }

    /// Sends a command.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn command(&self, payload: &[u8]) -> Result<(), SqlError> {
        self.io.borrow_mut().number = 0;
        send(&self.io, payload).await
    }

    /// The next message.
    ///
    /// # Errors
    /// The connection has failed.
    pub async fn packet(&self) -> Result<Bytes, SqlError> {
        packet(&self.io).await
    }

    /// The same, polled.
    pub fn poll_packet(&self, context: &mut Context<'_>) -> Poll<Result<Bytes, SqlError>> {
        self.io.borrow_mut().poll_packet(Some(context))
    }

    /// The next message, if it has arrived.
    pub fn arrived(&self) -> Option<Result<Bytes, SqlError>> {
        match self.io.borrow_mut().poll_packet(None) {
            Poll::Ready(it) => Some(it),
            Poll::Pending => None,
        }
    }

    /// Packets wake no thread, until a message is awaited.
    ///
    /// # Errors
    /// The connection has failed.
    pub fn rest(&self) -> Result<(), SqlError> {
        let mut io = self.io.borrow_mut();
        io.stream.rest().map_err(|_| io.fails())
    }

    /// The error of a malformed packet: the connection is of no more use.
    pub fn malformed(&self) -> SqlError {
        self.io.borrow_mut().fails()
    }

    /// Runs statements of larder's own that have no rows.
    ///
    /// # Errors
    /// The server rejects them, or the connection has failed.
    pub async fn batch(&self, text: &str) -> Result<(), SqlError> {
        self.command(&query(text)).await?;
        let payload = self.packet().await?;
        match read_answer(&payload) {
            Ok(CommandAnswer::Done { .. }) => Ok(()),
            Ok(CommandAnswer::Failed(it)) => Err(query_failure(&it)),
            Ok(CommandAnswer::Columns(_)) | Err(BadPacket) => Err(self.malformed()),
        }
    }
}

impl Drop for MySqlPacketStream {
    /// Says goodbye if that needs no waiting: a server logs a warning for each connection that only ends.
    fn drop(&mut self) {
        let io = self.io.get_mut();
        if !io.is_broken {
            io.number = 0;
            let mut out = io.packets(&[QUIT]);
            let _ = io.poll_send(&mut Context::from_waker(Waker::noop()), &mut out);
        }
    }
}

async fn packet(io: &RefCell<PacketIo>) -> Result<Bytes, SqlError> {
    poll_fn(|context| io.borrow_mut().poll_packet(Some(context))).await
}

async fn send(io: &RefCell<PacketIo>, payload: &[u8]) -> Result<(), SqlError> {
    let mut out = io.borrow_mut().packets(payload);
    poll_fn(|context| io.borrow_mut().poll_send(context, &mut out)).await
}

/// Answers the questions of the server until it has accepted the password.
async fn log_in(io: &RefCell<PacketIo>, password: &[u8], is_private: bool) -> Result<(), SqlError> {
    let denied = |why: &str| SqlError::Denied(why.to_owned());
    loop {
        let payload = packet(io).await.map_err(|_| unreachable("it closed the connection"))?;
        match LoginAnswer::read(&payload).map_err(|_| unreachable("its answer is malformed"))? {
            LoginAnswer::Done => return Ok(()),
            LoginAnswer::Failed(it) => return Err(login_failure(&it)),
            LoginAnswer::Known => {}
            LoginAnswer::Switch(AuthSwitch { auth, challenge }) => {
                match scramble(auth, password, challenge) {
                    Some(hash) => send(io, &hash).await?,
                    None => {
                        let why = format!(
                            "it asks for {auth}; give the user a password of mysql_native_password or caching_sha2_password"
                        );
                        return Err(SqlError::Denied(why));
                    }
                }
            }
            // The password itself: never where others can read it.
            LoginAnswer::Whole if is_private => send(io, &[password, &[0]].concat()).await?,
            LoginAnswer::Whole => {
                return Err(denied(
                    "caching_sha2_password needs TLS or a Unix socket; use a url with mysql+tls",
                ));
            }
        }
    }
}

fn unreachable(why: &str) -> SqlError {
    SqlError::Unreachable(why.to_owned())
}

fn text(failure: &ServerFailure<'_>) -> String {
    format!("{} ({})", String::from_utf8_lossy(failure.message), failure.code)
}

/// The error of a connection without login.
fn login_failure(failure: &ServerFailure<'_>) -> SqlError {
    match failure.code {
        1044 | 1045 | 1130 | 1251 | 1698 | 1862 => SqlError::Denied(text(failure)),
        _ => SqlError::Unreachable(text(failure)),
    }
}

/// The error of a query.
pub(super) fn query_failure(failure: &ServerFailure<'_>) -> SqlError {
    match failure.code {
        // Interrupted: only its timeout does that, or a cancellation after which no one reads the result.
        1317 | 1969 | 3024 => SqlError::Timeout,
        // The server stops, or ends this connection.
        1053 | 1077 | 1079 | 1152 | 1184 | 1927 | 4031 => SqlError::Lost,
        _ => SqlError::Rejected(text(failure)),
    }
}
