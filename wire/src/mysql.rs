//! Packets of MariaDB and MySQL (MariaDB documentation, "Client/Server Protocol") as a client reads and writes them: greeting, login,
//! prepared statements, and rows in the binary form. Their transport, and the meaning of values, are not here.

mod login;
mod value;

pub use login::{AuthSwitch, Greeting, LoginAnswer, LoginRequest, scramble};
pub use value::{BinaryRow, MySqlParameter, MySqlValue};

/// Bytes of the longest payload; a longer message continues in the next packet.
pub const LONGEST_PAYLOAD: usize = 0xff_ffff;

/// Abilities of a connection that both sides have.
pub mod ability {
    /// Set by clients of MySQL; without it the abilities of MariaDB alone are exchanged.
    pub const MYSQL: u32 = 1;
    /// The login names a database.
    pub const CONNECT_WITH_DATABASE: u32 = 1 << 3;
    /// The protocol of version 4.1.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// TLS.
    pub const TLS: u32 = 1 << 11;
    /// The state of the transaction in each result.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Passwords as hashes.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several results of one procedure.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// The same for prepared statements.
    pub const PREPARED_MULTI_RESULTS: u32 = 1 << 18;
    /// Kinds of passwords by their names.
    pub const AUTH_BY_NAME: u32 = 1 << 19;
    /// Hashes of any length.
    pub const AUTH_WITH_LENGTH: u32 = 1 << 21;
    /// No packet between columns and rows.
    pub const NO_EOF: u32 = 1 << 24;
    /// Of MariaDB alone: columns have the names of further types, such as `json`.
    pub const EXTENDED_METADATA: u32 = 1 << 3;
}

/// More results follow this one.
const MORE_RESULTS: u16 = 8;

/// A packet without a valid form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPacket;

/// An error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerFailure<'a> {
    /// Its number.
    pub code: u16,
    /// Its text.
    pub message: &'a [u8],
}

/// The first packet of the answer to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandAnswer<'a> {
    /// It succeeded, and has no rows.
    Done {
        /// The number of rows that it changed.
        affected: u64,
        /// Another answer follows.
        has_more: bool,
    },
    /// It failed.
    Failed(ServerFailure<'a>),
    /// Rows with this number of columns follow.
    Columns(usize),
}

/// One packet of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowPacket<'a> {
    /// A row.
    Row(BinaryRow<'a>),
    /// There are no more.
    End {
        /// Another result follows.
        has_more: bool,
    },
    /// The rest is missing.
    Failed(ServerFailure<'a>),
}

/// A statement that the server has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreparedAnswer {
    /// Its number in later commands.
    pub number: u32,
    /// Its columns.
    pub columns: u16,
    /// Its parameters.
    pub parameters: u16,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MySqlColumn {
    /// Its name in the result.
    pub name: Box<str>,
    /// The number of its type.
    pub kind: u8,
    /// The number of its character set; 63 is none.
    pub charset: u16,
    /// Its largest length.
    pub length: u32,
    /// Bits of its nature.
    pub flags: u16,
    /// Its values are JSON, by a word of MariaDB.
    pub is_json: bool,
}

/// The part of a packet that was not read yet.
#[derive(Clone, Copy, Debug)]
struct PacketReader<'a>(&'a [u8]);

impl<'a> PacketReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], BadPacket> {
        let (part, rest) = self.0.split_at_checked(count).ok_or(BadPacket)?;
        self.0 = rest;
        Ok(part)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, BadPacket> {
        Ok(self.take(bytes)?.iter().rev().fold(0, |all, it| all << 8 | u64::from(*it)))
    }

    fn u8(&mut self) -> Result<u8, BadPacket> {
        self.take(1).map(|it| it[0])
    }

    fn u16(&mut self) -> Result<u16, BadPacket> {
        self.number(2).map(|it| it as u16)
    }

    fn u32(&mut self) -> Result<u32, BadPacket> {
        self.number(4).map(|it| it as u32)
    }

    /// A number of 1 to 9 bytes.
    fn length(&mut self) -> Result<u64, BadPacket> {
        match self.u8()? {
            it @ 0..=250 => Ok(it.into()),
            252 => self.number(2),
            253 => self.number(3),
            254 => self.number(8),
            _ => Err(BadPacket),
        }
    }

    /// Bytes with their length before them.
    fn bytes(&mut self) -> Result<&'a [u8], BadPacket> {
        let count = usize::try_from(self.length()?).map_err(|_| BadPacket)?;
        self.take(count)
    }

    fn until_nul(&mut self) -> Result<&'a [u8], BadPacket> {
        let end = self.0.iter().position(|it| *it == 0).ok_or(BadPacket)?;
        let part = self.take(end)?;
        self.take(1)?;
        Ok(part)
    }
}

/// The failure in a packet that begins with 0xff.
fn failure(mut rest: PacketReader<'_>) -> Result<ServerFailure<'_>, BadPacket> {
    let code = rest.u16()?;
    if rest.0.first() == Some(&b'#') {
        rest.take(6)?;
    }
    Ok(ServerFailure { code, message: rest.0 })
}

/// Whether another result follows, by a packet after its first byte.
fn has_more(mut rest: PacketReader<'_>, no_eof: bool) -> Result<bool, BadPacket> {
    let status = match no_eof {
        true => {
            rest.length()?;
            rest.length()?;
            rest.u16()?
        }
        false => {
            rest.u16()?;
            rest.u16()?
        }
    };
    Ok(status & MORE_RESULTS != 0)
}

/// Reads the first packet of the answer to a command.
///
/// # Errors
/// It is malformed.
pub fn read_answer(payload: &[u8]) -> Result<CommandAnswer<'_>, BadPacket> {
    let mut rest = PacketReader(payload);
    Ok(match payload.first() {
        Some(0x00) => {
            rest.u8()?;
            let affected = PacketReader(rest.0).length()?;
            CommandAnswer::Done { affected, has_more: has_more(rest, true)? }
        }
        Some(0xff) => {
            rest.u8()?;
            CommandAnswer::Failed(failure(rest)?)
        }
        // A request for a file of this machine.
        Some(0xfb) | None => return Err(BadPacket),
        Some(_) => {
            let count = usize::try_from(rest.length()?).map_err(|_| BadPacket)?;
            // The most columns of a result.
            if count > 4096 || !rest.0.is_empty() {
                return Err(BadPacket);
            }
            CommandAnswer::Columns(count)
        }
    })
}

/// Reads the answer to [`prepare`].
///
/// # Errors
/// It is malformed.
pub fn read_prepared(payload: &[u8]) -> Result<Result<PreparedAnswer, ServerFailure<'_>>, BadPacket> {
    let mut rest = PacketReader(payload);
    match rest.u8()? {
        0x00 => {
            let (number, columns, parameters) = (rest.u32()?, rest.u16()?, rest.u16()?);
            Ok(Ok(PreparedAnswer { number, columns, parameters }))
        }
        0xff => failure(rest).map(Err),
        _ => Err(BadPacket),
    }
}

/// Reads a packet of a result with rows.
///
/// # Errors
/// It is malformed.
pub fn read_row(payload: &[u8], no_eof: bool) -> Result<RowPacket<'_>, BadPacket> {
    let mut rest = PacketReader(payload);
    Ok(match rest.u8()? {
        0x00 => RowPacket::Row(BinaryRow::new(rest.0)),
        0xfe => RowPacket::End { has_more: has_more(rest, no_eof)? },
        0xff => RowPacket::Failed(failure(rest)?),
        _ => return Err(BadPacket),
    })
}

/// Reads the definition of a column.
///
/// # Errors
/// It is malformed.
pub fn read_column(payload: &[u8], is_extended: bool) -> Result<MySqlColumn, BadPacket> {
    let mut rest = PacketReader(payload);
    // Catalogue, schema, table, and the table's own name.
    for _ in 0..4 {
        rest.bytes()?;
    }
    let name = rest.bytes()?;
    rest.bytes()?;
    let mut is_json = false;
    if is_extended {
        let mut words = PacketReader(rest.bytes()?);
        while !words.0.is_empty() {
            let (kind, word) = (words.u8()?, words.bytes()?);
            is_json |= kind == 1 && word == b"json";
        }
    }
    rest.length()?;
    let (charset, length, kind, flags) = (rest.u16()?, rest.u32()?, rest.u8()?, rest.u16()?);
    let name = String::from_utf8_lossy(name).into();
    Ok(MySqlColumn { name, kind, charset, length, flags, is_json })
}

/// The command that runs statements of larder's own, without values.
#[must_use]
pub fn query(text: &str) -> Vec<u8> {
    [&[0x03], text.as_bytes()].concat()
}

/// The command that prepares a statement: one, and no more.
#[must_use]
pub fn prepare(text: &str) -> Vec<u8> {
    [&[0x16], text.as_bytes()].concat()
}

/// The command that runs a prepared statement.
#[must_use]
pub fn execute(number: u32, parameters: &[MySqlParameter<'_>]) -> Vec<u8> {
    let mut out = vec![0x17];
    out.extend_from_slice(&number.to_le_bytes());
    // No cursor; once.
    out.extend_from_slice(&[0, 1, 0, 0, 0]);
    value::write_parameters(parameters, &mut out);
    out
}

/// The command that forgets a prepared statement. It has no answer.
#[must_use]
pub fn forget(number: u32) -> Vec<u8> {
    [&[0x19][..], &number.to_le_bytes()].concat()
}

/// The command that names this connection as that of a replica with this number.
#[must_use]
pub fn register(number: u32) -> Vec<u8> {
    let mut out = vec![0x15];
    out.extend_from_slice(&number.to_le_bytes());
    // A host, without user, password, port, rank and primary.
    out.extend_from_slice(b"\x06larder\0\0\0\0\0\0\0\0\0\0\0\0");
    out
}

/// The command by which a replica with this number gets the binary log, from a byte of a file on, as it grows.
#[must_use]
pub fn dump(number: u32, offset: u32, file: &str) -> Vec<u8> {
    let mut out = vec![0x12];
    out.extend_from_slice(&offset.to_le_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(file.as_bytes());
    out
}

/// Reads a packet of the answer to [`dump`]: an event, whose form is in [`crate::binlog`].
///
/// # Errors
/// It is malformed, or the log has ended.
pub fn read_dumped(payload: &[u8]) -> Result<Result<&[u8], ServerFailure<'_>>, BadPacket> {
    let mut rest = PacketReader(payload);
    match rest.u8()? {
        0x00 => Ok(Ok(rest.0)),
        0xff => failure(rest).map(Err),
        _ => Err(BadPacket),
    }
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    let bytes = (length as u64).to_le_bytes();
    match length {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => {
            out.push(252);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(253);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(254);
            out.extend_from_slice(&bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers() {
        let done = |affected, has_more| Ok(CommandAnswer::Done { affected, has_more });
        assert_eq!(done(0, false), read_answer(b"\0\0\0\x02\0\0\0"));
        assert_eq!(done(1, true), read_answer(b"\0\x01\xfc\xff\x01\x0a\0\0\0"));
        let failed = ServerFailure { code: 1064, message: b"no" };
        assert_eq!(Ok(CommandAnswer::Failed(failed)), read_answer(b"\xff\x28\x04#42000no"));
        assert_eq!(Ok(CommandAnswer::Failed(failed)), read_answer(b"\xff\x28\x04no"));
        assert_eq!(Ok(CommandAnswer::Columns(3)), read_answer(b"\x03"));
        for wrong in [&b""[..], b"\xfbfile", b"\x03\0", b"\0", b"\xff\x28", b"\xfc\xff\xff"] {
            assert_eq!(Err(BadPacket), read_answer(wrong), "{wrong:?}");
        }
        assert_eq!(Ok(RowPacket::End { has_more: true }), read_row(b"\xfe\0\0\x08\0\0\0", true));
        assert_eq!(Ok(RowPacket::End { has_more: true }), read_row(b"\xfe\0\0\x08\0", false));
        assert_eq!(Ok(RowPacket::Failed(failed)), read_row(b"\xff\x28\x04no", true));
    }

    #[test]
    fn logs() {
        assert_eq!(b"\x12\x04\0\0\0\0\0\x07\0\0\0bin.000001".to_vec(), dump(7, 4, "bin.000001"));
        assert_eq!(1 + 4 + 7 + 2 + 2 + 4 + 4, register(7).len());
        assert_eq!(Ok(Ok(&b"event"[..])), read_dumped(b"\0event"));
        let failed = ServerFailure { code: 1236, message: b"gone" };
        assert_eq!(Ok(Err(failed)), read_dumped(b"\xff\xd4\x04#HY000gone"));
        assert_eq!(Err(BadPacket), read_dumped(b"\xfe\0\0\x02\0"));
    }

    #[test]
    fn columns() {
        let mut packet = b"\x03def\x01s\x01t\x01t\x04name\x04real".to_vec();
        let plain = [&packet[..], b"\x0c\x2d\0\x10\0\0\0\xfd\x01\0\0\0\0"].concat();
        let column = read_column(&plain, false).unwrap();
        let shown = (&*column.name, column.kind, column.charset, column.length, column.flags, column.is_json);
        assert_eq!(("name", 0xfd, 45, 16, 1, false), shown);
        packet.extend_from_slice(b"\x06\x01\x04json\x0c\x2d\0\x10\0\0\0\xfc\x01\0\0\0\0");
        assert!(read_column(&packet, true).unwrap().is_json);
        for end in 0..plain.len() - 3 {
            assert!(read_column(&plain[..end], false).is_err(), "{end}");
        }
    }

    #[test]
    fn lengths() {
        for length in [0, 250, 251, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000] {
            let mut out = Vec::new();
            write_length(length, &mut out);
            assert_eq!(Ok(length as u64), PacketReader(&out).length());
        }
    }
}
