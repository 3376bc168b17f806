//! Origins whose bodies are not in the coding that they name, or become far too large in it.

use super::*;

/// An origin with `body` under `Content-Encoding: coding`, and the page, plain, for those who accept no coding.
fn lying(coding: &'static str, body: Vec<u8>) -> Origin {
    Origin::scripted(move |request: &Received| {
        if request.field("accept-encoding") == Some("identity") && request.target() == "/honest" {
            return framed("identity", "length", HTML, &page());
        }
        framed(coding, "length", &format!("{HTML}Vary: Accept-Encoding\r\n"), &body)
    })
}

#[test]
fn a_response_with_a_wrong_content_encoding_is_never_served_in_another_form() {
    for coding in ["gzip", "br", "zstd"] {
        let mut cut = self::coded(coding, &page());
        cut.truncate(cut.len() - 9);
        for (body, kind) in [(b"<p>no coding at all</p>".repeat(50), "plain"), (cut, "cut")] {
            let origin = lying(coding, body.clone());
            let larder = Larder::before(&origin, COMPRESS);
            for target in ["/broken", "/honest"] {
                // Whoever accepts the coding gets the bytes that the origin sent.
                let first = larder.client().get_with(target, &accept(coding));
                assert!(first.body == body && first.field("content-encoding") == Some(coding), "{first:?}");
                for turn in 0..3 {
                    let other = larder.client().get_with(target, "Accept-Encoding: identity\r\n");
                    let as_it_came = other.body == body && other.field("content-encoding") == Some(coding);
                    let anew = target == "/honest" && other.complete && other.body == page();
                    let seen_to_be_cut = kind == "cut" && !other.complete;
                    assert!(
                        as_it_came || anew || (seen_to_be_cut && turn == 0),
                        "{coding} {kind} {target} {turn}: {other:?}"
                    );
                    if target == "/honest" && turn > 0 {
                        assert!(anew, "the origin has a plain form, too: {coding} {kind} {turn}: {other:?}");
                    }
                }
            }
            assert!(larder.counter("decoding_failures") > 0, "{coding} {kind}");
        }
    }
}

#[test]
fn a_bomb_takes_neither_memory_nor_time() {
    let zeros = vec![b' '; 8 << 20];
    for coding in ["gzip", "br", "zstd", "deflate", "gzip, br"] {
        // Gzip members follow one another: 4 GiB in 4 MiB. A brotli of 256 MiB has a few hundred bytes.
        let bomb = match coding {
            "gzip" => codec::encode(Coding::Gzip, LEVELS, &zeros).unwrap().unwrap().repeat(512),
            "deflate" => super::zlib(&vec![b' '; 256 << 20]),
            // 4 GiB in 20 KiB.
            "gzip, br" => super::over(
                Coding::Brotli,
                &codec::encode(Coding::Gzip, LEVELS, &zeros).unwrap().unwrap().repeat(512),
            ),
            "zstd" => codec::encode(Coding::Zstd, LEVELS, &zeros).unwrap().unwrap().repeat(512),
            _ => self::coded("br", &vec![b' '; 256 << 20]),
        };
        let origin = lying(coding, bomb.clone());
        let larder = Larder::before(&origin, COMPRESS);
        larder.client().get_with("/bomb", &accept(coding));
        let before = (larder.resident(), larder.processor_time());
        for _ in 0..5 {
            let response = larder.client().get_with("/bomb", "Accept-Encoding: identity\r\n");
            let as_it_came = response.field("content-encoding") == Some(coding) && response.body == bomb;
            assert!(as_it_came || !response.complete, "{coding}: {} bytes", response.body.len());
            assert!(as_it_came || response.body.len() <= 64 << 20, "{coding}: {}", response.body.len());
        }
        let counted = larder.counter("decoding_bombs") + larder.counter("decoding_too_large");
        assert!(counted > 0, "{coding}");
        let grown = larder.resident().saturating_sub(before.0);
        assert!(grown < 100 << 20, "{coding}: {grown} bytes");
        let took = larder.processor_time() - before.1;
        assert!(took < 10_000, "{coding}: {took} ms");
    }
}
