//! Runs commands in containers of pods, by the exec subresource: the protocol `v4.channel.k8s.io` over WebSocket.

use std::time::Duration;

use http::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use kube::client::Body;
use serde_json::Value;

use crate::resource::Parameters;
use crate::websocket::WebSocket;
use crate::{ApiClient, Error, ObjectPath, StatusError, Subresource};

const PROTOCOL: &str = "v4.channel.k8s.io";
/// How long the API server may take to begin.
const PATIENCE: Duration = Duration::from_mins(1);
/// How much of the errors that a command prints is kept: their end.
const LONGEST_ERRORS: usize = 16 << 10;

const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;

/// A command that ended.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandEnding {
    pub exit_code: i32,
    /// The end of it, where it is long.
    pub stderr: String,
}

impl ApiClient {
    /// Run a command in a container of a pod, and wait until it has ended. `stdout` is given what it prints, piece by piece. An error does
    /// not say whether it has run.
    pub async fn exec(
        &self,
        pod: ObjectPath<'_>,
        container: &str,
        command: &[String],
        stdout: &mut (dyn FnMut(&[u8]) + Send),
    ) -> Result<CommandEnding, Error> {
        let request = exec_request(pod, container, command)?;
        let sent = tokio::time::timeout(PATIENCE, self.send_raw(request)).await;
        let mut response = sent.unwrap_or_else(|_| Err(Error::timeout()))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            return Err(Error::refused(status, &crate::api_client::collect(response.into_body()).await?));
        }
        let stream =
            hyper::upgrade::on(&mut response).await.map_err(|error| Error::Unreachable(error.into()))?;
        let mut socket = WebSocket::new(TokioIo::new(stream));
        let mut stderr = Vec::new();
        while let Some(message) = socket.next().await.map_err(|error| Error::Unreachable(error.into()))? {
            match message.split_first() {
                Some((&STDOUT, text)) => stdout(text),
                Some((&STDERR, text)) => {
                    stderr.extend_from_slice(text);
                    let excess = stderr.len().saturating_sub(LONGEST_ERRORS);
                    stderr.drain(..excess);
                }
                Some((&ERROR, status)) => return ending(status, &stderr),
                _ => {}
            }
        }
        Err(Error::Unreachable("the connection ended before the command did".into()))
    }
}

fn exec_request(pod: ObjectPath<'_>, container: &str, command: &[String]) -> Result<Request<Body>, Error> {
    let path = pod.uri(Subresource::None, Parameters::None)?;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(command.iter().map(|word| ("command", word)));
    if !container.is_empty() {
        query.append_pair("container", container);
    }
    query.append_pair("stdout", "true").append_pair("stderr", "true");
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("{path}/exec?{}", query.finish()))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        // It keeps caches from answering, which TLS does, too.
        .header(header::SEC_WEBSOCKET_KEY, "ZmVycm9wbGFuZS1leGVjIQ==")
        .header(header::SEC_WEBSOCKET_PROTOCOL, PROTOCOL);
    request.body(Body::empty()).map_err(|error| Error::Unreachable(error.into()))
}

/// What the last message says: a `Status`.
fn ending(status: &[u8], stderr: &[u8]) -> Result<CommandEnding, Error> {
    let status: Value = serde_json::from_slice(status).map_err(Error::invalid_answer)?;
    let causes = status["details"]["causes"].as_array().into_iter().flatten();
    let exit_code = causes
        .filter(|cause| cause["reason"] == "ExitCode")
        .find_map(|cause| cause["message"].as_str()?.parse().ok());
    let exit_code = match (status["status"].as_str(), exit_code) {
        (Some("Success"), _) => 0,
        (_, Some(code)) => code,
        _ => {
            let message = status["message"].as_str().unwrap_or("the command could not be run").to_owned();
            let reason = "InternalError".to_owned();
            return Err(Error::Refused(StatusError { code: 422, reason, message, ..StatusError::default() }));
        }
    };
    Ok(CommandEnding { exit_code, stderr: String::from_utf8_lossy(stderr).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_code_is_read_from_the_last_message() {
        let of = |status: &str| ending(status.as_bytes(), b"e").map(|it| it.exit_code);
        assert_eq!(of(r#"{"status": "Success"}"#).unwrap(), 0);
        let failed = r#"{"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [{"reason": "ExitCode", "message": "7"}]}}"#;
        assert_eq!(of(failed).unwrap(), 7);
        let error = of(r#"{"status": "Failure", "message": "container not found"}"#).unwrap_err();
        assert_eq!(error.to_string(), "container not found");
        assert!(of("no").is_err());
    }

    #[test]
    fn command_is_passed_word_by_word() {
        let pods = crate::Resource {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            plural: "pods".to_owned(),
            is_namespaced: true,
        };
        let pod = ObjectPath { resource: &pods, namespace: "a", name: "p" };
        let command = ["sh", "-c", "a & b"].map(str::to_owned);
        let request = exec_request(pod, "c", &command).unwrap();
        let expected = "/api/v1/namespaces/a/pods/p/exec?command=sh&command=-c&command=a+%26+b&container=c&stdout=true&stderr=true";
        assert_eq!(request.uri().to_string(), expected);
    }
}
