//! Bodies of requests that are complete before the origin is asked. Reading them is in `request`, sending them in `upload`.

use bytes::Bytes;
use larder_store::SpooledBody;
use larder_wire::message::Framing;

/// Bytes of a body that stay in memory.
pub(crate) const IN_MEMORY: u64 = 64 * 1024;

/// Which bodies of requests are read before the origin is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BufferedBodies {
    /// None.
    #[default]
    None,
    /// Those of unknown length: the protocol of the origin announces the length.
    Unsized,
    /// All; those of known length only while they fit into the spool: clients that fill it close the route to no other client.
    All,
    /// All, since nothing but the whole body can be used.
    Always,
}

impl BufferedBodies {
    /// Whether a body with this framing is one of them; `fits` says of a length whether the spool has room for it.
    pub(crate) fn has(self, framing: Framing, fits: impl FnOnce(u64) -> bool) -> bool {
        match self {
            BufferedBodies::None => false,
            BufferedBodies::Unsized => matches!(framing, Framing::Chunked | Framing::Close),
            BufferedBodies::All => match framing {
                Framing::Empty => false,
                Framing::Length(length) => length <= IN_MEMORY || fits(length),
                Framing::Chunked | Framing::Close => true,
            },
            BufferedBodies::Always => framing != Framing::Empty,
        }
    }
}

/// A body that was read to its end.
pub(crate) enum WholeBody {
    Memory(Bytes),
    Spooled(SpooledBody),
}

impl WholeBody {
    pub(crate) fn framing(&self) -> Framing {
        Framing::Length(match self {
            WholeBody::Memory(bytes) => bytes.len() as u64,
            WholeBody::Spooled(body) => body.length(),
        })
    }
}
