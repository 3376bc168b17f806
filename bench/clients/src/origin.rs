//! The application: every response may be stored for a day, and each request is noted with its time.

use crate::{body_of, milliseconds};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The running application. It ends with the process.
pub struct Origin {
    pub port: u16,
    times: Arc<Mutex<Vec<u32>>>,
}

impl Origin {
    pub fn start(began: Instant) -> std::io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let (port, times) = (listener.local_addr()?.port(), Arc::new(Mutex::new(Vec::new())));
        let noted = times.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let noted = noted.clone();
                std::thread::spawn(move || {
                    // The error is the end of the connection.
                    let _ = answer(stream, began, &noted);
                });
            }
        });
        Ok(Self { port, times })
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.times.lock().map_or(0, |it| it.len())
    }

    pub fn forget(&self) {
        if let Ok(mut times) = self.times.lock() {
            times.clear();
        }
    }

    /// Their times, in milliseconds since the beginning.
    pub fn times(&self) -> Vec<u32> {
        self.times.lock().map_or_else(|_| Vec::new(), |it| it.clone())
    }
}

fn answer(mut stream: TcpStream, began: Instant, noted: &Mutex<Vec<u32>>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut head, mut byte) = (Vec::new(), [0; 4096]);
    loop {
        while !head.ends_with(b"\r\n\r\n") {
            match stream.read(&mut byte)? {
                0 => return Ok(()),
                count => head.extend_from_slice(&byte[..count]),
            }
        }
        if let Ok(mut times) = noted.lock() {
            times.push(milliseconds(began));
        }
        let text = String::from_utf8_lossy(&head).into_owned();
        let body = body_of(text.split(' ').nth(1).unwrap_or_default());
        let fields = "Content-Type: text/html\r\nCache-Control: max-age=86400\r\n";
        let response = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
        stream.write_all(&[response.as_bytes(), &body].concat())?;
        head.clear();
    }
}
