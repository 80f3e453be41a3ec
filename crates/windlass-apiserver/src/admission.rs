//! Admission: what has a say in whether, and as what, an object is written.

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::identity::Identity;

/// A write that asks for admission.
#[derive(Debug, Clone, Copy)]
pub struct Review<'a> {
    /// What is done.
    pub operation: Operation,
    /// The group of the resource.
    pub group: &'a str,
    /// The version of the request.
    pub version: &'a str,
    /// The plural name of the resource.
    pub resource: &'a str,
    /// The kind of the object.
    pub kind: &'a str,
    /// The part of the object that is written, empty for all of it.
    pub subresource: &'a str,
    /// The namespace, empty for objects without one.
    pub namespace: &'a str,
    /// The name; empty while it is still to be generated.
    pub name: &'a str,
    /// Who asks.
    pub user: &'a Identity,
    /// The object as it is; absent when it is created.
    pub old: Option<&'a Value>,
    /// Whether nothing will be written whatever the answer is.
    pub dry_run: bool,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Makes a new object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
}

impl Operation {
    /// The word in admission reviews.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

/// A refusal, with the reason that the client is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Denial {
    /// Why.
    pub message: String,
    /// The fields at fault, as `(field, detail)`; with any, the answer is 422 instead of 403.
    pub fields: Vec<(String, String)>,
}

impl Denial {
    /// A refusal of the whole.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), fields: Vec::new() }
    }
}

/// Something in the process that has a say.
///
/// It is asked on every attempt to write: when two writes race, more than once for one request.
pub trait Admission: Send + Sync {
    /// Whether it wants to be asked about a resource at all.
    fn handles(&self, group: &str, resource: &str) -> bool;

    /// Changes the object before it is written.
    fn mutate<'a>(
        &'a self,
        _review: &'a Review<'a>,
        _object: &'a mut Value,
    ) -> BoxFuture<'a, Result<(), Denial>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Refuses the object, or lets it pass with warnings. The object is the old one for a deletion.
    fn validate<'a>(
        &'a self,
        _review: &'a Review<'a>,
        _object: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, Denial>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }
}
