use super::*;

const LEVELS: CodecLevels = CodecLevels { gzip: 6, brotli: 5, zstd: 3 };
const ALL: [Coding; 3] = [Coding::Gzip, Coding::Brotli, Coding::Zstd];
const MOST: u64 = 8 << 20;

/// Something like text: words out of a small set, in an order that depends on `seed`.
fn text(length: usize, mut seed: u64) -> Vec<u8> {
    let words = ["stock ", "soup ", "of the day ", "bread ", "<li>", "</li>\n", "honey ", "salt "];
    let mut text = Vec::new();
    while text.len() < length {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.extend_from_slice(words[(seed >> 61) as usize].as_bytes());
    }
    text.truncate(length);
    text
}

fn noise(length: usize) -> Vec<u8> {
    let mut seed = 7u64;
    let next = |_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 56) as u8
    };
    (0..length).map(next).collect()
}

fn coded(coding: Coding, plain: &[u8]) -> Vec<u8> {
    encode(coding, LEVELS, plain).unwrap().unwrap()
}

#[test]
fn an_encoded_body_is_decoded_to_the_same() {
    for coding in ALL {
        for length in [1024, 5000, 100_000, 3 << 20] {
            let plain = text(length, 1);
            let coded = coded(coding, &plain);
            assert!(coded.len() < plain.len() / 2, "{coding:?}");
            assert!(plain == decode(coding, &coded, MOST).unwrap(), "{coding:?} {length}");
        }
    }
}

#[test]
fn a_body_that_comes_byte_by_byte_is_decoded_to_the_same() {
    let plain = text(50_000, 2);
    for coding in ALL {
        assert!(Ok(&plain) == decode_by(coding, &coded(coding, &plain), 1).as_ref(), "{coding:?}");
    }
}

#[test]
fn a_body_that_does_not_shrink_is_not_encoded() {
    for coding in ALL {
        assert_eq!(None, encode(coding, LEVELS, &noise(10_000)).unwrap(), "{coding:?}");
        assert_eq!(None, encode(coding, LEVELS, b"").unwrap(), "{coding:?}");
    }
}

#[test]
fn a_truncated_or_overlong_body_is_broken() {
    for coding in ALL {
        let whole = coded(coding, &text(5000, 3));
        for length in [0, 1, 5, whole.len() / 2, whole.len() - 1] {
            assert_eq!(
                Err(Undecodable::Broken),
                decode(coding, &whole[..length], MOST),
                "{coding:?} {length}"
            );
        }
        let longer = [&whole[..], b"and more"].concat();
        let padded = coding == Coding::Gzip;
        assert_eq!(padded, decode(coding, &longer, MOST).is_ok(), "{coding:?}");
        assert_eq!(Err(Undecodable::Broken), decode(coding, b"<p>plain text</p>", MOST), "{coding:?}");
    }
}

/// In that coding, or those, whether it becomes smaller or not.
fn plied(coding: Coding, plain: &[u8]) -> Vec<u8> {
    let deflated = |plain: &[u8]| {
        let mut coder = flate2::write::ZlibEncoder::new(Vec::new(), Compression::new(6));
        coder.write_all(plain).unwrap();
        coder.finish().unwrap()
    };
    match coding {
        Coding::Deflate => deflated(plain),
        Coding::Several(all) => all.iter().fold(plain.to_vec(), |bytes, it| plied(it, &bytes)),
        one => encode_within(one, LEVELS, plain, 2 * plain.len() + 100).unwrap().unwrap(),
    }
}

#[test]
fn stacked_codings_of_origins_are_decoded() {
    use Coding::{Brotli, Deflate, Gzip, Zstd};
    let plain = text(100_000, 8);
    for all in [&[Deflate][..], &[Gzip, Brotli], &[Gzip, Gzip], &[Zstd, Deflate, Gzip], &[Deflate, Deflate]] {
        let coding = Coding::over(all.iter().copied());
        let coded = plied(coding, &plain);
        assert!(Ok(&plain) == decode(coding, &coded, MOST).as_ref(), "{all:?}");
        assert!(Ok(&plain) == decode_by(coding, &coded, 1).as_ref(), "{all:?} by bytes");
        for length in [0, 1, 5, coded.len() / 2, coded.len() - 1] {
            assert!(decode(coding, &coded[..length], MOST).is_err(), "{all:?} {length}");
        }
        assert_eq!(Err(Undecodable::Broken), decode(coding, b"<p>plain text</p>", MOST), "{all:?}");
        assert_eq!(Err(Undecodable::TooLarge), decode(coding, &coded, 99_999), "{all:?}");
        let bomb = plied(coding, &vec![b' '; 64 << 20]);
        assert_eq!(Err(Undecodable::Bomb), decode(coding, &bomb, 1 << 40), "{all:?}");
    }
    let raw = &plied(Deflate, &plain)[2..];
    assert!(plain == decode(Deflate, &raw[..raw.len() - 4], MOST).unwrap(), "as some servers send it");
}

#[test]
fn a_damaged_gzip_is_broken() {
    let mut whole = coded(Coding::Gzip, &text(5000, 3));
    let at = whole.len() - 6; // In the checksum.
    whole[at] ^= 1;
    assert_eq!(Err(Undecodable::Broken), decode(Coding::Gzip, &whole, MOST));
}

#[test]
fn padding_behind_gzip_is_left_out() {
    let plain = text(5000, 6);
    let whole = coded(Coding::Gzip, &plain);
    for padding in [&[0_u8; 8][..], b"junkjunk", b"x\x1f\x8b\x08"] {
        let padded = [&whole[..], padding].concat();
        assert_eq!(Ok(plain.clone()), decode(Coding::Gzip, &padded, MOST));
    }
    let cut = [&whole[..], &whole[..whole.len() - 1]].concat();
    assert_eq!(Err(Undecodable::Broken), decode(Coding::Gzip, &cut, MOST));
}

#[test]
fn members_and_frames_follow_one_another() {
    let (a, b) = (text(3000, 4), text(4000, 5));
    for coding in [Coding::Gzip, Coding::Zstd] {
        let both = [coded(coding, &a), coded(coding, &b)].concat();
        assert!([&a[..], &b[..]].concat() == decode(coding, &both, MOST).unwrap(), "{coding:?}");
    }
}

#[test]
fn a_bomb_is_noticed_before_it_is_large() {
    for coding in ALL {
        let bomb = coded(coding, &vec![b' '; 64 << 20]);
        let expect = if coding == Coding::Gzip { bomb.len() > 60_000 } else { bomb.len() < 10_000 };
        assert!(expect, "{coding:?}: {}", bomb.len());
        assert_eq!(Err(Undecodable::Bomb), decode(coding, &bomb, 1 << 40), "{coding:?}");
        assert!(matches!(decode(coding, &bomb, 1 << 19), Err(Undecodable::TooLarge)), "{coding:?}");
    }
}

#[test]
fn no_step_brings_more_than_there_is_room_for() {
    for coding in ALL {
        let bomb = coded(coding, &vec![0; 16 << 20]);
        let mut decoder = BodyDecoder::new(coding, 1 << 40).unwrap();
        let (mut input, mut step, mut steps) = (&bomb[..], [0; 1000], 0);
        while decoder.step(&mut input, &mut step).is_ok() {
            steps += 1;
        }
        assert!(steps > 1000, "{coding:?}: {steps}");
    }
}

#[test]
fn a_window_of_more_than_8_mib_is_refused() {
    let mut coder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
    coder.set_parameter(CParameter::WindowLog(27)).unwrap();
    coder.write_all(&noise(1000)).unwrap();
    coder.flush().unwrap();
    let wide = coder.finish().unwrap();
    assert_eq!(Err(Undecodable::Broken), decode(Coding::Zstd, &wide, MOST));
}

/// As [`decode`], of a body that comes in pieces.
fn decode_by(coding: Coding, raw: &[u8], piece: usize) -> Result<Vec<u8>, Undecodable> {
    let mut decoder = BodyDecoder::new(coding, MOST).unwrap();
    let (mut plain, mut step) = (Vec::new(), [0; 500]);
    for mut part in raw.chunks(piece) {
        loop {
            let (progress, brought) = decoder.step(&mut part, &mut step)?;
            plain.extend_from_slice(&step[..brought]);
            if progress == DecodeProgress::Fed {
                break;
            }
        }
    }
    decoder.finish().map(|()| plain)
}

#[test]
fn any_bytes_are_decoded_or_refused_and_in_pieces_alike() {
    for coding in ALL {
        let whole = coded(coding, &text(20_000, 6));
        for at in 0..200 {
            let mut damaged = whole.clone();
            let place = at * 31 % damaged.len();
            damaged[place] ^= 1 << (at % 8);
            for raw in [&damaged[..], &noise(at + 1)] {
                let expect = decode(coding, raw, MOST);
                for piece in [1, 7] {
                    assert!(expect == decode_by(coding, raw, piece), "{coding:?} {at} by {piece}");
                }
            }
        }
    }
}

#[test]
fn zstd_encoders_stay_within_their_computed_memory() {
    let mut wrong = Vec::new();
    for length in [1_000, 20_000, 200_000, 1_500_000, 9_000_000] {
        let plain: Vec<u8> = (0..length).map(|it| b"abcdefgh ijkl"[(it * it / 7) % 13]).collect();
        for level in [1, 3, 4, 5, 8, 9, 11, 12, 15, 16, 19] {
            if level > 9 && length > 2_000_000 {
                continue; // Minutes in a debug build.
            }
            let levels = CodecLevels { zstd: level, ..LEVELS };
            let mut coder = zstd_coder(levels, length).unwrap();
            coder.compress2(&mut Vec::with_capacity(length + 1000), &plain[..]).unwrap();
            let (took, text) = (coder.sizeof() as u64, zstd_memory(level, length as u64));
            if took > text || text > 3 * took + (2 << 20) {
                wrong.push(format!("{level} of {length}: {took} bytes, {text} said"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
