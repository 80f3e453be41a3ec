//! `windlass credentials`: the certificates and tokens of a data directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use windlass_api::GoDuration;
use windlass_apiserver::serve::{Credentials, CredentialsError, Home};

use crate::exit::Failure;
use crate::output;
use crate::serve::data_dir;

/// Show, rotate and give out credentials of the embedded API
#[derive(Args)]
#[command(after_help = "\
Certificates are good for a year, the authority for ten; both are renewed at the start of a server and while it runs.
A kubeconfig that was given out is good until its certificate ends: only a new authority takes it back before.

Examples:
  windlass credentials show
  windlass credentials kubeconfig --user eve --group dev --duration 24h --out eve.kubeconfig
  windlass credentials rotate
  windlass credentials rotate --ca")]
pub(crate) struct CredentialsCommand {
    #[command(subcommand)]
    action: Action,
    /// Data directory; left out, windlass below the user's data directory
    #[arg(long, value_name = "DIR", global = true)]
    data_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// Show what there is and until when it is good; keys and tokens are not printed
    Show,
    /// Make a new certificate and a new token for the administrator; a server that runs knows them after a restart
    Rotate {
        /// Make a new authority too: nothing that was given out is good any more
        #[arg(long)]
        ca: bool,
    },
    /// Make a kubeconfig for another user
    Kubeconfig(KubeconfigArguments),
}

#[derive(Args)]
struct KubeconfigArguments {
    /// Name of the user, as roles are bound to it
    #[arg(long, value_name = "NAME")]
    user: String,
    /// Group of the user; may be given twice
    #[arg(long = "group", value_name = "NAME")]
    groups: Vec<String>,
    /// How long it is good, as in Go: 90m, 24h; at most a year
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    duration: GoDuration,
    /// Address of the API in the kubeconfig
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:6443")]
    server: String,
    /// File to write (mode 0600); left out, it is printed
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(command: &CredentialsCommand) -> Result<(), Failure> {
    let directory = data_dir(command.data_dir.as_deref())?;
    let pki = Home::new(&directory).pki();
    if !pki.join("ca.crt").is_file() {
        let shown = directory.display();
        return Err(Failure::Invalid(format!(
            "{shown} has no credentials: windlass serve or windlass up makes them"
        )));
    }
    match &command.action {
        Action::Show => {
            output::print(&shown(&Credentials::in_directory(&pki).map_err(|error| failed(&error))?))
        }
        Action::Rotate { ca } => {
            let credentials = Credentials::rotate(&pki, *ca).map_err(|error| failed(&error))?;
            let what = if *ca { "A new authority, and a" } else { "A" };
            output::print(&format!(
                "{what} new certificate and token of the administrator. A server that runs knows them after a \
                 restart,\nwhich also writes its kubeconfig anew.\n\n{}",
                shown(&credentials)
            ))
        }
        Action::Kubeconfig(arguments) => kubeconfig(&pki, arguments),
    }
}

fn kubeconfig(pki: &std::path::Path, arguments: &KubeconfigArguments) -> Result<(), Failure> {
    let credentials = Credentials::in_directory(pki).map_err(|error| failed(&error))?;
    let lifetime = arguments.duration.to_std().unwrap_or(Duration::ZERO);
    let text = credentials
        .kubeconfig_for(&arguments.user, &arguments.groups, lifetime, &arguments.server)
        .map_err(|error| failed(&error))?;
    let Some(path) = &arguments.out else { return output::print(&text) };
    credentials.write_private(path, &text).map_err(|error| failed(&error))?;
    output::print(&format!("Wrote {}.\n\nNext: bind a role to user {:?}\n", path.display(), arguments.user))
}

fn shown(credentials: &Credentials) -> String {
    let mut text = String::from("CERTIFICATE  GOOD FROM             UNTIL\n");
    for certificate in credentials.certificates() {
        text.push_str(&format!(
            "{:<11}  {:<20}  {}\n",
            certificate.what, certificate.from, certificate.until
        ));
    }
    text.push_str("\nTOKEN OF  GROUPS\n");
    for (user, groups) in credentials.token_users() {
        text.push_str(&format!("{user:<8}  {}\n", groups.join(", ")));
    }
    text
}

fn failed(error: &CredentialsError) -> Failure {
    match error {
        CredentialsError::Refused(_) => Failure::Invalid(error.to_string()),
        _ => Failure::Failed(error.to_string()),
    }
}
