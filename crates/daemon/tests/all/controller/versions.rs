//! Agents of another version of the protocol: of the one before, and too old or too new.

use super::world::*;
use lightloom_daemon::proto::version::VERSION;
use lightloom_daemon::proto::wire::control_client::ControlClient;
use lightloom_daemon::proto::wire::{DescribeRequest, Report};
use tonic::Code;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_of_the_version_before_is_served_and_a_strange_one_is_refused() {
    let folder = Folder::new("versions");
    let ocs = Daemon::ocs(4, &["--delay", "0 ms"]).await;
    let file = folder.write("region.toml", &region(0, &ocs.address, 2, 2, ""));
    let controller = Daemon::controller(&file).await;
    let (at, url) = (&controller.address, format!("http://{}", controller.address));
    let mut client = ControlClient::connect(url).await.expect("it listens");
    let ask = |version| shown(at, DescribeRequest { server: "node-00".into(), version });
    for (theirs, both) in [(0, 1), (1, 1), (2, 2), (VERSION + 1, VERSION)] {
        let answer = client.describe(ask(theirs)).await.expect("described").into_inner();
        assert_eq!((answer.version, answer.number), (both, 0), "{theirs}");
    }
    for strange in [VERSION + 2, u32::MAX] {
        let why = client.describe(ask(strange)).await.expect_err("too new");
        assert_eq!(why.code(), Code::FailedPrecondition);
        assert!(why.message().contains(&format!("speaks version {strange} of")), "{why}");
    }
    // One that says nothing of versions, and whose life is numbered by its clock, gets directives.
    let report = |beat| Report {
        server: "node-00".into(),
        incarnation: 1_700_000_000_000,
        beat,
        ..Report::default()
    };
    let (says, said) = tokio::sync::mpsc::channel(8);
    says.send(report(1)).await.expect("room");
    let stream = tokio_stream::wrappers::ReceiverStream::new(said);
    let mut directives = client.attend(shown(at, stream)).await.expect("attended").into_inner();
    let speak = async {
        for beat in 2.. {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            if says.send(report(beat)).await.is_err() {
                return;
            }
        }
    };
    let heard = async { directives.message().await.expect("well").expect("a directive") };
    let directive = tokio::select! {
        directive = tokio::time::timeout(LONG, heard) => directive.expect("in time"),
        () = speak => panic!("nobody listens"),
    };
    assert!(directive.beat >= 1 && directive.incarnation == 1_700_000_000_000, "{directive:?}");
}
