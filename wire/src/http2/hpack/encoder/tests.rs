//! A peer reads exactly the written fields, after any earlier ones and with any table size at any time; and a repeated
//! field is short.

use super::*;
use crate::http2::hpack::{HpackDecoder, Section};
use proptest::prelude::*;

fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> String {
    let mut section = Section::default();
    section.begin(1 << 20);
    decoder.decode(block, &mut section).unwrap();
    assert_eq!(None, section.flaw());
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    section.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
}

/// A head as it is kept ready, and what it says.
fn ready(fields: &[(String, String)]) -> (Vec<u8>, String) {
    let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let mut block = Vec::new();
    encode::compact_head(format!("HTTP/1.1 200 OK\r\n{lines}").as_bytes(), &mut block);
    let text: String = fields.iter().map(|it| format!("{}: {}\n", it.0.to_ascii_lowercase(), it.1)).collect();
    (block, format!(":status: 200\n{text}"))
}

/// Writes one section with a ready head and fields of its own.
fn section(
    encoder: &mut Encoder,
    fields: &[(String, String)],
    own: &[(String, String)],
) -> (Vec<u8>, String) {
    let (block, mut expect) = ready(fields);
    let mut out = Vec::new();
    encoder.begin(&mut out);
    encoder.block(&block, &mut out);
    for (name, value) in own {
        encoder.field(name.as_bytes(), value.as_bytes(), &mut out);
        expect += &format!("{}: {value}\n", name.to_ascii_lowercase());
    }
    (out, expect)
}

fn fields(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|it| (it.0.to_owned(), it.1.to_owned())).collect()
}

/// An event on a connection.
#[derive(Clone, Debug)]
enum EncoderAction {
    /// A head is sent: ready fields, and others.
    Send(Vec<(String, String)>, Vec<(String, String)>),
    /// A head is begun, and not sent.
    TakeBack(Vec<(String, String)>),
    /// The peer allows this number of bytes.
    Allow(u32),
}

fn some_fields() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec![
        "Server",
        "Vary",
        "Age",
        "ETag",
        "Set-Cookie",
        "X-A",
        "X-B",
        "x-long-name",
    ]);
    let value = (
        prop::sample::select(vec!["", "a", "~|#", "w=1, "]),
        0..12u8,
        prop::sample::select(vec![1, 2, 9, 600]),
    )
        .prop_map(|(text, number, times)| format!("{}{number}", text.repeat(times)));
    proptest::collection::vec((name.prop_map(str::to_owned), value), 0..8)
}

fn encoder_action() -> impl Strategy<Value = EncoderAction> {
    prop_oneof![
        12 => (some_fields(), some_fields()).prop_map(|it| EncoderAction::Send(it.0, it.1)),
        1 => some_fields().prop_map(EncoderAction::TakeBack),
        1 => prop_oneof![Just(0), Just(4096), Just(65_536), 0..300u32].prop_map(EncoderAction::Allow),
    ]
}

proptest! {
    #[test]
    fn a_peer_decodes_every_written_section(deeds in proptest::collection::vec(encoder_action(), 1..60)) {
        let (mut encoder, mut decoder) = (Encoder::default(), HpackDecoder::new(MOST));
        let mut allowed = MOST;
        for it in deeds {
            match it {
                EncoderAction::Allow(size) => {
                    encoder.set_limit(size);
                    allowed = MOST.min(size as usize);
                }
                EncoderAction::TakeBack(fields) => {
                    section(&mut encoder, &fields, &fields);
                    encoder.forget();
                }
                EncoderAction::Send(fields, own) => {
                    let (block, expect) = section(&mut encoder, &fields, &own);
                    prop_assert_eq!(expect, decoded(&mut decoder, &block));
                    prop_assert!(decoder.table_size() <= allowed, "more than the peer allows");
                    let table = encoder.table.as_ref();
                    prop_assert_eq!(decoder.table_size(), table.map_or(0, |it| it.size));
                    prop_assert!(table.is_none_or(|it| it.text.len() <= MOST + LONGEST));
                }
            }
        }
    }
}

#[test]
fn a_recurring_field_takes_one_byte() {
    let (mut encoder, mut decoder) = (Encoder::default(), HpackDecoder::new(MOST));
    let mut lengths = Vec::new();
    for page in 0..100 {
        let etag = format!("\"5f-{page}\"");
        let head = [
            ("Server", "nginx"),
            ("Date", "Sun, 22 Nov 2026 22:30:00 GMT"),
            ("Content-Type", ["text/css", "image/webp", "application/javascript"][page % 3]),
            ("Last-Modified", "Sun, 22 Nov 2026 20:00:00 GMT"),
            ("Cache-Control", "public, max-age=86400"),
            ("ETag", &etag),
            ("Vary", "Accept-Encoding"),
            ("Via", "1.1 larder"),
            ("Content-Length", "600"),
        ];
        let status = format!("larder; hit; ttl={}", 86_300 + page);
        let own = fields(&[("Age", "17"), ("Cache-Status", &status)]);
        let (block, expect) = section(&mut encoder, &fields(&head), &own);
        assert_eq!(expect, decoded(&mut decoder, &block));
        lengths.push(block.len());
    }
    assert_eq!((166, 53), (lengths[0], lengths[99]));
    assert!(lengths.iter().sum::<usize>() / 100 <= 60, "{lengths:?}");
}

#[test]
fn a_full_table_forgets_its_oldest() {
    let (mut encoder, mut decoder) = (Encoder::default(), HpackDecoder::new(MOST));
    // More entries than numbers go to, of many sizes; the first is said again now and then.
    for number in 0..70_000u32 {
        let value = format!("{number}{}", "v".repeat(number as usize % 70));
        let own = fields(&[("X-Number", &value), ("Server", "nginx")]);
        for _ in 0..2 {
            let mut out = Vec::new();
            encoder.begin(&mut out);
            own.iter().for_each(|it| encoder.field(it.0.as_bytes(), it.1.as_bytes(), &mut out));
            let expect = format!("x-number: {value}\nserver: nginx\n");
            assert_eq!(expect, decoded(&mut decoder, &out), "{number}");
        }
        assert_eq!(decoder.table_size(), encoder.table.as_ref().unwrap().size);
    }
}

#[test]
fn secrets_and_long_values_are_not_remembered() {
    let mut encoder = Encoder::default();
    let long = "l".repeat(LONGEST);
    let own = fields(&[("Set-Cookie", "a=b"), ("Age", "1"), ("X-Long", &long)]);
    let (first, _) = section(&mut encoder, &[], &own);
    for _ in 0..5 {
        assert_eq!(first, section(&mut encoder, &[], &own).0);
    }
}

#[test]
fn a_peer_without_a_table_gets_the_size_update_first() {
    let mut encoder = Encoder::default();
    encoder.set_limit(0);
    let own = fields(&[("Server", "nginx")]);
    let (first, _) = section(&mut encoder, &own, &[]);
    assert_eq!(0x20, first[0]);
    assert_eq!(first[1..], section(&mut encoder, &own, &[]).0);
    // More than is used changes nothing.
    encoder.set_limit(1 << 20);
    assert_eq!([0x3f, 0xe1, 0x1f], section(&mut encoder, &own, &[]).0[..3]);
    encoder.set_limit(5000);
    assert_eq!(0x88, section(&mut encoder, &own, &[]).0[0]);
    // Less, and then more, before anything is sent.
    encoder.set_limit(100);
    encoder.set_limit(200);
    assert_eq!([0x3f, 69, 0x3f, 0xa9, 0x01], section(&mut encoder, &own, &[]).0[..5]);
}
