//! How fast the API is, and what it takes: `cargo bench -p windlass-apiserver --bench api -- [FILTER...]`.
//!
//! A case has a name, as `https create 64 clients 0 watchers`; it runs if each FILTER is a word of its name.
//! `--seconds N` and `--ops N` bound each case. Over HTTPS the server is a process of its own; the load comes
//! from one thread of this one, one connection per client. Data is below the target directory, or in the
//! directory that `--dir` names: on a memory file system, syncs cost nothing, and what is left is the API.

// A benchmark that cannot go on has nothing better to do than to say so.
#![allow(clippy::expect_used)]

#[path = "api/client.rs"]
mod client;
#[path = "api/machine.rs"]
mod machine;
#[path = "api/server.rs"]
mod server;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use client::Client;
use http::StatusCode;
use server::{Server, Transport};
use tokio::runtime::Runtime;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const CLIENTS: [usize; 3] = [1, 16, 64];
const WATCHERS: [usize; 2] = [0, 20];

/// Objects for the figures on memory and on starting.
const MANY: usize = 10_000;

/// How long watchers may take to catch up.
const HEARING: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    Create,
    Get,
    PatchStatus,
    Apply,
    Delete,
}

impl Verb {
    const ALL: [Self; 5] = [Self::Create, Self::Get, Self::PatchStatus, Self::Apply, Self::Delete];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Get => "get",
            Self::PatchStatus => "patch-status",
            Self::Apply => "apply",
            Self::Delete => "delete",
        }
    }

    /// Asks for it to be done to one object, as the `round`th change of it.
    async fn ask(self, client: &mut Client, number: usize, round: usize) {
        let (code, _) = client.send(machine::request(self, number, round)).await;
        let wanted = if self == Self::Create { StatusCode::CREATED } else { StatusCode::OK };
        assert_eq!(code, wanted, "{} {number}", self.name());
    }
}

struct Arguments {
    filters: Vec<String>,
    seconds: f64,
    ops: usize,
    dir: PathBuf,
}

impl Arguments {
    fn read(arguments: impl Iterator<Item = String>) -> Self {
        let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
        let mut read = Self { filters: Vec::new(), seconds: 2.0, ops: 100_000, dir };
        let mut arguments = arguments.filter(|argument| argument != "--bench");
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().expect("a value");
            match argument.as_str() {
                "--seconds" => read.seconds = value().parse().expect("seconds"),
                "--ops" => read.ops = value().parse().expect("a number"),
                "--dir" => read.dir = value().into(),
                _ => read.filters.push(argument),
            }
        }
        read
    }

    fn selects(&self, name: &str) -> bool {
        self.filters.iter().all(|filter| name.split(' ').any(|word| word == filter))
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    if let (Some("--serve"), Some(dir)) = (arguments.next().as_deref(), arguments.next()) {
        return server::run(dir.as_ref());
    }
    let arguments = Arguments::read(std::env::args().skip(1));
    say(
        "case                                              ops/s      p50      p99  server µs/op  ops/commit",
    );
    for transport in Transport::ALL {
        for watchers in WATCHERS {
            for clients in CLIENTS {
                Round { transport, watchers, clients }.run(&arguments);
            }
        }
    }
    memory(&arguments);
}

fn say(line: &str) {
    // A benchmark goes on if standard error is closed.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Cases that share a server.
#[derive(Clone, Copy)]
struct Round {
    transport: Transport,
    watchers: usize,
    clients: usize,
}

impl Round {
    fn name(&self, verb: Verb) -> String {
        let Self { transport, watchers, clients } = self;
        format!("{} {} {clients} clients {watchers} watchers", transport.name(), verb.name())
    }

    fn run(self, arguments: &Arguments) {
        let selected = |verb: &Verb| arguments.selects(&self.name(*verb));
        let Some(last) = Verb::ALL.iter().rposition(selected) else { return };
        let server = Server::start(self.transport, &arguments.dir);
        let runtime = self.transport.load_runtime();
        runtime.block_on(server.define());
        let seen = Arc::new(AtomicU64::new(0));
        for _ in 0..self.watchers {
            let (ready, is_ready) = tokio::sync::oneshot::channel();
            runtime.spawn(server::watch(server.connector(), Arc::clone(&seen), ready));
            runtime.block_on(is_ready).expect("a watcher");
        }
        let mut made = vec![0; self.clients];
        let mut changes = 0;
        for verb in &Verb::ALL[..=last] {
            // What later cases need is there even if the creation itself is not a case.
            if *verb != Verb::Create && !selected(verb) {
                continue;
            }
            let limit = if *verb == Verb::Create { arguments.ops.min(MANY) } else { arguments.ops };
            let outcome = self.measure(&runtime, &server, *verb, &made, limit, arguments.seconds);
            if *verb == Verb::Create {
                made.clone_from(&outcome.done);
            }
            if *verb != Verb::Get {
                changes += outcome.latencies.len() as u64;
            }
            if selected(verb) {
                outcome.print(&self.name(*verb));
            }
            let all = changes * self.watchers as u64;
            let heard = async {
                while seen.load(Ordering::Relaxed) < all {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let heard = runtime.block_on(async { tokio::time::timeout(HEARING, heard).await });
            heard.expect("watchers that hear of every change");
        }
    }

    fn measure(
        &self,
        runtime: &Runtime,
        server: &Server,
        verb: Verb,
        made: &[usize],
        limit: usize,
        seconds: f64,
    ) -> Outcome {
        let clients = self.clients;
        let connections: Vec<Client> = runtime.block_on(async {
            let mut connections = Vec::new();
            for _ in 0..clients {
                connections.push(server.connector().connect().await);
            }
            connections
        });
        let (cpu, commits) = (server.cpu(), server.commits());
        let start = Instant::now();
        let end = start + Duration::from_secs_f64(seconds);
        let tasks: Vec<_> = connections
            .into_iter()
            .enumerate()
            .map(|(place, mut client)| {
                let made = made[place];
                let most = match verb {
                    Verb::Delete => made,
                    Verb::Create => limit.saturating_sub(place).div_ceil(clients),
                    _ if made == 0 => 0,
                    _ => limit.saturating_sub(place).div_ceil(clients),
                };
                runtime.spawn(async move {
                    let mut latencies = Vec::new();
                    for turn in 0..most {
                        // Clients never touch the same object.
                        let (turn, round) = match verb {
                            Verb::Create | Verb::Delete => (turn, 0),
                            _ => (turn % made, turn / made + 1),
                        };
                        let asked = Instant::now();
                        if asked > end {
                            break;
                        }
                        verb.ask(&mut client, place + turn * clients, round).await;
                        latencies.push(asked.elapsed());
                    }
                    latencies
                })
            })
            .collect();
        let mut latencies = Vec::new();
        let mut done = Vec::new();
        for task in tasks {
            let of_one = runtime.block_on(task).expect("a client");
            done.push(of_one.len());
            latencies.extend(of_one);
        }
        let elapsed = start.elapsed();
        latencies.sort_unstable();
        Outcome { latencies, done, elapsed, cpu: server.cpu() - cpu, commits: server.commits() - commits }
    }
}

struct Outcome {
    latencies: Vec<Duration>,
    /// How many each client did.
    done: Vec<usize>,
    elapsed: Duration,
    cpu: Duration,
    commits: u64,
}

impl Outcome {
    fn print(&self, name: &str) {
        let count = self.latencies.len().max(1);
        let at = |share: f64| {
            let index = (count as f64 * share) as usize;
            self.latencies.get(index.min(count - 1)).copied().unwrap_or_default()
        };
        let rate = self.latencies.len() as f64 / self.elapsed.as_secs_f64();
        let cpu = self.cpu.as_micros() as f64 / count as f64;
        let per_commit = match self.commits {
            0 => String::new(),
            commits => format!("{:.1}", count as f64 / commits as f64),
        };
        let (half, most) = (at(0.5).as_micros(), at(0.99).as_micros());
        say(&format!("{name:<46} {rate:>9.0} {half:>6}µs {most:>6}µs {cpu:>13.0} {per_commit:>11}"));
    }
}

/// What a server takes without objects and with many, and how long it takes to start with them.
fn memory(arguments: &Arguments) {
    if !arguments.selects("memory") {
        return;
    }
    let runtime = Transport::Https.load_runtime();
    let server = Server::start(Transport::Https, &arguments.dir);
    runtime.block_on(server.define());
    let idle = server.resident_kib();
    say(&format!("memory of an idle server: {} MB", idle / 1024));
    let round = Round { transport: Transport::Https, watchers: 0, clients: 64 };
    let made = round.measure(&runtime, &server, Verb::Create, &[0; 64], MANY, 120.0).latencies.len();
    let more = (server.resident_kib() - idle) / 1024;
    say(&format!("memory of {made} objects: {more} MB more after creating them"));
    let dir = server.stop();
    let start = Instant::now();
    let server = Server::open(Transport::Https, dir);
    let ready = start.elapsed();
    let resident = server.resident_kib() / 1024;
    say(&format!("start with {made} objects: {} ms until ready, {resident} MB in all", ready.as_millis()));
}
