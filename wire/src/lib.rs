//! Bytes to types and back, without I/O: one module per format, one fuzz target per module.

pub mod binlog;
pub mod cgi_head;
pub mod envelope;
pub mod event_line;
pub mod fastcgi;
pub mod history;
pub mod htpasswd;
pub mod http1;
pub mod http2;
pub mod http3;
pub mod jwt;
pub mod memcached;
pub mod message;
pub mod mysql;
pub mod node_status;
pub mod passed_packets;
pub mod pgoutput;
pub mod proxy;
pub mod purge_entry;
pub mod ready_head;
pub mod scgi;
pub mod segment;
pub mod signed_url;
pub mod uwsgi;
