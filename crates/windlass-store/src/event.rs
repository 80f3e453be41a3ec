//! One change of one object, as watchers share it.

use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::key::Key;
use crate::object::Object;

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// It was not there before.
    Created,
    /// It was there before, with another value.
    Updated,
    /// It is gone.
    Deleted,
}

/// One change. All watchers share one event, and with it each encoding of it.
pub struct Event {
    kind: EventKind,
    object: Arc<Object>,
    previous: Option<Arc<Object>>,
    frames: OnceLock<Box<Frame>>,
}

/// A link in the list of encodings. There are a handful at most, one per way in which a watcher wants
/// to see the event, so that walking the list is cheaper than any map.
struct Frame {
    encoding: u64,
    bytes: Bytes,
    next: OnceLock<Box<Frame>>,
}

impl Event {
    pub(crate) fn put(object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        let kind = if previous.is_some() { EventKind::Updated } else { EventKind::Created };
        Self { kind, object, previous, frames: OnceLock::new() }
    }

    pub(crate) fn delete(last: Arc<Object>, previous: Arc<Object>) -> Self {
        Self { kind: EventKind::Deleted, object: last, previous: Some(previous), frames: OnceLock::new() }
    }

    /// The revision of the change.
    pub fn revision(&self) -> u64 {
        self.object.revision()
    }

    /// What was changed.
    pub fn key(&self) -> &Key {
        self.object.key()
    }

    /// How it was changed.
    pub fn kind(&self) -> EventKind {
        self.kind
    }

    /// The object after the change; for a deletion, what it was at the end, with the revision of the
    /// deletion.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The object before the change, unless it was created. A watch with a selector needs it to tell
    /// whether the object enters or leaves what is selected.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The event as bytes for the wire, encoded by the first who asks and shared by all others.
    ///
    /// `encoding` is the caller's number for a way to encode: two callers that give the same number
    /// must want the same bytes. The bytes live as long as the event is in the history.
    pub fn frame(&self, encoding: u64, encode: impl FnOnce(&Event) -> Bytes) -> Bytes {
        let mut encode = Some(encode);
        let mut link = &self.frames;
        loop {
            let frame = link.get_or_init(|| match encode.take() {
                Some(encode) => Box::new(Frame { encoding, bytes: encode(self), next: OnceLock::new() }),
                // Having encoded ends the walk: the link that was filled carries this encoding.
                None => unreachable!("an event is encoded once on the way through its frames"),
            });
            if frame.encoding == encoding {
                return frame.bytes.clone();
            }
            link = &frame.next;
        }
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} at revision {}", self.kind, self.key(), self.revision())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Resource;

    fn event() -> Event {
        let key = Key::new(&Resource::new("core/pods").unwrap(), "default", "a").unwrap();
        Event::put(Arc::new(Object::new(key, 7, Bytes::from_static(b"{}"))), None)
    }

    #[test]
    fn each_encoding_is_made_once_and_shared() {
        let event = event();
        for encoding in [3, 1, 2] {
            let bytes = event.frame(encoding, |event| format!("{encoding} {}", event.revision()).into());
            assert_eq!(bytes, format!("{encoding} 7"));
        }
        for encoding in [2, 3, 1] {
            let bytes = event.frame(encoding, |_| panic!("encoded a second time"));
            assert_eq!(bytes, format!("{encoding} 7"));
        }
    }

    #[test]
    fn threads_that_race_for_different_encodings_get_their_own() {
        for _ in 0..200 {
            let event = event();
            std::thread::scope(|scope| {
                for encoding in 0..4 {
                    let event = &event;
                    scope.spawn(move || {
                        let bytes = event.frame(encoding, |_| encoding.to_string().into());
                        assert_eq!(bytes, encoding.to_string());
                    });
                }
            });
        }
    }
}
