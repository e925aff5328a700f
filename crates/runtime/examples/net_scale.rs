//! Many endpoints in one process, a lane for each pair, on loopback: `net_scale [ENDPOINTS ...]`, or 64, 128 and 256.
//!
//! The table has the time until all lanes are up from the moment that all endpoints listen, the memory of the process for each
//! endpoint and lane end, what the kernel keeps for sockets, and the time of an all-to-all of 1 KiB a pair. Each endpoint
//! has a thread, so with many of them what is measured is mostly who waits for a processor.

use lightloom_runtime::exchange::*;
use lightloom_runtime::net::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

const BYTES: usize = 1024;
const PATIENCE: Duration = Duration::from_secs(120);

/// Memory of this process that is in use \[B\].
fn resident() -> u64 {
    let said = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages = said.split_whitespace().nth(1).and_then(|it| it.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// What the kernel keeps in the buffers of all TCP sockets \[B\].
fn in_sockets() -> u64 {
    let said = std::fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let line = said.lines().find(|line| line.starts_with("TCP:")).unwrap_or_default();
    let pages = line.split_whitespace().last().and_then(|it| it.parse::<u64>().ok());
    pages.unwrap_or(0) * rustix::param::page_size() as u64
}

/// Allows as many files as are needed, if this process may.
fn allow_files(needed: u64) -> Result<(), String> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|it| it >= needed) {
        return Ok(());
    }
    let maximum = maximum.map(|it| it.max(needed));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum });
    let current = current.unwrap_or(u64::MAX);
    raised.map_err(|why| format!("{needed} files are needed; {current} are allowed: {why}"))
}

fn measure(endpoints: u16) -> Result<(), String> {
    let lanes = u64::from(endpoints) * u64::from(endpoints - 1) / 2;
    allow_files(2 * lanes + 3 * u64::from(endpoints) + 100)?;
    let before = (resident(), in_sockets());
    let up = Arc::new(AtomicUsize::new(0));
    let downs = Arc::new(AtomicUsize::new(0));
    let nic = |me: u16| NicConfig::at(([127, 1, (me >> 8) as u8, me as u8], 0).into());
    let listen = |me| Listening::bind(vec![nic(me)]).map_err(|why| why.to_string());
    let listening = (0..endpoints).map(listen).collect::<Result<Vec<_>, _>>()?;
    let at: Vec<SocketAddr> = listening.iter().map(|it| it.addresses()[0]).collect();
    let began = Instant::now();
    let mut nodes = Vec::new();
    for (me, listening) in (0..endpoints).zip(listening) {
        let peers = (0..endpoints).filter(|&peer| peer != me);
        let lane = |peer| LaneSpec { peer, nic: 0, peer_nic: 0, medium: Medium::Packet, way: 0 };
        let lanes = peers.map(|peer| (lane(peer), at[usize::from(peer)])).collect();
        let (up, downs) = (up.clone(), downs.clone());
        let count = move |event| {
            match event {
                Event::Up(_) => drop(up.fetch_add(1, Ordering::SeqCst)),
                Event::Down(..) => {
                    up.fetch_sub(1, Ordering::SeqCst);
                    downs.fetch_add(1, Ordering::SeqCst);
                }
                _ => {}
            };
        };
        let config = Config::new(Settings::new(1, me, 1, b"secret"), lanes);
        nodes.push(Node::open(config, listening, count).map_err(|why| why.to_string())?);
    }
    while up.load(Ordering::SeqCst) < 2 * lanes as usize {
        if began.elapsed() > PATIENCE {
            return Err(format!("{} of {} ends are up", up.load(Ordering::SeqCst), 2 * lanes));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let all_up = began.elapsed().as_secs_f64();
    let (memory, kernel) = (resident() - before.0, in_sockets().saturating_sub(before.1));
    let began = Instant::now();
    all_to_all(&nodes, endpoints)?;
    let moved = began.elapsed().as_secs_f64();
    let broke = downs.load(Ordering::SeqCst);
    let began = Instant::now();
    drop(nodes);
    println!(
        "{endpoints:9}  {lanes:6}  {all_up:8.2}  {broke:6}  {:12.0}  {:8.0}  {:10.0}  {moved:12.2}  {:7.2}",
        memory as f64 / f64::from(endpoints) / 1024.0,
        memory as f64 / lanes as f64 / 2.0,
        kernel as f64 / lanes as f64 / 2.0,
        began.elapsed().as_secs_f64(),
    );
    Ok(())
}

fn all_to_all(nodes: &[Node], endpoints: u16) -> Result<(), String> {
    let members: Vec<(Endpoint, u64)> = (0..endpoints).map(|it| (it, 1)).collect();
    for node in nodes {
        node.join(1, members.clone()).map_err(|why| why.to_string())?;
    }
    let (done, dones) = channel();
    for (me, node) in (0..endpoints).zip(nodes) {
        let peers: Vec<Endpoint> = (0..endpoints).filter(|&it| it != me).collect();
        let transfers: Vec<_> =
            peers.iter().map(|&peer| Transfer { peer, bytes: BYTES as u64 }).collect();
        let memory = Memory::owned(
            peers.iter().map(|&it| (it, vec![me as u8; BYTES])).collect(),
            peers.iter().map(|&it| (it, BYTES)).collect(),
        );
        let chunk = move |peer| {
            let lane = LaneId(u32::from(if peer > me { peer - 1 } else { peer }));
            Chunk { peer, lane, offset: 0, length: BYTES as u32 }
        };
        let plan = move |_: &Exchange| peers.into_iter().map(chunk).collect::<Vec<_>>();
        let done = done.clone();
        let tell = move |result| drop(done.send(result));
        node.post(1, 0, transfers.clone(), transfers, plan, memory, tell);
    }
    for _ in nodes {
        let result = dones.recv_timeout(PATIENCE).map_err(|_| "an all-to-all takes too long")?;
        let memory: Memory = result.map_err(|why: PostFailure| why.to_string())?;
        let right = |(peer, got): (Endpoint, Vec<u8>)| got == vec![peer as u8; BYTES];
        if !memory.into_received().into_iter().all(right) {
            return Err("wrong bytes".into());
        }
    }
    Ok(())
}

fn main() {
    let asked: Vec<u16> = std::env::args().skip(1).filter_map(|it| it.parse().ok()).collect();
    let asked = if asked.is_empty() { vec![64, 128, 256] } else { asked };
    println!(
        "endpoints   lanes  all up s   broke  KiB endpoint  B a lane end  kernel B  all-to-all s   drop s"
    );
    for endpoints in asked {
        if let Err(why) = measure(endpoints.max(2)) {
            println!("{endpoints:9}  {why}");
        }
    }
}
