//! The `windlass` command: reads arguments, calls the libraries, prints.

mod backup;
mod check;
mod completion;
mod crds;
mod credentials;
mod demo;
mod describe;
mod exit;
mod extension;
mod kubeconfig;
mod live;
mod logging;
mod manifests;
mod output;
mod plan;
mod run;
mod runtime;
mod serve;
mod simulate;
mod stops;
mod table;
mod up;
mod upgrade;
mod version;
mod watch;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A request to the API makes and drops hundreds of small values, which this does in half the time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Takes Kubernetes clusters through chained upgrades, version by version.
#[derive(Parser)]
#[command(version, max_term_width = 110, disable_help_subcommand = true)]
#[command(after_help = "\
Exit codes: 0 done, 1 failed, 2 wrong usage or invalid input, 3 refused (no valid plan, unsafe).
Colour is used on a terminal only; set NO_COLOR to turn it off.")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::DemoCommand),
    Up(Box<up::UpCommand>),
    Run(Box<run::RunCommand>),
    Check(check::CheckCommand),
    Plan(Box<plan::PlanCommand>),
    Simulate(Box<simulate::SimulateCommand>),
    Describe(describe::DescribeCommand),
    Watch(watch::WatchCommand),
    Upgrade(Box<upgrade::UpgradeCommand>),
    Extension(extension::ExtensionCommand),
    Serve(serve::ServeCommand),
    Crds(crds::CrdsCommand),
    Credentials(credentials::CredentialsCommand),
    Backup(backup::BackupCommand),
    Restore(backup::RestoreCommand),
    Completion(completion::CompletionCommand),
    Man(completion::ManCommand),
    Version(version::VersionCommand),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Demo(command) => runtime::on_all_cores(demo::run(command)),
        Command::Up(command) => runtime::on_all_cores(up::run(*command)),
        Command::Run(command) => runtime::on_all_cores(run::run(*command)),
        Command::Check(command) => runtime::on_one_thread(check::run(command)),
        Command::Plan(command) => plan::run(*command),
        Command::Simulate(command) => simulate::run(*command),
        Command::Describe(command) => runtime::on_one_thread(describe::run(command)),
        Command::Watch(command) => runtime::on_one_thread(watch::run(command)),
        Command::Upgrade(command) => runtime::on_one_thread(upgrade::run(*command)),
        Command::Extension(command) => extension::run(command),
        Command::Serve(command) => runtime::on_all_cores(serve::run(command)),
        Command::Crds(command) => crds::run(&command),
        Command::Credentials(command) => credentials::run(&command),
        Command::Backup(command) => runtime::on_one_thread(backup::backup(command)),
        Command::Restore(command) => backup::restored(&command),
        Command::Completion(command) => completion::completion(&command),
        Command::Man(command) => completion::man(&command),
        Command::Version(command) => version::run(&command),
    };
    exit::report(outcome)
}
