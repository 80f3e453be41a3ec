//! Asks extensions which part of a change they can make in place.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::hooks::{
    CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineSet, CanUpdateMachineSetRequest, Hook,
    HookType,
};
use windlass_engine::in_place::{
    ClaimError, Claims, Composition, InPlaceAnswer, Level, Objects, Verdict, WhyNotInPlace, WhyUnusable,
};
use windlass_hooks::cache::Question;
use windlass_hooks::{Answer, CallError, CallFailure, HookClient, Registration};
use windlass_runtime::elsewhere;

use super::InPlaceExtensions;

/// How long a verdict counts. Everything that it follows from is part of what it is remembered by, except what an
/// extension is made of: one that was improved is asked again after this.
const KEEP_VERDICTS: Duration = Duration::from_secs(10 * 60);
/// No more verdicts are remembered than this. There is one for every old MachineSet and every control plane machine that
/// is to be updated.
const MOST_VERDICTS: usize = 4096;

/// Why it is not known whether a change can be made in place.
#[derive(Debug, thiserror::Error)]
pub enum InPlaceError {
    /// An extension could not be asked, or failed.
    #[error(transparent)]
    Call(#[from] CallError),
    /// An extension cannot be asked to do what it is asked about.
    #[error(transparent)]
    Claim(#[from] ClaimError),
}

impl InPlaceError {
    /// When the extension is asked again, if at a known time.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Call(error) => error.retry().map(|retry| retry.left),
            Self::Claim(_) => None,
        }
    }
}

/// The extensions that are asked about machines of a namespace, in the order of their full names.
pub struct CanUpdate<'a> {
    extensions: &'a InPlaceExtensions,
    hooks: Option<&'a HookClient>,
    level: Level,
    namespace: &'a str,
    /// Handlers of `CanUpdateMachine` or `CanUpdateMachineSet`.
    handlers: Vec<Arc<Registration>>,
    /// Handlers of `UpdateMachine`.
    updaters: Vec<Arc<Registration>>,
}

impl InPlaceExtensions {
    /// The extensions that are asked about machines of a namespace.
    ///
    /// # Errors
    ///
    /// They are not known.
    pub async fn that_can_update<'a>(
        &'a self,
        level: Level,
        namespace: &'a str,
    ) -> Result<CanUpdate<'a>, InPlaceError> {
        let hooks = self.hooks().await;
        let (mut handlers, mut updaters) = (Vec::new(), Vec::new());
        if let Some(hooks) = hooks {
            handlers = hooks.handlers(hook(level), namespace).await?;
            updaters = hooks.handlers(Hook::UpdateMachine, namespace).await?;
        }
        Ok(CanUpdate { extensions: self, hooks, level, namespace, handlers, updaters })
    }
}

impl CanUpdate<'_> {
    /// Whether there is no extension to be asked.
    pub fn is_empty(&self) -> bool {
        self.handlers.is_empty()
    }

    /// Asks one extension after the other until the change is covered.
    ///
    /// # Errors
    ///
    /// One could not be asked, or its answer cannot be used: nothing is decided then.
    pub async fn ask(&self, current: Objects, desired: Objects) -> Result<InPlaceAnswer, InPlaceError> {
        let mut composition = match Composition::new(self.level, current, desired) {
            Ok(composition) => composition,
            Err(why) => return Ok(Err(WhyNotInPlace::Impossible(why.to_string()))),
        };
        let Some(hooks) = self.hooks else { return Ok(composition.verdict().into_answer()) };
        let key = self.key(&composition);
        if let Some(verdict) = self.extensions.remembered(&key) {
            return Ok(verdict.into_answer());
        }
        let updating: BTreeSet<&str> =
            self.updaters.iter().map(|handler| handler.name.extension_config()).collect();
        for handler in &self.handlers {
            if composition.is_covered() {
                break;
            }
            if !updating.contains(handler.name.extension_config()) {
                let why = WhyUnusable::NoUpdateHandler;
                return Err(ClaimError { handler: handler.name.clone(), why }.into());
            }
            composition = call(hooks, handler, composition).await?;
        }
        let verdict = composition.verdict();
        // What an extension might have said that was not reached is not remembered.
        if verdict.not_reached.is_empty() {
            self.extensions.remember(key, &verdict);
        }
        Ok(verdict.into_answer())
    }

    /// Everything that a verdict follows from: who is asked, where and with which settings, and about what.
    fn key(&self, composition: &Composition) -> String {
        let registered: Vec<_> = self.handlers.iter().map(|handler| registration(handler)).collect();
        let updaters: Vec<&str> = self.updaters.iter().map(|handler| handler.name.as_str()).collect();
        let states = [composition.current().content(self.level), composition.desired().content(self.level)];
        let content = json!([self.namespace, registered, updaters, states]);
        // Two halves, so that two contents with the same hash are out of the question in practice.
        let hash = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, content.to_string()).hash(&mut hasher);
            hasher.finish()
        };
        format!("{:016x}{:016x}", hash(0), hash(1))
    }
}

impl InPlaceExtensions {
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

/// What is covered after one more extension has answered. An answer that cannot be used is a failure of its handler, and
/// asked for again as late as one.
async fn call(
    hooks: &HookClient,
    handler: &Registration,
    composition: Composition,
) -> Result<Composition, CallError> {
    let (current, desired) = (composition.current().clone(), composition.desired().clone());
    match composition.level() {
        Level::Machine => {
            let (current, desired) = (current.into(), desired.into());
            let request = CanUpdateMachineRequest { current, desired, ..CanUpdateMachineRequest::default() };
            ask_one::<CanUpdateMachine>(hooks, handler, request, composition).await
        }
        Level::MachineSet => {
            let (current, desired) = (current.into(), desired.into());
            let request =
                CanUpdateMachineSetRequest { current, desired, ..CanUpdateMachineSetRequest::default() };
            ask_one::<CanUpdateMachineSet>(hooks, handler, request, composition).await
        }
    }
}

async fn ask_one<H: HookType>(
    hooks: &HookClient,
    handler: &Registration,
    request: H::Request,
    mut composition: Composition,
) -> Result<Composition, CallError>
where
    Claims: From<H::Response>,
{
    let question = Question::of_content::<H>(handler.name.as_str(), &request);
    let ask = async {
        match hooks.call::<H>(handler, request).await?.map(Claims::from) {
            Answer::Given(claims) => composition.take(&handler.name, &claims).map_err(|error| {
                let (what, reason) = ("a patch or requirement", error.why.to_string());
                let failure = CallFailure::Unusable { what, reason };
                CallError::Failed { hook: H::HOOK, handler: handler.name.clone(), failure }
            })?,
            Answer::Ignored(_) => composition.pass_over(&handler.name),
        }
        Ok(composition)
    };
    elsewhere(hooks.at_pace(&question, ask)).await
}

/// Where a handler is and with which settings.
pub(super) fn registration(handler: &Registration) -> Value {
    json!([
        handler.name.as_str(),
        handler.client_config.as_ref(),
        handler.settings.as_ref(),
        handler.timeout.as_millis().to_string()
    ])
}
