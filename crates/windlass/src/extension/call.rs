//! `windlass extension call`: call a hook of an extension the way the controllers do.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use tower::Layer;
use windlass_api::hooks::{self, Hook, HookType};
use windlass_hooks::transport::{
    BoxTransport, ClientIdentityFiles, HttpsTransport, RecordLayer, Replay, boxed,
};
use windlass_hooks::{Answer, HookClient, Labels};

use super::manifest::{read_config, read_yaml};
use crate::exit::Failure;
use crate::output::{self, DocumentFormat};

/// Call a hook of an extension as the controllers do, and print what it answers
#[derive(Args)]
#[command(after_help = "\
Examples:
  Which handlers does the extension have?
    windlass extension call Discovery --config extensionconfig.yaml

  Would it hold this upgrade?
    windlass extension call BeforeClusterUpgrade --config extensionconfig.yaml --request request.yaml

  Keep what was said, and answer from it later without the extension:
    windlass extension call Discovery --config extensionconfig.yaml --record-hooks exchanges/
    windlass extension call Discovery --config extensionconfig.yaml --replay-hooks exchanges/")]
pub(super) struct CallCommand {
    /// Name of the hook, such as BeforeClusterUpgrade
    hook: String,
    /// ExtensionConfig manifest that says where the extension is
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Handler to call, without the name of the ExtensionConfig; left out, all handlers of the hook
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// Request as YAML or JSON; left out, an empty one
    #[arg(long, value_name = "FILE")]
    request: Option<PathBuf>,
    /// Namespace the request is about, for the namespace selector
    #[arg(short, long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Label of that namespace; its name is one already
    #[arg(long, value_name = "KEY=VALUE")]
    namespace_label: Vec<String>,
    /// Client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_key")]
    client_cert: Option<PathBuf>,
    /// Key of the client certificate, PEM
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    client_key: Option<PathBuf>,
    /// Write every exchange with the extension into this directory, a file each
    #[arg(long, value_name = "DIR", conflicts_with = "replay_hooks")]
    record_hooks: Option<PathBuf>,
    /// Answer from such a directory instead of calling the extension
    #[arg(long, value_name = "DIR")]
    replay_hooks: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = DocumentFormat::Yaml)]
    output: DocumentFormat,
}

pub(super) async fn run(command: CallCommand) -> Result<(), Failure> {
    let hook: Hook = command.hook.parse().map_err(|error| {
        let known: Vec<&str> = Hook::ALL.iter().map(|hook| hook.name()).collect();
        Failure::Invalid(format!("{error}; known are {}", known.join(", ")))
    })?;
    let config = read_config(&command.config)?;
    let request = match &command.request {
        Some(path) => read_yaml(path)?,
        None => Value::Object(serde_json::Map::new()),
    };
    let client = HookClient::builder(transport(&command)?).namespaces(namespaces(&command)?).build();
    let name = config.name().to_owned();
    let mut discovered = client.warm_up([(config, None)]).await;
    let handlers = match discovered.remove(&name) {
        Some(Ok(handlers)) => handlers,
        Some(Err(error)) => return Err(Failure::Failed(format!("extension {name}: {error}"))),
        None => return Err(Failure::Failed(format!("extension {name}: its discovery was cut off"))),
    };
    if hook == Hook::Discovery {
        return output::print_document(command.output.into(), &Discovered { handlers: &handlers });
    }
    let call = Call { client, command: &command, extension: &name, request };
    let answers = by_type(hook, call).await?;
    if answers.is_empty() {
        return Err(Failure::Failed(format!(
            "extension {name} has no handler of {hook} for namespace {}",
            command.namespace
        )));
    }
    output::print_document(command.output.into(), &answers)
}

#[derive(Serialize)]
struct Discovered<'a, T> {
    handlers: &'a T,
}

/// What a handler answered, or the failure that its policy ignores.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum HandlerAnswer {
    Response(Value),
    IgnoredFailure(String),
}

struct Call<'a> {
    client: HookClient,
    command: &'a CallCommand,
    extension: &'a str,
    request: Value,
}

impl Call<'_> {
    async fn answers<H: HookType>(self) -> Result<BTreeMap<String, HandlerAnswer>, Failure> {
        let request: H::Request = hooks::decode_value(self.request)
            .map_err(|error| Failure::Invalid(format!("the request is not one of {}: {error}", H::HOOK)))?;
        let request = with_type_meta::<H>(request)?;
        let namespace = &self.command.namespace;
        let failed = |error: windlass_hooks::CallError| Failure::Failed(error.to_string());
        let names = match &self.command.handler {
            Some(handler) => vec![format!("{handler}.{}", self.extension)],
            None => {
                let handlers = self.client.handlers(H::HOOK, namespace).await.map_err(failed)?;
                handlers.iter().map(|handler| handler.name.to_string()).collect()
            }
        };
        let mut answers = BTreeMap::new();
        for name in names {
            let answer = match self.client.call_one::<H>(&name, namespace, &request).await.map_err(failed)? {
                Answer::Given(response) => HandlerAnswer::Response(
                    serde_json::to_value(response).map_err(|error| Failure::Failed(error.to_string()))?,
                ),
                Answer::Ignored(failure) => HandlerAnswer::IgnoredFailure(failure.to_string()),
            };
            answers.insert(name, answer);
        }
        Ok(answers)
    }
}

/// Fills in `kind` and `apiVersion`, which the controllers always send, where the user left them out.
fn with_type_meta<H: HookType>(request: H::Request) -> Result<H::Request, Failure> {
    let merged = serde_json::to_value(H::Request::default()).and_then(|mut whole| {
        if let (Value::Object(whole), Value::Object(given)) = (&mut whole, serde_json::to_value(&request)?) {
            whole.extend(given);
        }
        serde_json::from_value(whole)
    });
    merged.map_err(|error| Failure::Failed(error.to_string()))
}

async fn by_type(hook: Hook, call: Call<'_>) -> Result<BTreeMap<String, HandlerAnswer>, Failure> {
    macro_rules! dispatch {
        ($($name:ident)*) => {
            match hook {
                $(Hook::$name => call.answers::<hooks::$name>().await,)*
                Hook::Discovery => Ok(BTreeMap::new()),
            }
        };
    }
    dispatch! {
        BeforeClusterCreate AfterControlPlaneInitialized BeforeClusterUpgrade BeforeControlPlaneUpgrade
        AfterControlPlaneUpgrade BeforeWorkersUpgrade AfterWorkersUpgrade AfterClusterUpgrade BeforeClusterDelete
        GeneratePatches ValidateTopology DiscoverVariables GenerateUpgradePlan CanUpdateMachine
        CanUpdateMachineSet UpdateMachine ExternalUpdate
    }
}

fn transport(command: &CallCommand) -> Result<BoxTransport, Failure> {
    let cannot =
        |directory: &Path, error: String| Failure::Invalid(format!("{}: {error}", directory.display()));
    if let Some(directory) = &command.replay_hooks {
        let replay = Replay::open(directory).map_err(|error| cannot(directory, error.to_string()))?;
        return Ok(boxed(replay));
    }
    let mut https = HttpsTransport::builder();
    if let (Some(certificate), Some(key)) = (&command.client_cert, &command.client_key) {
        let files = ClientIdentityFiles::load(certificate, key)
            .map_err(|error| Failure::Invalid(format!("client certificate: {error}")))?;
        https = https.client_identity_files(files);
    }
    let https = https.build();
    match &command.record_hooks {
        None => Ok(boxed(https)),
        Some(directory) => {
            let record = RecordLayer::new(directory).map_err(|error| cannot(directory, error.to_string()))?;
            Ok(boxed(record.layer(https)))
        }
    }
}

fn namespaces(command: &CallCommand) -> Result<BTreeMap<String, Labels>, Failure> {
    // Every namespace has this label; many selectors use it.
    let mut labels = Labels::from([("kubernetes.io/metadata.name".to_owned(), command.namespace.clone())]);
    for label in &command.namespace_label {
        let (key, value) = label.split_once('=').ok_or_else(|| {
            Failure::Invalid(format!("--namespace-label: {label:?} is not of the form KEY=VALUE"))
        })?;
        labels.insert(key.to_owned(), value.to_owned());
    }
    Ok(BTreeMap::from([(command.namespace.clone(), labels)]))
}
