//! Laws for any bytes in place of a line of the error log or the audit log. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::event_line::EventLine;

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let text = String::from_utf8_lossy(raw);
    let Some(line) = EventLine::parse(&text) else { return };
    assert!(line.values.len() <= text.len());
    assert!(line.values.iter().map(|it| it.0.len() + it.1.len()).sum::<usize>() <= text.len());
    // With every value in quotes it is the same line.
    let mut again = format!("{} {} {}", text.split(' ').next().unwrap_or_default(), line.level, line.event);
    for (name, value) in &line.values {
        again.push_str(&format!(" {name}=\""));
        for it in value.chars() {
            match it {
                '"' | '\\' => again.extend(['\\', it]),
                '\0'..' ' => again.push_str(&format!("\\u{:04x}", u32::from(it))),
                it => again.push(it),
            }
        }
        again.push('"');
    }
    assert_eq!(Some(&line), EventLine::parse(&again).as_ref(), "{again}");
}
