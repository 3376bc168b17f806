//! A memcached of the meta protocol with faults on demand, for tests.

use larder_store::fleet::{FleetAddress, MemcachedAddress};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// Its fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It reads, and never answers.
    Hang,
    /// It does not even read.
    Deaf,
    /// It answers after this number of milliseconds.
    Slow(u64),
    /// It closes the connection instead of answering.
    Drop,
    /// It closes connections as soon as they are open.
    Refuse,
    /// It answers with bytes that are no answer.
    Garbage,
    /// It speaks HTTP.
    Foreign,
    /// It answers about another key.
    WrongKey,
    /// It answers with another's number.
    WrongOpaque,
    /// It closes the connection in the middle of a value.
    Cut,
    /// It says a smaller length than it sends.
    Short,
    /// It says a larger length than it sends.
    Long,
    /// It says a length that no item has.
    Huge,
    /// Its line does not end.
    Endless,
    /// It answers twice.
    Twice,
    /// It answers with the value of another key.
    Swapped,
    /// It changes a byte of the value.
    Flipped,
    /// It has no memory for anything new.
    Full,
    /// It fails at reading.
    Broken,
    /// Every other connection is closed at once.
    Flapping,
    /// The first connection hangs, others do not.
    OneHangs,
}

/// The server.
#[derive(Clone)]
pub struct Faulty {
    inner: Rc<Inner>,
    pub address: FleetAddress,
}

struct Inner {
    fault: Cell<Fault>,
    connections: Cell<u64>,
    values: RefCell<HashMap<Vec<u8>, Value>>,
}

/// A value, and its client flags.
type Value = (Vec<u8>, String);

impl Faulty {
    /// Starts one that does nothing wrong yet.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = MemcachedAddress::Tcp("127.0.0.1".into(), listener.local_addr().unwrap().port());
        let inner = Rc::new(Inner {
            fault: Cell::new(Fault::None),
            connections: Cell::new(0),
            values: RefCell::default(),
        });
        let server = inner.clone();
        tokio::task::spawn_local(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let _ = stream.set_nodelay(true);
                let number = server.connections.replace(server.connections.get() + 1);
                let server = server.clone();
                tokio::task::spawn_local(async move {
                    let _ = server.serve(stream, number).await;
                });
            }
        });
        Self { inner, address: FleetAddress { at, weight: 1 } }
    }

    pub fn does(&self, fault: Fault) {
        self.inner.fault.set(fault);
    }

    pub fn connections(&self) -> u64 {
        self.inner.connections.get()
    }
}

impl Inner {
    async fn serve(&self, stream: TcpStream, number: u64) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut line = Vec::new();
        loop {
            match self.fault.get() {
                Fault::Refuse => return Ok(()),
                Fault::Flapping if number % 2 == 0 => return Ok(()),
                _ => {}
            }
            line.clear();
            if stream.read_until(b'\n', &mut line).await? == 0 {
                return Ok(());
            }
            if self.fault.get() == Fault::Deaf {
                std::future::pending().await
            }
            let text = String::from_utf8(line.clone()).unwrap();
            let words: Vec<&str> = text.split_ascii_whitespace().collect();
            let value = match words[0] {
                "ms" => {
                    let mut value = vec![0; words[2].parse::<usize>().unwrap() + 2];
                    stream.read_exact(&mut value).await?;
                    value.truncate(value.len() - 2);
                    Some(value)
                }
                _ => None,
            };
            let fault = self.fault.get();
            let answer = self.answer(&words, value, fault);
            match fault {
                Fault::Hang => continue,
                Fault::OneHangs if number == 0 => continue,
                Fault::Drop | Fault::Refuse => return Ok(()),
                Fault::Slow(milliseconds) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
                _ => {}
            }
            stream.write_all(&answer).await?;
            if fault == Fault::Cut {
                return Ok(());
            }
        }
    }

    fn answer(&self, words: &[&str], value: Option<Vec<u8>>, fault: Fault) -> Vec<u8> {
        let flag = |name: char| words[1..].iter().skip(1).find_map(|it| it.strip_prefix(name)).unwrap_or("0");
        let (command, key) = (words[0], words.get(1).unwrap_or(&"").as_bytes().to_vec());
        let mut number: u64 = flag('O').parse().unwrap();
        let mut values = self.values.borrow_mut();
        match fault {
            Fault::Garbage => return (0..200_u8).map(|it| it.wrapping_mul(37) ^ 0x5a).collect(),
            Fault::Foreign => return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
            Fault::Endless => return vec![b'V'; 100_000],
            Fault::WrongOpaque => number += 1,
            Fault::Full if command == "ms" => {
                return b"SERVER_ERROR out of memory storing object\r\n".to_vec();
            }
            Fault::Broken if command == "mg" => return b"SERVER_ERROR proxy has no server\r\n".to_vec(),
            _ => {}
        }
        let answer = match command {
            "mn" => b"MN\r\n".to_vec(),
            "ms" => {
                values.insert(key, (value.unwrap(), flag('F').to_owned()));
                format!("HD O{number}\r\n").into_bytes()
            }
            "md" => match values.remove(&key) {
                Some(_) => format!("HD O{number}\r\n").into_bytes(),
                None => format!("NF O{number}\r\n").into_bytes(),
            },
            "mg" => {
                let found = match fault {
                    Fault::Swapped => values.iter().find(|it| *it.0 != key).map(|it| it.1),
                    _ => values.get(&key),
                };
                let Some((value, flags)) = found else { return b"EN\r\n".to_vec() };
                let mut value = value.clone();
                let mut length = value.len();
                let mut name = String::from_utf8(key).unwrap();
                match fault {
                    Fault::WrongKey => name.push('x'),
                    Fault::Short => length -= 1,
                    Fault::Long => length += 1,
                    Fault::Huge => length = 4_000_000_000,
                    Fault::Flipped => value[length / 2] ^= 4,
                    Fault::Cut => value.truncate(length / 2),
                    _ => {}
                }
                let head = format!("VA {length} f{flags} c1 t60 k{name} O{number}\r\n");
                let end: &[u8] = if fault == Fault::Cut { b"" } else { b"\r\n" };
                [head.as_bytes(), &value, end].concat()
            }
            other => panic!("{other}"),
        };
        if fault == Fault::Twice { answer.repeat(2) } else { answer }
    }
}
