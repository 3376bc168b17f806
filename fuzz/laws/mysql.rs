//! Laws for any bytes as a packet of MariaDB or MySQL. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::mysql::{
    Greeting, LoginAnswer, MySqlColumn, MySqlValue, RowPacket, read_answer, read_column, read_prepared,
    read_row,
};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let Ok(Ok(greeting)) = Greeting::read(raw) {
        assert!(greeting.challenge.len() >= 20 && greeting.challenge.len() < raw.len());
        let shared = greeting.shared(true, true);
        assert_eq!(0, shared & (1 << 7 | 1 << 16), "neither files nor several statements");
        assert_eq!(shared, shared & greeting.abilities, "only what the server has");
    }
    if let Ok(LoginAnswer::Switch(it)) = LoginAnswer::read(raw) {
        assert!(it.auth.len() + it.challenge.len() < raw.len());
    }
    let _ = read_answer(raw);
    let _ = read_prepared(raw);
    for is_extended in [false, true] {
        if let Ok(column) = read_column(raw, is_extended) {
            assert!(column.name.len() <= 3 * raw.len(), "a name is within its packet");
            if let Ok(RowPacket::Row(row)) = read_row(raw, true) {
                assert!(row.values(&[column]).count() <= 1);
            }
        }
    }
    rows(raw);
}

/// The first eight bytes are the types of columns, the rest is a row of them.
fn rows(raw: &[u8]) {
    let Some((kinds, payload)) = raw.split_at_checked(8) else { return };
    let column = |kind: &u8| MySqlColumn {
        name: "a".into(),
        kind: *kind,
        charset: 45,
        length: 1,
        flags: u16::from(kind & 0x20),
        is_json: false,
    };
    let columns: Vec<MySqlColumn> = kinds.iter().map(column).collect();
    let Ok(RowPacket::Row(row)) = read_row(payload, true) else { return };
    let (mut bytes, mut failed) = (0, false);
    for value in row.values(&columns) {
        assert!(!failed, "nothing follows an error");
        match value {
            Ok(MySqlValue::Bytes(it)) => bytes += it.len() + 1,
            Ok(_) => {}
            Err(_) => failed = true,
        }
    }
    assert!(bytes <= payload.len(), "values are within their packet");
}
