//! A driver carried to a switch: the emulated one, ones that misbehave, and none at all.

use lightloom_control::drivers::tl1::{Login, Options, Secret, Tl1Driver, User};
use lightloom_control::ocs::Device;
use lightloom_control::{Answer, Driver, DriverEvent, Input, Order, Patch};
use lightloom_daemon::ocs::{Emulator, Settings};
use lightloom_daemon::wire::{Endpoint, SwitchHandle, Timing, spawn};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

/// Nothing here takes so long, unless it hangs.
pub(super) const LONG: Duration = Duration::from_secs(20);

fn settings(listen: SocketAddr) -> Settings {
    let delay = ReconfigurationDelay::Fixed { ps: Time::from_ms(5) };
    let device = Device { name: "polatis".into(), ports: 8, delay };
    let user = User { name: "root".into(), password: Secret::new("root"), slice: None };
    Settings { listen, ..Settings::new(device, vec![user]) }
}

fn tl1() -> Box<Tl1Driver> {
    let login = Login { user: "root".into(), password: Secret::new("root") };
    let ports: Vec<u16> = (1..=8).collect();
    Box::new(
        Tl1Driver::new(login, &ports, Options::default()).expect("a login that can be written"),
    )
}

fn tcp(address: SocketAddr) -> Endpoint {
    Endpoint::Tcp { address: address.to_string() }
}

pub(super) fn timing() -> Timing {
    let ms = Duration::from_millis;
    Timing {
        connect: ms(2000),
        write: ms(500),
        reconnect: ms(20),
        longest: ms(100),
        order: ms(60_000),
    }
}

pub(super) async fn next(handle: &mut SwitchHandle) -> Input {
    timeout(LONG, handle.next()).await.expect("an event in time").expect("the task is there")
}

async fn why(handle: &mut SwitchHandle) -> String {
    match next(handle).await {
        Input::SwitchDown { why, .. } => why,
        other => panic!("{other:?}, and it should be down"),
    }
}

async fn up(handle: &mut SwitchHandle) -> u16 {
    loop {
        match next(handle).await {
            Input::SwitchUp { ports, .. } => return ports,
            Input::SwitchDown { .. } => {}
            other => panic!("{other:?}, and nothing was asked"),
        }
    }
}

async fn state(handle: &mut SwitchHandle, id: u64) -> Vec<Patch> {
    handle.order(id, Order::Read, std::time::Instant::now());
    match next(handle).await {
        Input::Answer { id: of, answer: Answer::State(patches) } if of == id => patches,
        other => panic!("{other:?}, and it was to be read"),
    }
}

/// A switch at this address, until the handle is aborted.
async fn serve(listen: SocketAddr) -> (SocketAddr, tokio::task::JoinHandle<()>) {
    // The port of one that has just ended may take a moment.
    for _ in 0..100 {
        if let Ok(emulator) = Emulator::bind(settings(listen)).await {
            return (emulator.address().expect("it listens"), tokio::spawn(emulator.run()));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{listen} is not free");
}

/// A free port of loopback.
fn anywhere() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[tokio::test]
async fn orders_are_carried_and_a_switch_that_comes_back_is_found() {
    let (address, served) = serve(anywhere()).await;
    let mut handle = spawn(0, tcp(address), tl1(), timing());
    assert_eq!(up(&mut handle).await, 8);
    let circuit = Patch::pair(8, 2, 7).to_vec();
    handle.order(1, Order::Apply { end: vec![], set: circuit.clone() }, std::time::Instant::now());
    assert_eq!(next(&mut handle).await, Input::Answer { id: 1, answer: Answer::Done });
    assert_eq!(state(&mut handle, 2).await, circuit);
    served.abort();
    assert!(why(&mut handle).await.contains("closed"));
    // Nobody is there, and what is ordered meanwhile is never sent.
    assert!(why(&mut handle).await.starts_with("no connection: "));
    handle.order(3, Order::Apply { end: vec![], set: circuit }, std::time::Instant::now());
    let (_, _served) = serve(address).await;
    assert_eq!(up(&mut handle).await, 8);
    assert_eq!(state(&mut handle, 4).await, [], "another switch, and untouched");
}

#[tokio::test]
async fn a_stream_is_opened_anew_when_asked() {
    let (address, _served) = serve(anywhere()).await;
    let mut handle = spawn(0, tcp(address), tl1(), timing());
    up(&mut handle).await;
    handle.reconnect();
    // Once is enough for as long as nobody has seen the next stream.
    handle.reconnect();
    assert_eq!(why(&mut handle).await, "as asked");
    up(&mut handle).await;
    state(&mut handle, 1).await;
}

#[tokio::test]
async fn an_order_for_a_stream_that_broke_is_not_sent_over_the_next() {
    let (address, served) = serve(anywhere()).await;
    let mut handle = spawn(0, tcp(address), tl1(), timing());
    up(&mut handle).await;
    served.abort();
    let (_, _served) = serve(address).await;
    // By now the next stream is up; who gives the order has not heard of it.
    tokio::time::sleep(Duration::from_millis(400)).await;
    handle.order(
        1,
        Order::Apply { end: vec![], set: Patch::pair(8, 1, 2).to_vec() },
        std::time::Instant::now(),
    );
    assert!(why(&mut handle).await.contains("closed"));
    up(&mut handle).await;
    assert_eq!(state(&mut handle, 2).await, []);
}

#[tokio::test]
async fn nobody_there_is_told_again_and_again_and_ever_more_rarely() {
    let address = TcpListener::bind(anywhere()).await.expect("a free port").local_addr();
    // It is closed by now.
    let mut handle = spawn(0, tcp(address.expect("it listened")), tl1(), timing());
    let start = Instant::now();
    for _ in 0..6 {
        assert!(why(&mut handle).await.starts_with("no connection: "));
    }
    // 20, 40, 80, 100 and 100 ms between them.
    assert!(start.elapsed() >= Duration::from_millis(340), "{:?}", start.elapsed());
    let unknown = Endpoint::Tcp { address: "no such host:1".into() };
    assert!(why(&mut spawn(0, unknown, tl1(), timing())).await.starts_with("no connection"));
}

#[tokio::test]
async fn nonsense_ends_a_stream() {
    let listener = TcpListener::bind(anywhere()).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            // It may be gone before it has heard that.
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2p1\r\n;\r\n;").await;
        }
    });
    let mut handle = spawn(0, tcp(address), tl1(), timing());
    for _ in 0..3 {
        let why = why(&mut handle).await;
        assert!(why.contains("no header"), "{why}");
    }
}

/// Sends without end, and is up at once. What it is ordered it writes down.
#[derive(Clone, Default)]
struct Talker {
    endless: bool,
    heard: Arc<Mutex<Vec<u8>>>,
    events: Vec<DriverEvent>,
    out: Vec<Vec<u8>>,
}

impl Driver for Talker {
    fn connected(&mut self, _: Time) {
        self.events.push(DriverEvent::Up { device: "talker".into(), ports: 8 });
        self.out.push(vec![b'x'; if self.endless { 64 << 20 } else { 4 }]);
    }
    fn disconnected(&mut self, _: Time) {}
    fn order(&mut self, _: Time, _: u64, _: &Order) {}
    fn receive(&mut self, _: Time, bytes: &[u8]) {
        self.heard.lock().expect("nobody panics with it").extend_from_slice(bytes);
        self.events.push(DriverEvent::Answer { id: 0, answer: Answer::Done });
    }
    fn transmit(&mut self) -> Option<Vec<u8>> {
        self.out.pop()
    }
    fn event(&mut self) -> Option<DriverEvent> {
        self.events.pop()
    }
    fn next_timeout(&self) -> Option<Time> {
        None
    }
    fn timeout(&mut self, _: Time) {}
    fn claim(&mut self, _: Time) {
        self.heard.lock().expect("nobody panics with it").push(b'c');
    }
}

#[tokio::test]
async fn one_that_does_not_read_is_given_up() {
    let listener = TcpListener::bind(anywhere()).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    // It is accepted by the system, and by nobody else.
    let driver = Talker { endless: true, ..Talker::default() };
    let mut handle = spawn(0, tcp(address), Box::new(driver), timing());
    up(&mut handle).await;
    let start = Instant::now();
    assert!(why(&mut handle).await.starts_with("it does not read for"));
    assert!(start.elapsed() >= Duration::from_millis(500));
}

#[tokio::test]
async fn all_that_is_sent_arrives_while_it_is_read() {
    let listener = TcpListener::bind(anywhere()).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let driver = Talker { endless: true, ..Talker::default() };
    let _handle = spawn(0, tcp(address), Box::new(driver), timing());
    let (mut stream, _): (TcpStream, _) = listener.accept().await.expect("it calls");
    let (mut all, mut buffer) = (0, vec![0; 1 << 20]);
    while all < 64 << 20 {
        all += timeout(LONG, stream.read(&mut buffer)).await.expect("in time").expect("open");
    }
    assert_eq!(all, 64 << 20);
}

#[tokio::test]
async fn a_process_carries_and_says_why_it_does_not() {
    let driver = Talker::default();
    let heard = driver.heard.clone();
    let endpoint = Endpoint::Command { program: "cat".into(), arguments: vec![] };
    let mut handle = spawn(0, endpoint, Box::new(driver), timing());
    up(&mut handle).await;
    assert_eq!(next(&mut handle).await, Input::Answer { id: 0, answer: Answer::Done });
    assert_eq!(*heard.lock().expect("nobody panics with it"), b"xxxx", "and back");
    handle.reconnect();
    assert_eq!(why(&mut handle).await, "as asked");

    let complains = "echo ssh: connect to host ocs: Connection refused >&2; exit 255";
    let arguments = vec!["-c".into(), complains.into()];
    let endpoint = Endpoint::Command { program: "sh".into(), arguments };
    let mut handle = spawn(0, endpoint, tl1(), timing());
    assert_eq!(why(&mut handle).await, "ssh: connect to host ocs: Connection refused");

    let endpoint = Endpoint::Command { program: "/no/such".into(), arguments: vec![] };
    let why = why(&mut spawn(0, endpoint, tl1(), timing())).await;
    assert!(why.starts_with("no connection: /no/such: No such file"), "{why}");
}

#[tokio::test]
async fn a_process_ends_with_its_stream() {
    let marker = format!("{}", 40_000_000 + std::process::id());
    let endpoint = Endpoint::Command { program: "sleep".into(), arguments: vec![marker.clone()] };
    let driver = Talker::default();
    let mut handle = spawn(0, endpoint, Box::new(driver), timing());
    up(&mut handle).await;
    // A moment passes before the child is the program.
    until(|| runs(&marker)).await;
    drop(handle);
    until(|| !runs(&marker)).await;
}

async fn until(so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < LONG);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process has this argument.
fn runs(argument: &str) -> bool {
    let processes = std::fs::read_dir("/proc").expect("a system with processes in files");
    processes.flatten().any(|process| {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        line.starts_with("sleep\0") && line.split('\0').any(|word| word == argument)
    })
}

#[tokio::test]
async fn an_order_that_is_too_late_is_not_sent() {
    let (address, _served) = serve(anywhere()).await;
    let order = Duration::from_secs(2);
    let mut handle = spawn(0, tcp(address), tl1(), Timing { order, ..timing() });
    up(&mut handle).await;
    // As by a process that was stopped before it could hand it on.
    let given = std::time::Instant::now() - Duration::from_secs(3);
    handle.order(1, Order::Apply { end: vec![], set: Patch::pair(8, 1, 2).to_vec() }, given);
    assert_eq!(why(&mut handle).await, "an order was not answered in time");
    up(&mut handle).await;
    assert_eq!(state(&mut handle, 2).await, []);
}

#[tokio::test]
async fn an_answer_that_comes_too_late_is_not_heard() {
    let listener = TcpListener::bind(anywhere()).await.expect("a free port");
    let address = listener.local_addr().expect("it listens");
    let order = Duration::from_millis(100);
    let timing = Timing { order, ..timing() };
    let mut handle = spawn(0, tcp(address), Box::new(Talker::default()), timing);
    let (mut stream, _) = listener.accept().await.expect("it calls");
    up(&mut handle).await;
    // As one that was read before this process was stopped.
    handle.order(0, Order::Read, std::time::Instant::now());
    tokio::time::sleep(3 * order).await;
    stream.write_all(b"x").await.expect("it reads");
    assert_eq!(why(&mut handle).await, "an order was not answered in time");
}

#[tokio::test]
async fn a_claim_reaches_the_driver_with_a_stream_and_without() {
    let driver = Talker::default();
    let heard = driver.heard.clone();
    let claims =
        || heard.lock().expect("nobody panics with it").iter().filter(|&&b| b == b'c').count();
    let nobody = TcpListener::bind(anywhere()).await.expect("a free port");
    let address = nobody.local_addr().expect("it listens");
    drop(nobody);
    let mut handle = spawn(0, tcp(address), Box::new(driver), timing());
    handle.claim();
    until(|| claims() == 1).await;
    let _listener = TcpListener::bind(address).await.expect("still free");
    up(&mut handle).await;
    handle.claim();
    until(|| claims() == 2).await;
}
