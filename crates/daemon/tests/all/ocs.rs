//! The emulated switch over TCP: sessions by hand, many at once, and such as behave badly.

use lightloom_control::Patch;
use lightloom_control::drivers::tl1::{Secret, User};
use lightloom_control::ocs::Device;
use lightloom_daemon::ocs::{Emulator, Settings};
use lightloom_fabric::ReconfigurationDelay;
use lightloom_units::Time;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Nothing here takes so long, unless it hangs.
const LONG: Duration = Duration::from_secs(20);

fn user(name: &str, slice: Option<Vec<u16>>) -> User {
    User { name: name.into(), password: Secret::new(format!("{name}'s")), slice }
}

/// A switch of so many ports whose changes take so long.
fn settings(ports: u16, delay: Time) -> Settings {
    let delay = ReconfigurationDelay::Fixed { ps: delay };
    let device = Device { name: "polatis".into(), ports, delay };
    Settings::new(device, vec![user("root", None), user("blue", Some(vec![1, 2]))])
}

/// A served switch: where it is, and what stands on it.
async fn serve(settings: Settings) -> (SocketAddr, impl Fn() -> Vec<Patch>) {
    let emulator = Emulator::bind(settings).await.expect("loopback has a free port");
    let (address, patches) = (emulator.address().expect("it listens"), emulator.patches());
    tokio::spawn(emulator.run());
    (address, patches)
}

/// A session by hand.
struct Session(TcpStream);

impl Session {
    async fn open(address: SocketAddr) -> Self {
        Session(TcpStream::connect(address).await.expect("somebody listens"))
    }

    async fn login(address: SocketAddr, name: &str) -> Self {
        let mut session = Session::open(address).await;
        let answer = session.ask("0", &format!("ACT-USER::{name}:0::\"{name}'s\";")).await;
        assert!(answer.contains("COMPLD"), "{answer}");
        session
    }

    async fn say(&mut self, text: &str) {
        self.0.write_all(text.as_bytes()).await.expect("it listens");
    }

    /// All that comes until the answer with this tag has come whole.
    async fn ask(&mut self, ctag: &str, text: &str) -> String {
        self.say(text).await;
        let mut all = Vec::new();
        timeout(LONG, async {
            loop {
                let heard = String::from_utf8_lossy(&all);
                let whole = heard.ends_with("\r\n;");
                if whole && heard.rsplit("\r\nM  ").next().is_some_and(|m| m.starts_with(ctag)) {
                    return heard.into_owned();
                }
                let count = self.0.read_buf(&mut all).await.expect("it speaks");
                assert!(count > 0, "closed after {:?}", String::from_utf8_lossy(&all));
            }
        })
        .await
        .expect("an answer in time")
    }

    /// Whether the stream ends, whatever comes before.
    async fn ends(mut self, within: Duration) -> bool {
        let mut all = Vec::new();
        // A stream that is reset has ended, too.
        timeout(within, self.0.read_to_end(&mut all)).await.is_ok()
    }
}

/// The same with dates that are always the same.
fn undated(text: &str) -> String {
    let line = |line: &str| match line.strip_prefix("   OCS ") {
        Some(date) => {
            let shape: String =
                date.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
            assert_eq!(shape.trim_end(), "99-99-99 99:99:99");
            "   OCS DATE\r".to_owned()
        }
        None => line.to_owned(),
    };
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn a_session_by_hand() {
    let (address, patches) = serve(settings(8, Time::from_ms(25))).await;
    let mut session = Session::open(address).await;
    let refused = session.ask("1", "rtrv-patch:::1:;").await;
    let date = "\r\n\n   OCS DATE\r\n";
    assert_eq!(
        undated(&refused),
        format!("{date}M  1 DENY\r\n   PLNA\r\n   /* log in first */\r\n;")
    );
    let answer = session.ask("2", "ACT-USER::root:2::\"root's\";\r\n").await;
    assert_eq!(undated(&answer), format!("{date}M  2 COMPLD\r\n;"));
    let asked = Instant::now();
    session.say("INH-MSG-ALL:::3:;").await;
    let answer = session.ask("4", "ENT-PATCH::3&5,13&11:4:;").await;
    assert_eq!(undated(&answer), format!("{date}M  3 COMPLD\r\n;{date}M  4 COMPLD\r\n;"));
    assert!(asked.elapsed() >= Duration::from_millis(25), "a change takes its time");
    assert_eq!(patches(), Patch::pair(8, 3, 5));
    // In pieces, as a person types.
    for piece in ["RTRV-PA", "TCH:", "::", "5", ":"] {
        session.say(piece).await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let answer = session.ask("5", ";").await;
    assert_eq!(undated(&answer), format!("{date}M  5 COMPLD\r\n   \"3,13\"\r\n   \"5,11\"\r\n;"));
    let answer = session.ask("6", "RTRV-EQPT::SYSTEM:6:::PARAMETER=SIZE;").await;
    assert_eq!(undated(&answer), format!("{date}M  6 COMPLD\r\n   \"SYSTEM:SIZE=8x8\"\r\n;"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_sessions_at_once() {
    const SESSIONS: u16 = 200;
    let (address, patches) = serve(settings(2 * SESSIONS, Time::from_ms(25))).await;
    let start = Instant::now();
    let barrier = std::sync::Arc::new(tokio::sync::Barrier::new(SESSIONS.into()));
    let sessions: Vec<_> = (1..=SESSIONS)
        .map(|port| {
            let barrier = barrier.clone();
            tokio::spawn(async move {
                let mut session = Session::login(address, "root").await;
                session.ask("I", "INH-MSG-ALL:::I:;").await;
                // All are in before any goes on.
                barrier.wait().await;
                let [there, back] = Patch::pair(2 * SESSIONS, port, port + SESSIONS);
                let [a, b] = [there.ingress, back.ingress];
                let enter = format!("ENT-PATCH::{a}&{b},{}&{}:P:;", there.egress, back.egress);
                let answer = session.ask("P", &enter).await;
                assert!(answer.contains("M  P COMPLD"), "{answer}");
                let answer = session.ask("R", &format!("RTRV-PATCH::{a}&{b}:R:;")).await;
                let lines = format!("\"{a},{}\"\r\n   \"{b},{}\"\r\n", there.egress, back.egress);
                assert!(answer.contains(&lines), "{answer}");
                session
            })
        })
        .collect();
    let mut open = Vec::new();
    for session in sessions {
        open.push(session.await.expect("a session that was served"));
    }
    println!("{SESSIONS} sessions: {:?}", start.elapsed());
    assert_eq!(patches().len(), 2 * usize::from(SESSIONS));
    assert!(start.elapsed() < LONG);
}

#[tokio::test]
async fn a_session_that_dies_or_talks_nonsense_harms_nobody() {
    let (address, patches) = serve(settings(8, Time::from_ms(50))).await;
    let mut other = Session::login(address, "root").await;
    // In the midst of a command, and of a change.
    let mut dies = Session::login(address, "root").await;
    dies.say("ENT-PATCH::1,9:7:;ENT-PATCH::2,").await;
    tokio::time::sleep(Duration::from_millis(10)).await;
    dies.0.set_zero_linger().expect("a stream that is open");
    drop(dies);
    // Bytes of any kind, and text without end.
    let mut babbles = Session::open(address).await;
    let noise: Vec<u8> =
        (0..200_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    // It may be closed before it has said everything.
    let _ = babbles.0.write_all(&noise).await;
    let mut endless = Session::login(address, "root").await;
    let answer = endless.ask("0", &format!("{};", "x".repeat(100_000))).await;
    assert!(answer.contains("DENY"), "{answer}");
    let answer = endless.ask("8", "RTRV-NETYPE:::8:;").await;
    assert!(answer.contains("M  8 COMPLD"), "{answer}");
    tokio::time::sleep(Duration::from_millis(60)).await;
    let answer = other.ask("9", "RTRV-PATCH:::9:;").await;
    assert!(answer.ends_with("M  9 COMPLD\r\n   \"1,9\"\r\n;"), "what was asked whole: {answer}");
    assert_eq!(patches(), [Patch::new(1, 9)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_does_not_read_is_closed_and_holds_up_nobody() {
    let stall = Duration::from_secs(1);
    let (address, _) = serve(Settings { stall, ..settings(4000, Time::ZERO) }).await;
    // Each command is answered with some 100 KiB. One asks for all it can get, which is too much at
    // once; one at its leisure, until what the system holds for it is full.
    let mut deaf = Vec::new();
    for pause in [Duration::ZERO, Duration::from_millis(20)] {
        let mut session = Session::login(address, "root").await;
        deaf.push(tokio::spawn(async move {
            while session.0.write_all(b"RTRV-PORT-POWER:::1:;").await.is_ok() {
                tokio::time::sleep(pause).await;
            }
        }));
    }
    let mut slowest = Duration::ZERO;
    let mut other = Session::login(address, "root").await;
    let start = Instant::now();
    while start.elapsed() < stall {
        let asked = Instant::now();
        other.ask("2", "RTRV-NETYPE:::2:;").await;
        slowest = slowest.max(asked.elapsed());
    }
    assert!(slowest < stall / 2, "{slowest:?}");
    for session in deaf {
        timeout(LONG, session).await.expect("it is closed in time").expect("it ends");
    }
}

#[tokio::test]
async fn who_does_not_log_in_or_says_nothing_is_closed() {
    let (login, idle) = (Duration::from_millis(150), Duration::from_millis(1500));
    let (address, _) = serve(Settings { login, idle, ..settings(8, Time::ZERO) }).await;
    let start = Instant::now();
    let mut guesses = Session::open(address).await;
    let answer = guesses.ask("1", "ACT-USER::root:1::guess;").await;
    assert!(answer.contains("M  1 DENY\r\n   PIUI"), "{answer}");
    let logged_in = Session::login(address, "root").await;
    assert!(guesses.ends(LONG).await);
    assert!((login..idle).contains(&start.elapsed()), "{:?}", start.elapsed());
    assert!(logged_in.ends(LONG).await);
    assert!(start.elapsed() >= idle);
}

#[tokio::test]
async fn who_has_said_all_hears_all_the_answers() {
    let (address, patches) = serve(settings(8, Time::from_ms(30))).await;
    let mut session = Session::open(address).await;
    let all =
        "ACT-USER::root:1::\"root's\";ENT-PATCH::1,9:2:;RTRV-PATCH:::3:;ENT-PATCH::1,10:4:;DLT";
    session.say(all).await;
    session.0.shutdown().await.expect("it listens");
    let mut heard = String::new();
    let read = timeout(LONG, session.0.read_to_string(&mut heard)).await;
    read.expect("closed in time").expect("it speaks");
    for answer in ["M  1 COMPLD", "M  2 COMPLD", "M  3 COMPLD\r\n   \"1,9\"", "M  4 DENY"] {
        assert!(heard.contains(answer), "no {answer} in {heard}");
    }
    assert_eq!(patches(), [Patch::new(1, 9)]);
}

#[tokio::test]
async fn passwords_are_not_guessed_for_long() {
    let (address, _) = serve(settings(8, Time::ZERO)).await;
    let mut session = Session::open(address).await;
    for guess in 0..9 {
        let answer = session.ask("1", &format!("ACT-USER::root:1::guess{guess};")).await;
        assert!(answer.contains("M  1 DENY"), "{answer}");
    }
    session.say("ACT-USER::root:1::guess9;").await;
    assert!(session.ends(LONG).await);
    // One that is logged in is denied as often as it likes.
    let mut session = Session::login(address, "root").await;
    for _ in 0..50 {
        session.ask("1", "DLT-PATCH::99:1:;").await;
    }
}

#[tokio::test]
async fn no_more_sessions_than_there_is_room_for() {
    let (address, _) = serve(Settings { sessions: 2, ..settings(8, Time::ZERO) }).await;
    let first = Session::login(address, "root").await;
    let mut second = Session::login(address, "root").await;
    assert!(Session::open(address).await.ends(LONG).await, "there is no room");
    second.ask("1", "RTRV-NETYPE:::1:;").await;
    drop(first);
    // It takes a moment to be noticed.
    tokio::time::sleep(Duration::from_millis(50)).await;
    Session::login(address, "root").await;
}

#[tokio::test]
async fn a_user_has_no_ports_but_its_own() {
    let (address, patches) = serve(settings(8, Time::ZERO)).await;
    let mut root = Session::login(address, "root").await;
    root.ask("1", "ENT-PATCH::3,12:1:;").await;
    let mut blue = Session::login(address, "blue").await;
    for foreign in
        ["ENT-PATCH::1,11:2:;", "ENT-PATCH::4,9:2:;", "DLT-PATCH::3:2:;", "OPR-PORT-SHUTTER::3:2:;"]
    {
        let answer = blue.ask("2", foreign).await;
        assert!(answer.contains("M  2 DENY"), "{foreign}: {answer}");
    }
    let answer = blue.ask("3", "ENT-PATCH::1,10:3:;").await;
    assert!(answer.contains("M  3 COMPLD"), "{answer}");
    let answer = blue.ask("4", "RTRV-PATCH:::4:;").await;
    assert!(answer.ends_with("M  4 COMPLD\r\n   \"1,10\"\r\n;"), "{answer}");
    blue.ask("5", "DLT-PATCH::ALL:5:;").await;
    assert_eq!(patches(), [Patch::new(3, 12)], "all, but only its own");
}

#[tokio::test]
async fn light_passes_what_is_patched_and_not_shut() {
    let settings = Settings { light: Some(-2.0), ..settings(8, Time::ZERO) };
    let (address, _) = serve(settings).await;
    let mut session = Session::login(address, "root").await;
    session.ask("1", "INH-MSG-ALL:::1:;ENT-PATCH::1,12:1:;").await;
    let power = session.ask("2", "RTRV-PORT-POWER::1&12&13:2:;").await;
    for line in ["\"1:-2.00\"", "\"12:-3.50\"", "\"13:-50.00\""] {
        assert!(power.contains(line), "{power}");
    }
    session.ask("3", "OPR-PORT-SHUTTER::12:3:;").await;
    let power = session.ask("4", "RTRV-PORT-POWER::12:4:;").await;
    assert!(power.contains("\"12:-50.00\""), "{power}");
}

#[tokio::test]
async fn patches_outlive_the_process() {
    let state = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("patches-{}.json", std::process::id()));
    let kept = || Settings { state: Some(state.clone()), ..settings(8, Time::ZERO) };
    let emulator = Emulator::bind(kept()).await.expect("a free port");
    let address = emulator.address().expect("it listens");
    let served = tokio::spawn(emulator.run());
    let mut session = Session::login(address, "root").await;
    session.ask("1", "ENT-PATCH::3&5,13&11:1:;").await;
    served.abort();
    assert!(session.ends(LONG).await);
    let (address, patches) = serve(kept()).await;
    assert_eq!(patches(), Patch::pair(8, 3, 5));
    Session::login(address, "root").await.ask("2", "DLT-PATCH::3&5:2:;").await;
    assert_eq!(serve(kept()).await.1(), []);
    // Another switch's, and none at all.
    for (text, what) in [(r#"{"ports":9,"patches":[]}"#, "9 ports"), ("{", "EOF")] {
        std::fs::write(&state, text).expect("the file can be written");
        let failure = Emulator::bind(kept()).await.expect_err("no such patches").to_string();
        assert!(failure.starts_with("--state: ") && failure.contains(what), "{failure}");
    }
    std::fs::remove_file(&state).expect("it is there");
}

#[tokio::test]
async fn faults_are_what_they_are_called() {
    let with = |fault: &str| {
        let faults = vec![fault.parse().expect("a fault")];
        serve(Settings { faults, ..settings(8, Time::ZERO) })
    };
    let (address, patches) = with("lies").await;
    let mut session = Session::login(address, "root").await;
    let answer = session.ask("1", "ENT-PATCH::1,9:1:;").await;
    assert!(answer.contains("M  1 COMPLD"), "{answer}");
    assert_eq!(patches(), []);

    let (address, patches) = with("refuses").await;
    let mut session = Session::login(address, "root").await;
    let answer = session.ask("1", "ENT-PATCH::1,9:1:;").await;
    assert!(answer.contains("M  1 DENY"), "{answer}");
    assert_eq!(patches(), []);

    let (address, _) = with("late=200ms").await;
    let asked = Instant::now();
    Session::login(address, "root").await;
    assert!(asked.elapsed() >= Duration::from_millis(200));

    let (address, patches) = with("silent@0s..1s").await;
    let mut session = Session::open(address).await;
    session.say("ACT-USER::root:0::\"root's\";ENT-PATCH::1,9:1:;").await;
    let mut byte = [0];
    let heard = timeout(Duration::from_millis(100), session.0.read(&mut byte)).await;
    assert!(heard.is_err(), "it says nothing: {heard:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    Session::login(address, "root").await;
    assert_eq!(patches(), [], "and has heard nothing");

    let (address, _) = with("garbles").await;
    let mut session = Session::open(address).await;
    session.say("ACT-USER::root:0::\"root's\";RTRV-PATCH:::1:;").await;
    let mut answer = vec![0; 40];
    session.0.read_exact(&mut answer).await.expect("it says something");
    assert_ne!(undated_or_not(&answer), "an answer");

    let (address, _) = with("drops").await;
    let mut session = Session::open(address).await;
    session.say("ACT-USER::root:0::\"root's\";").await;
    let mut answer = Vec::new();
    session.0.read_to_end(&mut answer).await.expect("half of it comes");
    assert!(!answer.is_empty() && !answer.ends_with(b";"), "{answer:?}");
}

/// Whether this begins as an answer does.
fn undated_or_not(answer: &[u8]) -> &'static str {
    let text = String::from_utf8_lossy(answer);
    let whole = text.starts_with("\r\n\n   OCS ") && text.ends_with("M  0 COMPLD");
    if whole { "an answer" } else { "nonsense" }
}
