//! Several extensions, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use windlass_api::{Object, RegisteredName};

use super::claims::applied;
use super::fields::differing;
use super::{
    ClaimError, Claims, Dropped, Effect, Field, FieldVerdict, Incomparable, Level, Objects, Part, Verdict,
    WhyUnusable,
};

/// How far extensions get from one state to another.
#[derive(Clone, Debug)]
pub struct Composition {
    level: Level,
    start: Objects,
    current: Objects,
    desired: Objects,
    claimed: Vec<(RegisteredName, BTreeSet<Field>)>,
    effects: BTreeMap<RegisteredName, Effect>,
    dropped: Vec<Dropped>,
    not_reached: Vec<RegisteredName>,
}

impl Composition {
    /// No extension was asked yet.
    ///
    /// # Errors
    ///
    /// No update leads from one state to the other, whichever extension is asked.
    pub fn new(level: Level, current: Objects, desired: Objects) -> Result<Self, Incomparable> {
        current.comparable(&desired)?;
        let start = current.clone();
        Ok(Self {
            level,
            start,
            current,
            desired,
            claimed: Vec::new(),
            effects: BTreeMap::new(),
            dropped: Vec::new(),
            not_reached: Vec::new(),
        })
    }

    /// What is asked about.
    pub fn level(&self) -> Level {
        self.level
    }

    /// The current state, with what the extensions so far cover.
    pub fn current(&self) -> &Objects {
        &self.current
    }

    /// The state that is wanted.
    pub fn desired(&self) -> &Objects {
        &self.desired
    }

    /// Whether everything is covered, so that no other extension needs to be asked.
    pub fn is_covered(&self) -> bool {
        self.between(&self.current, &self.desired).is_empty()
    }

    /// Takes the answer of one extension into account.
    ///
    /// # Errors
    ///
    /// The answer cannot be used. Nothing has changed then.
    pub fn take(&mut self, handler: &RegisteredName, claims: &Claims) -> Result<(), ClaimError> {
        let unusable = |why| ClaimError { handler: handler.clone(), why };
        let effect = claims.effect().map_err(unusable)?;
        let (mut after, mut dropped) = (self.current.clone(), Vec::new());
        for part in Part::ALL {
            let Some(patch) = claims.of(part) else { continue };
            let object = self.current.get(part).ok_or_else(|| unusable(WhyUnusable::NoObject))?;
            let kind = self.current.kind(part);
            let patched = applied(object, kind, patch, self.level).map_err(unusable)?;
            dropped.extend(patched.dropped.into_iter().map(|path| Dropped {
                handler: handler.clone(),
                field: Field { kind: kind.to_owned(), path },
                counts: self.level.path(),
            }));
            let patched = patched.object;
            let alone = |part| self.start.get(part).map(|object| applied(object, kind, patch, self.level));
            // Against the original state the patch shows also what it merely repeats.
            if let Some(Ok(alone)) = alone(part) {
                let mut changed = self.start.clone();
                changed.put(part, alone.object);
                self.check_overlap(&self.between(&self.start, &changed), &patched, part).map_err(unusable)?;
            }
            after.put(part, patched);
        }
        let changed = self.between(&self.current, &after);
        self.check_conflict(&changed).map_err(unusable)?;
        self.current = after;
        self.claimed.push((handler.clone(), changed));
        self.effects.insert(handler.clone(), effect);
        self.dropped.append(&mut dropped);
        Ok(())
    }

    /// Notes that an extension was not reached, and that its policy says not to mind: it covers nothing.
    pub fn pass_over(&mut self, handler: &RegisteredName) {
        self.not_reached.push(handler.clone());
    }

    /// What came of it.
    pub fn verdict(&self) -> Verdict {
        let open = self.between(&self.current, &self.desired);
        let all = self.between(&self.start, &self.desired);
        let fields = all.iter().chain(open.iter().filter(|field| !all.contains(field)));
        let fields = fields.map(|field| {
            let by = self.claimed.iter().find(|(_, fields)| fields.contains(field));
            FieldVerdict {
                field: field.clone(),
                by: by.map(|(handler, _)| handler.clone()).filter(|_| !open.contains(field)),
            }
        });
        let mut fields: Vec<FieldVerdict> = fields.collect();
        fields.sort_by(|a, b| a.field.cmp(&b.field));
        Verdict {
            fields,
            asked: self.claimed.iter().map(|(handler, _)| handler.clone()).collect(),
            not_reached: self.not_reached.clone(),
            effects: self.effects.clone(),
            dropped: self.dropped.clone(),
        }
    }

    /// The fields that count in which two states differ.
    fn between(&self, one: &Objects, other: &Objects) -> BTreeSet<Field> {
        let of = |part: Part| {
            let (a, b) = (one.counted(self.level, part), other.counted(self.level, part));
            let kind = self.start.kind(part).to_owned();
            let paths = differing(a.as_ref(), b.as_ref(), self.level.path());
            paths.into_iter().map(move |path| Field { kind: kind.clone(), path })
        };
        Part::ALL.into_iter().flat_map(of).collect()
    }

    fn check_overlap(
        &self,
        alone: &BTreeSet<Field>,
        patched: &Object,
        part: Part,
    ) -> Result<(), WhyUnusable> {
        let mut after = self.current.clone();
        after.put(part, patched.clone());
        // What it changes here too is no repetition, but a contradiction.
        let here = self.between(&self.current, &after);
        match self.owner_of(alone.difference(&here)) {
            Some((field, other)) => Err(WhyUnusable::Overlap { field, other }),
            None => Ok(()),
        }
    }

    fn check_conflict(&self, changed: &BTreeSet<Field>) -> Result<(), WhyUnusable> {
        match self.owner_of(changed.iter()) {
            Some((field, other)) => Err(WhyUnusable::Conflict { field, other }),
            None => Ok(()),
        }
    }

    /// The first of some fields that another extension claims already.
    fn owner_of<'a>(&self, fields: impl Iterator<Item = &'a Field>) -> Option<(Field, RegisteredName)> {
        fields.into_iter().find_map(|field| {
            let owner = self.claimed.iter().find(|(_, claimed)| claimed.contains(field));
            owner.map(|(handler, _)| (field.clone(), handler.clone()))
        })
    }
}
