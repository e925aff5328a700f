//! What nodes cost for each byte, against blocking TCP with a thread for each lane:
//! `net_cost [GIGABYTES [ROUNDS [CHUNK_KIB [SEND_BUFFER_KIB [SENDER RECEIVER]]]]]`.
//!
//! A sender and a receiver are processes of their own, joined by 1 and (with as many addresses) by 3 lanes over 127.0.0.1 to 127.0.0.3, or, if
//! SENDER and RECEIVER are named, each in its network namespace: `NAMESPACE=ADDRESS,ADDRESS,ADDRESS`. Each
//! round measures all kinds, one after the other; the CPU time of a process is counted from its first byte to its last.
//! The table has medians, and the ratios of medians to those of plain TCP: less than 1 is cheaper.
//!
//! On loopback the kernel counts its work for one end as the other's: whoever writes also delivers, and
//! whoever acknowledges also sends what had to wait for that. So sums of both ends are what tells. `bounded` is plain TCP
//! with nodes' bound for what is not sent: it moves work to the sender as nodes do. `busy` is what all cores of the
//! machine did meanwhile, which has what the kernel counts as nobody's; it tells only if nothing else runs.

use lightloom_runtime::exchange::*;
use lightloom_runtime::net::*;
use rustix::time::{ClockId, clock_gettime};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::Instant;

/// One operation, and what the threads of plain TCP go through again and again \[B\].
const OPERATION: usize = 48 << 20;
/// Plain TCP writes and reads so much at once \[B\].
const BLOCK: usize = 1 << 20;

/// Nodes; plain TCP; plain TCP that bounds what is not sent as nodes do.
const KINDS: [&str; 3] = ["exchange", "plain", "bounded"];

/// CPU time of this process \[s\].
fn cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn settings(me: Endpoint, chunk: u32) -> Settings {
    Settings { chunk, ..Settings::new(1, me, 1, b"secret") }
}

fn spec(me: Endpoint, nic: u16) -> LaneSpec {
    LaneSpec { peer: 1 - me, nic, peer_nic: nic, medium: Medium::Packet, way: 0 }
}

/// CPU time of all cores, of whatever kind but idle \[s\].
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/stat").expect("Linux");
    let ticks: Vec<f64> =
        stat.split_whitespace().skip(1).take(8).map_while(|it| it.parse().ok()).collect();
    (ticks.iter().sum::<f64>() - ticks[3] - ticks[4]) / 100.0
}

/// Where a process runs, and the addresses of its NICs.
#[derive(Clone, Default)]
struct Place {
    namespace: String,
    nics: Vec<std::net::IpAddr>,
}

impl Place {
    fn of(text: &str) -> Place {
        let (namespace, nics) = text.split_once('=').expect("NAMESPACE=ADDRESS,..");
        let nics = nics.split(',').map(|it| it.parse().expect("an address")).collect();
        Place { namespace: namespace.into(), nics }
    }

    /// Loopback.
    fn here() -> Place {
        Place { nics: (1..4).map(|it| [127, 0, 0, it].into()).collect(), ..Place::default() }
    }

    fn command(&self) -> Command {
        let this = std::env::current_exe().expect("Linux");
        if self.namespace.is_empty() {
            return Command::new(this);
        }
        let mut command = Command::new("nsenter");
        command.arg(format!("--net=/run/netns/{}", self.namespace)).arg(this);
        command
    }

    fn words(&self) -> String {
        self.nics.iter().map(|it| it.to_string()).collect::<Vec<_>>().join(",")
    }
}

/// Runs operations, two at a time, over the lanes.
fn operate(me: Endpoint, node: &Node, operations: u64, lanes: u32, chunk: u32) -> (f64, f64) {
    node.join(1, vec![(0, 1), (1, 1)]).expect("a new group");
    let up = move |it: &Exchange| (0..lanes).all(|lane| it.is_usable(LaneId(lane)));
    while node.ask(up) != Some(true) {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let (done, dones) = channel();
    let post = |number, memory| {
        let transfer = vec![Transfer { peer: 1 - me, bytes: OPERATION as u64 }];
        let (sends, receives) = if me == 0 { (transfer, vec![]) } else { (vec![], transfer) };
        let plan = move |_: &Exchange| {
            let lanes: Vec<_> = (0..lanes).map(LaneId).collect();
            let bytes = if me == 0 { OPERATION as u64 } else { 0 };
            striped(1 - me, bytes, &lanes, chunk)
        };
        let done = done.clone();
        let tell = move |result| drop(done.send(result));
        node.post(1, number, sends, receives, plan, memory, tell);
    };
    let memory = || match me {
        0 => Memory::owned(vec![(1, vec![7; OPERATION])], vec![]),
        _ => Memory::owned(vec![], vec![(0, OPERATION)]),
    };
    let two = [memory(), memory()];
    let (began, before) = (Instant::now(), cpu());
    (0..).zip(two).for_each(|(number, memory)| post(number, memory));
    for number in 2..operations + 2 {
        let memory = dones.recv().expect("it runs").expect("nothing fails");
        if number < operations {
            post(number, memory);
        }
    }
    (cpu() - before, began.elapsed().as_secs_f64())
}

/// What a child is told.
struct Task {
    me: Endpoint,
    lanes: u16,
    operations: u64,
    chunk: u32,
    send_buffer: u32,
    nics: Vec<SocketAddr>,
    at: Vec<SocketAddr>,
}

fn exchange(task: &Task) -> (f64, f64) {
    let &Task { me, lanes, operations, chunk, send_buffer, ref at, .. } = task;
    let nics = task.nics[..lanes.into()].iter().map(|it| NicConfig::at(*it)).collect();
    let transport = Tcp { send_buffer, ..Tcp::default() };
    let listening = Listening::bind_over(transport, nics).expect("loopback");
    if me == 1 {
        say(listening.addresses());
    }
    let peer = |it: u16| at.get(usize::from(it)).copied().unwrap_or(task.nics[usize::from(it)]);
    let lanes_here = (0..lanes).map(|it| (spec(me, it), peer(it))).collect();
    let node = Node::open(Config::new(settings(me, chunk), lanes_here), listening, |_| {});
    operate(me, &node.expect("it fits"), operations, lanes.into(), chunk)
}

/// A thread for each lane writes or reads its part, as a blocking socket does.
fn plain(task: &Task, bounded: bool) -> (f64, f64) {
    let &Task { me, lanes, operations, send_buffer, ref at, .. } = task;
    let part = OPERATION / usize::from(lanes);
    let streams: Vec<TcpStream> = if me == 0 {
        at.iter().zip(&task.nics).map(|(at, nic)| dial(*at, *nic)).collect()
    } else {
        let nics = &task.nics[..lanes.into()];
        let listeners: Vec<_> =
            nics.iter().map(|nic| TcpListener::bind(nic).expect("it is there")).collect();
        let at: Vec<_> = listeners.iter().map(|it| it.local_addr().expect("bound")).collect();
        say(&at);
        listeners.iter().map(|it| it.accept().expect("somebody dials").0).collect()
    };
    for stream in streams.iter().filter(|_| bounded) {
        socket2::SockRef::from(stream).set_tcp_notsent_lowat(send_buffer).expect("TCP");
    }
    let mut memory: Vec<_> = streams.iter().map(|_| [vec![7; part], vec![7; part]]).collect();
    let (began, before) = (Instant::now(), cpu());
    std::thread::scope(|scope| {
        for (mut stream, memory) in streams.into_iter().zip(&mut memory) {
            scope.spawn(move || {
                stream.set_nodelay(true).expect("TCP");
                for number in 0..operations {
                    for block in memory[number as usize % 2].chunks_mut(BLOCK) {
                        match me {
                            0 => stream.write_all(block).expect("it is read"),
                            _ => stream.read_exact(block).expect("it is written"),
                        }
                    }
                }
            });
        }
    });
    (cpu() - before, began.elapsed().as_secs_f64())
}

/// A connection that leaves by a NIC.
fn dial(to: SocketAddr, nic: SocketAddr) -> TcpStream {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::for_address(to), Type::STREAM, None).expect("TCP");
    socket.bind(&nic.into()).and_then(|()| socket.connect(&to.into())).expect("it listens");
    socket.into()
}

fn say(addresses: &[SocketAddr]) {
    let said: Vec<_> = addresses.iter().map(SocketAddr::to_string).collect();
    println!("{}", said.join(" "));
}

fn spawn(place: &Place, args: &[String]) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = place.command().args(args).stdout(Stdio::piped()).spawn().expect("a process");
    let said = BufReader::new(child.stdout.take().expect("piped"));
    (child, said)
}

/// CPU seconds of sender and receiver, seconds, and CPU seconds of the machine.
fn measure(
    kind: &str,
    lanes: u16,
    operations: u64,
    sizes: [u32; 2],
    places: &[Place; 2],
) -> [f64; 4] {
    let args = |me: u16, at: &str| {
        let args = [kind, &me.to_string(), &lanes.to_string(), &operations.to_string()];
        let args = args.iter().map(|it| it.to_string()).chain(sizes.map(|it| it.to_string()));
        let args = args.chain([places[usize::from(me)].words()]);
        args.chain(at.split_whitespace().map(String::from)).collect::<Vec<_>>()
    };
    let line = |from: &mut BufReader<std::process::ChildStdout>| {
        let mut line = String::new();
        from.read_line(&mut line).expect("it says something");
        line
    };
    let numbers = |line: String| -> Vec<f64> {
        line.split_whitespace().map(|it| it.parse().expect("a number")).collect()
    };
    let (mut receiver, mut there) = spawn(&places[1], &args(1, ""));
    let before = busy();
    let (mut sender, mut here) = spawn(&places[0], &args(0, &line(&mut there)));
    let (sent, received) = (numbers(line(&mut here)), numbers(line(&mut there)));
    let all = busy() - before;
    sender.wait().and_then(|_| receiver.wait()).expect("they end");
    [sent[0], received[0], received[1], all]
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, or| args.get(at).and_then(|it| it.parse().ok()).unwrap_or(or);
    if let Some(kind @ ("exchange" | "plain" | "bounded")) = args.first().map(String::as_str) {
        let nics = args[6].split(',').map(|it| it.parse().expect("an address"));
        let nics = nics.map(|it: std::net::IpAddr| SocketAddr::new(it, 0)).collect();
        let at = args[7..].iter().map(|it| it.parse().expect("an address")).collect();
        let task = Task {
            me: number(1, 0) as u16,
            lanes: number(2, 1) as u16,
            operations: number(3, 1),
            chunk: number(4, 1) as u32,
            send_buffer: number(5, 1) as u32,
            nics,
            at,
        };
        let (cpu, wall) = match kind {
            "exchange" => exchange(&task),
            kind => plain(&task, kind == "bounded"),
        };
        println!("{cpu} {wall}");
        return;
    }
    let (gigabytes, rounds, chunk) = (number(0, 4), number(1, 5), number(2, 1024) as u32 * 1024);
    let kept = u64::from(Tcp::default().send_buffer);
    let sizes = [chunk, number(3, kept / 1024) as u32 * 1024];
    let place = |at: usize| args.get(at).map_or_else(Place::here, |text| Place::of(text));
    let places = [place(4), place(5)];
    let operations = (gigabytes * 1_000_000_000 / OPERATION as u64).max(2);
    let all = (operations * OPERATION as u64) as f64 / 1e9;
    println!(
        "CPU seconds a GB, medians of {rounds} rounds of {all:.1} GB, chunks of {} B",
        sizes[0]
    );
    println!("lanes  kind      sender  receiver  both   busy   GB/s");
    let nics = places.iter().map(|it| it.nics.len()).min().unwrap_or(0);
    for lanes in [1_u16, 3].into_iter().filter(|it| usize::from(*it) <= nics) {
        let mut rows: [Vec<[f64; 4]>; 3] = Default::default();
        for _ in 0..rounds {
            for (rows, kind) in rows.iter_mut().zip(KINDS) {
                rows.push(measure(kind, lanes, operations, sizes, &places));
            }
        }
        let of = |rows: &[[f64; 4]], value: fn(&[f64; 4]) -> f64| {
            median(rows.iter().map(value).collect()) / all
        };
        let [ours, plain, bounded] = rows.each_ref().map(|rows| {
            [
                of(rows, |it| it[0]),
                of(rows, |it| it[1]),
                of(rows, |it| it[0] + it[1]),
                of(rows, |it| it[3]),
                of(rows, |it| it[2]),
            ]
        });
        for (kind, it) in KINDS.into_iter().zip([ours, plain, bounded]) {
            let [sender, receiver, both, busy, wall] = it;
            println!(
                "{lanes:5}  {kind:8}  {sender:6.3}  {receiver:8.3}  {both:5.3}  {busy:5.3}  {:5.2}",
                1.0 / wall
            );
        }
        let ratio = |at: usize| ours[at] / plain[at];
        let [sender, receiver, both, busy] = [0, 1, 2, 3].map(ratio);
        println!("{lanes:5}  ratio     {sender:6.2}  {receiver:8.2}  {both:5.2}  {busy:5.2}");
    }
}
