//! The pictures of the recipes: drawings (SVG) and photographs (PNG) of nothing in particular, made of
//! their number.

use super::words::Dice;
use std::fmt::Write as _;

const WIDTH: u32 = 160;
const HEIGHT: u32 = 120;

/// A drawing of a plate.
pub fn svg(number: u32) -> String {
    let mut dice = Dice(number.wrapping_mul(747_796_405) | 1);
    let hue = dice.roll(360);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 200 140\"><rect width=\"200\" height=\"140\" \
         fill=\"hsl({hue} 45% 88%)\"/><circle cx=\"100\" cy=\"70\" r=\"58\" fill=\"#fff\"/>\
         <circle cx=\"100\" cy=\"70\" r=\"46\" fill=\"hsl({hue} 30% 95%)\" stroke=\"hsl({hue} 25% 80%)\"/>"
    );
    for _ in 0..14 {
        let (x, y) = (72 + dice.roll(56), 44 + dice.roll(52));
        let (r, turn, light) = (4 + dice.roll(9), dice.roll(180), 40 + dice.roll(30));
        let shade = (hue + dice.roll(70)) % 360;
        let _ = write!(
            out,
            "<ellipse cx=\"{x}\" cy=\"{y}\" rx=\"{r}\" ry=\"{}\" transform=\"rotate({turn} {x} {y})\" \
             fill=\"hsl({shade} 60% {light}%)\"/>",
            r / 2 + 2
        );
    }
    out.push_str("</svg>\n");
    out
}

/// A photograph: 160 by 120 pixels, 58 KB, since nothing is compressed.
pub fn png(number: u32) -> Vec<u8> {
    let mut dice = Dice(number.wrapping_mul(2_891_336_453) | 1);
    let base = [80 + dice.roll(120), 80 + dice.roll(120), 80 + dice.roll(120)];
    let blobs: Vec<[i64; 4]> = (0..9)
        .map(|_| [dice.roll(WIDTH), dice.roll(HEIGHT), 8 + dice.roll(26), dice.roll(3)].map(i64::from))
        .collect();
    let mut pixels = Vec::with_capacity(((WIDTH * 3 + 1) * HEIGHT) as usize);
    for y in 0..i64::from(HEIGHT) {
        pixels.push(0); // This row has no filter.
        for x in 0..i64::from(WIDTH) {
            let mut colour = base.map(i64::from);
            for [bx, by, radius, channel] in &blobs {
                let inside = radius * radius - (x - bx) * (x - bx) - (y - by) * (y - by);
                if inside > 0 {
                    colour[*channel as usize] += 90 * inside / (radius * radius);
                }
            }
            pixels.extend(colour.map(|it| u8::try_from((it - y / 3).clamp(0, 255)).unwrap_or(0)));
        }
    }
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut header = Vec::new();
    header.extend_from_slice(&WIDTH.to_be_bytes());
    header.extend_from_slice(&HEIGHT.to_be_bytes());
    header.extend_from_slice(&[8, 2, 0, 0, 0]); // 8 bits, RGB.
    chunk(*b"IHDR", &header, &mut out);
    chunk(*b"IDAT", &zlib(&pixels), &mut out);
    chunk(*b"IEND", &[], &mut out);
    out
}

fn chunk(name: [u8; 4], data: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&u32::try_from(data.len()).unwrap_or(0).to_be_bytes());
    let start = out.len();
    out.extend_from_slice(&name);
    out.extend_from_slice(data);
    let crc = crc32(&out[start..]);
    out.extend_from_slice(&crc.to_be_bytes());
}

/// The zlib form (RFC 1950) with stored blocks only (RFC 1951 section 3.2.4).
fn zlib(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut blocks = data.chunks(0xffff).peekable();
    while let Some(block) = blocks.next() {
        let length = u16::try_from(block.len()).unwrap_or(0);
        out.push(u8::from(blocks.peek().is_none()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&(!length).to_le_bytes());
        out.extend_from_slice(block);
    }
    let (mut a, mut b) = (1u32, 0u32);
    for byte in data {
        a = (a + u32::from(*byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    out.extend_from_slice(&((b << 16) | a).to_be_bytes());
    out
}

fn crc32(data: &[u8]) -> u32 {
    !data.iter().fold(!0, |crc: u32, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg()))
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums_are_the_standards() {
        assert_eq!(0xcbf4_3926, super::crc32(b"123456789"));
        assert_eq!(*b"\x11\xe6\x03\x98", super::zlib(b"Wikipedia")[16..]);
    }
}
