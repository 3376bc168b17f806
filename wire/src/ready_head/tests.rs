//! All forms of a head say the same, with a template and without.

use super::*;
use crate::http2::hpack::{HpackDecoder, Section, TABLE};
use crate::http3::qpack;
use proptest::prelude::*;

/// A block's content as a client reads it, in HTTP/1.1 form with names in lower case.
fn decoded(block: &[u8]) -> String {
    let mut section = Section::default();
    section.begin(1 << 20);
    HpackDecoder::new(TABLE).decode(block, &mut section).unwrap();
    assert_eq!(None, section.flaw());
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    section.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
}

fn block(head: &ReadyHead) -> Vec<u8> {
    let mut block = Vec::new();
    head.write_block(&mut block);
    block
}

/// A section's content as a client reads it, in the same form.
fn read_section(head: &ReadyHead) -> String {
    let mut bytes = vec![0, 0];
    head.write_section(&mut bytes);
    let mut section = Section::default();
    section.begin(1 << 20);
    qpack::decode(&bytes, &mut section).unwrap();
    assert_eq!(None, section.flaw());
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    section.iter().map(|(name, value)| format!("{}: {}\n", text(name), text(value))).collect()
}

/// The lines, one by one.
fn lines(head: &ReadyHead) -> String {
    let text = |it: &[u8]| String::from_utf8_lossy(it).into_owned();
    head.lines().map(|it| format!("{}: {}\r\n", it.name, text(it.value))).collect()
}

proptest! {
    #[test]
    fn all_forms_of_a_head_have_the_same_fields(
        status in 100..=999u16,
        fields in proptest::collection::vec(
            ("(Date|ETag|Via|Age|x|Set-Cookie|[A-Za-z0-9-]{1,40})", "[!-~\u{80}-\u{2ff}]([ -~]{0,300}[!-~])?|"), 0..12
        ),
        known in any::<u16>(),
    ) {
        prop_assume!(!fields.iter().any(|it| it.0.eq_ignore_ascii_case("cookie")));
        let all: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let text = format!("HTTP/1.1 {status} Any\r\n{all}");
        let lower = |it: &(String, String)| format!("{}: {}\n", it.0.to_ascii_lowercase(), it.1);
        let expect = fields.iter().map(lower).collect::<String>();
        let expect = format!(":status: {status}\n{expect}");
        let templates = Templates::default();
        // Some of the lines were seen before.
        let seen = fields.iter().enumerate().filter(|it| known >> it.0 & 1 == 1);
        let seen: String = seen.map(|(_, (name, value))| format!("{name}: {value}\r\n")).collect();
        let _ = templates.keep(ReadyHead::new(format!("HTTP/1.1 200 OK\r\n{seen}").as_bytes()));
        let passing = ReadyHead::passing(text.as_bytes());
        let kept = templates.keep(passing.clone());
        let again = [(); 2].map(|()| templates.keep(passing.clone()))[1].clone();
        for head in [ReadyHead::new(text.as_bytes()), passing, kept, again.clone(), templates.keep(again)] {
            prop_assert_eq!(text.as_bytes(), head.text());
            prop_assert_eq!(&expect, &decoded(&block(&head)));
            prop_assert_eq!(&expect, &read_section(&head));
            prop_assert_eq!(&all, &lines(&head));
        }
    }
}

fn sample(number: u32, more: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Sun, 22 Nov 2026 22:30:{:02} GMT\r\nContent-Type: text/html\r\n\
         Cache-Control: max-age=86400\r\nETag: \"page-{number}\"\r\nVia: 1.1 larder\r\n{more}Content-Length: 1795\r\n",
        number % 60
    )
}

#[test]
fn heads_of_a_known_kind_keep_only_their_own_lines() {
    let templates = Templates::default();
    let keep = |number| templates.keep(ReadyHead::passing(sample(number, "").as_bytes()));
    // Then its lines were seen, then what they are together.
    let (first, _, second, third) = (keep(1), keep(1), keep(2), keep(3));
    assert_eq!((179, 82), (first.text().len(), block(&first).len()));
    assert_eq!(179 + 82 + PREFIX, first.size());
    assert!(second.size() <= 125, "{}", second.size());
    assert!(std::ptr::eq(
        &raw const **second.template.as_ref().unwrap(),
        &raw const **third.template.as_ref().unwrap()
    ));
    assert_eq!(sample(3, "").as_bytes(), third.text());
}

#[test]
fn a_head_after_others_has_the_forms_that_it_has_alone() {
    let (templates, mut recent) = (Templates::default(), RecentTemplates::default());
    let kinds = ["", "X-Kind: one\r\n", "X-Kind: two\r\n"];
    for number in 0..40 {
        let text = sample(number, kinds[number as usize % 3]);
        let (one, other) =
            (templates.ready_as(&mut recent, text.as_bytes()), templates.ready(text.as_bytes()));
        assert_eq!(text.as_bytes(), one.text());
        assert_eq!((block(&other), read_section(&other)), (block(&one), read_section(&one)), "{text}");
        let template = |it: &ReadyHead| it.template.as_ref().map(Arc::as_ptr);
        // Its lines were seen once, and what they are together.
        assert!(number < 9 || template(&other).is_some() && template(&other) == template(&one), "{number}");
    }
    // One has the kind as an own value, from before it was seen.
    assert!((3..=4).contains(&recent.known()));
    let known = sample(1, kinds[1]);
    let unlike = [
        known.replacen("\r\n", "\n", 3),
        known.replace("\r\n", "\n"),
        known.replace("X-Kind: one\r\n", "X-Kind: one\r\nX-Kind: one\r\n"),
        known[..known.len() - 2].to_owned(),
        format!("{known}X-More: 1\r\n"),
        String::new(),
    ];
    for text in unlike {
        assert_eq!(text.as_bytes(), templates.ready_as(&mut recent, text.as_bytes()).text());
    }
}

#[test]
fn a_section_has_indices_of_its_static_table_and_the_strings_of_the_block() {
    let templates = Templates::default();
    let head = |number: u32| {
        let text = format!(
            "HTTP/1.1 206 Partial\r\nContent-Type: text/css\r\nExpires: 0\r\nX-Number: 17\r\nETag: \"page-{number}\"\r\n"
        );
        templates.keep(ReadyHead::passing(text.as_bytes()))
    };
    let section = |head: &ReadyHead| {
        let mut out = Vec::new();
        head.write_section(&mut out);
        out
    };
    let (alone, _, _, third) = (head(1), head(1), head(2), head(3));
    assert!(alone.template.is_none() && third.template.is_some());
    // A name of this table alone, one of HPACK's alone, and one of neither.
    let begin = [0xff, 65 - 63, 0x5f, 44 - 15, 0x86];
    assert!(section(&alone).starts_with(&begin), "{:x?}", section(&alone));
    assert!(section(&third).starts_with(&[0xff, 65 - 63, 0xc0 | 51]), "{:x?}", section(&third));
    let mut tag = Vec::new();
    encode::compact(b"\"page-3\"", &mut tag);
    assert!(section(&third).ends_with(&[&[0x57], &*tag].concat()), "{:x?}", section(&third));
}

#[test]
fn heads_with_one_value_of_cache_control_become_private_there() {
    let templates = Templates::default();
    let check = |lines: &str, expect: Option<(&str, &str)>| {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 5\r\n");
        let expect = expect.map(|(from, to)| format!("before{}", text.replacen(from, to, 1)));
        let stored = [0; 4].map(|_| templates.keep(ReadyHead::new(text.as_bytes())));
        assert!(stored[3].template.is_some(), "{lines}");
        for head in [ReadyHead::new(text.as_bytes())].iter().chain(&stored) {
            let mut out = b"before".to_vec();
            let is_written = head.write_private_text(&mut out);
            assert_eq!(expect.as_deref().unwrap_or("before"), String::from_utf8_lossy(&out), "{lines}");
            assert_eq!(expect.is_some(), is_written, "{lines}");
        }
        assert!(!ReadyHead::passing(text.as_bytes()).write_private_text(&mut Vec::new()));
    };
    let others = "Server: nginx\r\nDate: Sun, 22 Nov 2026 22:30:01 GMT\r\nETag: \"a\"\r\n";
    check(&format!("Cache-Control: max-age=60\r\n{others}"), Some(("max-age=60", "private, max-age=60")));
    let change = |value: &str, expect: &str| {
        for lines in
            [format!("{others}cache-CONTROL: {value}\r\n"), format!("Cache-Control: {value}\r\n{others}")]
        {
            check(&lines, Some((&format!(": {value}\r\n"), &format!(": {expect}\r\n"))));
        }
    };
    change("max-age=60, no-cache", "private, max-age=60, no-cache");
    change("public, max-age=60", "private, max-age=60");
    change("max-age=60, s-maxage=600", "private, max-age=60");
    change("s-maxage=600", "private");
    change("no-store", "no-store");
    change("private=\"a, b\"", "private");
    change("", "private");
    // Its value is each head's own.
    let heads = ["public, max-age=1", "public, max-age=22", "max-age=3", "s-maxage=4"].map(|value| {
        templates.keep(ReadyHead::new(
            format!("HTTP/1.1 200 OK\r\nX: a{value}\r\nCache-Control: {value}\r\nY: b\r\n").as_bytes(),
        ))
    });
    let mut out = Vec::new();
    assert!(heads[2].template.is_some() && heads[2].write_private_text(&mut out));
    let expect = "HTTP/1.1 200 OK\r\nX: amax-age=3\r\nCache-Control: private, max-age=3\r\nY: b\r\n";
    assert_eq!(expect, String::from_utf8_lossy(&out));
    check(&format!("{others}Cache-Control: max-age=60\r\nEdge-Control: max-age=60\r\n"), None);
    check(&format!("Cache-Control: max-age=6\r\nCache-Control: no-cache\r\n{others}"), None);
    check(others, None);
}

#[test]
fn changing_lines_do_not_make_new_templates() {
    let templates = Templates::default();
    for number in 0..5_000 {
        let text = sample(number, &format!("X-Request-Id: {number}\r\n"));
        assert_eq!(text.as_bytes(), templates.keep(ReadyHead::passing(text.as_bytes())).text());
    }
    assert!(templates.len() <= 4, "{}", templates.len());
}

#[test]
fn templates_are_bounded_and_those_without_heads_go() {
    let templates = Templates::default();
    let keep = |kind: usize| {
        let text = format!("HTTP/1.1 200 OK\r\nX-Kind-Of-Response: {kind}\r\nDate: now\r\n");
        let keep = || templates.keep(ReadyHead::passing(text.as_bytes()));
        let [_, _, head] = [keep(), keep(), keep()];
        assert_eq!(text.as_bytes(), head.text());
        head
    };
    let all: Vec<_> = (0..3_000).map(keep).collect();
    assert_eq!(templates::MOST, templates.len());
    drop(all);
    let one = keep(4_000);
    assert!(one.template.is_some());
    // And the one of those whose kind was new.
    assert_eq!(2, templates.len());
}
