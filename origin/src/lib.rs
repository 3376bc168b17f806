//! The clients towards origins: HTTP/1.1, HTTP/2, FastCGI, SCGI, uWSGI and CGI, the pool, deadlines, and the choice of an origin. Other crates
//! interpret the answers.
//!
//! An [`OriginPool`] has one worker's connections to one address; [`OriginPool::send`] starts an [`Exchange`], which is
//! one request and its response. A [`Group`] has the origins of a route: its exchanges move from a failing one to
//! another. All of it lives on one thread, inside a `LocalSet`; the workers share an origin's [`OutlierState`].

mod address;
mod application;
mod balance;
mod body_form;
mod codec;
mod connection;
mod deadline;
mod dial;
mod error;
mod exchange;
mod group;
mod health;
mod http1;
mod http2;
mod limits;
mod outlier_state;
mod pool;
mod process_slots;
mod program;
mod program_settings;
mod protocol;
mod replay_buffer;
mod request;
mod send_buffer;
mod socket;
mod stalled_exchanges;
mod tls;
mod wait_queue;

pub use address::OriginAddress;
pub use balance::{Balance, MOST_ORIGINS, hash};
pub use error::{Blame, OriginError, TimeLimit};
pub use exchange::{Exchange, ReasonTally};
pub use group::{AllEjected, BalanceKey, Group, GroupRules, ReservedPermit};
pub use health::{BodyTest, CheckResult, HealthCheck, check_once, watch};
pub use limits::OriginLimits;
pub use outlier_state::{Changes, OriginState, OutlierState};
pub use pool::{
    ErrorOutputReport, FailureReport, Measures, Membership, OriginPool, OriginSecurity, RequestBuffering,
    StateReport,
};
pub use program_settings::{ProcessBounds, ProgramPlace, ProgramSettings};
pub use protocol::{ApplicationProtocol, Protocol, protocol_name};
pub use request::{ApplicationRequest, OutgoingRequest, RequestLine, is_idempotent};
pub use stalled_exchanges::{ClientPart, PermitWanted, queued};
pub use tls::{OriginTls, TlsSettings, client_config};
pub use wait_queue::PermitWait;
