//! Whether a UDP port answers: a packet from this machine, now and then. A rule of this machine's firewall that drops UDP is seen by it,
//! a firewall on the way of clients is not.

use crate::alternative::AlternativeService;
use crate::worker::TransportWorker;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::time::{sleep, timeout};

/// The time between an answer and the next packet.
const INTERVAL: Duration = Duration::from_secs(5);
/// The time that an answer may take.
const WAIT: Duration = Duration::from_secs(1);
/// Packets without an answer after which the port is silent.
const UNANSWERED: u32 = 3;
/// The length that a server requires of a packet with an unknown version (RFC 9000 section 6.1).
const LENGTH: usize = 1200;
/// A version of no protocol, which makes a server name its own ones (RFC 9000 section 15).
const VERSION: [u8; 4] = [0x1a, 0x2a, 0x3a, 0x4a];
/// Bytes of each connection ID in the packet: not those of connections.
const ID: usize = 8;

/// Announces the service while its port answers.
pub(super) async fn announce(alternative: Rc<AlternativeService>, worker: Rc<TransportWorker>) {
    let mut id = [0; ID];
    // Without random numbers, late answers to other processes count too.
    let _ = SystemRandom::new().fill(&mut id);
    let packet = packet(id);
    let mut unanswered = 0;
    loop {
        match answers(reachable(alternative.at), &packet, id).await {
            true => {
                unanswered = 0;
                alternative.answers(true);
                sleep(INTERVAL).await;
            }
            false => {
                unanswered += 1;
                worker.counters.http3_unanswered.add(1);
                if unanswered >= UNANSWERED {
                    alternative.answers(false);
                }
            }
        }
    }
}

/// The address of a port for a client on this machine.
fn reachable(mut at: SocketAddr) -> SocketAddr {
    // `[::]` also receives IPv4, and the loopback interface may have no IPv6 address.
    if at.ip().is_unspecified() {
        at.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    at
}

/// Sends the packet; whether the port answers in time. A machine that has no socket or no way for it says nothing about the port.
async fn answers(at: SocketAddr, packet: &[u8], id: [u8; ID]) -> bool {
    let own: IpAddr = if at.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let connected = async {
        let socket = UdpSocket::bind((own, 0)).await?;
        socket.connect(at).await?;
        std::io::Result::Ok(socket)
    };
    let Ok(socket) = connected.await else { return true };
    let answered = async {
        let mut buffer = [0; LENGTH];
        socket.send(packet).await.ok()?;
        loop {
            // An error is the report of a packet that was not delivered.
            let length = socket.recv(&mut buffer).await.ok()?;
            if is_answer(&buffer[..length], id) {
                return Some(());
            }
        }
    };
    match timeout(WAIT, answered).await {
        Ok(Some(())) => true,
        Ok(None) => {
            sleep(WAIT).await;
            false
        }
        Err(_) => false,
    }
}

/// A packet of the unknown version, with `id` as both connection IDs (RFC 8999 section 5.1).
fn packet(id: [u8; ID]) -> Vec<u8> {
    let length = [8];
    let mut packet = [&[0xc0][..], &VERSION, &length, &id, &length, &id].concat();
    packet.resize(LENGTH, 0);
    packet
}

/// Whether a packet is Version Negotiation for these connection IDs (RFC 8999 section 6).
fn is_answer(packet: &[u8], id: [u8; ID]) -> bool {
    let (length, none) = ([8], [0; 4]);
    let rest = [&none[..], &length, &id, &length, &id].concat();
    packet.first().is_some_and(|it| it & 0x80 != 0) && packet[1..].starts_with(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_names_the_ids_of_its_packet() {
        let id = [1, 2, 3, 4, 5, 6, 7, 8];
        let answer = [&[0xff, 0, 0, 0, 0, 8][..], &id, &[8], &id, &[0, 0, 0, 1]].concat();
        assert!(is_answer(&answer, id));
        assert!(!is_answer(&answer, [0; ID]));
        for length in 0..23 {
            assert!(!is_answer(&answer[..length], id), "{length}");
        }
        assert!(!is_answer(&packet(id), id), "an echo of the packet is no answer");
    }

    #[test]
    fn a_port_of_every_address_is_checked_at_loopback() {
        for (at, expect) in [
            ("0.0.0.0:443", "127.0.0.1:443"),
            ("[::]:443", "127.0.0.1:443"),
            ("[2001:db8::1]:443", "[2001:db8::1]:443"),
            ("192.0.2.1:443", "192.0.2.1:443"),
        ] {
            assert_eq!(expect, reachable(at.parse().unwrap()).to_string());
        }
    }
}
