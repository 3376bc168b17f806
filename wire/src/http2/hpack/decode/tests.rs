//! The examples of RFC 7541, Appendix C; bounds; errors; and a table that stays in step.

use super::super::encode;
use super::*;
use proptest::prelude::*;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .bytes()
        .filter(u8::is_ascii_hexdigit)
        .map(|it| (it as char).to_digit(16).unwrap() as u8)
        .collect();
    digits.chunks(2).map(|it| it[0] << 4 | it[1]).collect()
}

fn decoded(section: &Section) -> String {
    let lines = section.iter().map(|(name, value)| {
        format!("{}: {}\n", String::from_utf8_lossy(name), String::from_utf8_lossy(value))
    });
    lines.collect()
}

/// Decodes `blocks` one after the other, and compares what they say and what the table counts then.
#[track_caller]
fn check(max: usize, blocks: &[(&str, &str, usize)]) {
    let mut decoder = HpackDecoder::new(max);
    for (block, expect, size) in blocks {
        let mut section = Section::default();
        section.begin(1 << 16);
        decoder.decode(&hex(block), &mut section).unwrap();
        assert_eq!(*expect, decoded(&section));
        assert_eq!((*size, None), (decoder.table.size(), section.flaw()));
    }
}

const FIRST: &str = ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n";
const SECOND: &str =
    ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n";
const THIRD: &str = ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\n\
                     custom-key: custom-value\n";

#[test]
fn requests_of_the_appendix_without_huffman() {
    check(
        4096,
        &[
            ("8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d", FIRST, 57),
            ("8286 84be 5808 6e6f 2d63 6163 6865", SECOND, 110),
            ("8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65", THIRD, 164),
        ],
    );
}

#[test]
fn requests_of_the_appendix_with_huffman() {
    check(
        4096,
        &[
            ("8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff", FIRST, 57),
            ("8286 84be 5886 a8eb 1064 9cbf", SECOND, 110),
            ("8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf", THIRD, 164),
        ],
    );
}

#[test]
fn responses_of_the_appendix_evict() {
    let rest =
        "cache-control: private\ndate: Mon, 21 Oct 2013 20:13:21 GMT\nlocation: https://www.example.com\n";
    check(
        256,
        &[
            (
                "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad \
             1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
                &format!(":status: 302\n{rest}"),
                222,
            ),
            ("4883 640e ffc1 c0bf", &format!(":status: 307\n{rest}"), 222),
            (
                "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 \
             e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
                ":status: 200\ncache-control: private\ndate: Mon, 21 Oct 2013 20:13:22 GMT\n\
             location: https://www.example.com\ncontent-encoding: gzip\n\
             set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n",
                215,
            ),
        ],
    );
}

#[test]
fn literals_that_are_not_remembered() {
    check(
        4096,
        &[
            ("040c 2f73 616d 706c 652f 7061 7468", ":path: /sample/path\n", 0),
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", "password: secret\n", 0),
        ],
    );
}

#[test]
fn a_table_is_resized_twice_at_a_beginning() {
    check(4096, &[("20 3fe1 1f 82", ":method: GET\n", 0), ("20 82", ":method: GET\n", 0)]);
}

#[track_caller]
fn refused(block: &str) {
    let mut section = Section::default();
    section.begin(1 << 16);
    assert_eq!(
        Err(ErrorCode::Compression),
        HpackDecoder::new(4096).decode(&hex(block), &mut section),
        "{block}"
    );
}

#[test]
fn broken_blocks() {
    refused("80"); // Index 0.
    refused("be"); // Nothing is there.
    refused("ff80 80 80 80 80 01"); // Too large an integer.
    refused("ff"); // Cut short.
    refused("0005 6162"); // A string that is.
    refused("00 8101 8101"); // Padded with zeros.
    refused("3fe2 1f"); // A table of 4,097 bytes.
    refused("82 20"); // Resized behind a field.
    refused("20 3fe1 1f 20"); // Resized more often than to the least and to what it is now.
}

#[track_caller]
fn flawed(block: &[u8], expect: Option<Flaw>) {
    let (mut decoder, mut section) = (HpackDecoder::new(4096), Section::default());
    section.begin(1 << 16);
    decoder.decode(block, &mut section).unwrap();
    assert_eq!(expect, section.flaw(), "{block:?}");
    // What was remembered is flawed still.
    section.begin(1 << 16);
    decoder.decode(&[0xbe], &mut section).unwrap();
    assert_eq!(expect, section.flaw(), "{block:?}");
}

#[test]
fn flaws_are_reported_and_remembered() {
    flawed(b"\x40\x01a\x01b", None);
    flawed(b"\x40\x01a\x00", None);
    flawed(b"\x40\x01a\x03b\tc", None);
    flawed(b"\x40\x01a\x01\xff", None);
    flawed(b"\x40\x01A\x01b", Some(Flaw::Name));
    flawed(b"\x40\x00\x01b", Some(Flaw::Name));
    flawed(b"\x40\x02a \x01b", Some(Flaw::Name));
    flawed(b"\x40\x03a:b\x01b", Some(Flaw::Name));
    for value in [b"b\r", b"\nb", b"b\0", b" b", b"b ", b"\tb", b"b\x7f", b"\x01b"] {
        flawed(&[b"\x40\x01a\x02", &value[..]].concat(), Some(Flaw::Value));
    }
}

#[test]
fn crumbs_of_cookies_are_one_line() {
    #[track_caller]
    fn check(fields: &[(&str, &str)], expect: &str) {
        let mut block = Vec::new();
        fields.iter().for_each(|it| encode::field(it.0.as_bytes(), it.1.as_bytes(), &mut block));
        let mut section = Section::default();
        section.begin(1 << 16);
        HpackDecoder::new(0).decode(&block, &mut section).unwrap();
        assert_eq!(expect, decoded(&section));
    }
    let apart = [("cookie", "a=1"), ("cookie", "b=2"), ("x", "y"), ("cookie", "c=3"), ("cookie", "d=4")];
    check(&apart, "cookie: a=1; b=2; c=3; d=4\nx: y\n");
    // Those of nothing leave no space at an end, where no value has one.
    check(&[("cookie", ""), ("cookie", ""), ("x", "y"), ("cookie", "")], "cookie: \nx: y\n");
    check(&[("cookie", ""), ("x", "y"), ("cookie", "a=1"), ("cookie", "")], "cookie: a=1\nx: y\n");
}

#[test]
fn a_bomb_is_given_up_and_the_table_stays_in_step() {
    let mut decoder = HpackDecoder::new(4096);
    let mut block = [&b"\x40\x01a\x7f\x81\x1e"[..], &[b'x'; 4000]].concat();
    block.extend_from_slice(&[0xbe; 16_000]);
    block.extend_from_slice(b"\x40\x01b\x01c");
    let mut section = Section::default();
    section.begin(32 * 1024);
    decoder.decode(&block, &mut section).unwrap();
    assert!(section.is_too_large());
    assert!(section.text.capacity() < 100_000, "{}", section.text.capacity());
    section.begin(32 * 1024);
    decoder.decode(&[0xbe], &mut section).unwrap();
    assert_eq!("b: c\n", decoded(&section));
}

#[test]
fn too_many_fields_are_too_large() {
    for (count, expect) in [(MAX_FIELDS, false), (MAX_FIELDS + 1, true)] {
        let mut section = Section::default();
        section.begin(1 << 20);
        HpackDecoder::new(4096).decode(&vec![0x82; count], &mut section).unwrap();
        assert_eq!(expect, section.is_too_large(), "{count}");
    }
}

proptest! {
    #[test]
    fn no_bytes_panic(blocks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6)) {
        let (mut decoder, mut section) = (HpackDecoder::new(256), Section::default());
        for block in blocks {
            section.begin(500);
            if decoder.decode(&block, &mut section).is_err() {
                break;
            }
            prop_assert!(section.iter().len() <= MAX_FIELDS);
        }
    }

    #[test]
    fn an_encoded_section_is_decoded_to_the_same(
        status in 100..1000u16,
        fields in proptest::collection::vec(("[A-Za-z-]{1,30}", "([!-~]([ -~]{0,300}[!-~])?)?"), 0..20),
    ) {
        let mut text = format!("HTTP/1.1 {status} Any\r\n");
        let mut expect = format!(":status: {status}\n");
        let mut block = Vec::new();
        for (name, value) in &fields {
            prop_assume!(!name.eq_ignore_ascii_case("cookie"));
            text.push_str(&format!("{name}: {value}\r\n"));
            expect.push_str(&format!("{}: {value}\n", name.to_ascii_lowercase()));
        }
        encode::head(text.as_bytes(), &mut block);
        encode::field_with(b"X-Last", |text| text.extend_from_slice(&[b'x'; 300]), &mut block);
        expect.push_str(&format!("x-last: {}\n", "x".repeat(300)));
        let mut section = Section::default();
        section.begin(1 << 20);
        HpackDecoder::new(0).decode(&block, &mut section).unwrap();
        prop_assert_eq!(expect, decoded(&section));
        prop_assert_eq!(None, section.flaw());
    }
}
