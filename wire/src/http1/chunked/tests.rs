//! Raw chunked bodies with their results, whole and byte by byte.

use super::*;
use BadChunk::{Extension as BadExtension, Size, Terminator, Trailers};
use proptest::prelude::*;

/// What was decoded: data, trailers as text, and the bytes that were read; or why not, `None` for "not whole".
type Outcome = Result<(Vec<u8>, String, usize), Option<BadChunk>>;

/// Decodes `raw`, given in pieces that end at `cuts`.
fn decode(raw: &[u8], cuts: impl Iterator<Item = usize>) -> Outcome {
    let mut decoder = ChunkedDecoder::default();
    let mut data = Vec::new();
    let mut at = 0;
    for cut in cuts.chain([raw.len()]) {
        while at < cut || at == raw.len() {
            let rest = &raw[at..cut];
            match decoder.step(rest).map_err(Some)? {
                ChunkStep::More { consumed } => {
                    assert_eq!(rest.len(), consumed);
                    at += consumed;
                    break;
                }
                ChunkStep::Data { consumed, data: left } => {
                    at += consumed;
                    let room = cut - at;
                    let taken = room.min(usize::try_from(left).unwrap_or(room));
                    data.extend_from_slice(&raw[at..at + taken]);
                    decoder.took(taken as u64);
                    at += taken;
                    if at == cut {
                        break;
                    }
                }
                ChunkStep::End { consumed } => {
                    assert!(decoder.is_at_end());
                    assert_eq!(Ok(ChunkStep::End { consumed: 0 }), decoder.step(b"0\r\n\r\n"));
                    let text = decoder.trailers().unwrap_or_default().text().to_vec();
                    return Ok((data, String::from_utf8_lossy(&text).into_owned(), at + consumed));
                }
            }
        }
    }
    assert!(!decoder.is_at_end());
    Err(None)
}

#[track_caller]
fn read(raw: &[u8]) -> Outcome {
    let whole = decode(raw, [].into_iter());
    assert_eq!(whole, decode(raw, 1..raw.len()), "byte by byte: {:?}", String::from_utf8_lossy(raw));
    whole
}

#[track_caller]
fn body(raw: impl AsRef<[u8]>, expected: &str, trailers: &str) {
    let raw = raw.as_ref();
    // What follows the body is not part of it.
    let longer = [raw, b"GET / HTTP/1.1\r\n\r\n"].concat();
    let expected = Ok((expected.as_bytes().to_vec(), trailers.to_owned(), raw.len()));
    assert_eq!(expected, read(raw), "{:?}", String::from_utf8_lossy(raw));
    assert_eq!(expected, read(&longer), "{:?}", String::from_utf8_lossy(&longer));
}

#[track_caller]
fn refused(raw: impl AsRef<[u8]>, why: BadChunk) {
    let raw = raw.as_ref();
    assert_eq!(Err(Some(why)), read(raw), "{:?}", String::from_utf8_lossy(raw));
}

#[track_caller]
fn unfinished(raw: impl AsRef<[u8]>) {
    let raw = raw.as_ref();
    assert_eq!(Err(None), read(raw), "{:?}", String::from_utf8_lossy(raw));
}

#[test]
fn sizes() {
    body("0\r\n\r\n", "", "");
    body("5\r\nhello\r\n0\r\n\r\n", "hello", "");
    body("1\r\na\r\n2\r\nbc\r\n0\r\n\r\n", "abc", "");
    body("A\r\n0123456789\r\n0\r\n\r\n", "0123456789", "");
    body("a\r\n0123456789\r\n0\r\n\r\n", "0123456789", "");
    body("0000000000000005\r\nhello\r\n0000000000000000\r\n\r\n", "hello", "");
    body("2\r\n\r\n\r\n0\r\n\r\n", "\r\n", "");
    for size in [
        "",
        "g",
        "-5",
        "+5",
        "0x5",
        "0X5",
        "x",
        "5x",
        "5h",
        "5.0",
        "5_",
        "\u{665}",
        "5,5",
        "5=5",
        "\"5\"",
        "#5",
        "00x",
        "00000000000000005",
        "00000000000000000",
        "8000000000000000",
        "ffffffffffffffff",
        "10000000000000000",
        "fffffffffffffffff",
        "5\0",
        "5\u{b}",
        " ",
        " 5",
        "\t5",
        ";",
        ";a",
        "5\u{7f}",
    ] {
        refused(format!("{size}\r\nhello\r\n0\r\n\r\n"), Size);
    }
    refused("\r\n5\r\nhello\r\n0\r\n\r\n", Size);
    unfinished("7fffffffffffffff\r\nhello");
    for raw in [
        "",
        "5",
        "5\r",
        "5\r\n",
        "5\r\nhell",
        "5\r\nhello",
        "5\r\nhello\r",
        "5\r\nhello\r\n",
        "0\r\n",
        "0\r\n\r",
    ] {
        unfinished(raw);
    }
}

#[test]
fn terminators() {
    for raw in [
        "5\nhello\r\n0\r\n\r\n",
        "5\r\nhello\n0\r\n\r\n",
        "5\r\nhello\r\n0\n\r\n",
        "5\r\nhello\r\n0\r\n\n",
        "5\r\nhello\r\n0\n\n",
        "5\rhello\r\n0\r\n\r\n",
        "5\r\rhello",
        "5\r\r\nhello",
        "5\r\nhello\r0\r\n\r\n",
        "5\r\nhello0\r\n\r\n",
        "5\r\nhello!\r\n0\r\n\r\n",
        "4\r\nhello\r\n0\r\n\r\n",
        "6\r\nhello\r\n0\r\n\r\n",
        "5\r\nhelloXX0\r\n\r\n",
        "5\r\nhello\0\n0\r\n\r\n",
        "5\r\nhello \r\n0\r\n\r\n",
        "5\r\nhello\r\r\n0\r\n\r\n",
        "0\r\n\rX",
        "0\r\n\r\r\n",
        "\n",
        "5;a\nhello\r\n0\r\n\r\n",
        "5;a=\"\n\"\r\nhello\r\n0\r\n\r\n",
        "5;\n",
        "5 \n",
        "5;a\rX",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\n\n",
    ] {
        refused(raw, Terminator);
    }
}

#[test]
fn extensions() {
    for extension in [
        ";a",
        ";a=b",
        ";a=\"b c;,\\\"\u{e9}\"",
        ";a;b=c;d",
        " ;a",
        "\t ; \ta \t= \tb \t;c",
        ";a = \"\"",
        ";!#$%&'*+-.^_`|~=1",
    ] {
        body(format!("5{extension}\r\nhello\r\n0{extension}\r\n\r\n"), "hello", "");
    }
    for extension in [
        ";",
        " ",
        "\t",
        "; ",
        ";a ",
        ";a=",
        ";a= ",
        ";=b",
        ";a=b ",
        ";a==b",
        ";a=b=c",
        ";a b",
        ";a=b c",
        ";a,b",
        ";;a",
        ";a;",
        ";a=\"b",
        ";a=\"b\\",
        ";a=\"b\"c",
        ";a=b\"c\"",
        ";a=\"\0\"",
        ";a=\"\u{7f}\"",
        ";a=\"\u{1}\"",
        ";a\0",
        " a",
        " 5",
        ";\u{e9}",
        ";a=\u{e9}",
        ";a/b",
        ";a=(b)",
        ";a\u{b}",
        ";a=\"b\r",
    ] {
        refused(format!("5{extension}\r\nhello\r\n0\r\n\r\n"), BadExtension);
    }
    // A CR that no LF follows, seen behind a whole extension.
    refused("5;a\r;b\r\nhello\r\n0\r\n\r\n", Terminator);
    let long = |count: usize| format!("5;{}\r\nhello\r\n0\r\n\r\n", "a".repeat(count));
    body(long(MAX_LINE - 2), "hello", "");
    refused(long(MAX_LINE - 1), BadExtension);
    let many = |count: usize| format!("{}0\r\n\r\n", format!("1;{}\r\na\r\n", "a".repeat(999)).repeat(count));
    body(many(16), &"a".repeat(16), "");
    refused(many(17), BadExtension);
    let paid = format!("{:x};{}\r\n{}\r\n", 1000, "a".repeat(999), "b".repeat(1000)).repeat(40) + "0\r\n\r\n";
    body(paid, &"b".repeat(40_000), "");
}

#[test]
fn trailers() {
    body("0\r\nA: b\r\n\r\n", "", "A: b\r\n");
    body("0\r\nA: b\r\nC:\t d \r\nEmpty:\r\n\r\n", "", "A: b\r\nC: d\r\nEmpty: \r\n");
    body("0\r\nHost: evil\r\nA: b\r\nContent-Length: 5\r\n\r\n", "", "A: b\r\n");
    body("0\r\nTransfer-Encoding: chunked\r\ncontent-length: 5\r\n\r\n", "", "");
    for name in [
        "Host",
        "Trailer",
        "Authorization",
        "SET-COOKIE",
        "Content-Type",
        "Content-Encoding",
        "Content-Range",
        "Cache-Control",
        "Connection",
        "TE",
        "Vary",
        "Age",
        "Expires",
        "Proxy-Authorization",
        "X-Forwarded-For",
    ] {
        body(format!("0\r\n{name}: a\r\n\r\n"), "", "");
    }
    for line in [
        " A: b",
        "A : b",
        ": b",
        "A",
        "A: b\r\n c",
        "A: b\rc",
        "A: \0",
        "A\0: b",
        "A b: c",
        "A: b\u{7f}",
        "\tA: b",
        "\0",
    ] {
        refused(format!("0\r\n{line}\r\n\r\n"), Trailers);
    }
    let long = |count: usize| format!("0\r\nA: {}\r\n\r\n", "b".repeat(count));
    assert!(read(long(MAX_TRAILERS - 5).as_bytes()).is_ok());
    refused(long(MAX_TRAILERS - 4), Trailers);
    refused(format!("0\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS + 1)), Trailers);
    assert!(read(format!("0\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS)).as_bytes()).is_ok());
}

#[test]
fn a_refusal_is_final() {
    let mut decoder = ChunkedDecoder::default();
    assert_eq!(Err(Size), decoder.step(b"x"));
    assert_eq!(Err(Size), decoder.step(b"5\r\nhello\r\n0\r\n\r\n"));
    assert!(!decoder.is_at_end());
}

#[test]
fn chunk_sizes_and_trailers_are_written() {
    #[track_caller]
    fn size(length: usize, expected: &str) {
        let mut out = Vec::new();
        write_size(length, &mut out);
        assert_eq!(expected, String::from_utf8_lossy(&out));
    }
    size(1, "1\r\n");
    size(16, "10\r\n");
    size(0xabc_def0, "abcdef0\r\n");
    size(usize::MAX, "ffffffffffffffff\r\n");
    let mut out = Vec::new();
    write_end(None, &mut out);
    assert_eq!(b"0\r\n\r\n", &out[..]);
    let mut trailers = FieldList::new();
    trailers.push("A", "b");
    trailers.push("Content-Length", "5");
    out.clear();
    write_end(Some(&trailers), &mut out);
    assert_eq!(b"0\r\nA: b\r\n\r\n", &out[..]);
}

/// Bytes that are nearly a chunked body.
fn nearly() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "5\r\nhello\r\n", "1\r\na\r\n", "0\r\n", "\r\n", "A: b\r\n", "0\r\n\r\n", "3;a=b\r\nabc\r\n", "a", "5\r\n",
        ]).prop_map(|it| it.as_bytes().to_vec()),
        2 => prop::sample::select(vec!["\n", "\r", ";", "\"", " ", "0", "f", "\0", ":", "=", "\\", "x"])
            .prop_map(|it| it.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 1..4),
    ];
    prop::collection::vec(part, 0..8).prop_map(|it| it.concat())
}

proptest! {
    /// Where the input is cut makes no difference.
    #[test]
    fn a_cut_changes_nothing(raw in nearly(), cuts in prop::collection::btree_set(0usize..80, 0..8)) {
        let whole = decode(&raw, [].into_iter());
        prop_assert_eq!(&whole, &decode(&raw, 1..raw.len()));
        prop_assert_eq!(&whole, &decode(&raw, cuts.into_iter().filter(|it| *it < raw.len())));
    }

    #[test]
    fn arbitrary_bytes_are_answered(raw in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&raw, [].into_iter());
    }

    /// What was encoded is decoded again, and nothing else.
    #[test]
    fn an_encoded_body_is_decoded_to_the_same(
        chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..6),
        values in prop::collection::vec("([!-~]([ -~]{0,20}[!-~])?)?", 0..4),
    ) {
        let mut raw = Vec::new();
        for it in &chunks {
            write_size(it.len(), &mut raw);
            raw.extend_from_slice(it);
            raw.extend_from_slice(b"\r\n");
        }
        let mut trailers = FieldList::new();
        for it in &values {
            trailers.push("X-Sum", it);
        }
        write_end(Some(&trailers), &mut raw);
        let expected = (chunks.concat(), String::from_utf8_lossy(trailers.text()).into_owned(), raw.len());
        prop_assert_eq!(Ok(expected.clone()), decode(&raw, [].into_iter()));
        prop_assert_eq!(Ok(expected), decode(&raw, 1..raw.len()));
    }
}
