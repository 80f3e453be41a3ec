//! `windlass watch` in a pseudo terminal, and without one.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::describe::{Server, create, objects, tell, windlass};

/// What a terminal shows: the sequences that `windlass watch` writes, and no others.
struct Terminal {
    width: usize,
    cells: Vec<Vec<char>>,
    cursor: (usize, usize),
}

impl Terminal {
    fn new(width: usize, height: usize) -> Self {
        Self { width, cells: vec![vec![' '; width]; height], cursor: (0, 0) }
    }

    fn write(&mut self, text: &str) {
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            rest = &rest[c.len_utf8()..];
            if c == '\u{1b}' && rest.starts_with('[') {
                let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len() - 1);
                let (parameters, last) = (&rest[1..end], &rest[end..=end]);
                rest = &rest[end + 1..];
                let mut numbers = parameters.split(';').map(|number| number.parse().unwrap_or(1));
                match last {
                    "H" => self.cursor = (numbers.next().unwrap_or(1) - 1, numbers.next().unwrap_or(1) - 1),
                    "J" => self.cells.iter_mut().for_each(|row| row.fill(' ')),
                    "m" | "h" | "l" => {}
                    other => panic!("a sequence that is not known: {parameters}{other}"),
                }
            } else if !c.is_control() {
                let (row, column) = self.cursor;
                assert!(column < self.width, "a line sticks out");
                self.cells[row][column] = c;
                self.cursor = (row, column + 1);
            }
        }
    }

    fn lines(&self) -> Vec<String> {
        self.cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }
}

/// A session in a pseudo terminal of a size: waits for words, then presses keys. Says what was on the screen each time.
fn session(directory: &Path, width: usize, height: usize, steps: &[(&str, &str)]) -> Vec<Vec<String>> {
    let program = env!("CARGO_BIN_EXE_windlass");
    let command = format!("stty cols {width} rows {height}; exec {program} watch --kubeconfig kubeconfig");
    let mut child = Command::new("script")
        .args(["--quiet", "--return", "--flush", "--command", &command, "/dev/null"])
        .current_dir(directory)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("script of util-linux is needed: {error}"));
    let written: Arc<Mutex<Vec<u8>>> = Arc::default();
    let mut out = child.stdout.take().unwrap();
    let sink = Arc::clone(&written);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = out.read(&mut bytes) {
            sink.lock().unwrap().extend_from_slice(&bytes[..count]);
        }
    });
    let shown = || -> Vec<String> {
        let bytes = written.lock().unwrap().clone();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let mut terminal = Terminal::new(width, height);
        // A picture that is not there as a whole ends in the middle of a sequence.
        let whole = text.rfind("\u{1b}[0m").map_or("", |end| &text[..end]);
        terminal.write(whole);
        terminal.lines()
    };
    let mut screens = Vec::new();
    let mut keys = child.stdin.take().unwrap();
    for (words, key) in steps {
        let begun = Instant::now();
        let screen = loop {
            let screen = shown();
            if screen.iter().any(|line| line.contains(words)) {
                break screen;
            }
            assert!(begun.elapsed() < Duration::from_secs(120), "no {words:?} in\n{}", screen.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        };
        screens.push(screen);
        keys.write_all(key.as_bytes()).and_then(|()| keys.flush()).unwrap();
    }
    let status = child.wait().unwrap();
    reader.join().unwrap();
    assert!(status.success(), "{status}");
    let text = String::from_utf8_lossy(&written.lock().unwrap()).into_owned();
    assert!(
        text.contains("\u{1b}[?1049h") && text.trim_end().ends_with("\u{1b}[?1049l"),
        "the screen is left as it was"
    );
    screens
}

#[tokio::test(flavor = "multi_thread")]
async fn clusters_are_watched_in_a_terminal_of_any_size() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = Server::start(path, &["--cluster-api"]);
    create(path, &objects()).await;
    tell(path).await;
    for (width, height) in [(80, 24), (200, 50)] {
        let steps = [
            ("v1.29.0", "?"),
            ("Verdicts", " "),
            ("CLUSTER", "\r"),
            ("EVENTS", "\u{1b}[D"),
            ("CLUSTER", "q"),
        ];
        let screens = session(path, width, height, &steps);
        let fleet = &screens[0];
        assert_eq!(fleet[0], "windlass  1 clusters  1 progressing");
        let words: Vec<&str> = fleet[2].split_whitespace().collect();
        assert_eq!(
            words,
            ["CLUSTER", "FROM", "TO", "STEP", "MACH", "TIME", "ETA", "SKEW", "SINCE", "WAITING", "ON"]
        );
        assert!(fleet[3].starts_with("default/c1"), "{}", fleet[3]);
        for cell in ["v1.29.0", "v1.33.0", "4/6", "0/3"] {
            assert!(fleet[3].split_whitespace().any(|word| word == cell), "{cell} in {}", fleet[3]);
        }
        assert_eq!(fleet[height - 1], "enter lanes  / filter  q end  ? keys");
        let cluster = screens[3].join("\n");
        for part in [
            "default/c1   v1.29.0 -> v1.33.0   progressing",
            "control plane",
            "✔ ",
            "▶ c1-web v1.32.0 0/2",
            "waiting on MachineDeployment c1-web",
        ] {
            assert!(cluster.contains(part), "{part} in\n{cluster}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_terminal_there_are_lines() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = Server::start(path, &["--cluster-api"]);
    create(path, &objects()).await;
    let watch = ["watch", "cluster", "c1", "--kubeconfig", "kubeconfig"];
    let mut watching = windlass(path, &watch).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(watching.stdout.take().unwrap()).lines();
    let (found, first) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut lines = lines.map_while(Result::ok).filter(|line| line.contains("of 2 machines"));
        // Nothing waits for it any more if it comes too late.
        let _ = lines.next().map(|line| found.send(line));
    });
    let line = first.recv_timeout(std::time::Duration::from_secs(60));
    watching.kill().unwrap();
    watching.wait().unwrap();
    let line = line.unwrap();
    let (at, said) = line.split_once(' ').unwrap();
    assert_eq!((at.len(), at.matches(':').count()), (8, 2), "{line}");
    assert!(said.starts_with("default/c1 progressing ["), "{line}");
}
