//! Where settings come from: a flag, else an environment variable, else the config file, else the default.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use windlass_engine::features::Features;
use windlass_manager::{Data, Selection, UpOptions};

use super::UpCommand;
use crate::exit::Failure;
use crate::logging::LogFormat;
use crate::output;
use crate::serve::{certificate_name, data_dir};
use crate::web::{WebListen, WebSettings};

/// Largest config file that is read.
const MAX_FILE: u64 = 64 * 1024;

/// The port of Kubernetes APIs.
const PORT: u16 = 6443;

/// All settings, each from wherever it was given.
#[derive(Debug)]
pub(super) struct Settings {
    pub(super) options: UpOptions,
    pub(super) web: WebSettings,
    pub(super) log_level: String,
    pub(super) log_format: LogFormat,
}

/// What a config file may say.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    data_dir: Option<PathBuf>,
    in_memory: Option<bool>,
    listen: Option<SocketAddr>,
    tls_san: Option<Vec<String>>,
    kubeconfig_out: Option<PathBuf>,
    controllers: Option<Vec<String>>,
    dev_provider: Option<bool>,
    admission: Option<bool>,
    feature_gates: Option<String>,
    metrics_listen: Option<SocketAddr>,
    web_listen: Option<String>,
    web_token_file: Option<PathBuf>,
    log_level: Option<String>,
    log_format: Option<LogFormat>,
}

impl File {
    fn read(path: &Path) -> Result<Self, Failure> {
        let text = output::read_file(path, MAX_FILE).map_err(Failure::Invalid)?;
        serde_saphyr::from_str(&text)
            .map_err(|error| Failure::Invalid(format!("{}: {}", path.display(), output::yaml_error(&error))))
    }
}

impl Settings {
    /// Puts settings together. Flags and environment variables are in the command already.
    pub(super) fn settle(command: UpCommand) -> Result<Self, Failure> {
        let file = command.config.as_deref().map(File::read).transpose()?.unwrap_or_default();
        let in_memory = command.in_memory || (command.data_dir.is_none() && file.in_memory == Some(true));
        let data = if in_memory {
            Data::Memory
        } else {
            let named = command.data_dir.or(file.data_dir);
            Data::Directory { path: data_dir(named.as_deref())?, relaxed: false }
        };
        let beside = match &data {
            Data::Directory { path, .. } => Some(path.join("kubeconfig")),
            Data::Memory => None,
        };
        let listen = command.listen.or(file.listen).unwrap_or((Ipv4Addr::LOCALHOST, PORT).into());
        let controllers = match command.controllers.or(file.controllers) {
            None => Selection::all(),
            Some(names) => {
                Selection::from_names(names).map_err(|error| Failure::Invalid(error.to_string()))?
            }
        };
        let of_file = file.feature_gates.map(|gates| gates.parse::<Features>());
        let of_file = of_file.transpose();
        let of_file = of_file.map_err(|error| Failure::Invalid(format!("featureGates: {error}")))?;
        let features = command.feature_gates.or(of_file).unwrap_or_default();
        let names = command.tls_san.or(file.tls_san).unwrap_or_default();
        for name in &names {
            certificate_name(name)
                .map_err(|problem| Failure::Invalid(format!("tlsSan {name:?} is {problem}")))?;
        }
        let of_file = file.web_listen.map(|listen| listen.parse::<WebListen>()).transpose();
        let of_file = of_file.map_err(|error| Failure::Invalid(format!("webListen: {error}")))?;
        let web = WebSettings {
            listen: command.web_listen.or(of_file).unwrap_or(WebListen::At((Ipv4Addr::LOCALHOST, 0).into())),
            token_file: command.web_token_file.or(file.web_token_file),
        };
        let options = UpOptions {
            names,
            kubeconfig: command.kubeconfig_out.or(file.kubeconfig_out).or(beside),
            controllers,
            features,
            has_dev_provider: !command.no_dev_provider && file.dev_provider != Some(false),
            has_admission: !command.no_admission && file.admission != Some(false),
            diagnostics: command.metrics_listen.or(file.metrics_listen),
            ..UpOptions::new(data, listen)
        };
        Ok(Self {
            options,
            web,
            log_level: command.log_level.or(file.log_level).unwrap_or_else(|| "info".to_owned()),
            log_format: command.log_format.or(file.log_format).unwrap_or_default(),
        })
    }
}
