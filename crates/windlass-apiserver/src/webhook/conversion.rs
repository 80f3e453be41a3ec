//! Conversion between the versions of a defined kind by a webhook.

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use windlass_random::{Randomness, uuid};

use super::client;
use super::hook::Target;
use super::service::Directory;
use crate::registry::ConvertFn;

/// How long a webhook may take to convert one object: Kubernetes' own limit.
const PATIENCE: Duration = Duration::from_secs(30);

/// How many converted objects are remembered for each kind. Lists and watches convert the same ones again.
const REMEMBERED: usize = 2048;

/// An object at one moment, and the version that it was converted to: `uid`, `resourceVersion`, from, to.
type Moment = (String, String, String, String);

/// The conversion that a CRD asks for, if it asks for one.
pub(crate) fn of_crd(crd: &Value, directory: &Directory) -> Option<ConvertFn> {
    let conversion = &crd["spec"]["conversion"];
    if conversion["strategy"] != "Webhook" {
        return None;
    }
    let target = Target::read(&conversion["webhook"]["clientConfig"]);
    let directory = directory.clone();
    let known: Mutex<BTreeMap<Moment, Value>> = Mutex::default();
    let convert = move |object: &mut Value, from: &str, to: &str| {
        let lock = || known.lock().unwrap_or_else(PoisonError::into_inner);
        let moment = moment(object, from, to);
        if let Some(converted) = moment.as_ref().and_then(|moment| lock().get(moment).cloned()) {
            *object = converted;
            return Ok(());
        }
        let failed = |why: String| {
            let kind = object["kind"].as_str().unwrap_or_default();
            format!("conversion webhook for {from}, Kind={kind} failed: {why}")
        };
        let converted = ask(&directory, &target, object, to).map_err(failed)?;
        if let Some(moment) = moment {
            let mut known = lock();
            if known.len() >= REMEMBERED {
                known.clear();
            }
            known.insert(moment, converted.clone());
        }
        *object = converted;
        Ok(())
    };
    Some(Arc::new(convert))
}

/// What tells a state of an object from all others. An object that is being written has none yet.
fn moment(object: &Value, from: &str, to: &str) -> Option<Moment> {
    let text =
        |name: &str| object["metadata"][name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    Some((text("uid")?, text("resourceVersion")?, from.to_owned(), to.to_owned()))
}

fn ask(directory: &Directory, target: &Target, object: &Value, to: &str) -> Result<Value, String> {
    let uid = uuid(&mut Randomness::unpredictable().generator(&["ConversionReview"]));
    let question = json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {"uid": uid, "desiredAPIVersion": to, "objects": [object]},
    });
    let answer = wait(directory.clone(), target.clone(), question)?;
    let response = &answer["response"];
    if response["uid"] != uid {
        return Err("its answer is to another question".to_owned());
    }
    if response["result"]["status"] != "Success" {
        let message = response["result"]["message"].as_str().unwrap_or("it did not say why");
        return Err(message.to_owned());
    }
    let converted = response["convertedObjects"].as_array().map(Vec::as_slice).unwrap_or_default();
    let [converted] = converted else {
        return Err(format!("expected 1 converted object, got {}", converted.len()));
    };
    accept(object, converted.clone(), to)
}

/// A webhook may change everything of an object but what it is. Of its metadata, only labels and annotations.
fn accept(before: &Value, mut converted: Value, to: &str) -> Result<Value, String> {
    if converted["apiVersion"] != to {
        return Err(format!("it returned an object of version {}", converted["apiVersion"]));
    }
    if converted["kind"] != before["kind"] {
        return Err(format!("it returned an object of kind {}", converted["kind"]));
    }
    for field in ["name", "namespace", "uid"] {
        if converted["metadata"][field] != before["metadata"][field] {
            return Err(format!("it changed metadata.{field}"));
        }
    }
    let mut metadata = before["metadata"].clone();
    for field in ["labels", "annotations"] {
        match converted["metadata"].get(field) {
            Some(value) => metadata[field] = value.clone(),
            None => {
                if let Value::Object(fields) = &mut metadata {
                    fields.remove(field);
                }
            }
        }
    }
    converted["metadata"] = metadata;
    Ok(converted)
}

/// Objects are converted in the middle of things that do not wait, so this blocks its thread: requests and
/// watches that may come here do so on a thread of their own, see [`elsewhere`](crate::verbs::elsewhere). The
/// call itself runs on another one.
fn wait(directory: Directory, target: Target, question: Value) -> Result<Value, String> {
    static CALLS: LazyLock<Option<Handle>> = LazyLock::new(|| {
        let runtime = Builder::new_current_thread().enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        let run = move || runtime.block_on(std::future::pending::<()>());
        std::thread::Builder::new().name("conversion".to_owned()).spawn(run).ok()?;
        Some(handle)
    });
    let calls = CALLS.as_ref().ok_or("no thread can be started for it")?;
    let (sender, answer) = mpsc::sync_channel(1);
    calls.spawn(async move {
        // The receiver is gone if the caller has given up.
        let _ = sender.send(client::post(&directory, &target, PATIENCE, &question).await);
    });
    let receive = || answer.recv().map_err(|_| "the call ended without an answer".to_owned());
    let spare =
        Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread);
    let answer = if spare { tokio::task::block_in_place(receive) } else { receive() };
    answer?.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_webhook_changes_neither_what_an_object_is_nor_its_history() {
        let before = json!({"apiVersion": "g/v1", "kind": "K",
            "metadata": {"name": "a", "uid": "u", "generation": 3, "labels": {"x": "y"}}, "spec": {"a": 1}});
        let after = |change: &dyn Fn(&mut Value)| {
            let mut after = json!({"apiVersion": "g/v2", "kind": "K",
                "metadata": {"name": "a", "uid": "u", "generation": 9, "annotations": {"k": "v"}}, "spec": {"b": 1}});
            change(&mut after);
            accept(&before, after, "g/v2")
        };
        let expected = json!({"apiVersion": "g/v2", "kind": "K",
            "metadata": {"name": "a", "uid": "u", "generation": 3, "annotations": {"k": "v"}}, "spec": {"b": 1}});
        assert_eq!(after(&|_| {}), Ok(expected));
        assert!(after(&|object| object["metadata"]["name"] = "b".into()).is_err());
        assert!(after(&|object| object["kind"] = "L".into()).is_err());
        assert!(after(&|object| object["apiVersion"] = "g/v3".into()).is_err());
    }
}
