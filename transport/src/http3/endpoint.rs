//! The loop of one UDP socket: packets to their connections, timers, and packets of connections to the socket.

use super::connection::Http3Connection;
use super::endpoint_waker::EndpointWaker;
use super::handshake::QuicSettings;
use super::packet_handover::{self, PassedMessage};
use super::port::{Packet, PacketOwner, QuicPort, QuicSocket, SocketIds};
use super::port_check;
use crate::alternative::AlternativeService;
use crate::handler::Handler;
use crate::tls::{ServerTls, certificates, quic_suites};
use crate::worker::{QuicConnections, TransportWorker, turn_to_leave};
use larder_stdx::clock;
use larder_wire::http3::Http3Error;
use larder_wire::passed_packets::PassedPackets;
use quinn_proto::{DatagramEvent, Endpoint, EndpointConfig, Incoming, Transmit};
use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::poll_fn;
use std::io::IoSliceMut;
use std::os::fd::OwnedFd;
use std::pin::{Pin, pin};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Buffers of one receive, and bytes of each: the kernel joins packets of a connection.
const BUFFERS: usize = 8;
const BUFFER: usize = 64 * 1024;
/// Receives of one turn, before other tasks have theirs.
const TURNS: usize = 4;
/// Sends of one connection in one turn.
const MAX_SENDS: usize = 16;
/// Incomplete handshakes after which clients must prove their address, and after which they are refused.
const HALF_OPEN: usize = 64;
const MOST_HALF_OPEN: usize = 1024;
/// The interval of checks whether earlier ports have connections, where this one has none.
const EARLIER_PORTS_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// The loop of one socket.
struct SocketLoop<H> {
    socket: AsyncFd<Arc<OwnedFd>>,
    udp: UdpSocketState,
    port: Arc<QuicPort>,
    number: u16,
    forwarded: mpsc::Receiver<Packet>,
    /// The packets from a later port that reads the socket now.
    passed: Option<AsyncFd<Arc<OwnedFd>>>,
    endpoint: Endpoint,
    waker: Rc<EndpointWaker>,
    timers: BTreeSet<(Instant, usize)>,
    settings: Option<Rc<QuicSettings>>,
    tls: Arc<ServerTls>,
    worker: Rc<TransportWorker>,
    handler: Rc<H>,
    buffers: Vec<u8>,
    /// The output of one send, and one that the socket did not take.
    out: Vec<u8>,
    blocked: Option<(Transmit, Vec<u8>)>,
    is_leaving: bool,
    /// The announcement to clients over TCP.
    alternative: Rc<AlternativeService>,
}

/// Serves a UDP socket until the worker drains, or until `closed`; then its connections end in an orderly way. `name` is the
/// listener in the notation of the configuration.
pub async fn serve_until<H: Handler>(
    socket: QuicSocket,
    name: String,
    worker: Rc<TransportWorker>,
    handler: Rc<H>,
    closed: impl Future<Output = ()>,
) {
    let Some(mut it) = SocketLoop::new(socket, name, worker, handler) else { return };
    let worker = it.worker.clone();
    // Ends with this function.
    let mut checks = JoinSet::new();
    checks.spawn_local(port_check::announce(it.alternative.clone(), worker.clone()));
    let mut stopped = pin!(async {
        tokio::select! {
            () = worker.stopped() => {}
            () = closed => {}
        }
    });
    let mut sleep = pin!(tokio::time::sleep(Duration::ZERO));
    poll_fn(|context| {
        if !it.is_leaving && stopped.as_mut().poll(context).is_ready() {
            it.drain(context.waker());
        }
        it.turn(context, sleep.as_mut())
    })
    .await;
}

impl<H: Handler> SocketLoop<H> {
    fn new(socket: QuicSocket, name: String, worker: Rc<TransportWorker>, handler: Rc<H>) -> Option<Self> {
        let tls = worker.tls()?;
        let (port, number, at) = (socket.port.clone(), socket.number, socket.at);
        let udp = UdpSocketState::new(UdpSockRef::from(&*socket.socket)).ok();
        let mut config = EndpointConfig::new(Arc::new(port.reset_key.clone()));
        let ids = socket.ids();
        config.cid_generator(move || Box::new(SocketIds::of(ids)));
        // Without the drafts.
        config.supported_versions(vec![1]);
        let fd = crate::worker::watch(socket.socket.clone()).ok();
        let (Some(udp), Some(fd)) = (udp, fd) else {
            worker.counters.accept_errors.add(1);
            return None;
        };
        let endpoint = Endpoint::new(Arc::new(config), None, !udp.may_fragment(), None);
        let waker = Rc::new(EndpointWaker {
            queue: RefCell::default(),
            connections: RefCell::default(),
            waker: RefCell::default(),
            half_open: Cell::new(0),
            scratch: RefCell::default(),
            at,
            name: name.into(),
        });
        let idle: Weak<dyn QuicConnections> = {
            let waker: Rc<dyn QuicConnections> = waker.clone();
            Rc::downgrade(&waker)
        };
        let alternative = worker.new_alternative(at);
        alternative.begin();
        worker.quic.connections.borrow_mut().retain(|it| it.strong_count() > 0);
        worker.quic.connections.borrow_mut().push(idle);
        Some(Self {
            socket: fd,
            udp,
            port,
            number,
            forwarded: socket.forwarded,
            passed: None,
            endpoint,
            waker,
            timers: BTreeSet::new(),
            settings: None,
            tls,
            worker,
            handler,
            buffers: vec![0; BUFFERS * BUFFER],
            out: Vec::new(),
            blocked: None,
            is_leaving: false,
            alternative,
        })
    }

    /// No connection is accepted any more, and those that exist end.
    fn drain(&mut self, waker: &Waker) {
        self.is_leaving = true;
        // After an upgrade it answers in another process.
        if !self.worker.leaves_queues() {
            self.alternative.end();
        }
        self.check_for_later_port(waker);
        let (now, is_passed) = (clock::instant(), self.passed.is_some());
        let all: Vec<_> = self.waker.connections.borrow().values().cloned().collect();
        let (span, count) = (self.worker.leave_span(), all.len());
        for (number, it) in all.into_iter().enumerate() {
            it.leave(now + turn_to_leave(span, number, count));
            let is_lost = match self.worker.leaves_queues() {
                // A process reads the socket that does not pass packets on.
                true => !is_passed,
                false => it.client.borrow().is_none(),
            };
            if is_lost {
                it.close(now, Http3Error::None);
            }
            it.wake();
        }
    }

    /// Takes the end of a hand-over, if there is a new one: the socket is not read any more.
    fn check_for_later_port(&mut self, waker: &Waker) {
        if let Some(socket) = self.port.passed.take(self.number, waker) {
            self.passed = crate::worker::watch(Arc::new(socket)).ok();
        }
    }

    /// Whether a later port reads the socket, since a moment ago perhaps: new packets at it are for that one.
    fn has_later_port(&mut self) -> bool {
        if self.is_leaving {
            let waker = self.waker.waker.borrow().clone();
            waker.iter().for_each(|it| self.check_for_later_port(it));
        }
        self.passed.is_some()
    }

    fn turn(&mut self, context: &mut Context<'_>, mut sleep: Pin<&mut tokio::time::Sleep>) -> Poll<()> {
        self.waker.waker.replace(Some(context.waker().clone()));
        if self.is_leaving {
            self.check_for_later_port(context.waker());
        }
        let mut goes_on = true;
        for _ in 0..TURNS {
            goes_on = self.receive(context) | self.receive_forwarded(context) | self.receive_passed(context);
            self.expire(clock::instant());
            goes_on |= self.serve_queued(context);
            if !goes_on {
                break;
            }
        }
        let is_open = |it: &Rc<Http3Connection>| it.presence.borrow().is_some();
        let is_idle = self.is_leaving && !goes_on && !self.waker.connections.borrow().values().any(is_open);
        // No other loop reads the packets of connections from before.
        let is_needed = is_idle && self.passed.is_none() && self.port.has_open_earlier();
        if is_idle && !is_needed {
            // They refer to it.
            let _ = (self.waker.connections.take(), self.waker.queue.take());
            return Poll::Ready(());
        }
        let look = is_needed.then(|| clock::instant() + EARLIER_PORTS_CHECK_INTERVAL);
        let timer = self.timers.first().map(|it| it.0);
        if goes_on {
            context.waker().wake_by_ref();
        } else if let Some(at) = timer.into_iter().chain(look).min() {
            let left = at.saturating_duration_since(clock::instant());
            sleep.as_mut().reset(tokio::time::Instant::now() + left);
            if sleep.as_mut().poll(context).is_ready() {
                context.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Receives packets; whether there may be more.
    fn receive(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_leaving && (self.worker.leaves_queues() || self.passed.is_some()) {
            return false;
        }
        let mut guard = match self.socket.poll_read_ready(context) {
            Poll::Ready(Ok(guard)) => guard,
            _ => return false,
        };
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut buffers = std::mem::take(&mut self.buffers);
        let received = {
            let mut slices: Vec<_> = buffers.chunks_mut(BUFFER).map(IoSliceMut::new).collect();
            self.udp.recv(UdpSockRef::from(&**self.socket.get_ref()), &mut slices, &mut metas)
        };
        let count = match received {
            Ok(count) => count,
            Err(error) => {
                // The rest are reports of packets that were not delivered.
                if error.kind() == std::io::ErrorKind::WouldBlock {
                    guard.clear_ready();
                }
                drop(guard);
                self.buffers = buffers;
                // Only a poll that finds nothing registers the loop with the socket.
                return true;
            }
        };
        drop(guard);
        let now = clock::instant();
        clock::bytes_received();
        for (meta, buffer) in metas.iter().zip(buffers.chunks(BUFFER)).take(count) {
            let stride = u32::try_from(meta.stride.max(1)).unwrap_or(u32::MAX);
            let ecn = meta.ecn.map_or(0, |it| it as u8);
            let about = PassedPackets { from: meta.addr, to: meta.dst_ip, ecn, stride };
            self.packets(now, &about, &buffer[..meta.len]);
        }
        self.buffers = buffers;
        count > 0
    }

    /// Packets of one sender, each to the loop of its connection.
    fn packets(&mut self, now: Instant, about: &PassedPackets, mut packets: &[u8]) {
        let stride = usize::try_from(about.stride).unwrap_or(usize::MAX);
        while !packets.is_empty() {
            let first = &packets[..stride.min(packets.len())];
            let owner = self.port.owner(first);
            let mut length = first.len();
            match owner {
                Some(PacketOwner::Earlier(place, number)) => {
                    // Those behind it that belong there as well are in the same message: a socket takes few of these.
                    let alike = packets.chunks(stride).take_while(|it| self.port.owner(it) == owner);
                    length = alike.map(<[u8]>::len).sum();
                    let earlier = self.port.earlier(place);
                    let was_taken = earlier.is_some_and(|it| it.pass_on(number, about, &packets[..length]));
                    self.count(was_taken, length.div_ceil(stride));
                }
                Some(PacketOwner::Own(other)) if other != self.number => {
                    self.count(self.port.pass_on(other, Packet::of(about, first)), 1);
                }
                _ => self.packet(now, Packet::of(about, first)),
            }
            packets = &packets[length..];
        }
    }

    /// Counts packets for other loops.
    fn count(&self, were_taken: bool, packets: usize) {
        match were_taken {
            true => self.worker.counters.http3_forwarded.add(packets as u64),
            false => self.worker.counters.http3_lost.add(packets as u64),
        }
    }

    /// Takes packets from a later port; whether there may be more.
    fn receive_passed(&mut self, context: &mut Context<'_>) -> bool {
        let Some(passed) = self.passed.take() else { return false };
        let mut buffers = std::mem::take(&mut self.buffers);
        let goes_on = match passed.poll_read_ready(context) {
            Poll::Pending => false,
            Poll::Ready(guard) => {
                match packet_handover::receive(passed.get_ref(), &mut buffers) {
                    PassedMessage::Packets(about, packets) => {
                        self.packets(clock::instant(), &about, packets);
                    }
                    PassedMessage::Other => {}
                    // Only a poll that finds nothing registers the loop with the socket.
                    PassedMessage::None => guard.into_iter().for_each(|mut it| it.clear_ready()),
                    PassedMessage::Ended => {
                        self.lost_packets();
                        guard.into_iter().for_each(|mut it| it.clear_ready());
                    }
                }
                true
            }
        };
        self.buffers = buffers;
        self.passed = Some(passed);
        goes_on
    }

    /// The port that read the socket has ended without notice, with its process: no packet arrives any more.
    fn lost_packets(&self) {
        let all: Vec<_> = self.waker.connections.borrow().values().cloned().collect();
        all.iter().for_each(|it| it.close(clock::instant(), Http3Error::None));
    }

    /// Takes packets that arrived at other workers.
    fn receive_forwarded(&mut self, context: &mut Context<'_>) -> bool {
        for _ in 0..BUFFERS {
            match self.forwarded.poll_recv(context) {
                Poll::Ready(Some(packet)) => self.packet(clock::instant(), packet),
                _ => return false,
            }
        }
        true
    }

    fn packet(&mut self, now: Instant, packet: Packet) {
        self.refresh_settings();
        let mut out = Vec::new();
        let Packet { from, to, ecn, bytes } = packet;
        match self.endpoint.handle(now, from, to, ecn, bytes, &mut out) {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let connection = self.waker.connections.borrow().get(&handle.0).cloned();
                if let Some(it) = connection {
                    // That of a packet without a connection.
                    quic_suites::last();
                    it.quic.borrow_mut().handle_event(event);
                    note_handshake(&it);
                    it.wake();
                }
            }
            // The client repeats it.
            Some(DatagramEvent::NewConnection(incoming)) if self.has_later_port() => {
                self.endpoint.ignore(incoming);
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(now, incoming, out),
            Some(DatagramEvent::Response(_)) if self.has_later_port() => {}
            Some(DatagramEvent::Response(transmit)) => self.send_alone(&transmit, &out),
        }
    }

    /// Takes over changed certificates and limits, for new connections.
    fn refresh_settings(&mut self) {
        let before = self.settings.take();
        let was = before.as_ref().map(Rc::as_ptr);
        self.settings = QuicSettings::of(before, &self.tls, &self.worker.limits(), &self.port);
        if self.settings.as_ref().map(Rc::as_ptr) != was {
            let config = self.settings.as_ref().map(|it| it.config.clone());
            self.endpoint.set_server_config(config);
        }
    }

    fn accept(&mut self, now: Instant, incoming: Incoming, mut out: Vec<u8>) {
        let (worker, settings) = (self.worker.clone(), self.settings.clone());
        let half_open = self.waker.half_open.get();
        let permit = worker.acquire_permit();
        if (half_open >= HALF_OPEN || permit.is_none()) && !incoming.remote_address_validated() {
            worker.counters.http3_retries.add(1);
            match self.endpoint.retry(incoming, &mut out) {
                Ok(transmit) => self.send_alone(&transmit, &out),
                Err(refused) => self.endpoint.ignore(refused.into_incoming()),
            }
            return;
        }
        let permit = permit.or_else(|| {
            worker.close_idle(1);
            worker.acquire_permit()
        });
        let (Some(permit), Some(settings), false, true) =
            (permit, settings, self.is_leaving, half_open < MOST_HALF_OPEN)
        else {
            worker.counters.http3_refused.add(1);
            let transmit = self.endpoint.refuse(incoming, &mut out);
            return self.send_alone(&transmit, &out);
        };
        let presence = worker.enter(permit);
        match self.endpoint.accept(incoming, now, &mut out, Some(settings.config.clone())) {
            Ok((handle, quic)) => {
                let rules = settings.rules.clone();
                let ours = (worker, self.waker.clone());
                let it = Http3Connection::new(handle, quic, presence, rules, ours, now);
                self.waker.half_open.set(half_open + 1);
                self.waker.connections.borrow_mut().insert(handle.0, it.clone());
                note_handshake(&it);
                it.wake();
            }
            Err(refused) => {
                worker.counters.tls_failed_malformed.add(1);
                if let Some(transmit) = refused.response {
                    self.send_alone(&transmit, &out);
                }
            }
        }
    }

    fn expire(&mut self, now: Instant) {
        while let Some((_, handle)) = self.timers.first().copied().filter(|it| it.0 <= now) {
            self.timers.pop_first();
            let connection = self.waker.connections.borrow().get(&handle).cloned();
            if let Some(it) = connection {
                it.timer.set(None);
                it.quic.borrow_mut().handle_timeout(now);
                it.expire(now);
                it.wake();
            }
        }
    }

    /// Gives the connections in line their turn; whether there are more.
    fn serve_queued(&mut self, context: &mut Context<'_>) -> bool {
        if !self.unblock(context) {
            return false;
        }
        let count = self.waker.queue.borrow().len();
        for _ in 0..count {
            let connection = self.waker.queue.borrow_mut().pop_front();
            let Some(it) = connection else { return false };
            it.is_queued.set(false);
            let now = clock::instant();
            it.turn(now, &self.handler);
            let goes_on = self.transmit(&it, now);
            self.endpoint_events(&it);
            self.set_timer(&it);
            if !goes_on {
                it.wake();
            }
            if self.blocked.is_some() {
                return self.unblock(context);
            }
        }
        !self.waker.queue.borrow().is_empty()
    }

    /// Sends the packets of a connection; `false` if there are more.
    fn transmit(&mut self, it: &Http3Connection, now: Instant) -> bool {
        for _ in 0..MAX_SENDS {
            let mut out = std::mem::take(&mut self.out);
            out.clear();
            let transmit = it.quic.borrow_mut().poll_transmit(now, self.udp.max_gso_segments(), &mut out);
            let Some(transmit) = transmit else {
                self.out = out;
                return true;
            };
            match self.send(&transmit, &out) {
                Ok(()) => self.out = out,
                Err(()) => {
                    self.blocked = Some((transmit, out));
                    return false;
                }
            }
        }
        false
    }

    fn endpoint_events(&mut self, it: &Rc<Http3Connection>) {
        loop {
            let event = it.quic.borrow_mut().poll_endpoint_events();
            let Some(event) = event else { return };
            let is_over = event.is_drained();
            if let Some(event) = self.endpoint.handle_event(it.handle, event) {
                it.quic.borrow_mut().handle_event(event);
                it.wake();
            }
            if is_over {
                it.ended();
                if let Some(at) = it.timer.take() {
                    self.timers.remove(&(at, it.handle.0));
                }
                self.waker.connections.borrow_mut().remove(&it.handle.0);
            }
        }
    }

    fn set_timer(&mut self, it: &Http3Connection) {
        let own = it.deadline();
        let quic = it.quic.borrow_mut().poll_timeout();
        let next = [own, quic].into_iter().flatten().min();
        let next = next.filter(|_| self.waker.connections.borrow().contains_key(&it.handle.0));
        let before = it.timer.replace(next);
        if before != next {
            before.map(|at| self.timers.remove(&(at, it.handle.0)));
            next.map(|at| self.timers.insert((at, it.handle.0)));
        }
    }

    /// Sends the packet that the socket did not take; whether it has.
    fn unblock(&mut self, context: &mut Context<'_>) -> bool {
        while let Some((transmit, bytes)) = self.blocked.take() {
            match self.socket.poll_write_ready(context) {
                Poll::Pending => {
                    self.blocked = Some((transmit, bytes));
                    return false;
                }
                Poll::Ready(Err(_)) => return true,
                Poll::Ready(Ok(mut guard)) => {
                    let sent = send(&self.udp, self.socket.get_ref(), &transmit, &bytes);
                    if sent.is_err() {
                        guard.clear_ready();
                        self.blocked = Some((transmit, bytes));
                    }
                }
            }
        }
        true
    }

    fn send(&self, transmit: &Transmit, bytes: &[u8]) -> Result<(), ()> {
        send(&self.udp, self.socket.get_ref(), transmit, bytes)
    }

    /// Sends a packet of no connection; it may be lost.
    fn send_alone(&self, transmit: &Transmit, bytes: &[u8]) {
        let _ = self.send(transmit, bytes);
    }
}

/// Sends packets; an error means that the socket takes none now. After other errors the packets are lost.
fn send(udp: &UdpSocketState, socket: &OwnedFd, transmit: &Transmit, bytes: &[u8]) -> Result<(), ()> {
    let packets = quinn_udp::Transmit {
        destination: transmit.destination,
        ecn: transmit.ecn.and_then(|it| quinn_udp::EcnCodepoint::from_bits(it as u8)),
        contents: &bytes[..transmit.size],
        segment_size: transmit.segment_size,
        src_ip: transmit.src_ip,
    };
    match udp.send(UdpSockRef::from(socket), &packets) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Err(()),
        _ => Ok(()),
    }
}

/// Keeps the name that a certificate was selected for, and the cipher suite, if a handshake just did.
fn note_handshake(it: &Http3Connection) {
    if let Some(asked) = certificates::hello_names() {
        it.hello_names.replace(asked);
    }
    if let Some(suite) = quic_suites::last() {
        it.cipher.set(suite);
    }
}
