//! The envelope's bytes do not change: those of `golden/` were written by the first version, and this one reads and
//! writes the same. Further: every written envelope is read back equal.

use larder_semantics::field::FieldList;
use larder_semantics::freshness::{Lifetime, LifetimeSource};
use larder_semantics::policy::Policy;
use larder_semantics::range::HeldRange;
use larder_semantics::storable::is_never_stored;
use larder_semantics::stored::{Meta, Uncommon};
use larder_stdx::clock::WallTime;
use larder_wire::envelope::{
    BodyInfo, BodySplit, Envelope, EnvelopeError, EnvelopeHead, MAX_HEAD, Mark, Unshared,
};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const BODY: &[u8] = b"<h1>Hello</h1>\n";

fn meta() -> Meta {
    Meta {
        status: 200,
        request_time: WallTime(1_700_000_000),
        response_time: WallTime(1_700_000_001),
        date: WallTime(1_700_000_001),
        initial_age: 1,
        lifetime: Lifetime { seconds: 60, source: LifetimeSource::MaxAge },
        must_revalidate: false,
        no_cache: false,
        implicit: false,
        stale_while_revalidate: 0,
        stale_if_error: 0,
        etag: None,
        last_modified: None.into(),
        uncommon: Uncommon::default(),
    }
}

fn list(lines: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::new();
    lines.iter().for_each(|it| list.push(it.0, it.1));
    list
}

fn plain() -> Envelope {
    Envelope {
        key: b"http://example.com/".as_slice().into(),
        variant: [].into(),
        meta: meta(),
        fields: list(&[
            ("Content-Type", "text/html"),
            ("Cache-Control", "max-age=60"),
            ("Date", "Tue, 14 Nov 2023 22:13:21 GMT"),
        ]),
        trailers: None,
        tags: [].into(),
        known: Vec::new(),
        seq: 0,
        body: BodyInfo::of(BODY),
    }
}

fn full() -> Envelope {
    Envelope {
        variant: b"accept-encoding=br\nx-device=phone\n".as_slice().into(),
        meta: Meta {
            status: 206,
            lifetime: Lifetime { seconds: 1 << 31, source: LifetimeSource::Heuristic },
            must_revalidate: true,
            no_cache: true,
            stale_while_revalidate: 30,
            stale_if_error: u32::MAX,
            etag: Some(b"W/\"a\xffb\"".as_slice().into()),
            last_modified: Some(WallTime(1_600_000_000)).into(),
            uncommon: Uncommon::new(
                vec!["accept-encoding".into(), "x-device".into()],
                Some(HeldRange { first: 10, last: 24, complete: Some(100) }),
            ),
            ..meta()
        },
        fields: list(&[("Content-Type", "image/png"), ("ETag", "W/\"a\"")]),
        trailers: Some(list(&[("X-Sum", "abc")])),
        tags: [3, u64::MAX].into(),
        known: vec![(0xfeed, 7), (1, 2)],
        seq: 99,
        body: BodyInfo {
            parts: BodySplit::of(0x1122_3344_5566_7788, BODY.len() as u64, 4),
            packed: Some(20),
            ..BodyInfo::of(BODY)
        },
        ..plain()
    }
}

fn golden(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

#[track_caller]
fn check_golden(name: &str, envelope: &Envelope) {
    let mut bytes = Vec::new();
    envelope.write(&mut bytes);
    let length = bytes.len();
    bytes.extend_from_slice(BODY);
    // A file that is there is never written again: those bytes lie in fleets and on disks.
    if std::env::var_os("LARDER_BLESS").is_some() && !path(name).exists() {
        std::fs::write(path(name), &bytes).unwrap();
    }
    let kept = golden(name);
    assert_eq!(Ok((envelope.clone(), length)), Envelope::read(&kept), "{name} is read as it was meant");
    assert_eq!(Ok(()), envelope.body.check(&kept[length..]));
    assert!(bytes == kept, "{name} would be written otherwise now");
}

#[test]
fn the_first_version_is_read_and_written_as_it_was() {
    check_golden("envelope-1-plain.bin", &plain());
    check_golden("envelope-1-full.bin", &full());
}

/// Earlier versions kept variants by what larder tells the origin itself, chosen by what clients had sent.
#[test]
fn no_variant_is_read_that_larder_tells_the_origin_of() {
    for name in ["x-forwarded-for", "via"] {
        let mut envelope = full();
        envelope.meta.set_vary(vec![name.into()]);
        let mut bytes = Vec::new();
        envelope.write(&mut bytes);
        bytes.extend_from_slice(BODY);
        assert!(matches!(Envelope::read(&bytes), Err(EnvelopeError::Section(_))), "{name}");
    }
}

fn mark() -> Mark {
    let mut facts = meta();
    facts.etag = Some(b"\"e\"".as_slice().into());
    facts.set_vary(vec!["cookie".into()]);
    Mark::new(b"http://example.com/", &facts, vec![(0xfeed, 7)], Unshared::Page, 10)
}

#[test]
fn a_mark_is_read_and_written_as_it_was_and_is_no_response() {
    check_golden_mark("envelope-1-mark.bin", &mark());
    let removal = Mark::of_removal(b"http://example.com/", WallTime(1_700_000_000), 120);
    assert_eq!((Unshared::Removed, 120), (removal.says, removal.of.meta.lifetime.seconds));
    check_golden_mark("envelope-1-removal.bin", &removal);
}

#[track_caller]
fn check_golden_mark(name: &str, mark: &Mark) {
    let mut bytes = Vec::new();
    mark.write(&mut bytes);
    if std::env::var_os("LARDER_BLESS").is_some() && !path(name).exists() {
        std::fs::write(path(name), &bytes).unwrap();
    }
    let kept = golden(name);
    assert_eq!(Ok(mark), Mark::read(&kept).as_ref());
    assert!(bytes == kept, "it would be written otherwise now");
    assert_eq!(Err(EnvelopeError::Mark), Envelope::read(&kept));
    assert_eq!(Err(EnvelopeError::Mark), Envelope::read_filled(&kept, &Policy::default(), WallTime(1)));
    assert_eq!(Err(EnvelopeError::BodyLength), Mark::read(&[&kept[..], b"x"].concat()));
    assert_eq!(Err(EnvelopeError::Section(14)), Mark::read(&golden("envelope-1-plain.bin")));
    for at in 0..kept.len() {
        assert!(Mark::read(&kept[..at]).is_err(), "cut at {at}");
        let mut changed = kept.clone();
        changed[at] ^= 1;
        assert!(Mark::read(&changed).is_err(), "changed at {at}");
    }
}

#[test]
fn facts_that_an_application_omitted_are_computed() {
    let raw = golden("envelope-1-application.bin");
    assert_eq!(Err(EnvelopeError::NoFacts), Envelope::read(&raw));
    let now = WallTime(1_700_000_031);
    let (envelope, length) = Envelope::read_filled(&raw, &Policy::default(), now).unwrap();
    assert_eq!(Ok(()), envelope.body.check(&raw[length..]));
    assert_eq!((30, 60), (envelope.meta.age(now), envelope.meta.lifetime.seconds), "its Date is 30 s old");
    let made = WallTime(1_700_000_001);
    assert_eq!(made, envelope.meta.response_time, "whenever it is read");
    // A clock that is ahead makes nothing younger than now.
    let before = WallTime(1_600_000_000);
    let (early, _) = Envelope::read_filled(&raw, &Policy::default(), before).unwrap();
    assert_eq!((before, 0), (early.meta.response_time, early.meta.age(before)));
    assert_eq!(Some(&b"a=b"[..]), envelope.fields.get("set-cookie"), "whoever reads judges what was written");
    assert_eq!(plain().key, envelope.key);
}

#[test]
fn an_application_names_no_variant_without_its_key() {
    let fields = [("Vary", "Accept-Language"), ("Date", "Tue, 14 Nov 2023 22:13:21 GMT")];
    let raw = by_hand(&[(1, b"http://a/"), (2, list(&fields).text())]);
    let read = |raw: &[u8]| Envelope::read_filled(raw, &Policy::default(), WallTime(1_700_000_001));
    assert_eq!(Err(EnvelopeError::NoVariant), read(&raw));
    let raw = by_hand(&[(1, b"http://a/"), (2, list(&fields).text()), (6, b"accept-language=de\n")]);
    assert_eq!(b"accept-language=de\n", &*read(&raw).unwrap().0.variant);
}

/// An envelope of a 200 without body, out of these sections.
fn by_hand(sections: &[(u8, &[u8])]) -> Vec<u8> {
    let mut raw = b"\x93lrd\x01\x00\xc8\x00".to_vec();
    let length: usize = sections.iter().map(|it| 5 + it.1.len()).sum();
    raw.extend_from_slice(&u32::try_from(28 + length).unwrap().to_le_bytes());
    raw.extend_from_slice(&[0; 12]);
    for (tag, content) in sections {
        raw.push(*tag);
        raw.extend_from_slice(&u32::try_from(content.len()).unwrap().to_le_bytes());
        raw.extend_from_slice(content);
    }
    raw.extend_from_slice(&larder_wire::envelope::sum(&raw).to_le_bytes());
    raw
}

#[track_caller]
fn check_refused(expect: EnvelopeError, sections: &[(u8, &[u8])]) {
    let read = Envelope::read_filled(&by_hand(sections), &Policy::default(), WallTime(1));
    assert_eq!(Err(expect), read.map(|it| it.0), "{sections:?}");
}

#[test]
fn sections_that_cannot_be_meant_are_refused() {
    let key: (u8, &[u8]) = (1, b"http://a/");
    check_refused(EnvelopeError::NoKey, &[]);
    check_refused(EnvelopeError::NoKey, &[(1, b"")]);
    check_refused(EnvelopeError::Section(1), &[key, key]);
    check_refused(EnvelopeError::Section(1), &[(2, b""), key]);
    check_refused(EnvelopeError::Section(99), &[key, (99, b"")]);
    for bad in [
        &b"a"[..],
        b"A: b\n",
        b"A: b\r\n\r\n",
        b"A : b\r\n",
        b"A: b\rc\r\n",
        b": b\r\n",
        b"A: \0\r\n",
        b"\xc3\xa4: b\r\n",
    ] {
        check_refused(EnvelopeError::Section(2), &[key, (2, bad)]);
        check_refused(EnvelopeError::Section(8), &[key, (8, bad)]);
    }
    check_refused(EnvelopeError::Section(2), &[key, (2, &b"A: b\r\n".repeat(257))]);
    for bad in [
        [0u8; 49].to_vec(),
        [0xff; 50].to_vec(),
        [&[0; 49][..], &[16]].concat(),
        [&[0; 48][..], &[11, 0]].concat(),
    ] {
        check_refused(EnvelopeError::Section(3), &[key, (3, &bad)]);
    }
    for bad in [&b""[..], b"a", b"\"a b\""] {
        check_refused(EnvelopeError::Section(4), &[key, (4, bad)]);
    }
    for bad in [&b""[..], b"A", b"b,a", b"a,a", b"a,", b"a b"] {
        check_refused(EnvelopeError::Section(5), &[key, (5, bad)]);
    }
    let part = |first: u64, last: u64| [first.to_le_bytes(), last.to_le_bytes(), 9u64.to_le_bytes()].concat();
    for bad in [part(2, 1), part(0, 9), [0; 8].to_vec(), [0; 32].to_vec(), [0; 17].to_vec()] {
        check_refused(EnvelopeError::Section(7), &[key, (7, &bad)]);
    }
    check_refused(EnvelopeError::Section(9), &[key, (9, &[0; 7])]);
    check_refused(EnvelopeError::Section(10), &[key, (10, &[0; 24])]);
    check_refused(EnvelopeError::Section(11), &[key, (11, &[0; 16])]);
    // A body of no bytes has no parts.
    check_refused(EnvelopeError::Section(12), &[key, (12, &[1; 24])]);
    check_refused(EnvelopeError::Section(13), &[key, (13, &[1; 9])]);
    for bad in [&b""[..], &[0], &[4], &[1, 1]] {
        check_refused(EnvelopeError::Section(14), &[key, (14, bad)]);
    }
    let no_facts = by_hand(&[key, (14, &[1])]);
    assert_eq!(Err(EnvelopeError::NoFacts), Mark::read(&no_facts), "nobody but larder leaves marks");
    let raw = by_hand(&[key, (3, &[0; 50]), (14, &[2])]);
    assert_eq!(Unshared::Answer, Mark::read(&raw).unwrap().says);
    let with_more = by_hand(&[key, (3, &[0; 50]), (200, b"of a later version")]);
    assert_eq!(b"http://a/", &*Envelope::read(&with_more).unwrap().0.key, "what may be left unread is");
}

#[test]
fn heads_that_cannot_be_meant_are_refused() {
    let sound = by_hand(&[(1, b"http://a/"), (3, &[0; 50])]);
    assert!(Envelope::read(&sound).is_ok());
    let with = |at: usize, bytes: &[u8]| {
        let mut raw = sound.clone();
        raw[at..at + bytes.len()].copy_from_slice(bytes);
        let end = raw.len() - 4;
        let sum = larder_wire::envelope::sum(&raw[..end]).to_le_bytes();
        raw[end..].copy_from_slice(&sum);
        Envelope::read(&raw).map(|it| it.0).unwrap_err()
    };
    assert_eq!(EnvelopeError::Foreign, with(0, b"HTTP"));
    assert_eq!(EnvelopeError::Version(2), with(4, &[2]));
    assert_eq!(EnvelopeError::Flags(1), with(5, &[1]));
    assert_eq!(EnvelopeError::Status(99), with(6, &[99, 0]));
    assert_eq!(EnvelopeError::Status(600), with(6, &[0x58, 2]));
    for never in [100u16, 101, 103, 199, 304, 401, 412, 416] {
        assert_eq!(EnvelopeError::Status(never), with(6, &never.to_le_bytes()), "nobody has ever stored it");
    }
    assert_eq!(EnvelopeError::Section(7), with(6, &206u16.to_le_bytes()), "which part it is stands nowhere");
    let with_body = [&204u16.to_le_bytes()[..], &sound[8..16], &1u64.to_le_bytes()].concat();
    assert_eq!(EnvelopeError::BodyLength, with(6, &with_body), "it has none");
    assert_eq!(EnvelopeError::Short, with(8, &[27, 0, 0, 0]));
    assert_eq!(EnvelopeError::Short, with(8, &[0, 1, 0, 0]));
    assert_eq!(EnvelopeError::TooLarge, with(8, &[0xff; 4]));
    assert_eq!(EnvelopeError::Section(1), with(25, &[0xff; 4]));
}

fn fields() -> impl Strategy<Value = FieldList> {
    let line = ("[!-9;-~]{1,12}", prop_oneof!["[!-~]{0,20}", "[!-~]([ \t!-~\u{80}-\u{ff}]{0,30}[!-~])?"]);
    prop::collection::vec(line, 0..20).prop_map(|lines| {
        let mut list = FieldList::new();
        for (name, value) in lines.iter().filter(|it| larder_semantics::field::is_token(it.0.as_bytes())) {
            list.push(name, value);
        }
        list
    })
}

/// Statuses of what is stored whole.
fn stored() -> impl Strategy<Value = u16> {
    (200u16..600).prop_filter("never stored whole", |it| !matches!(it, 204 | 206) && !is_never_stored(*it))
}

prop_compose! {
    fn metas()(
        (status, request_time, response_time, date) in (stored(), 0u64..1 << 37, 0u64..1 << 37, 0u64..1 << 37),
        (initial_age, seconds) in (0u32..=1 << 31, 0u32..=1 << 31),
        source in prop::sample::select(vec![
            LifetimeSource::None, LifetimeSource::Override, LifetimeSource::Targeted, LifetimeSource::SMaxAge,
            LifetimeSource::MaxAge, LifetimeSource::Expires, LifetimeSource::StatusDefault,
            LifetimeSource::RouteDefault, LifetimeSource::Heuristic, LifetimeSource::Purged, LifetimeSource::Unfollowed,
        ]),
        (must_revalidate, no_cache, implicit) in any::<(bool, bool, bool)>(),
        (stale_while_revalidate, stale_if_error) in any::<(u32, u32)>(),
        etag in prop::option::of("(W/)?\"[!#-~]{0,20}\""),
        last_modified in prop::option::of(0u64..1 << 37),
        vary in prop::collection::btree_set("[b-z-]{1,9}", 0..5),
        partial in prop::option::of((0u64..1000, 0u64..1000, prop::option::of(1u64..1000))),
    ) -> Meta {
        Meta {
            status: if partial.is_some() { 206 } else { status },
            request_time: WallTime(request_time),
            response_time: WallTime(response_time),
            date: WallTime(date),
            initial_age,
            lifetime: Lifetime { seconds, source },
            must_revalidate,
            no_cache,
            implicit,
            stale_while_revalidate,
            stale_if_error,
            etag: etag.map(|it| it.into_bytes().into()),
            last_modified: last_modified.map(WallTime).into(),
            uncommon: Uncommon::new(
                vary.into_iter().map(Into::into).collect(),
                partial.map(|(first, more, rest)| HeldRange {
                first,
                last: first + more,
                complete: rest.map(|it| first + more + it),
                }),
            ),
        }
    }
}

prop_compose! {
    fn envelopes()(
        key in prop::collection::vec(any::<u8>(), 1..300),
        variant in prop::collection::vec(any::<u8>(), 0..100),
        meta in metas(),
        fields in fields(),
        trailers in prop::option::of(fields()),
        tags in prop::collection::vec(any::<u64>(), 0..9),
        known in prop::collection::vec(any::<(u64, u64)>(), 0..5),
        seq in any::<u64>(),
        (length, sum, packed) in (1u64..1 << 40, any::<u32>(), any::<Option<u64>>()),
        cut in prop::option::of((any::<u64>(), 1u64..1 << 40)),
    ) -> Envelope {
        let parts = cut.and_then(|(generation, size)| BodySplit::of(generation, length, size));
        let body = BodyInfo { length, sum, parts, packed };
        Envelope {
            key: key.into(), variant: variant.into(), meta, fields, trailers, tags: tags.into(), known, seq, body,
        }
    }
}

proptest! {
    #[test]
    fn a_written_envelope_is_read_to_the_same(envelope in envelopes(), behind in prop::collection::vec(any::<u8>(), 0..50)) {
        let mut raw = b"before".to_vec();
        envelope.write(&mut raw);
        let length = raw.len() - 6;
        raw.extend_from_slice(&behind);
        prop_assert_eq!(Ok((envelope, length)), Envelope::read(&raw[6..]));
    }

    #[test]
    fn one_changed_bit_is_found(
        envelope in envelopes(), at in any::<prop::sample::Index>(), bit in 0u8..8
    ) {
        let mut raw = Vec::new();
        envelope.write(&mut raw);
        let at = at.index(raw.len());
        raw[at] ^= 1 << bit;
        prop_assert!(Envelope::read(&raw).is_err());
    }
}

#[test]
fn a_head_that_is_too_large_is_refused_without_being_read() {
    let key = vec![b'a'; MAX_HEAD];
    let envelope = plain();
    let mut raw = Vec::new();
    EnvelopeHead { key: &key, ..envelope.head() }.write(&mut raw);
    assert_eq!(Err(EnvelopeError::TooLarge), Envelope::read(&raw));
}
