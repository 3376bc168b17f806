//! Records as they are written and read, whole and cut.

use super::*;
use proptest::prelude::*;

fn record(kind: u8, id: u16, content: &[u8], padding: u8) -> Vec<u8> {
    let mut out = vec![1, kind];
    out.extend_from_slice(&id.to_be_bytes());
    out.extend_from_slice(&u16::try_from(content.len()).unwrap().to_be_bytes());
    out.extend_from_slice(&[padding, 0]);
    out.extend_from_slice(content);
    out.resize(out.len() + usize::from(padding), b'p');
    out
}

/// Reads `input` in pieces of `size` bytes: output, `[error output]`, and how it ended.
fn read(input: &[u8], size: usize) -> Result<String, BadRecord> {
    let (mut reader, mut buffer, mut report) = (RecordReader::default(), Vec::new(), String::new());
    for piece in input.chunks(size) {
        buffer.extend_from_slice(piece);
        loop {
            let (consumed, data, is_error) = match reader.step(&buffer)? {
                RecordStep::More { consumed } => {
                    buffer.drain(..consumed);
                    break;
                }
                RecordStep::End { end, .. } => return Ok(format!("{report} {end:?}")),
                RecordStep::Output { consumed, data } => (consumed, data, false),
                RecordStep::Error { consumed, data } => (consumed, data, true),
            };
            let taken = data.min(buffer.len() - consumed);
            assert!(taken > 0, "some of it is there");
            let text = String::from_utf8_lossy(&buffer[consumed..consumed + taken]).into_owned();
            report += &if is_error { format!("[{text}]") } else { text };
            reader.took(taken);
            buffer.drain(..consumed + taken);
        }
    }
    Ok(report)
}

#[track_caller]
fn check(input: &[Vec<u8>], expect: &str) {
    let input = input.concat();
    for size in [1, 3, 8, 1000] {
        let text = read(&input, size).unwrap_or_else(|it| format!("{it:?}")).replace("][", "");
        assert_eq!(expect, text, "by {size}");
    }
}

#[test]
fn responses() {
    let end = record(END_REQUEST, 1, &[0; 8], 0);
    check(&[record(STDOUT, 1, b"hello", 3), record(STDOUT, 1, b"", 0), end.clone()], "hello Complete");
    check(&[record(STDERR, 1, b"no", 0), record(STDOUT, 1, b"yes", 255), end.clone()], "[no]yes Complete");
    check(
        &[record(STDOUT, 1, b"yes", 0), record(END_REQUEST, 1, &[0, 0, 1, 0, 0, 0, 0, 0], 8)],
        "yes Failed(256)",
    );
    check(&[record(END_REQUEST, 1, &[0, 0, 0, 0, 2, 0, 0, 0], 0)], " Rejected(2)");
    check(&[record(STDOUT, 1, b"cut", 0)], "cut");
}

#[test]
fn a_malformed_fastcgi_response_is_rejected() {
    check(&[b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()], "Version");
    check(&[record(STDOUT, 2, b"of another", 0)], "Request");
    check(&[record(STDOUT, 0, b"of none", 0)], "Request");
    check(&[record(STDIN, 1, b"input", 0)], "Kind");
    check(&[record(10, 0, b"values", 0)], "Kind");
    check(&[record(END_REQUEST, 1, b"short", 0)], "Length");
}

#[test]
fn a_request() {
    let mut out = Vec::new();
    let long = vec![b'v'; 200];
    begin(ConnectionUse::Keep, [(&b"A"[..], &b"1"[..]), (b"LONG", &long)], &mut out);
    input_header(3, &mut out);
    out.extend_from_slice(b"abc");
    input_header(0, &mut out);
    let mut pairs = b"\x01\x01A1\x04\x80\0\0\xc8LONG".to_vec();
    pairs.extend_from_slice(&long);
    let expect = [
        record(BEGIN_REQUEST, 1, &[0, 1, 1, 0, 0, 0, 0, 0], 0),
        record(PARAMS, 1, &pairs, 0),
        record(PARAMS, 1, b"", 0),
        record(STDIN, 1, b"abc", 0),
        record(STDIN, 1, b"", 0),
    ];
    assert_eq!(expect.concat(), out);
}

#[test]
fn variables_of_more_than_one_record() {
    let mut out = Vec::new();
    let long = vec![b'v'; 70_000];
    begin(ConnectionUse::Close, [(&b"A"[..], &long[..])], &mut out);
    let begun = HEADER + 8;
    assert_eq!(0, out[10], "the connection is closed");
    assert_eq!([1, PARAMS, 0, 1, 0xff, 0xff, 0, 0], out[begun..begun + HEADER]);
    let second = begun + HEADER + MAX_CONTENT;
    let left = 1 + 4 + 1 + 70_000 - MAX_CONTENT;
    let [high, low] = u16::try_from(left).unwrap().to_be_bytes();
    assert_eq!([1, PARAMS, 0, 1, high, low, 0, 0], out[second..second + HEADER]);
    assert_eq!(second + HEADER + left + HEADER, out.len());
}

proptest! {
    #[test]
    fn output_comes_out_whole_however_it_is_cut(
        pieces in prop::collection::vec(("[a-z]{0,40}", 0_u8..9), 0..20), size in 1_usize..60
    ) {
        let mut input: Vec<u8> =
            pieces.iter().flat_map(|(text, padding)| record(STDOUT, 1, text.as_bytes(), *padding)).collect();
        input.extend(record(END_REQUEST, 1, &[0; 8], 0));
        let expect: String = pieces.into_iter().map(|it| it.0).collect();
        prop_assert_eq!(Ok(expect + " Complete"), read(&input, size));
    }
}
