//! Keeps a program running: starts it, and restarts it when it ends or on request.
//!
//! # Invariants
//! * One instance of a program at a time: the next one is started when the last one has ended.
//! * A program that ends at once is started less and less often.
//! * A supervisor that is stopped or dropped takes its program with it.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ferroplane_engine::chain;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::{Command, LineSink, Program};
use crate::grpc::Options;

/// How soon a program is started again that has ended. Doubles up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// One that ran for so long has earned a quick start again.
const GOOD_RUN: Duration = Duration::from_secs(30);

/// A program that is kept running until this is stopped or dropped.
#[derive(Debug)]
pub struct Supervisor {
    orders: mpsc::UnboundedSender<Order>,
    task: JoinHandle<()>,
}

/// How a program is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramState {
    /// It is started, and it is not known yet whether it will serve.
    Starting,
    /// It serves there.
    Running(SocketAddr),
    /// It ended or could not be started, for this reason. It will be tried again.
    Down(String),
}

/// What a supervisor does with what it learns.
#[derive(Clone)]
pub struct Reports {
    /// Is given every line that the program prints.
    pub line: LineSink,
    /// Receives the state of the program.
    pub state: watch::Sender<ProgramState>,
}

impl fmt::Debug for Reports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reports").field("state", &self.state).finish_non_exhaustive()
    }
}

enum Order {
    Restart,
    Stop,
}

impl Supervisor {
    /// Start a program, and keep it running.
    pub fn start(command: Command, options: Options, reports: Reports) -> Self {
        let (orders, received) = mpsc::unbounded_channel();
        let supervised = Supervised { command, options, reports, orders: received };
        Self { orders, task: tokio::spawn(supervised.run()) }
    }

    /// End the program and start it again, at once.
    pub fn restart(&self) {
        let _ = self.orders.send(Order::Restart);
    }

    /// End the program, and wait until it has.
    pub async fn stop(mut self) {
        let _ = self.orders.send(Order::Stop);
        let _ = (&mut self.task).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        // What the task holds ends the program when it is dropped.
        self.task.abort();
    }
}

struct Supervised {
    command: Command,
    options: Options,
    reports: Reports,
    orders: mpsc::UnboundedReceiver<Order>,
}

impl Supervised {
    async fn run(mut self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let began_at = Instant::now();
            let Some(reason) = self.run_once().await else { return };
            if began_at.elapsed() >= GOOD_RUN {
                pause = FIRST_PAUSE;
            }
            let Reason::Down(why) = reason else {
                pause = FIRST_PAUSE;
                continue;
            };
            self.reports.state.send_replace(ProgramState::Down(why));
            tokio::select! {
                order = self.orders.recv() => match order {
                    Some(Order::Restart) => pause = FIRST_PAUSE,
                    Some(Order::Stop) | None => return,
                },
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
            }
        }
    }

    /// Run the program until it ends, and say why it has. None if it is to be left so.
    async fn run_once(&mut self) -> Option<Reason> {
        self.reports.state.send_replace(ProgramState::Starting);
        let starting = Program::start_noting(&self.command, self.options.clone(), Some(&self.reports.line));
        let program = tokio::select! {
            started = starting => match started {
                Ok(program) => program,
                Err(error) => return Some(Reason::Down(chain(&error))),
            },
            // A user who has just saved a file does not want to wait for what it was before.
            order = self.orders.recv() => return order.filter(Order::is_restart).map(|_| Reason::Restart),
        };
        self.reports.state.send_replace(ProgramState::Running(program.address()));
        tokio::select! {
            how = program.ended() => Some(Reason::Down(how)),
            order = self.orders.recv() => {
                program.stop().await;
                order.filter(Order::is_restart).map(|_| Reason::Restart)
            }
        }
    }
}

impl Order {
    fn is_restart(&self) -> bool {
        matches!(self, Self::Restart)
    }
}

/// Why a program does not run any more.
enum Reason {
    Restart,
    Down(String),
}
