//! The request of SCGI: its variables as a netstring, then the body. The response has no framing of its own and is not here.

/// Appends the variables, which begin with `CONTENT_LENGTH`, the number of bytes of the body, and `SCGI`.
pub fn begin<'a>(length: u64, variables: impl IntoIterator<Item = (&'a [u8], &'a [u8])>, out: &mut Vec<u8>) {
    let mut block = Vec::with_capacity(1024);
    let mut number = itoa::Buffer::new();
    let first: [(&[u8], &[u8]); 2] = [(b"CONTENT_LENGTH", number.format(length).as_bytes()), (b"SCGI", b"1")];
    for (name, value) in first {
        pair(name, value, &mut block);
    }
    for (name, value) in variables {
        // Each name occurs once.
        if name != b"CONTENT_LENGTH" && name != b"SCGI" {
            pair(name, value, &mut block);
        }
    }
    out.extend_from_slice(itoa::Buffer::new().format(block.len()).as_bytes());
    out.push(b':');
    out.extend_from_slice(&block);
    out.push(b',');
}

fn pair(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.push(0);
    out.extend_from_slice(value);
    out.push(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_its_specification() {
        let mut out = Vec::new();
        let variables: [(&[u8], &[u8]); 3] =
            [(b"CONTENT_LENGTH", b"27"), (b"REQUEST_METHOD", b"POST"), (b"REQUEST_URI", b"/deepthought")];
        begin(27, variables, &mut out);
        let expect = "70:CONTENT_LENGTH|27|SCGI|1|REQUEST_METHOD|POST|REQUEST_URI|/deepthought|,";
        assert_eq!(expect, String::from_utf8(out).unwrap().replace('\0', "|"));
    }
}
