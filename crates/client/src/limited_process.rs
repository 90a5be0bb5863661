//! Runs a program to its end, or ends it and everything it has started when a time is over.

use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How often to look whether the program has ended.
const INTERVAL: Duration = Duration::from_millis(10);
/// How long to wait for what a program that has ended left in its pipes. A process that it started may keep them open for ever.
const REST: Duration = Duration::from_secs(1);

/// What a program prints that is given nothing to read. None if it had to be ended.
pub(crate) fn output(mut command: Command, limit: Duration) -> io::Result<Option<Output>> {
    let deadline = Instant::now() + limit;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // What it starts is in its group, and ends with it.
        .process_group(0)
        .spawn()?;
    let (stdout, stderr) = (Printed::of(child.stdout.take()), Printed::of(child.stderr.take()));
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() >= deadline {
            // It has not been waited for, so that its number cannot be that of another group.
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(INTERVAL);
    };
    Ok(Some(Output { status, stdout: stdout.take(), stderr: stderr.take() }))
}

/// What comes out of a pipe, read by a thread of its own: a program that waits for a pipe to be read does not end.
struct Printed {
    bytes: Arc<Mutex<Vec<u8>>>,
    end: Receiver<()>,
}

impl Printed {
    fn of(pipe: Option<impl Read + Send + 'static>) -> Self {
        let (bytes, (sender, end)) = (Arc::<Mutex<Vec<u8>>>::default(), mpsc::channel());
        let kept = bytes.clone();
        std::thread::spawn(move || {
            read_all(pipe, &kept);
            drop(sender);
        });
        Self { bytes, end }
    }

    fn take(self) -> Vec<u8> {
        // Disconnected at the end of the pipe.
        let _ = self.end.recv_timeout(REST);
        std::mem::take(&mut self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn read_all(pipe: Option<impl Read>, kept: &Mutex<Vec<u8>>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = [0; 8 << 10];
    loop {
        match pipe.read(&mut buffer) {
            Ok(0) => return,
            Ok(length) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&buffer[..length]);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::test_kill_process;

    use super::*;

    /// More than anything here takes on a busy machine.
    const PATIENCE: Duration = Duration::from_mins(1);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_a_program_prints_is_read_however_much_it_is() {
        let script = "head -c 300000 /dev/zero; echo complaint >&2; exit 3";
        let ended = output(shell(script), PATIENCE).unwrap().unwrap();
        assert_eq!((ended.stdout.len(), ended.stderr.as_slice()), (300_000, &b"complaint\n"[..]));
        assert_eq!(ended.status.code(), Some(3));
    }

    #[test]
    fn program_that_does_not_end_is_ended_with_what_it_started() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("pid");
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        // It must have started the other one before it is ended.
        let limit = Duration::from_secs(3);
        assert!(output(shell(&script), limit).unwrap().is_none());
        let started: i32 = std::fs::read_to_string(file).unwrap().trim().parse().unwrap();
        let began = Instant::now();
        // Whoever takes in orphans here may take a moment.
        while test_kill_process(Pid::from_raw(started).unwrap()).is_ok() && !is_dead(started) {
            assert!(began.elapsed() < PATIENCE, "it still runs");
            std::thread::sleep(INTERVAL);
        }
    }

    /// Whether a process has ended that nobody has waited for.
    fn is_dead(process: i32) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{process}/stat"));
        status.is_ok_and(|status| status.contains(") Z "))
    }

    #[test]
    fn program_that_has_ended_is_not_waited_for_because_of_what_it_left() {
        let began = Instant::now();
        let ended = output(shell("echo done; sleep 30 & exit 0"), PATIENCE).unwrap().unwrap();
        assert_eq!(ended.stdout, b"done\n");
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
