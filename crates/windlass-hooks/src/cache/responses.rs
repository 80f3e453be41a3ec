//! Answers that depend only on what was asked.

use windlass_api::RegisteredName;
use windlass_api::hooks::Settings;

/// What an answer depends on. Two calls with the same key may share one answer.
///
/// Settings are ordered, so that the same ones make the same key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResponseKey {
    handler: RegisteredName,
    revision: String,
    settings: Settings,
    inputs: Vec<String>,
}

impl ResponseKey {
    /// The key of a call. `revision` is that of the ExtensionConfig: whatever changes there, also the set of
    /// its handlers, makes old answers unusable. `inputs` are the parts of the request that matter.
    pub fn new(
        handler: RegisteredName,
        revision: impl Into<String>,
        settings: Settings,
        inputs: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let inputs = inputs.into_iter().map(Into::into).collect();
        Self { handler, revision: revision.into(), settings, inputs }
    }
}
