//! Laws for any bytes as an event of a binary log. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::binlog::{
    LoggedEvent, LoggedType, LoggedValue, read_compressed, read_event, read_event_with_checksum, read_row,
};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let Ok(it) = read_compressed(raw) {
        assert!(it.bytes.len() < raw.len() && it.length <= u32::MAX as usize);
    }
    rows(raw);
    if let Ok((_, event)) = read_event_with_checksum(raw) {
        content(raw, &event);
    }
    let Ok((_, event)) = read_event(raw) else { return };
    for end in (0..raw.len()).step_by(1 + raw.len() / 200) {
        assert!(read_event(&raw[..end]).is_err(), "a part of it, {end} bytes, is an event as well");
    }
    content(raw, &event);
}

fn content(raw: &[u8], event: &LoggedEvent<'_>) {
    match event {
        LoggedEvent::Rotate { file, .. } => assert!(file.len() < raw.len()),
        LoggedEvent::Statement(it) => assert!(it.text.len() < raw.len()),
        LoggedEvent::TableMap(it) => {
            assert!(
                it.schema.len() + it.name.len() + it.columns.len() < raw.len(),
                "columns exceed the event"
            );
        }
        LoggedEvent::Rows(it) => {
            assert!(it.first.len() + it.second.len() + it.rows.len() < raw.len(), "rows exceed the event");
            assert!(it.first.len() * 8 >= it.columns);
        }
        _ => {}
    }
}

/// The first eight bytes are types and details of four columns, the ninth is the columns that are there, the rest is rows.
fn rows(raw: &[u8]) {
    let Some((form, rest)) = raw.split_at_checked(9) else { return };
    let column =
        |it: &[u8]| LoggedType { kind: it[0], detail: u16::from(it[1]) | u16::from(it[1] >> 4) << 8 };
    let columns: Vec<LoggedType> = form[..8].chunks(2).map(column).collect();
    let (mut left, mut values) = (rest, Vec::new());
    while !left.is_empty() {
        let before = left.len();
        if read_row(&mut left, &form[8..], &columns, &mut values).is_err() {
            return;
        }
        assert_eq!(columns.len(), values.len());
        let bytes = |it: &LoggedValue<'_>| if let LoggedValue::Bytes(it) = it { it.len() } else { 0 };
        assert!(values.iter().map(bytes).sum::<usize>() <= before - left.len(), "values exceed their row");
        if left.len() == before {
            return;
        }
    }
}
