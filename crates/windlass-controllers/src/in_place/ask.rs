//! Asks extensions which part of a change they can make in place.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::RegisteredName;
use windlass_api::hooks::{
    CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineSet, CanUpdateMachineSetRequest, Hook,
};
use windlass_engine::in_place::{
    ClaimError, Claims, Composition, Found, Level, Objects, Verdict, WhyUnusable,
};
use windlass_hooks::{Answer, CallError, HookClient};

use super::InPlaceExtensions;

/// How long a verdict counts. Everything that it follows from is part of what it is remembered by, except what an
/// extension is made of: one that was improved is asked again after this.
const KEEP_VERDICTS: Duration = Duration::from_secs(10 * 60);
/// No more verdicts are remembered than this. There is one for every old MachineSet and every control plane machine that
/// is to be updated.
const MOST_VERDICTS: usize = 4096;

/// Why nobody knows whether a change can be made in place.
#[derive(Debug, thiserror::Error)]
pub enum InPlaceError {
    /// An extension could not be asked, or failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An answer cannot be used.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl InPlaceExtensions {
    /// Whether there is anybody to be asked in a namespace.
    ///
    /// # Errors
    ///
    /// That is not known.
    pub async fn are_there(&self, level: Level, namespace: &str) -> Result<bool, InPlaceError> {
        match self.hooks().await {
            None => Ok(false),
            Some(hooks) => Ok(!hooks.handlers(hook(level), namespace).await?.is_empty()),
        }
    }

    /// Asks all extensions that are for a namespace, in the order of their full names, until the change is covered.
    ///
    /// # Errors
    ///
    /// One could not be asked, or its answer cannot be used: nothing is decided then.
    pub async fn ask(
        &self,
        level: Level,
        namespace: &str,
        current: Objects,
        desired: Objects,
    ) -> Result<Found, InPlaceError> {
        let mut composition = match Composition::new(level, current, desired) {
            Ok(composition) => composition,
            Err(why) => return Ok(Found::Impossible(why.to_string())),
        };
        let Some(hooks) = self.hooks().await else { return Ok(Found::Verdict(composition.verdict())) };
        let handlers = hooks.handlers(hook(level), namespace).await?;
        let updaters = hooks.handlers(Hook::UpdateMachine, namespace).await?;
        let key = key(hooks, &handlers, &updaters, namespace, &composition);
        if let Some(verdict) = self.remembered(&key) {
            return Ok(Found::Verdict(verdict));
        }
        let updating: BTreeSet<&str> = updaters.iter().map(RegisteredName::extension_config).collect();
        for handler in &handlers {
            if composition.is_covered() {
                break;
            }
            if !updating.contains(handler.extension_config()) {
                let why = WhyUnusable::NoUpdateHandler;
                return Err(ClaimError { handler: handler.clone(), why }.into());
            }
            match call(hooks, level, handler, namespace, &composition).await? {
                Answer::Given(claims) => composition.take(handler, &claims)?,
                Answer::Ignored(_) => composition.pass_over(handler),
            }
        }
        let verdict = composition.verdict();
        // What somebody might have said who was not reached is not remembered.
        if verdict.not_reached.is_empty() {
            self.remember(key, &verdict);
        }
        Ok(Found::Verdict(verdict))
    }

    fn remembered(&self, key: &str) -> Option<Verdict> {
        self.known().get(key).filter(|(until, _)| Instant::now() < *until).map(|(_, verdict)| verdict.clone())
    }

    fn remember(&self, key: String, verdict: &Verdict) {
        let mut known = self.known();
        if known.len() >= MOST_VERDICTS {
            let now = Instant::now();
            known.retain(|_, (until, _)| now < *until);
        }
        if known.len() < MOST_VERDICTS {
            known.insert(key, (Instant::now() + KEEP_VERDICTS, verdict.clone()));
        }
    }
}

fn hook(level: Level) -> Hook {
    match level {
        Level::Machine => Hook::CanUpdateMachine,
        Level::MachineSet => Hook::CanUpdateMachineSet,
    }
}

async fn call(
    hooks: &HookClient,
    level: Level,
    handler: &RegisteredName,
    namespace: &str,
    composition: &Composition,
) -> Result<Answer<Claims>, CallError> {
    let (current, desired) = (composition.current().clone(), composition.desired().clone());
    let name = handler.as_str();
    Ok(match level {
        Level::Machine => {
            let (current, desired) = (current.into(), desired.into());
            let request = CanUpdateMachineRequest { current, desired, ..CanUpdateMachineRequest::default() };
            match hooks.call_one::<CanUpdateMachine>(name, namespace, &request).await? {
                Answer::Given(response) => Answer::Given(response.into()),
                Answer::Ignored(failure) => Answer::Ignored(failure),
            }
        }
        Level::MachineSet => {
            let (current, desired) = (current.into(), desired.into());
            let request =
                CanUpdateMachineSetRequest { current, desired, ..CanUpdateMachineSetRequest::default() };
            match hooks.call_one::<CanUpdateMachineSet>(name, namespace, &request).await? {
                Answer::Given(response) => Answer::Given(response.into()),
                Answer::Ignored(failure) => Answer::Ignored(failure),
            }
        }
    })
}

/// Everything that a verdict follows from: who is asked, where and with which settings, and about what.
fn key(
    hooks: &HookClient,
    handlers: &[RegisteredName],
    updaters: &[RegisteredName],
    namespace: &str,
    composition: &Composition,
) -> String {
    let registered: Vec<_> = handlers.iter().map(|handler| registration(hooks, handler)).collect();
    let updaters: Vec<&str> = updaters.iter().map(RegisteredName::as_str).collect();
    let level = composition.level();
    let states = [composition.current().content(level), composition.desired().content(level)];
    let content = json!([namespace, registered, updaters, states]);
    // Two halves, so that two contents with the same hash are out of the question in practice.
    let hash = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, content.to_string()).hash(&mut hasher);
        hasher.finish()
    };
    format!("{:016x}{:016x}", hash(0), hash(1))
}

/// Where a handler is and with which settings.
pub(super) fn registration(hooks: &HookClient, handler: &RegisteredName) -> Value {
    hooks.registry().get(handler.as_str()).map_or(Value::Null, |handler| {
        json!([
            handler.name.as_str(),
            handler.client_config.as_ref(),
            handler.settings.as_ref(),
            handler.timeout.as_millis().to_string()
        ])
    })
}
