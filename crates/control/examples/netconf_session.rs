//! A session with a switch that speaks NETCONF, over the standard input and output of a command.
//!
//! ```sh
//! cargo run -p lightloom-control --example netconf_session -- --ports 384 --slice 1-64 \
//!     ssh -s admin@switch netconf
//! ```
//!
//! Orders are read from the standard input, one a line: `read`, or `apply end 1,390 set 1,391 2,390`
//! (each pair an ingress and an egress). What the switch answers is printed, a line each, with the time
//! since the order \[ms\].

use lightloom_control::drivers::netconf::{NetconfDriver, NetconfSettings};
use lightloom_control::{Answer, Driver, DriverEvent, Order, Patch};
use lightloom_units::Time;
use std::error::Error;
use std::io::{self, BufRead, Read, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "netconf_session --ports <n> --slice <first>-<last> <command> [<argument>...]";

enum Input {
    Switch(Vec<u8>),
    Closed,
    Line(String),
    End,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let exclusive = arguments.first().is_some_and(|first| first == "--lock");
    let [ports, count, slice, range, command @ ..] = &arguments[usize::from(exclusive)..] else {
        return Err(USAGE.into());
    };
    let (Some((first, last)), [program, rest @ ..]) = (range.split_once('-'), command) else {
        return Err(USAGE.into());
    };
    if ports != "--ports" || slice != "--slice" {
        return Err(USAGE.into());
    }
    let slice = (first.parse()?..=last.parse()?).collect();
    let settings = NetconfSettings::new(count.parse()?, slice);
    let mut driver = NetconfDriver::new(NetconfSettings { exclusive, ..settings });

    let piped = || Stdio::piped();
    let mut child = Command::new(program).args(rest).stdin(piped()).stdout(piped()).spawn()?;
    let mut to = child.stdin.take().expect("piped");
    let mut from = child.stdout.take().expect("piped");
    let (tell, told) = mpsc::channel();
    let lines = tell.clone();
    thread::spawn(move || {
        let mut bytes = [0; 16384];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let _ = tell.send(Input::Switch(bytes[..count].to_vec()));
        }
        let _ = tell.send(Input::Closed);
    });

    let start = Instant::now();
    let now = || Time::from_ns(start.elapsed().as_nanos() as u64);
    let (mut asked, mut answered, mut ended) = (Vec::<Instant>::new(), 0, false);
    let mut lines = Some(lines);
    driver.connected(now());
    loop {
        send(&mut driver, &mut to)?;
        while let Some(event) = driver.event() {
            match event {
                DriverEvent::Up { device, ports } => {
                    println!("up {ports} {device}");
                    // Orders are for a switch that is up.
                    let lines = lines.take().expect("a switch comes up once a stream");
                    thread::spawn(move || {
                        for line in io::stdin().lock().lines().map_while(Result::ok) {
                            let _ = lines.send(Input::Line(line));
                        }
                        let _ = lines.send(Input::End);
                    });
                }
                DriverEvent::Down(why) => {
                    println!("down {why}");
                    return Ok(());
                }
                DriverEvent::Term(term) => println!("term {term}"),
                DriverEvent::Fenced(why) => println!("fenced {why}"),
                DriverEvent::Notice(words) => println!("notice {words}"),
                DriverEvent::Answer { id, answer } => {
                    answered += 1;
                    let ms = asked[id as usize].elapsed().as_secs_f64() * 1e3;
                    println!("{id} {ms:.3} {}", shown(&answer));
                }
            }
        }
        if ended && answered == asked.len() {
            drop(to);
            child.wait()?;
            return Ok(());
        }
        let wait = driver.next_timeout().map_or(Duration::from_secs(3600), |at| {
            Duration::from_secs_f64(at.saturating_sub(now()).as_secs_f64())
        });
        match told.recv_timeout(wait) {
            Ok(Input::Switch(bytes)) => driver.receive(now(), &bytes),
            Ok(Input::Closed) => {
                println!("closed");
                return Ok(());
            }
            Ok(Input::Line(line)) if line == "claim" => driver.claim(now()),
            Ok(Input::Line(line)) => {
                let order = order(&line).ok_or_else(|| format!("{line:?} is no order"))?;
                driver.order(now(), asked.len() as u64, &order);
                asked.push(Instant::now());
            }
            Ok(Input::End) => ended = true,
            Err(_) => driver.timeout(now()),
        }
    }
}

fn send(driver: &mut impl Driver, to: &mut ChildStdin) -> io::Result<()> {
    while let Some(bytes) = driver.transmit() {
        to.write_all(&bytes)?;
    }
    to.flush()
}

fn order(line: &str) -> Option<Order> {
    let mut words = line.split_whitespace();
    match words.next()? {
        "read" => Some(Order::Read),
        "apply" => {
            let (mut end, mut set, mut setting) = (Vec::new(), Vec::new(), true);
            for word in words {
                match (word, word.split_once(',')) {
                    ("end", _) => setting = false,
                    ("set", _) => setting = true,
                    (_, Some((ingress, egress))) => {
                        let patch = Patch::new(ingress.parse().ok()?, egress.parse().ok()?);
                        if setting { set.push(patch) } else { end.push(patch) }
                    }
                    _ => return None,
                }
            }
            Some(Order::Apply { end, set })
        }
        _ => None,
    }
}

fn shown(answer: &Answer) -> String {
    match answer {
        Answer::Done => "done".into(),
        Answer::Refused(words) => format!("refused {words}"),
        Answer::Fenced(words) => format!("fenced {words}"),
        Answer::State(patches) => patches
            .iter()
            .fold("state".into(), |all, patch| format!("{all} {},{}", patch.ingress, patch.egress)),
    }
}
