//! What Prometheus is answered: text as OpenMetrics has it, or as it was before, whichever is asked for.

use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

/// Metrics as an answer to a request with these headers. `text` is OpenMetrics.
pub(crate) fn answer(text: String, headers: &HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).and_then(|kinds| kinds.to_str().ok()).unwrap_or("");
    let (kind, text) = if accepted.contains("text/plain") && !accepted.contains("openmetrics") {
        ("text/plain; version=0.0.4; charset=utf-8", plain(&text))
    } else {
        ("application/openmetrics-text; version=1.0.0; charset=utf-8", text)
    };
    ([(header::CONTENT_TYPE, kind)], text).into_response()
}

/// OpenMetrics text as Prometheus' older text: there a counter's family is named as its samples are.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines().filter(|line| *line != "# EOF").peekable();
    while let Some(line) = lines.next() {
        let counter = |line: &str| line.starts_with("# TYPE ") && line.ends_with(" counter");
        let next = lines.peek().copied().unwrap_or_default();
        let of_counter = counter(line) || line.starts_with("# HELP ") && counter(next);
        let (head, rest) = match of_counter.then(|| line[7..].split_once(' ')).flatten() {
            Some((name, rest)) => (format!("{}{name}_total", &line[..7]), rest),
            None => (String::new(), line),
        };
        let gap = if head.is_empty() { "" } else { " " };
        out.extend([&head, gap, rest, "\n"]);
    }
    out
}
