//! Any bytes as commands, and as replies.

#![no_main]

use libfuzzer_sys::fuzz_target;
use lightloom_control::drivers::tl1::{Command, Frame, Framer, Message, Ports, Request, lines};

fuzz_target!(|bytes: &[u8]| {
    let mut framer = Framer::commands(256);
    let mut input = bytes;
    while let Some(frame) = framer.next(&mut input) {
        let Frame::Whole(text, end) = frame else { continue };
        assert!(end == b';' && (1..=256).contains(&text.len()));
        let Ok(request) = Request::parse(&text) else { continue };
        match &request.command {
            Command::Enter(patches) => assert!(patches.len() <= 8192),
            Command::Patches(Ports::These(ports)) => assert!(ports.len() <= 8192),
            // A name with a quote or a control character within cannot be written.
            Command::Login { .. } | Command::Logout { .. } => continue,
            _ => {}
        }
        if request.tid.bytes().any(|byte| byte == b'"' || byte < b' ') {
            continue;
        }
        let written = request.to_string();
        let frame = written.trim_end_matches(';').as_bytes();
        assert_eq!(Request::parse(frame).as_ref(), Ok(&request), "{written}");
    }
    assert!(framer.held() <= 256 && input.is_empty());

    let mut framer = Framer::replies(1024);
    let mut input = bytes;
    while let Some(frame) = framer.next(&mut input) {
        let Frame::Whole(text, _) = frame else { continue };
        let Ok(text) = std::str::from_utf8(&text) else { continue };
        if let Ok(Message::Response { text, .. } | Message::Autonomous { text, .. }) =
            Message::parse(text)
        {
            assert!(lines(text).map(str::len).sum::<usize>() <= text.len());
        }
    }
});
