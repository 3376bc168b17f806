//! A byte-exact application behind FastCGI, SCGI or uWSGI: it reads the variables and the body of each request, and answers with
//! the bytes that a script gives. One request for each connection.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as the application received it.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// The variables, in order.
    pub variables: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Asked {
    /// The value of a variable; `-` where it is not set.
    pub fn value(&self, name: &str) -> &str {
        self.variables.iter().find(|it| it.0 == name).map_or("-", |it| &it.1)
    }
}

/// The protocol of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    FastCgi,
    Scgi,
    Uwsgi,
}

impl Dialect {
    pub const ALL: [Dialect; 3] = [Dialect::FastCgi, Dialect::Scgi, Dialect::Uwsgi];

    /// The scheme of its addresses.
    pub fn scheme(self) -> &'static str {
        match self {
            Dialect::FastCgi => "fastcgi",
            Dialect::Scgi => "scgi",
            Dialect::Uwsgi => "uwsgi",
        }
    }

    /// A whole response with this output.
    pub fn whole(self, output: &str) -> Vec<u8> {
        match self {
            Dialect::FastCgi => [record(6, output.as_bytes()), record(6, b""), record(3, &[0; 8])].concat(),
            Dialect::Scgi | Dialect::Uwsgi => output.as_bytes().to_vec(),
        }
    }
}

/// A record of FastCGI for the request 1.
pub fn record(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![1, kind, 0, 1];
    out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(content);
    out
}

/// A running application.
pub struct VariablesApplication {
    pub dialect: Dialect,
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl VariablesApplication {
    /// An application that sends what `answer` makes of each request, and closes the connection.
    pub fn new(dialect: Dialect, answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let (all, answer) = (asked.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let (all, answer) = (all.clone(), answer.clone());
                std::thread::spawn(move || {
                    let request = match dialect {
                        Dialect::FastCgi => fastcgi(&mut stream),
                        Dialect::Scgi => scgi(&mut stream),
                        Dialect::Uwsgi => uwsgi(&mut stream),
                    };
                    let Some(request) = request else { return };
                    all.lock().unwrap().push(request.clone());
                    let _ = stream.write_all(&answer(&request));
                    let _ = stream.shutdown(Shutdown::Write);
                    // Closing with unread bytes would discard the response.
                    let _ = stream.read_to_end(&mut Vec::new());
                });
            }
        });
        Self { dialect, address, asked }
    }

    /// Its address in a configuration.
    pub fn url(&self) -> String {
        format!("{}://{}", self.dialect.scheme(), self.address)
    }

    /// Every request so far.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The last request.
    pub fn last(&self) -> Asked {
        self.asked().pop().expect("a request has arrived")
    }
}

fn exactly(stream: &mut TcpStream, length: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).ok().map(|()| bytes)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fastcgi(stream: &mut TcpStream) -> Option<Asked> {
    let (mut pairs, mut asked) = (Vec::new(), Asked::default());
    loop {
        let header = exactly(stream, 8)?;
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let content = exactly(stream, length)?;
        exactly(stream, usize::from(header[6]))?;
        match header[1] {
            4 => pairs.extend_from_slice(&content),
            5 if length == 0 => break,
            5 => asked.body.extend_from_slice(&content),
            _ => {}
        }
    }
    let mut at = 0;
    let number = |at: &mut usize| {
        let first = pairs[*at];
        let long = || {
            usize::try_from(u32::from_be_bytes(pairs[*at..*at + 4].try_into().unwrap()) & !(1 << 31)).unwrap()
        };
        let (value, size) = if first < 128 { (usize::from(first), 1) } else { (long(), 4) };
        *at += size;
        value
    };
    while at < pairs.len() {
        let (name, value) = (number(&mut at), number(&mut at));
        asked.variables.push((text(&pairs[at..at + name]), text(&pairs[at + name..at + name + value])));
        at += name + value;
    }
    Some(asked)
}

fn scgi(stream: &mut TcpStream) -> Option<Asked> {
    let mut length = Vec::new();
    while length.last() != Some(&b':') {
        length.extend(exactly(stream, 1)?);
    }
    let length = text(&length[..length.len() - 1]).parse().ok()?;
    let block = exactly(stream, length)?;
    assert_eq!(b",", &*exactly(stream, 1)?);
    let parts: Vec<&[u8]> = block.split(|it| *it == 0).collect();
    let variables = parts.as_chunks::<2>().0.iter().map(|it| (text(it[0]), text(it[1]))).collect();
    with_body(stream, variables)
}

fn uwsgi(stream: &mut TcpStream) -> Option<Asked> {
    let header = exactly(stream, 4)?;
    let block = exactly(stream, usize::from(u16::from_le_bytes([header[1], header[2]])))?;
    let (mut at, mut texts) = (0, Vec::new());
    while at < block.len() {
        let length = usize::from(u16::from_le_bytes([block[at], block[at + 1]]));
        texts.push(text(&block[at + 2..at + 2 + length]));
        at += 2 + length;
    }
    let variables = texts.as_chunks::<2>().0.iter().map(|it| (it[0].clone(), it[1].clone())).collect();
    with_body(stream, variables)
}

fn with_body(stream: &mut TcpStream, variables: Vec<(String, String)>) -> Option<Asked> {
    let mut asked = Asked { variables, body: Vec::new() };
    asked.body = exactly(stream, asked.value("CONTENT_LENGTH").parse().unwrap_or(0))?;
    Some(asked)
}
