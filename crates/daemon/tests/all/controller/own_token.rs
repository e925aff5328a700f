//! The token that a controller without `[[token]]` makes: found by its own user, by nobody else, and safe from who
//! was there before.

use super::world::*;
use lightloom_daemon::agent::AgentClient;
use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;
use tokio::time::timeout;

/// `lightloomd`, of a user whose files of the session are there.
fn of_user(place: &Path, arguments: &[&str]) -> Command {
    let mut command = command(arguments);
    command.env("XDG_RUNTIME_DIR", place).stderr(Stdio::piped());
    command
}

/// What it says in the end, and its exit code.
async fn said(mut command: Command) -> (String, Option<i32>) {
    let output = timeout(LONG, command.output()).await.expect("in time").expect("lightloomd");
    (String::from_utf8_lossy(&output.stderr).trim().into(), output.status.code())
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).expect("it is there").mode() & 0o777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
}

/// Two servers; `listen` 0 for any port.
async fn world(name: &str, listen: u16) -> (Folder, Daemon, PathBuf) {
    let folder = Folder::new(name);
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(listen, &ocs.address, 2, 2, ""));
    (folder, ocs, file)
}

/// The first line that says `what`, of `lightloomd agent serve`; empty if it ends before.
async fn agent_hears(place: &Path, url: &str, what: &str) -> String {
    let words =
        ["--log-level", "off", "agent", "serve", "--controller", url, "--server", "node-00"];
    let mut command = of_user(place, &words);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("lightloomd");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let mut input = child.stdin.take().expect("piped");
    let mut next = async || {
        timeout(LONG, lines.next_line()).await.expect("in time").expect("UTF-8").unwrap_or_default()
    };
    let first: Value = serde_json::from_str(&next().await).expect("its clock");
    let runtime = serde_json::json!({ "runtime": first["agent"] });
    input.write_all(format!("{runtime}\n").as_bytes()).await.expect("it reads");
    loop {
        let line = next().await;
        if line.contains(what) || line.is_empty() {
            return line;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_made_and_found_and_without_it_nobody_is_served() {
    let (folder, _ocs, file) = world("own", 0).await;
    let controller = Daemon::controller(&file).await;
    let (at, path) = (&controller.address, controller.token_file.clone().expect("made"));
    let port = at.rsplit(':').next().expect("a port");
    assert_eq!(path, folder.0.join(format!("lightloom/127.0.0.1-{port}.token")));
    assert_eq!((mode(path.parent().expect("a folder")), mode(&path)), (0o700, 0o600));
    let secret = token(at).expect("made");
    assert!(secret.len() == 64 && secret.bytes().all(|byte| byte.is_ascii_hexdigit()));

    for url in [format!("http://{at}"), format!("http://localhost:{port}")] {
        let line = agent_hears(&folder.0, &url, "\"region\"").await;
        assert!(line.contains("\"node-01\""), "{url}: {line}");
    }
    assert_eq!(get(at, "/v1/status").await.0, 200);
    // Who cannot read the file has no token, and no other user's serves.
    let bare = |path: &str, shown: &str| {
        format!("GET {path} HTTP/1.1\r\nHost: {at}\r\n{shown}Connection: close\r\n\r\n")
    };
    for path in ["/v1/status", "/v1/events", "/v1/names", "/metrics"] {
        assert_eq!(asked(at, &bare(path, "")).await.0, 401, "{path}");
        let guess = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
        assert_eq!(asked(at, &bare(path, &guess)).await.0, 401, "{path}");
    }
    assert_eq!(asked(at, &bare("/healthz", "")).await.0, 200);
    let other = Folder::new("own-other");
    let url = format!("http://{at}");
    let words = ["agent", "emulate", file.to_str().expect("UTF-8"), "--controller", &url];
    let (why, code) = said(of_user(&other.0, &words)).await;
    let place = other.0.join(format!("lightloom/127.0.0.1-{port}.token"));
    let none = format!(
        "a token is required: send `Authorization: Bearer TOKEN`; this user has none at {} (--token-file)",
        place.display()
    );
    assert_eq!((why.as_str(), code), (none.as_str(), Some(1)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_goes_at_a_clean_end_and_never_into_the_log() {
    let (folder, _ocs, file) = world("own-end", 0).await;
    let words = ["--log-level", "trace", "controller", "serve", file.to_str().expect("UTF-8")];
    for signal in ["-TERM", "-INT"] {
        let mut child = of_user(&folder.0, &words).spawn().expect("lightloomd");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let line = timeout(LONG, lines.next_line()).await.expect("in time").expect("UTF-8");
        let line: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
        let path = PathBuf::from(line["token_file"].as_str().expect("a file"));
        let secret = std::fs::read_to_string(&path).expect("readable").trim().to_owned();
        let process = child.id().expect("it runs").to_string();
        let told = std::process::Command::new("kill").args([signal, &process]).status();
        assert!(told.expect("kill").success());
        let output = timeout(LONG, child.wait_with_output()).await.expect("in time").expect("ends");
        assert!(!path.exists(), "{signal}");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(log.contains("an operator's token is there for this user"), "{log}");
        assert!(!log.contains(&secret) && !log.contains(&secret[..16]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_reads_it_again_when_the_controller_starts_anew() {
    let (_folder, _ocs, file) = world("own-anew", free_port()).await;
    let mut controller = Daemon::controller(&file).await;
    let agent = AgentClient::start(&controller.url(), "node-00").expect("an agent");
    let mut secrets = vec![token(&controller.address).expect("made")];
    for _ in 0..3 {
        let said = agent.when(LONG, |view| view.said > 0).await.expect("heard").said;
        controller.kill().await;
        // What is left of it is no harm.
        controller = Daemon::controller(&file).await;
        agent.when(LONG, |view| view.said > said + 1).await.expect("heard of the next");
        secrets.push(token(&controller.address).expect("made"));
    }
    secrets.sort_unstable();
    secrets.dedup();
    assert_eq!(secrets.len(), 4, "another at each start");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_there_first_finds_it_and_a_dead_ones_is_no_harm() {
    let port = free_port();
    let (folder, _ocs, file) = world("own-first", port).await;
    let url = format!("http://127.0.0.1:{port}");
    let place = folder.0.clone();
    let first = tokio::spawn(async move { agent_hears(&place, &url, "\"region\"").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let controller = Daemon::controller(&file).await;
    assert!(first.await.expect("no panic").contains("node-01"));
    let left = controller.token_file.clone().expect("made");
    controller.kill().await;
    assert!(left.exists(), "nobody could remove it");
    let (url, place) = (format!("http://127.0.0.1:{port}"), folder.0.clone());
    let next = tokio::spawn(async move { agent_hears(&place, &url, "\"region\"").await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let _controller = Daemon::controller(&file).await;
    assert!(next.await.expect("no panic").contains("node-01"), "with the one that it had read");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_controllers_have_two() {
    let (folder, ocs, file) = world("own-two", 0).await;
    let text = region(0, &ocs.address, 2, 2, "[journal]\npath = \"second.journal\"\n");
    let second = folder.write("second.toml", &text);
    let (one, two) = (Daemon::controller(&file).await, Daemon::controller(&second).await);
    assert_ne!(one.token_file, two.token_file);
    assert_ne!(token(&one.address), token(&two.address));
    let of = |address: &str, shown: &str| {
        format!("GET /v1/names HTTP/1.1\r\nHost: {address}\r\n{shown}Connection: close\r\n\r\n")
    };
    let shown = authorization(&one.address);
    assert_eq!(asked(&one.address, &of(&one.address, &shown)).await.0, 200);
    assert_eq!(asked(&two.address, &of(&two.address, &shown)).await.0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_others_have_made_is_refused() {
    let (folder, ocs, file) = world("own-planted", 0).await;
    let serve = |place: PathBuf, file: PathBuf| async move {
        said(of_user(&place, &["controller", "serve", file.to_str().expect("UTF-8")])).await
    };
    let theirs = Folder::new("own-theirs");
    let place = folder.0.join("lightloom");
    symlink(&theirs.0, &place).expect("a link");
    let (why, code) = serve(folder.0.clone(), file.clone()).await;
    let expected = format!(
        "{}: must be a directory, and no symbolic link (or give listen.token_file, or a [[token]])",
        place.display()
    );
    assert_eq!((why.lines().last(), code), (Some(expected.as_str()), Some(2)), "{why}");
    assert_eq!(std::fs::read_dir(&theirs.0).expect("a folder").count(), 0, "nothing is there");
    std::fs::remove_file(&place).expect("it is ours");

    std::fs::create_dir(&place).expect("a folder");
    set_mode(&place, 0o755);
    let (why, code) = serve(folder.0.clone(), file.clone()).await;
    assert!(code == Some(2) && why.contains("its mode is 0755: must be 0700"), "{why}");
    // A link in the place of the file is replaced, and not followed.
    set_mode(&place, 0o700);
    let port = free_port();
    let victim = theirs.write("victim", "theirs");
    let link = place.join(format!("127.0.0.1-{port}.token"));
    symlink(&victim, &link).expect("a link");
    let words = ["agent", "serve", "--server", "node-00", "--controller"];
    let url = format!("http://127.0.0.1:{port}");
    let (why, code) = said(of_user(&folder.0, &[&words[..], &[&url]].concat())).await;
    let not =
        format!("{}: must be a file, and no symbolic link (or give --token-file)", link.display());
    assert_eq!((why.as_str(), code), (not.as_str(), Some(2)));
    let text = region(port, &ocs.address, 2, 2, "[journal]\npath = \"other.journal\"\n");
    let controller = Daemon::controller(&folder.write("other.toml", &text)).await;
    assert_eq!(controller.token_file.as_ref(), Some(&link));
    assert!(std::fs::symlink_metadata(&link).expect("a file").is_file());
    assert_eq!(std::fs::read_to_string(&victim).expect("readable"), "theirs");
    // One that others may read is no secret.
    set_mode(&link, 0o644);
    for words in [
        &["agent", "serve", "--server", "node-00", "--controller", &url][..],
        &["agent", "emulate", file.to_str().expect("UTF-8"), "--controller", &url],
        &["runtime-emulator", "--server", "node-00", "--controller", &url],
    ] {
        let (why, code) = said(of_user(&folder.0, words)).await;
        let why = why.strip_prefix(&link.display().to_string()).unwrap_or(&why);
        let not = ": others may use it, its mode is 0644: must be 0600 (or give --token-file)";
        assert_eq!((why, code), (not, Some(2)), "{words:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_of_another_user_is_refused() {
    let (folder, _ocs, file) = world("own-owner", 0).await;
    let theirs = |path: &Path| std::os::unix::fs::chown(path, Some(12_345), None);
    let probe = folder.write("probe", "");
    if theirs(&probe).is_err() {
        eprintln!("skipped: only root can make what is another user's");
        return;
    }
    let place = folder.0.join("lightloom");
    std::fs::create_dir(&place).expect("a folder");
    set_mode(&place, 0o700);
    theirs(&place).expect("root may");
    let words = ["controller", "serve", file.to_str().expect("UTF-8")];
    let (why, code) = said(of_user(&folder.0, &words)).await;
    assert!(code == Some(2) && why.contains("is of user 12345: must be of this user"), "{why}");
    std::fs::remove_dir(&place).expect("empty");
    let controller = Daemon::controller(&file).await;
    theirs(controller.token_file.as_ref().expect("made")).expect("root may");
    let url = format!("http://{}", controller.address);
    let words = ["agent", "serve", "--server", "node-00", "--controller", &url];
    let (why, code) = said(of_user(&folder.0, &words)).await;
    assert!(code == Some(2) && why.contains("is of user 12345: must be of user"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_names_another_place_and_the_check_says_where() {
    let (folder, ocs, file) = world("own-named", 0).await;
    let check = |file: &Path| {
        let mut command = of_user(&folder.0, &["controller", "check"]);
        command.arg(file).args(["--json"]);
        async move {
            let output = command.output().await.expect("lightloomd");
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            serde_json::from_str::<Value>(&text).expect("JSON")
        }
    };
    let usual = folder.0.join("lightloom/127.0.0.1-PORT.token");
    let summary = check(&file).await;
    assert_eq!(summary["own_token"].as_str().map(Path::new), Some(usual.as_path()));
    let listen = "[listen]\ntoken_file = \"here.token\"\n";
    let text = region(0, &ocs.address, 2, 2, "").replace("[listen]\n", listen);
    let file = folder.write("region.toml", &text);
    let named = folder.0.join("here.token");
    assert_eq!(check(&file).await["own_token"].as_str().map(Path::new), Some(named.as_path()));
    // A draft that is left of a controller that was killed is no harm.
    let mut draft = std::fs::File::create(folder.0.join(".here.token.new")).expect("made");
    draft.write_all(b"half").expect("written");
    let controller = Daemon::controller(&file).await;
    assert_eq!((controller.token_file.as_ref(), mode(&named)), (Some(&named), 0o600));
    assert_eq!(get(&controller.address, "/v1/status").await.0, 200);
    controller.kill().await;
    set_mode(&folder.0, 0o777);
    let (why, code) = refused(&["controller", "serve", file.to_str().expect("UTF-8")]).await;
    assert!(code == Some(2) && why.contains("its mode is 0777: must be 0755 or less"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_stays_when_the_file_is_read_anew() {
    let (folder, ocs, file) = world("own-hangup", 0).await;
    let controller = Daemon::controller(&file).await;
    let hangup = async |words: &str| {
        let process = controller.process().to_string();
        let told = std::process::Command::new("kill").args(["-HUP", &process]).status();
        assert!(told.expect("kill").success());
        for _ in 0..300 {
            let (code, events) = get(&controller.address, "/v1/events").await;
            assert_eq!(code, 200);
            if events.to_string().contains(words) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("nobody says {words:?}");
    };
    hangup("no tokens (the controller keeps its own) were read anew").await;
    let digest = "0".repeat(64);
    let more = format!("[[token]]\nname = \"a\"\nrole = \"viewer\"\nsha256 = \"{digest}\"\n");
    folder.write("region.toml", &region(0, &ocs.address, 2, 2, &more));
    hangup("token: to begin or end with it the controller must be started anew").await;
}
