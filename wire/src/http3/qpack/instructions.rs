//! The instructions of both QPACK streams of a client (RFC 9204 §4.3, §4.4), for a connection without dynamic tables: nearly
//! all of them are errors.

use crate::http3::Http3Error;

/// Reads the encoder stream of a client. Only a table of size 0 is permitted.
#[derive(Debug, Default)]
pub struct EncoderInstructions(());

impl EncoderInstructions {
    /// Reads the next bytes; returns the number of instructions in them.
    ///
    /// # Errors
    /// An instruction requires a table.
    pub fn read(&mut self, bytes: &[u8]) -> Result<u32, Http3Error> {
        // "Set Dynamic Table Capacity" to 0 is one byte; in a longer form, 0 cannot be written.
        match bytes.iter().all(|it| *it == 0x20) {
            true => Ok(u32::try_from(bytes.len()).unwrap_or(u32::MAX)),
            false => Err(Http3Error::QpackEncoderStream),
        }
    }
}

/// Reads the decoder stream of a client. Only cancelled streams are permitted, since no section of larder needs an
/// acknowledgement.
#[derive(Debug, Default)]
pub struct DecoderInstructions {
    /// Bytes of an incomplete integer so far.
    begun: u8,
}

impl DecoderInstructions {
    /// Reads the next bytes; returns the number of instructions that begin in them.
    ///
    /// # Errors
    /// An instruction acknowledges something that was not sent, or has an integer of more than 62 bits.
    pub fn read(&mut self, bytes: &[u8]) -> Result<u32, Http3Error> {
        let mut count = 0;
        for it in bytes {
            if self.begun == 0 {
                // "Stream Cancellation" is 01, with an integer of six bits.
                if it & 0xc0 != 0x40 {
                    return Err(Http3Error::QpackDecoderStream);
                }
                self.begun = u8::from(it & 0x3f == 0x3f);
                count += 1;
            } else if it & 0x80 == 0 {
                self.begun = 0;
            } else {
                self.begun += 1;
                if self.begun > 9 {
                    return Err(Http3Error::QpackDecoderStream);
                }
            }
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encoder_may_only_have_no_table() {
        let read = |bytes: &[u8]| EncoderInstructions::default().read(bytes);
        assert_eq!(Ok(0), read(&[]));
        assert_eq!(Ok(2), read(&[0x20, 0x20]));
        // RFC 9204 Appendix B.2: a capacity of 220, then insertions.
        for bytes in [&[0x3f, 0xbd, 0x01][..], &[0xc0, 0x0f], &[0x4a], &[0x02], &[0x21], &[0x20, 0x00]] {
            assert_eq!(Err(Http3Error::QpackEncoderStream), read(bytes), "{bytes:x?}");
        }
    }

    #[test]
    fn a_decoder_may_only_cancel_streams() {
        let read = |pieces: &[&[u8]]| {
            let mut it = DecoderInstructions::default();
            pieces.iter().try_fold(0, |sum, bytes| Ok(sum + it.read(bytes)?))
        };
        // RFC 9204 Appendix B.4 has 0x48.
        assert_eq!(Ok(3), read(&[&[0x48], &[0x7f, 0x80], &[0x80, 0x01], &[0x40]]));
        let long: &[u8] = &[0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80];
        for bytes in [&[0x84][..], &[0x01], &[0x00], &[0x40, 0x80], long] {
            assert_eq!(Err(Http3Error::QpackDecoderStream), read(&[bytes]), "{bytes:x?}");
        }
    }
}
