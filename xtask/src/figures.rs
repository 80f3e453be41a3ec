//! Figures of the whole program: how soon `windlass up` is ready, what it costs while nothing happens, how long the demo is.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::run::{self, Task, say};

/// How often it is started; the median is printed.
const STARTS: usize = 11;
/// How long it is watched while nothing happens.
const IDLE: Duration = Duration::from_secs(10);
/// Clock ticks per second in `/proc`, which Linux has fixed for user space.
const TICKS: f64 = 100.0;

/// Prints how long starts take, memory and processor time of an idle `windlass up`, and how long the demo takes: of a
/// binary that is there, or of one that is built with optimisations first.
pub(crate) fn of(binary: Option<&str>, target: &Path) -> Task {
    let windlass = program(binary, target)?;
    let data = target.join(format!("bench-up-{}", std::process::id()));
    let outcome = measure(&windlass, &data);
    // It is below target/: leftovers do no harm.
    let _ = std::fs::remove_dir_all(&data);
    outcome?;
    demo(&windlass)
}

/// The binary that was named, or one that is built with optimisations.
pub(crate) fn program(binary: Option<&str>, target: &Path) -> Result<PathBuf, String> {
    match binary {
        Some(path) => std::path::absolute(path).map_err(|error| format!("{path}: {error}")),
        None => {
            run::cargo(&["build", "--release", "--package", "windlass", "--locked"])?;
            Ok(target.join("release/windlass"))
        }
    }
}

/// The upgrade that `windlass demo` shows if it is not told otherwise, without a terminal.
fn demo(windlass: &Path) -> Task {
    let begun = Instant::now();
    let output = Command::new(windlass)
        .arg("demo")
        .output()
        .map_err(|error| format!("{} demo: {error}", windlass.display()))?;
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("windlass demo failed: {said}{}", String::from_utf8_lossy(&output.stderr)));
    }
    say(&format!(
        "windlass demo, from start to end: {:.1} s, of which the upgrade {} (wanted: a minute)",
        took.as_secs_f64(),
        said.lines().find(|line| line.contains(" of wall time")).unwrap_or_default()
    ));
    Ok(())
}

fn measure(windlass: &Path, data: &PathBuf) -> Task {
    let mut starts = Vec::new();
    let (first, up) = Up::start(windlass, data)?;
    drop(up);
    for _ in 0..STARTS {
        let (took, up) = Up::start(windlass, data)?;
        starts.push(took);
        drop(up);
    }
    starts.sort();
    say(&format!("windlass up, first start on an empty directory: ready after {} ms", first.as_millis()));
    say(&format!(
        "windlass up, start to ready: median {} ms, worst {} ms of {STARTS} (wanted: 300 ms)",
        starts[STARTS / 2].as_millis(),
        starts[STARTS - 1].as_millis()
    ));
    let (_, up) = Up::start(windlass, data)?;
    // What a start leaves behind is not idle yet.
    std::thread::sleep(Duration::from_secs(2));
    let before = up.ticks()?;
    std::thread::sleep(IDLE);
    let busy = (up.ticks()? - before) / TICKS / IDLE.as_secs_f64();
    say(&format!(
        "windlass up, idle: {} MiB resident, {:.2} % of a core",
        up.resident_kib()? / 1024,
        busy * 100.0
    ));
    Ok(())
}

/// A `windlass up` that ends with this.
struct Up(Child);

impl Up {
    fn start(windlass: &Path, data: &PathBuf) -> Result<(Duration, Self), String> {
        let begun = Instant::now();
        let mut child = Command::new(windlass)
            .args(["up", "--listen", "127.0.0.1:0", "--log-level", "error", "--data-dir"])
            .arg(data)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("windlass up: {error}"))?;
        let mut line = String::new();
        let said = child.stdout.as_mut().map(|out| BufReader::new(out).read_line(&mut line));
        let took = begun.elapsed();
        let up = Self(child);
        match said {
            Some(Ok(_)) if line.starts_with("Ready:") => Ok((took, up)),
            _ => Err(format!("windlass up did not get ready: {line:?}")),
        }
    }

    /// Processor time so far, in ticks.
    fn ticks(&self) -> Result<f64, String> {
        let stat = self.proc("stat")?;
        // Behind the name, which is in parentheses: user and system time are the 14th and 15th field of the line.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
        field(11).zip(field(12)).map(|(user, system)| user + system).ok_or_else(|| format!("/proc: {stat}"))
    }

    fn resident_kib(&self) -> Result<u64, String> {
        let status = self.proc("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .ok_or_else(|| format!("/proc: {status}"))
    }

    fn proc(&self, file: &str) -> Result<String, String> {
        std::fs::read_to_string(format!("/proc/{}/{file}", self.0.id()))
            .map_err(|error| format!("what a process costs is read from /proc: {error}"))
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to end.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
