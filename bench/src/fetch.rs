//! One plain GET, to check a server's bytes before it is measured, and to hold idle connections. It is no general client:
//! it trusts `Content-Length`, and leaves HTTP/2 and TLS to `curl`.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

/// Sends one keep-alive GET for the page and returns the body.
///
/// # Errors
/// Where the connection breaks, the status is not 200 or there is no `Content-Length`.
pub fn get(stream: &mut TcpStream) -> Result<Vec<u8>, String> {
    get_target(stream, "127.0.0.1", "/page.html")
}

/// The same for another target of another host.
///
/// # Errors
/// As [`get`].
pub fn get_target(stream: &mut TcpStream, host: &str, target: &str) -> Result<Vec<u8>, String> {
    let (head, body) = exchange(stream, &format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"))?;
    length_in(&head).map(|_| body)
}

/// Sends a request and returns the head and the body of its answer, for any status.
///
/// # Errors
/// Where the connection breaks, or there is no `Content-Length`.
pub fn exchange(stream: &mut TcpStream, request: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    // In one write: the second of several would wait for the acknowledgement of the first.
    stream.write_all(request.as_bytes()).map_err(|it| it.to_string())?;
    let mut got = Vec::new();
    let mut part = [0; 65536];
    loop {
        if let Some((head, body)) = split(&got) {
            let length = length_of(head)?;
            if body.len() >= length {
                return Ok((head.to_vec(), body.to_vec()));
            }
        }
        match stream.read(&mut part) {
            Ok(0) => return Err("closed early".into()),
            Ok(n) => got.extend_from_slice(part.get(..n).unwrap_or_default()),
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// A connection to `port` that gives up after 10 s of silence.
///
/// # Errors
/// Where it is refused.
pub fn connect(port: u16) -> Result<TcpStream, String> {
    let stream =
        TcpStream::connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|it| it.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(|it| it.to_string())?;
    Ok(stream)
}

/// Asks `times` for the page on one connection each and compares it with `page`.
///
/// # Errors
/// Where any answer is not the page.
pub fn expect(port: u16, page: &[u8], times: u32) -> Result<(), String> {
    for _ in 0..times {
        let body = get(&mut connect(port)?)?;
        if body != page {
            return Err(format!("answered {} bytes that are not the page", body.len()));
        }
    }
    Ok(())
}

/// Asks once, and expects a 301 with this target.
///
/// # Errors
/// Where the answer is another.
pub fn expect_redirect(port: u16, target: &str) -> Result<(), String> {
    let mut stream = connect(port)?;
    let request = "GET /page.html HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).map_err(|it| it.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|it| it.to_string())?;
    let is_location = |line: &str| {
        line.split_once(": ").is_some_and(|it| it.0.eq_ignore_ascii_case("location") && it.1 == target)
    };
    if answer.starts_with("HTTP/1.1 301") && answer.split("\r\n").any(is_location) {
        Ok(())
    } else {
        Err(format!("answered {answer}"))
    }
}

/// The same with `curl`, in the HTTP version named by its `option`; curl must report it as `version`.
///
/// # Errors
/// Where `curl` is missing, or any answer is not the page, or not by that version.
pub fn expect_by(
    (option, version): (&str, &str),
    is_sealed: bool,
    port: u16,
    page: &[u8],
    times: u32,
) -> Result<(), String> {
    let url = format!("{}://127.0.0.1:{port}/page.html", if is_sealed { "https" } else { "http" });
    for _ in 0..times {
        let output = std::process::Command::new("curl")
            .args(["-sSk", option, "-m", "10", "-w", "\n%{http_version} %{http_code}", &url])
            .output()
            .map_err(|it| format!("curl is needed: {it}"))?;
        let expected = [page, b"\n", version.as_bytes(), b" 200"].concat();
        if output.stdout != expected {
            let (length, why) = (output.stdout.len(), String::from_utf8_lossy(&output.stderr));
            return Err(format!(
                "answered {length} bytes that are not the page by HTTP/{version} {}",
                why.trim()
            ));
        }
    }
    Ok(())
}

fn split(got: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = got.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some((got.get(..at)?, got.get(at + 4..)?))
}

fn length_in(head: &[u8]) -> Result<usize, String> {
    if !head.starts_with(b"HTTP/1.1 200") {
        let head = String::from_utf8_lossy(head);
        return Err(format!("answered {}", head.split("\r\n").next().unwrap_or_default()));
    }
    length_of(head)
}

fn length_of(head: &[u8]) -> Result<usize, String> {
    let head = String::from_utf8_lossy(head);
    head.split("\r\n")
        .filter_map(|it| it.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or_else(|| "answered without Content-Length".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths() {
        assert_eq!(Ok(5), length_in(b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 5"));
        assert!(length_in(b"HTTP/1.1 404 Not Found\r\nContent-Length: 5").is_err());
        assert!(length_in(b"HTTP/1.1 200 OK").is_err());
        assert_eq!(Some((&b"a"[..], &b"b"[..])), split(b"a\r\n\r\nb"));
    }
}
