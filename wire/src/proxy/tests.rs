//! Headers of both versions: whole, cut, and wrong.

use super::*;

/// A header of version 2.
fn v2(command: u8, family: u8, block: &[u8]) -> Vec<u8> {
    let length = u16::try_from(block.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &length, block].concat()
}

const IPV4: &[u8] = &[192, 0, 2, 7, 10, 0, 0, 1, 0xdc, 0x04, 0x01, 0xbb];

fn ipv6() -> Vec<u8> {
    let address = |it: &str| it.parse::<Ipv6Addr>().unwrap().octets();
    [&address("2001:db8::7")[..], &address("2001:db8::1"), &[0xdc, 0x04, 0x01, 0xbb]].concat()
}

/// What is read of it: also where something follows, and at no prefix before its end.
#[track_caller]
fn check(header: &[u8], from: &str) {
    let source =
        if from == "peer" { ConnectionSource::Peer } else { ConnectionSource::Client(from.parse().unwrap()) };
    let expect = Ok(ParsedPreamble::Header(source, header.len()));
    assert_eq!(expect, parse(header));
    assert_eq!(expect, parse(&[header, b"GET / HTTP/1.1\r\n\r\n"].concat()));
    for cut in 0..header.len() {
        assert_eq!(Ok(ParsedPreamble::Partial), parse(&header[..cut]), "{cut}");
    }
}

/// What is wrong with it, and is at the first byte at which that can be known; `from` is how many there are then.
#[track_caller]
fn refuse(header: &[u8], wrong: PreambleError, from: usize) {
    for length in from..=header.len() {
        assert_eq!(Err(wrong), parse(&header[..length]), "{length}");
    }
    assert_eq!(Ok(ParsedPreamble::Partial), parse(&header[..from - 1]), "it is known before");
}

#[test]
fn lines() {
    check(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n", "192.0.2.7:56324");
    check(b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", "255.255.255.255:65535");
    check(b"PROXY TCP4 0.0.0.0 0.0.0.0 0 0\r\n", "0.0.0.0:0");
    check(b"PROXY TCP6 2001:db8::7 ::1 56324 443\r\n", "[2001:db8::7]:56324");
    check(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 1 2\r\n", "[::ffff:192.0.2.7]:1");
    let all = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    check(format!("PROXY TCP6 {all} {all} 65535 65535\r\n").as_bytes(), &format!("[{all}]:65535"));
    check(b"PROXY UNKNOWN\r\n", "peer");
    let longest = format!("PROXY UNKNOWN {all} {all} 65535 65535\r\n");
    assert_eq!(LINE, longest.len());
    check(longest.as_bytes(), "peer");
    check(b"PROXY UNKNOWN \xff\0 whatever\r\n", "peer");
}

#[test]
fn wrong_lines() {
    for line in [
        "TCP4 192.0.2.7 10.0.0.1 56324 443 ",
        "TCP4 192.0.2.7 10.0.0.1 56324",
        "TCP4 192.0.2.7 10.0.0.1  56324 443",
        "TCP4  192.0.2.7 10.0.0.1 56324 443",
        "TCP4 192.0.2.7 10.0.0.1 56324 443 1",
        "TCP4 192.0.2.7 10.0.0.1 56324 65536",
        "TCP4 192.0.2.7 10.0.0.1 +56324 443",
        "TCP4 192.0.2.7 10.0.0.1 056324 443",
        "TCP4 192.0.2.7 10.0.0.1 56324 -1",
        "TCP4 192.0.2.7 10.0.0.1 56324 ",
        "TCP4 192.0.2.256 10.0.0.1 56324 443",
        "TCP4 192.0.2.07 10.0.0.1 56324 443",
        "TCP4 192.0.2 10.0.0.1 56324 443",
        "TCP4 2001:db8::7 ::1 56324 443",
        "TCP6 192.0.2.7 10.0.0.1 56324 443",
        "TCP6 fe80::1%eth0 ::1 56324 443",
        "TCP6 [::1] ::1 56324 443",
        "TCP5 192.0.2.7 10.0.0.1 56324 443",
        "tcp4 192.0.2.7 10.0.0.1 56324 443",
        "UNKNOWNX",
        "UNIX /a /b",
        "",
        " ",
    ] {
        let header = format!("PROXY {line}\r\nGET");
        refuse(header.as_bytes(), PreambleError::Malformed, header.len() - 3);
    }
}

#[test]
fn a_line_ends_with_cr_and_lf_within_107_bytes() {
    refuse(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\nGET", PreambleError::Malformed, 40);
    refuse(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r GET", PreambleError::Malformed, 41);
    refuse(b"PROXY UNKNOWN \n\r\n", PreambleError::Malformed, 15);
    let endless = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; 200]].concat();
    refuse(&endless, PreambleError::Malformed, LINE);
    let late = [b"PROXY UNKNOWN ".as_slice(), &[b'x'; LINE - 15], b"\r\n"].concat();
    refuse(&late, PreambleError::Malformed, LINE);
}

#[test]
fn blocks() {
    check(&v2(0x21, 0x11, IPV4), "192.0.2.7:56324");
    check(&v2(0x21, 0x21, &ipv6()), "[2001:db8::7]:56324");
    check(&v2(0x21, 0x12, IPV4), "peer");
    check(&v2(0x21, 0x22, &ipv6()), "peer");
    check(&v2(0x21, 0x31, &[0; 216]), "peer");
    check(&v2(0x21, 0x00, &[]), "peer");
    check(&v2(0x21, 0x00, b"whatever"), "peer");
    // The proxy's own, whatever else it says.
    check(&v2(0x20, 0x00, &[]), "peer");
    check(&v2(0x20, 0x11, IPV4), "peer");
    check(&v2(0x20, 0xff, b"whatever"), "peer");
    // What it says beside is skipped.
    let more = [IPV4, &[0x01, 0, 2, b'h', b'2'], &[0x04, 0, 0], &[0xe0, 0, 1, 9]].concat();
    check(&v2(0x21, 0x11, &more), "192.0.2.7:56324");
}

#[test]
fn wrong_blocks() {
    refuse(&v2(0x11, 0x11, IPV4), PreambleError::Malformed, 13);
    refuse(&v2(0x31, 0x11, IPV4), PreambleError::Malformed, 13);
    refuse(&v2(0x22, 0x11, IPV4), PreambleError::Malformed, 13);
    for (family, block) in [
        (0x41, IPV4.to_vec()),
        (0x13, IPV4.to_vec()),
        (0x11, IPV4[..11].to_vec()),
        (0x21, IPV4.to_vec()),
        (0x31, ipv6()),
        (0x11, [IPV4, &[0x04, 0]].concat()),
        (0x11, [IPV4, &[0x04, 0, 1]].concat()),
        (0x11, [IPV4, &[CHECKSUM, 0, 3, 1, 2, 3]].concat()),
    ] {
        let header = v2(0x21, family, &block);
        refuse(&header, PreambleError::Malformed, header.len());
    }
    let longest = [IPV4, &[0x04, 0x0f, 0xe1], &[0; MOST - FIXED - 15]].concat();
    check(&v2(0x21, 0x11, &longest), "192.0.2.7:56324");
    refuse(&v2(0x20, 0x00, &[longest.as_slice(), &[0]].concat()), PreambleError::TooLong, FIXED);
}

#[test]
fn a_malformed_proxy_header_is_rejected() {
    refuse(b"GET / HTTP/1.1\r\n\r\n", PreambleError::Missing, 1);
    refuse(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", PreambleError::Missing, 3);
    refuse(b"\x16\x03\x01", PreambleError::Missing, 1);
    refuse(b"proxy TCP4", PreambleError::Missing, 1);
    refuse(b"\r\n\r\nGET", PreambleError::Missing, 5);
    refuse(b"PROXY\r\n", PreambleError::Missing, 6);
    refuse(b"\r\n\r\n\0\r\nQUIT\r", PreambleError::Missing, 12);
}

#[test]
fn a_checksum_is_checked() {
    // The check value of the algorithm.
    assert_eq!(0xe306_9283, crc32c(&[b"12345", b"6789"]));
    let header = |sum: u32| {
        let tail = [&[CHECKSUM, 0, 4][..], &sum.to_be_bytes(), &[0x04, 0, 0]].concat();
        v2(0x21, 0x11, &[IPV4, &tail].concat())
    };
    let right = crc32c(&[&header(0)]);
    check(&header(right), "192.0.2.7:56324");
    let wrong = header(right ^ 1);
    refuse(&wrong, PreambleError::Checksum, wrong.len());
    let twice = [IPV4, &[CHECKSUM, 0, 4, 0, 0, 0, 0], &[CHECKSUM, 0, 4, 0, 0, 0, 0]].concat();
    let twice = v2(0x21, 0x11, &twice);
    refuse(&twice, PreambleError::Malformed, twice.len());
}

/// As the document prints them, and as HAProxy 2.x and nginx write them.
#[test]
fn golden() {
    let hex = |it: &str| -> Vec<u8> {
        let digits: Vec<_> = it.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|it| std::str::from_utf8(it).unwrap().to_owned());
        pairs.map(|it| u8::from_str_radix(&it, 16).unwrap()).collect()
    };
    check(&hex("0d0a0d0a 000d0a51 5549540a 21110 00c 7f000001 7f000001 9c3f 1f90"), "127.0.0.1:39999");
    check(&hex("0d0a0d0a000d0a515549540a 20 00 0000"), "peer");
    // With a unique id (0x05) and a no-op of three bytes (0x04).
    check(
        &hex("0d0a0d0a000d0a515549540a 21 11 0019 c0a80001 c0a8000b 8bbe 01bb 050004 deadbeef 040003 000000"),
        "192.168.0.1:35774",
    );
}

#[test]
fn a_written_proxy_header_is_parsed_to_the_same() {
    let ends = |from: &str, to: &str| ConnectionEnds { from: from.parse().unwrap(), to: to.parse().unwrap() };
    let written = |version, ends| {
        let mut out = b"before".to_vec();
        write(version, ends, &mut out);
        out.split_off(6)
    };
    for (from, to, read) in [
        ("192.0.2.7:56324", "10.0.0.1:443", "192.0.2.7:56324"),
        ("255.255.255.255:65535", "0.0.0.0:0", "255.255.255.255:65535"),
        ("[2001:db8::7]:56324", "[2001:db8::1]:443", "[2001:db8::7]:56324"),
        ("[::ffff:192.0.2.7]:1", "10.0.0.1:2", "192.0.2.7:1"),
        ("192.0.2.7:1", "[2001:db8::1]:2", "[::ffff:192.0.2.7]:1"),
        ("[2001:db8::7]:1", "10.0.0.1:2", "[2001:db8::7]:1"),
    ] {
        check(&written(PreambleVersion::V1, Some(ends(from, to))), read);
        check(&written(PreambleVersion::V2, Some(ends(from, to))), read);
    }
    for version in [PreambleVersion::V1, PreambleVersion::V2] {
        check(&written(version, None), "peer");
    }
    let both = Some(ends("192.0.2.7:56324", "10.0.0.1:443"));
    assert_eq!(b"PROXY TCP4 192.0.2.7 10.0.0.1 56324 443\r\n"[..], written(PreambleVersion::V1, both));
    assert_eq!(v2(0x21, 0x11, IPV4), written(PreambleVersion::V2, both));
    let both = Some(ends("[2001:db8::7]:56324", "[2001:db8::1]:443"));
    assert_eq!(v2(0x21, 0x21, &ipv6()), written(PreambleVersion::V2, both));
}
