//! Objects as the store keeps them, and values as callers hand them over.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::key::Key;

type Meta = Arc<dyn Any + Send + Sync>;

/// One version of one object. Never changes: a write makes a new one.
pub struct Object {
    key: Key,
    revision: u64,
    value: Bytes,
    meta: OnceLock<Meta>,
}

impl Object {
    pub(crate) fn new(key: Key, revision: u64, value: Bytes) -> Self {
        Self { key, revision, value, meta: OnceLock::new() }
    }

    /// Which object it is.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision of the write that made this version.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The bytes the caller wrote.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// What the caller derives from the bytes (labels, uid, owners), derived at most once per version
    /// and shared by all who hold it. It is never written to disk.
    ///
    /// One store holds one type here. Asked for a second type, `derive` runs on every call: the answer
    /// is right, but nothing is saved.
    pub fn meta<T: Any + Send + Sync>(&self, derive: impl FnOnce(&Object) -> T) -> Arc<T> {
        let mut derive = Some(derive);
        let shared = self.meta.get_or_init(|| match derive.take() {
            Some(derive) => Arc::new(derive(self)),
            None => unreachable!("the closure runs at most once and was full before"),
        });
        match (Arc::clone(shared).downcast::<T>(), derive) {
            (Ok(meta), _) => meta,
            (Err(_), Some(derive)) => Arc::new(derive(self)),
            (Err(_), None) => unreachable!("what was just derived has the type that was asked for"),
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at revision {} ({} bytes)", self.key, self.revision, self.value.len())
    }
}

/// What a caller hands over to be written.
///
/// The store keeps the buffer as long as the object lives. Hand over one of the right size: a slice of
/// a request body keeps the whole body.
#[derive(Clone)]
pub struct Value {
    body: Body,
    meta: Option<Meta>,
}

#[derive(Clone)]
enum Body {
    Whole(Bytes),
    Stamped { before: Bytes, after: Bytes },
}

impl Value {
    /// Bytes, kept as they are.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { body: Body::Whole(bytes.into()), meta: None }
    }

    /// Bytes with a gap that the store fills with the revision of the write, in decimal.
    ///
    /// An object that names its own revision can so be stored ready to be sent, although its revision
    /// is only known when its turn to be written has come.
    pub fn stamped(before: impl Into<Bytes>, after: impl Into<Bytes>) -> Self {
        Self { body: Body::Stamped { before: before.into(), after: after.into() }, meta: None }
    }

    /// Fills the slot of [`Object::meta`], so that what the caller knows already is not derived again.
    #[must_use]
    pub fn with_meta<T: Any + Send + Sync>(mut self, meta: Arc<T>) -> Self {
        self.meta = Some(meta);
        self
    }

    /// How many bytes it takes, as near as can be said before the revision is known.
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            Body::Whole(bytes) => bytes.len(),
            Body::Stamped { before, after } => before.len() + after.len(),
        }
    }

    pub(crate) fn into_object(self, key: Key, revision: u64) -> Object {
        let value = match self.body {
            Body::Whole(bytes) => bytes,
            Body::Stamped { before, after } => {
                let stamp = revision.to_string();
                [before.as_ref(), stamp.as_bytes(), after.as_ref()].concat().into()
            }
        };
        let object = Object::new(key, revision, value);
        if let Some(meta) = self.meta {
            // The slot of an object made on the line above is empty.
            let _ = object.meta.set(meta);
        }
        object
    }
}

impl<B: Into<Bytes>> From<B> for Value {
    fn from(bytes: B) -> Self {
        Self::new(bytes)
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Resource;

    fn object(value: Value, revision: u64) -> Object {
        let key = Key::new(&Resource::new("core/pods").unwrap(), "default", "a").unwrap();
        value.into_object(key, revision)
    }

    #[test]
    fn a_stamped_value_carries_the_revision_of_its_write() {
        let value = Value::stamped(&br#"{"rv":""#[..], &br#""}"#[..]);
        assert_eq!(object(value, 1042).value().as_ref(), br#"{"rv":"1042"}"#);
    }

    #[test]
    fn meta_is_derived_once_and_shared() {
        let object = object("abc".into(), 1);
        let first = object.meta(|object| object.value().len());
        let second = object.meta(|_| -> usize { panic!("derived a second time") });
        assert_eq!(*first, 3);
        assert!(Arc::ptr_eq(&first, &second));
    }

    #[test]
    fn meta_that_came_with_the_value_is_not_derived() {
        let object = object(Value::from("abc").with_meta(Arc::new(7_usize)), 1);
        assert_eq!(*object.meta(|_| -> usize { panic!("it was given") }), 7);
    }

    #[test]
    fn meta_of_a_second_type_is_right_though_not_shared() {
        let object = object("abc".into(), 1);
        assert_eq!(*object.meta(|object| object.value().len()), 3);
        assert_eq!(*object.meta(|object| object.revision() as u8), 1_u8);
        assert_eq!(*object.meta(|_| 0_usize), 3, "the first type keeps the slot");
    }
}
