use super::*;

#[test]
fn every_source_has_its_number() {
    for (number, source) in SOURCES.iter().enumerate() {
        assert_eq!(number, usize::from(source_number(*source)));
    }
}

#[test]
fn a_body_is_cut_into_as_few_parts_as_fit() {
    let cut = |length, size| BodySplit::of(7, length, size).map(|it| it.count);
    assert_eq!(Some(1), cut(1, 10));
    assert_eq!(Some(1), cut(10, 10));
    assert_eq!(Some(2), cut(11, 10));
    assert_eq!(Some(MAX_PARTS), cut(u64::from(MAX_PARTS), 1));
    for (length, size) in
        [(0, 10), (10, 0), (u64::from(MAX_PARTS) + 1, 1), (u64::MAX, 2), (u64::MAX, u64::MAX)]
    {
        assert_eq!(None, cut(length, size), "{length} by {size}");
    }
}

#[test]
fn a_part_opens_only_in_its_place() {
    let parts = BodySplit::of(7, 25, 10).unwrap();
    let body: Vec<u8> = (0..25).collect();
    let values: Vec<Vec<u8>> = (0u32..)
        .zip(body.chunks(10))
        .map(|(index, bytes)| {
            let mut value = Vec::new();
            PartHead::write(7, index, bytes, &mut value);
            value.extend_from_slice(bytes);
            value
        })
        .collect();
    let whole: Vec<u8> = (0u32..)
        .zip(&values)
        .flat_map(|(index, value)| PartHead::open(value, &parts, 25, index).unwrap().to_vec())
        .collect();
    assert_eq!(body, whole);
    assert_eq!(Err(EnvelopeError::ForeignPart), PartHead::open(&values[0], &parts, 25, 1));
    let other = BodySplit { generation: 8, ..parts };
    assert_eq!(Err(EnvelopeError::ForeignPart), PartHead::open(&values[0], &other, 25, 0));
    assert_eq!(Err(EnvelopeError::BodyLength), PartHead::open(&values[0][..25], &parts, 25, 0));
    assert_eq!(Err(EnvelopeError::BodyLength), PartHead::open(&values[2], &parts, 26, 2));
    assert_eq!(Err(EnvelopeError::Short), PartHead::open(&values[2][..15], &parts, 25, 2));
    let mut harmed = values[1].clone();
    harmed[20] ^= 1;
    assert_eq!(Err(EnvelopeError::BodySum), PartHead::open(&harmed, &parts, 25, 1));
}

#[test]
fn the_older_form() {
    let page = older(b"text/html; charset=utf-8\0<html>\0</html>").unwrap();
    assert_eq!((&b"text/html; charset=utf-8"[..], &b"<html>\0</html>"[..]), (page.content_type, page.body));
    assert_eq!(b"", older(b"a/b\0").unwrap().body);
    for foreign in
        [&b""[..], b"text/html", b"\0body", b"html\0body", b"text/html\r\nX: y\0body", b"t\xff/x\0body"]
    {
        assert_eq!(Err(EnvelopeError::Foreign), older(foreign), "{foreign:?}");
    }
    let long = [&b"a/"[..], &[b'b'; 300], b"\0body"].concat();
    assert_eq!(Err(EnvelopeError::Foreign), older(&long));
    let mut envelope = MAGIC.to_vec();
    envelope.extend_from_slice(&[1, 0, 0, 0]);
    assert_eq!(Err(EnvelopeError::Foreign), older(&envelope));
}
