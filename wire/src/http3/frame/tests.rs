use super::*;

/// Every frame of `bytes`, read in pieces of `size`.
fn read(stream: FrameStream, bytes: &[u8], size: usize) -> Result<Vec<String>, Http3Error> {
    let mut reader = Http3FrameReader::new(stream, 64);
    let mut found = Vec::new();
    for mut some in bytes.chunks(size) {
        while let Some(frame) = reader.read(&mut some)? {
            found.push(format!("{frame:?}"));
        }
    }
    found.push(if reader.is_between_frames() { "end" } else { "cut" }.to_owned());
    Ok(found)
}

#[track_caller]
fn check(stream: FrameStream, bytes: &[u8], expect: Result<&[&str], Http3Error>) {
    let expect = expect.map(|it| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>());
    assert_eq!(expect, read(stream, bytes, usize::MAX));
    if !bytes.is_empty() && expect.as_ref().is_ok_and(|it| it.iter().all(|it| !it.starts_with("Data([")))
        || expect.is_err()
    {
        assert_eq!(expect, read(stream, bytes, 1), "a byte at a time");
    }
}

fn request(bytes: &[u8], expect: Result<&[&str], Http3Error>) {
    check(FrameStream::Request, bytes, expect);
}

fn control(bytes: &[u8], expect: Result<&[&str], Http3Error>) {
    check(FrameStream::Control, bytes, expect);
}

#[test]
fn a_request_has_its_frames() {
    request(&[0x01, 2, 7, 8, 0x00, 3, 1, 2, 3], Ok(&["Headers([7, 8])", "Data([1, 2, 3])", "end"]));
    request(&[0x01, 0, 0x00, 0], Ok(&["Headers([])", "Data([])", "end"]));
    // Reserved types (RFC 9114 §7.2.8), and a length that is not in its shortest form.
    request(&[0x21, 0x40, 3, 1, 2, 3, 0x40, 0x40, 0], Ok(&["Unknown", "Unknown", "end"]));
}

#[test]
fn data_is_passed_on_in_the_pieces_in_which_it_arrives() {
    let pieces = read(FrameStream::Request, &[0x00, 3, 1, 2, 3], 3);
    assert_eq!(Ok(vec!["Data([1])".to_owned(), "Data([2, 3])".to_owned(), "end".to_owned()]), pieces);
}

#[test]
fn a_cut_frame_is_noticed() {
    for bytes in [&[0x01][..], &[0x01, 2], &[0x01, 2, 7], &[0x00, 0x80, 0], &[0x21, 1], &[0xc0]] {
        request(bytes, Ok(&["cut"]));
    }
}

#[test]
fn a_section_that_is_too_large_is_not_kept() {
    let size = 64 + SLACK + 1;
    let mut bytes = vec![0x01];
    write_varint(size, &mut bytes);
    bytes.resize(bytes.len() + usize::try_from(size).unwrap(), 7);
    bytes.extend_from_slice(&[0x00, 0]);
    let mut reader = Http3FrameReader::new(FrameStream::Request, 64);
    let mut rest = &bytes[..];
    assert_eq!(Ok(Some(Http3Frame::TooLarge)), reader.read(&mut rest));
    assert!(reader.kept.capacity() < 64);
    assert_eq!(Ok(Some(Http3Frame::Data(&[]))), reader.read(&mut rest));
}

#[test]
fn frames_of_other_streams_and_of_http2_are_refused_by_their_type() {
    for kind in [0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0d] {
        request(&[kind], Err(Http3Error::FrameUnexpected));
    }
    for kind in [0x00, 0x01, 0x02, 0x05, 0x06, 0x08, 0x09] {
        control(&[kind], Err(Http3Error::FrameUnexpected));
    }
}

#[test]
fn a_control_stream_has_its_frames() {
    control(
        &[0x04, 3, 0x06, 0x40, 0x80, 0x07, 1, 4, 0x0d, 1, 5, 0x03, 1, 6, 0x21, 0],
        Ok(&[
            "Settings(Http3Settings { section_size: Some(128) })",
            "GoAway(4)",
            "MaxPushId(5)",
            "CancelPush(6)",
            "Unknown",
            "end",
        ]),
    );
    control(&[0x04, 0], Ok(&["Settings(Http3Settings { section_size: None })", "end"]));
    // Reserved and unknown settings (RFC 9114 §7.2.4.1).
    control(&[0x04, 4, 0x21, 1, 0x01, 0], Ok(&["Settings(Http3Settings { section_size: None })", "end"]));
}

#[test]
fn invalid_settings_have_their_codes() {
    control(&[0x04, 4, 0x06, 1, 0x06, 1], Err(Http3Error::Settings));
    control(&[0x04, 4, 0x21, 1, 0x21, 2], Err(Http3Error::Settings));
    for id in [0x00, 0x02, 0x03, 0x04, 0x05] {
        control(&[0x04, 2, id, 1], Err(Http3Error::Settings));
    }
    for id in [0x08, 0x33] {
        control(&[0x04, 2, id, 2], Err(Http3Error::Settings));
    }
    control(&[0x04, 1, 0x06], Err(Http3Error::Frame));
    control(&[0x04, 2, 0x06, 0x40], Err(Http3Error::Frame));
    control(&[0x04, 0x44, 0x01], Err(Http3Error::ExcessiveLoad));
}

#[test]
fn a_frame_of_one_integer_has_no_other_byte() {
    for kind in [0x03, 0x07, 0x0d] {
        control(&[kind, 0], Err(Http3Error::Frame));
        control(&[kind, 1, 0x40], Err(Http3Error::Frame));
        control(&[kind, 2, 1, 1], Err(Http3Error::Frame));
    }
}

#[test]
fn written_frames_are_read() {
    let mut bytes = Vec::new();
    let at = begin_headers(&mut bytes);
    bytes.extend_from_slice(b"abc");
    end_headers(at, &mut bytes);
    write_data_header(2, &mut bytes);
    bytes.extend_from_slice(b"de");
    request(&bytes, Ok(&["Headers([0, 0, 97, 98, 99])", "Data([100, 101])", "end"]));
    let mut bytes = Vec::new();
    write_control(16_384, true, &mut bytes);
    write_goaway((1 << 62) - 4, &mut bytes);
    assert_eq!(0x00, bytes[0]);
    control(
        &bytes[1..],
        Ok(&["Settings(Http3Settings { section_size: Some(16384) })", "GoAway(4611686018427387900)", "end"]),
    );
}
