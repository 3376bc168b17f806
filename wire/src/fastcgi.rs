//! FastCGI 1.0, the records of one request with a responder: written by larder, read from an application. One request uses a
//! connection at a time; its id is always 1. The variables and the head of the response are not here.

#[cfg(test)]
mod tests;

/// The most bytes of content in a record (section 3.3).
pub const MAX_CONTENT: usize = 65_535;
/// Bytes of a record's header.
pub const HEADER: usize = 8;
/// The only protocol version.
const VERSION: u8 = 1;
/// The id of every request of larder.
const REQUEST: u16 = 1;
const BEGIN_REQUEST: u8 = 1;
const END_REQUEST: u8 = 3;
const PARAMS: u8 = 4;
const STDIN: u8 = 5;
const STDOUT: u8 = 6;
const STDERR: u8 = 7;
/// The role that answers requests (section 6.2).
const RESPONDER: u16 = 1;
/// The flag by which the application leaves the connection open (section 5.1).
const KEEP_CONN: u8 = 1;
/// Bytes of the content of `FCGI_END_REQUEST`.
const END_LENGTH: usize = 8;

/// Whether the application leaves the connection open after the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionUse {
    /// It closes the connection.
    Close,
    /// It waits for the next request.
    Keep,
}

/// Appends the beginning of a request: `FCGI_BEGIN_REQUEST`, and the variables as a stream of `FCGI_PARAMS`.
pub fn begin<'a>(
    after: ConnectionUse,
    variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>,
    out: &mut Vec<u8>,
) {
    header(BEGIN_REQUEST, 8, out);
    out.extend_from_slice(&RESPONDER.to_be_bytes());
    out.push(if after == ConnectionUse::Keep { KEEP_CONN } else { 0 });
    out.extend_from_slice(&[0; 5]);
    let start = out.len();
    for (name, value) in variables {
        pair_length(name.len(), out);
        pair_length(value.len(), out);
        out.extend_from_slice(name);
        out.extend_from_slice(value);
    }
    // The last record first: a header moves all bytes behind it.
    let length = out.len() - start;
    for at in (0..length).step_by(MAX_CONTENT).rev() {
        let header = record_header(PARAMS, (length - at).min(MAX_CONTENT));
        out.splice(start + at..start + at, header);
    }
    header(PARAMS, 0, out);
}

/// Appends the header of a record with this number of bytes of the request body, 1 to [`MAX_CONTENT`]; 0 is its end.
pub fn input_header(length: usize, out: &mut Vec<u8>) {
    header(STDIN, length, out);
}

fn header(kind: u8, length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&record_header(kind, length));
}

fn record_header(kind: u8, length: usize) -> [u8; HEADER] {
    let [id_1, id_0] = REQUEST.to_be_bytes();
    let [length_1, length_0] = u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes();
    [VERSION, kind, id_1, id_0, length_1, length_0, 0, 0]
}

/// A length of a name or value: one byte, or four with the highest bit set (section 3.4).
fn pair_length(length: usize, out: &mut Vec<u8>) {
    match u8::try_from(length) {
        Ok(short @ 0..=127) => out.push(short),
        _ => {
            let long = u32::try_from(length).unwrap_or(u32::MAX >> 1) | 1 << 31;
            out.extend_from_slice(&long.to_be_bytes());
        }
    }
}

/// The end of a response (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastCgiEnd {
    /// The application ended with status 0.
    Complete,
    /// It ended with another exit status: its output may be cut.
    Failed(u32),
    /// It rejected the request: it cannot multiplex, is overloaded, or is no responder.
    Rejected(u8),
}

/// The reason why bytes are no response of a responder; each is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadRecord {
    /// Another version of the protocol, or none at all.
    Version,
    /// A record of another request.
    Request,
    /// A record that applications do not send.
    Kind,
    /// A record whose content has another length than its type demands.
    Length,
}

/// The next part of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordStep {
    /// After `consumed` bytes of framing: at least one and at most `data` bytes of output. Report the taken ones with
    /// [`RecordReader::took`].
    Output {
        /// Bytes of framing.
        consumed: usize,
        /// The most bytes that follow, of which some are there.
        data: usize,
    },
    /// The same of the error output.
    Error {
        /// Bytes of framing.
        consumed: usize,
        /// The most bytes that follow, of which some are there.
        data: usize,
    },
    /// The response ended.
    End {
        /// Bytes up to the end of the record, without its padding.
        consumed: usize,
        /// How it ended.
        end: FastCgiEnd,
    },
    /// More bytes are needed after these.
    More {
        /// Bytes of framing.
        consumed: usize,
    },
}

/// Reads the records of one response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordReader {
    /// The type of the current record.
    kind: u8,
    /// Bytes left of its content.
    content: usize,
    /// Bytes of padding after it.
    padding: usize,
}

impl RecordReader {
    /// The next step from the start of `buffer`.
    ///
    /// # Errors
    /// The bytes are no response to the request.
    pub fn step(&mut self, buffer: &[u8]) -> Result<RecordStep, BadRecord> {
        let mut consumed = 0;
        loop {
            let rest = buffer.get(consumed..).unwrap_or_default();
            if self.content > 0 {
                match self.kind {
                    _ if rest.is_empty() => return Ok(RecordStep::More { consumed }),
                    STDOUT => return Ok(RecordStep::Output { consumed, data: self.content }),
                    STDERR => return Ok(RecordStep::Error { consumed, data: self.content }),
                    _ => {
                        let Some(end) = end_of(rest) else { return Ok(RecordStep::More { consumed }) };
                        self.content = 0;
                        return Ok(RecordStep::End { consumed: consumed + END_LENGTH, end });
                    }
                }
            }
            if self.padding > 0 {
                let skipped = self.padding.min(rest.len());
                self.padding -= skipped;
                consumed += skipped;
                if self.padding > 0 {
                    return Ok(RecordStep::More { consumed });
                }
                continue;
            }
            let Some(header) = rest.first_chunk::<HEADER>() else {
                // The wrong protocol is found with its first byte.
                return match rest.first() {
                    Some(it) if *it != VERSION => Err(BadRecord::Version),
                    _ => Ok(RecordStep::More { consumed }),
                };
            };
            self.begin(header)?;
            consumed += HEADER;
        }
    }

    /// `length` bytes of output were taken from the buffer.
    pub fn took(&mut self, length: usize) {
        self.content = self.content.saturating_sub(length);
    }

    fn begin(&mut self, header: &[u8; HEADER]) -> Result<(), BadRecord> {
        let [version, kind, id_1, id_0, length_1, length_0, padding, _] = *header;
        let length = usize::from(u16::from_be_bytes([length_1, length_0]));
        if version != VERSION {
            return Err(BadRecord::Version);
        }
        match kind {
            STDOUT | STDERR => {}
            END_REQUEST if length != END_LENGTH => return Err(BadRecord::Length),
            END_REQUEST => {}
            _ => return Err(BadRecord::Kind),
        }
        if u16::from_be_bytes([id_1, id_0]) != REQUEST {
            return Err(BadRecord::Request);
        }
        *self = Self { kind, content: length, padding: usize::from(padding) };
        Ok(())
    }

    /// Bytes of padding that still belong to the last record.
    #[must_use]
    pub fn padding(&self) -> usize {
        self.padding
    }
}

fn end_of(content: &[u8]) -> Option<FastCgiEnd> {
    let [a, b, c, d, protocol, ..] = *content.first_chunk::<END_LENGTH>()?;
    Some(match (u32::from_be_bytes([a, b, c, d]), protocol) {
        (0, 0) => FastCgiEnd::Complete,
        (status, 0) => FastCgiEnd::Failed(status),
        (_, reason) => FastCgiEnd::Rejected(reason),
    })
}
