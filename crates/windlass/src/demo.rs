//! `windlass demo`: a cluster in memory, upgraded live.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use windlass_demo::{DemoError, DemoOptions, Model, Outcome, Phase, StepState, frame, lines, summary, svg};
use windlass_version::Version;

use crate::exit::Failure;
use crate::output;
use crate::serve::termination;

/// Upgrade a cluster in memory through four minors, and watch: API, controllers, hooks over HTTPS
#[derive(Args)]
#[command(after_help = "\
Nothing outside this process is touched. What runs is what windlass up runs; only the machines are in memory, and
their delays are divided by the speed. Without a terminal, one line is printed per event.

Examples:
  windlass demo
  windlass demo --from v1.31.0 --to v1.35.0 --workers 5,1
  windlass demo --in-place
  windlass demo --speed 1
  windlass demo --keep")]
pub(crate) struct DemoCommand {
    /// Version at the beginning
    #[arg(long, value_name = "V", default_value = "v1.29.0")]
    from: Version,
    /// Version at the end; the minors in between are passed through
    #[arg(long, value_name = "V", default_value = "v1.33.0")]
    to: Version,
    /// Machines of each worker group
    #[arg(long, value_name = "N,N,...", default_value = "3,2,2", value_delimiter = ',')]
    workers: Vec<u32>,
    /// How many times faster than real ones machines start; 1 is real time
    #[arg(long, value_name = "X", default_value_t = 100.0)]
    speed: f64,
    /// What all chance comes from
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Update machines in place instead of replacing them
    #[arg(long)]
    in_place: bool,
    /// Stay up afterwards, and print the kubeconfig
    #[arg(long)]
    keep: bool,
    /// Write a picture (SVG) of the middle of the upgrade
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// No more pictures than this per second: a terminal at the end of a slow line is to keep up.
const FRAME: Duration = Duration::from_millis(80);

/// Of groups and of their machines there may be more than can be looked at.
const MOST_GROUPS: usize = 12;
const MOST_MACHINES: u32 = 100;

pub(crate) async fn run(command: DemoCommand) -> Result<(), Failure> {
    let options = options(&command)?;
    let stop = termination()?;
    // A terminal that cannot move its cursor gets lines, as a file does.
    let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
    let screen = (std::io::stdout().is_terminal() && !is_dumb).then(Screen::enter);
    let mut show = Show { screen, last: None, picture: None, shown: None };
    let outcome = tokio::select! {
        outcome = windlass_demo::run(&options, |model| show.model(model)) => outcome,
        () = stop => {
            drop(show);
            return Err(Failure::Failed("interrupted".to_owned()));
        }
    };
    let picture = show.picture.take();
    drop(show);
    let Outcome { model, virtual_time, kept } = outcome.map_err(|error| match error {
        DemoError::NoPlan(_) | DemoError::NotNewer { .. } => Failure::Refused(error.to_string()),
        other => Failure::Failed(other.to_string()),
    })?;
    if let Some(path) = &command.picture {
        let text = svg(picture.as_ref().unwrap_or(&model), 100, 26);
        std::fs::write(path, text)
            .map_err(|error| Failure::Failed(format!("cannot write {}: {error}", path.display())))?;
    }
    output::print(&format!("\n{}", summary(&model, virtual_time)))?;
    let Some(kubeconfig) = options.kubeconfig else {
        output::print(NEXT)?;
        return kept.stop().await.map_err(|error| Failure::Failed(error.to_string()));
    };
    let path = kubeconfig.display();
    output::print(&format!(
        "\nStill up at {}; end it with ctrl-c.\n\nNext: kubectl --kubeconfig {path} get clusters,machines\n",
        kept.url()
    ))?;
    termination()?.await;
    let ended = kept.stop().await.map_err(|error| Failure::Failed(error.to_string()));
    // It is of no use any more.
    let _ = std::fs::remove_dir_all(kubeconfig.parent().unwrap_or(&kubeconfig));
    ended
}

const NEXT: &str = "
Next: windlass demo --keep           look around with kubectl afterwards
      windlass up                    the same, durable, for clusters of your own
      windlass plan --help           what an upgrade will do, before it does it
";

fn options(command: &DemoCommand) -> Result<DemoOptions, Failure> {
    let invalid = |message: &str| Err(Failure::Invalid(message.to_owned()));
    if !(command.speed.is_finite() && command.speed >= 0.1) {
        return invalid("--speed must be at least 0.1");
    }
    if command.workers.len() > MOST_GROUPS || command.workers.iter().any(|count| *count > MOST_MACHINES) {
        return Err(Failure::Invalid(format!(
            "--workers: at most {MOST_GROUPS} groups of {MOST_MACHINES} machines"
        )));
    }
    let kubeconfig = match command.keep {
        false => None,
        true => {
            let directory = std::env::temp_dir().join(format!("windlass-demo-{}", std::process::id()));
            std::fs::create_dir_all(&directory)
                .map_err(|error| Failure::Failed(format!("cannot make {}: {error}", directory.display())))?;
            Some(directory.join("kubeconfig"))
        }
    };
    Ok(DemoOptions {
        from: command.from.clone(),
        to: command.to.clone(),
        workers: command.workers.clone(),
        speed: command.speed,
        seed: command.seed,
        in_place: command.in_place,
        kubeconfig,
    })
}

/// Shows models: as pictures on a terminal, as lines elsewhere.
struct Show {
    screen: Option<Screen>,
    last: Option<Model>,
    /// The middle of the upgrade, for a picture of it.
    picture: Option<Model>,
    shown: Option<Instant>,
}

impl Show {
    fn model(&mut self, model: &Model) {
        let done = model.steps.iter().filter(|step| step.state == StepState::Done).count();
        let running = |step: &windlass_demo::PlanStep| {
            step.state == StepState::Running && step.text.starts_with("workers")
        };
        if self.picture.is_none() && done >= 3 && model.steps.iter().any(running) {
            self.picture = Some(model.clone());
        }
        match &mut self.screen {
            Some(screen) => {
                let due = self.shown.is_none_or(|shown| shown.elapsed() >= FRAME);
                if due || model.phase == Phase::Done {
                    screen.draw(model);
                    self.shown = Some(Instant::now());
                }
            }
            None => {
                for line in lines(self.last.as_ref(), model) {
                    // Standard output is closed: the demo goes on to its end all the same.
                    let _ = writeln!(anstream::stdout(), "{line}");
                }
                self.last = Some(model.clone());
            }
        }
    }
}

/// The terminal: its cursor is hidden while pictures are drawn, and comes back when this is dropped.
struct Screen;

impl Screen {
    fn enter() -> Self {
        write("\x1b[?25l\x1b[2J");
        Self
    }

    fn draw(&mut self, model: &Model) {
        let (width, height) = terminal_size::terminal_size()
            .map_or((80, 24), |(width, height)| (usize::from(width.0), usize::from(height.0)));
        // Each line is cleared behind its end, and everything below the last.
        let mut picture = frame(model, width, height.saturating_sub(1));
        if anstream::AutoStream::choice(&std::io::stdout()) == anstream::ColorChoice::Never {
            picture = anstream::adapter::strip_str(&picture).to_string();
        }
        let picture = picture.replace('\n', "\x1b[K\n");
        write(&format!("\x1b[H{picture}\x1b[J"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        write("\x1b[?25h");
    }
}

/// Writes as it is: what moves the cursor is needed also where colours are not wanted.
fn write(text: &str) {
    let mut out = std::io::stdout().lock();
    // A terminal that is gone sees no picture.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
