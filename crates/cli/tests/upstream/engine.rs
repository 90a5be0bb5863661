//! An engine: a program that renders what it reads from standard input.

use std::path::PathBuf;
use std::process::Stdio;

use ferroplane_wire::render::{CompositeOutput, RenderRequest, RenderResponse, render_response::Output};
use prost::Message as _;
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::case::Case;
use crate::function::Function;

/// A program that has `internal render`.
#[derive(Debug, Clone)]
pub(crate) struct Engine(pub(crate) PathBuf);

/// What an engine made of a case.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) verdict: Verdict,
    pub(crate) output: Option<CompositeOutput>,
    /// What functions were asked, in order.
    pub(crate) requests: Vec<Value>,
    /// What it wrote to standard error.
    pub(crate) words: String,
}

/// What an engine answered to a request.
#[derive(Debug)]
pub(crate) struct EngineAnswer {
    pub(crate) verdict: Verdict,
    pub(crate) response: RenderResponse,
    /// What it wrote to standard error.
    pub(crate) words: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Exit code 0.
    Rendered,
    /// Exit code 3: a function returned a fatal result.
    Fatal,
    /// Any other exit code.
    Failed,
}

impl Engine {
    pub(crate) async fn run(&self, case: &Case) -> Option<Run> {
        let function = Function::start().await;
        let answer = self.render(&case.to_request(&function.address())?).await;
        let output = match answer.response.output {
            Some(Output::Composite(output)) => Some(output),
            _ => None,
        };
        let (verdict, words) = (answer.verdict, answer.words);
        Some(Run { verdict, output, requests: function.requests(), words })
    }

    /// What it answers to a request.
    pub(crate) async fn render(&self, request: &RenderRequest) -> EngineAnswer {
        let mut child = Command::new(&self.0)
            .args(["internal", "render", "--timeout=20s"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the engine starts");
        let mut stdin = child.stdin.take().expect("it is piped");
        stdin.write_all(&request.encode_to_vec()).await.expect("the engine reads its request");
        drop(stdin);
        let output = child.wait_with_output().await.expect("the engine ends");
        let response = RenderResponse::decode(output.stdout.as_slice());
        EngineAnswer {
            verdict: match output.status.code() {
                Some(0) => Verdict::Rendered,
                Some(3) => Verdict::Fatal,
                _ => Verdict::Failed,
            },
            response: response.expect("an engine writes a RenderResponse or nothing"),
            words: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
