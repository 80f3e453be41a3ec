//! The members of an etcd, who leads them, and what etcd allows to be changed: a model without data and without time.
//! Elections take no time, and a learner has caught up as soon as it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::client::{Alarm, MemberId};
use crate::error::Refusal;
use crate::messages::{self, AlarmKind};

#[derive(Debug, Default)]
pub(super) struct Ensemble {
    members: BTreeMap<MemberId, Entry>,
    leader: Option<MemberId>,
    /// How many members there ever were: identifiers are never used again.
    added: u64,
}

#[derive(Debug)]
struct Entry {
    name: String,
    peer_urls: Vec<String>,
    client_urls: Vec<String>,
    is_learner: bool,
    is_running: bool,
    alarms: BTreeSet<AlarmKind>,
}

impl Ensemble {
    /// What `kubeadm init` or `kubeadm join` does: adds a learner, starts it, and makes it vote. One that is a member
    /// already is started.
    pub(super) fn join(&mut self, name: &str) -> Result<MemberId, Refusal> {
        if let Some(id) = self.named(name) {
            self.set_running(id, true);
            return Ok(id);
        }
        let first = self.members.is_empty();
        let peer_url = format!("https://{name}:2380");
        let id = if first { self.insert(vec![peer_url], false) } else { self.add(vec![peer_url], true)? };
        if let Some(entry) = self.members.get_mut(&id) {
            entry.name = name.to_owned();
            entry.client_urls = vec![format!("https://{name}:2379")];
            entry.is_running = true;
        }
        if !first {
            self.promote(id)?;
        }
        self.elect();
        Ok(id)
    }

    pub(super) fn named(&self, name: &str) -> Option<MemberId> {
        self.members.iter().find(|(_, entry)| entry.name == name).map(|(id, _)| *id)
    }

    pub(super) fn is_running(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|entry| entry.is_running)
    }

    pub(super) fn runs(&self) -> bool {
        self.members.values().any(|entry| entry.is_running)
    }

    pub(super) fn set_running(&mut self, id: MemberId, is_running: bool) {
        if let Some(entry) = self.members.get_mut(&id) {
            entry.is_running = is_running;
        }
        self.elect();
    }

    pub(super) fn set_alarm(&mut self, id: MemberId, alarm: AlarmKind, is_raised: bool) {
        let Some(entry) = self.members.get_mut(&id) else { return };
        if is_raised {
            entry.alarms.insert(alarm);
        } else {
            entry.alarms.remove(&alarm);
        }
    }

    pub(super) fn leader(&self) -> Option<MemberId> {
        self.leader
    }

    pub(super) fn is_learner(&self, id: MemberId) -> bool {
        self.members.get(&id).is_some_and(|entry| entry.is_learner)
    }

    pub(super) fn list(&self) -> Vec<messages::Member> {
        let message = |(id, entry): (&MemberId, &Entry)| messages::Member {
            id: id.0,
            name: entry.name.clone(),
            peer_urls: entry.peer_urls.clone(),
            client_urls: entry.client_urls.clone(),
            is_learner: entry.is_learner,
        };
        self.members.iter().map(message).collect()
    }

    pub(super) fn alarms(&self) -> Vec<Alarm> {
        let all = self.members.iter();
        all.flat_map(|(id, entry)| entry.alarms.iter().map(|kind| Alarm { member: *id, kind: *kind }))
            .collect()
    }

    /// What is agreed on by a majority needs one.
    pub(super) fn agree(&self) -> Result<(), Refusal> {
        self.leader.map(drop).ok_or(Refusal::TimedOut)
    }

    pub(super) fn add(&mut self, peer_urls: Vec<String>, is_learner: bool) -> Result<MemberId, Refusal> {
        self.agree()?;
        let mut known = self.members.values().flat_map(|entry| &entry.peer_urls);
        if known.any(|url| peer_urls.contains(url)) {
            return Err(Refusal::PeerUrlExists);
        }
        if is_learner && self.members.values().any(|entry| entry.is_learner) {
            return Err(Refusal::TooManyLearners);
        }
        // With the new one, which does not run yet, a majority must still be there.
        let (voting, running) = self.voters();
        if !is_learner && running < quorum(voting + 1) {
            return Err(Refusal::NotEnoughStarted);
        }
        Ok(self.insert(peer_urls, is_learner))
    }

    pub(super) fn promote(&mut self, id: MemberId) -> Result<(), Refusal> {
        self.agree()?;
        let entry = self.members.get_mut(&id).ok_or(Refusal::MemberNotFound)?;
        match (entry.is_learner, entry.is_running) {
            (false, _) => Err(Refusal::NotALearner),
            (true, false) => Err(Refusal::LearnerNotReady),
            (true, true) => {
                entry.is_learner = false;
                Ok(())
            }
        }
    }

    pub(super) fn remove(&mut self, id: MemberId) -> Result<(), Refusal> {
        self.agree()?;
        let entry = self.members.get(&id).ok_or(Refusal::MemberNotFound)?;
        // One that does not vote, or does not run, is no part of the majority.
        if !entry.is_learner && entry.is_running {
            let (voting, running) = self.voters();
            if running.saturating_sub(1) < quorum(voting - 1) {
                return Err(Refusal::Unhealthy);
            }
        }
        self.members.remove(&id);
        self.elect();
        Ok(())
    }

    pub(super) fn move_leader(&mut self, asked: MemberId, to: MemberId) -> Result<(), Refusal> {
        if self.leader != Some(asked) {
            return Err(Refusal::NotLeader);
        }
        let Some(target) = self.members.get(&to).filter(|entry| !entry.is_learner) else {
            return Err(Refusal::BadLeaderTransferee);
        };
        if !target.is_running {
            return Err(Refusal::TimedOut);
        }
        self.leader = Some(to);
        Ok(())
    }

    fn insert(&mut self, peer_urls: Vec<String>, is_learner: bool) -> MemberId {
        self.added += 1;
        // Numbers as they look in etcd, where they are hashes: the first from the ratio that spreads counters best.
        let id = MemberId(self.added.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (name, client_urls, alarms) = Default::default();
        self.members
            .insert(id, Entry { name, peer_urls, client_urls, is_learner, is_running: false, alarms });
        id
    }

    /// How many vote, and how many of those run.
    fn voters(&self) -> (usize, usize) {
        let voters = || self.members.values().filter(|entry| !entry.is_learner);
        (voters().count(), voters().filter(|entry| entry.is_running).count())
    }

    /// A leader stays for as long as it can; another is elected where a majority runs.
    fn elect(&mut self) {
        let (voting, running) = self.voters();
        let can_lead = |entry: &Entry| entry.is_running && !entry.is_learner;
        let leads = self.leader.and_then(|id| self.members.get(&id)).is_some_and(can_lead);
        if running < quorum(voting) {
            self.leader = None;
        } else if !leads {
            self.leader = self.members.iter().find(|(_, entry)| can_lead(entry)).map(|(id, _)| *id);
        }
    }
}

/// How many of these make a majority.
const fn quorum(voting: usize) -> usize {
    voting / 2 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(names: &[&str]) -> (Ensemble, Vec<MemberId>) {
        let mut ensemble = Ensemble::default();
        let ids = names.iter().map(|name| ensemble.join(name).unwrap()).collect();
        (ensemble, ids)
    }

    #[test]
    fn members_join_one_after_the_other_and_the_first_leads() {
        let (mut ensemble, ids) = of(&["a", "b", "c"]);
        assert_eq!(ensemble.leader(), Some(ids[0]));
        assert!(ensemble.list().iter().all(|member| !member.is_learner));
        assert_eq!(ensemble.join("b"), Ok(ids[1]), "again");
        assert_eq!(ensemble.list().len(), 3);
    }

    #[test]
    fn nothing_changes_without_a_majority() {
        let (mut ensemble, ids) = of(&["a", "b", "c"]);
        ensemble.set_running(ids[0], false);
        assert!(ensemble.leader().is_some_and(|leader| leader != ids[0]), "another was elected");
        assert_eq!(ensemble.remove(ids[1]), Err(Refusal::Unhealthy), "of two that run, none may go");
        assert_eq!(ensemble.remove(ids[0]), Ok(()), "one that does not run may");
        ensemble.set_running(ids[1], false);
        assert_eq!(ensemble.leader(), None);
        assert_eq!(ensemble.remove(ids[1]), Err(Refusal::TimedOut));
        assert_eq!(ensemble.join("d"), Err(Refusal::TimedOut));
        ensemble.set_running(ids[1], true);
        assert!(ensemble.join("d").is_ok());
    }

    #[test]
    fn the_last_member_stays() {
        let (mut ensemble, ids) = of(&["a", "b"]);
        assert_eq!(ensemble.remove(ids[0]), Ok(()));
        assert_eq!(ensemble.leader(), Some(ids[1]));
        assert_eq!(ensemble.remove(ids[1]), Err(Refusal::Unhealthy));
        assert_eq!(ensemble.remove(ids[0]), Err(Refusal::MemberNotFound));
    }

    #[test]
    fn one_learner_at_a_time_and_it_votes_when_it_runs() {
        let (mut ensemble, _) = of(&["a"]);
        let url = |host: &str| vec![format!("https://{host}:2380")];
        let learner = ensemble.add(url("x"), true).unwrap();
        assert_eq!(ensemble.add(url("y"), true), Err(Refusal::TooManyLearners));
        assert_eq!(ensemble.add(url("x"), true), Err(Refusal::PeerUrlExists));
        assert_eq!(ensemble.promote(learner), Err(Refusal::LearnerNotReady));
        assert_eq!(
            ensemble.add(url("z"), false),
            Err(Refusal::NotEnoughStarted),
            "one of two would be no majority"
        );
        ensemble.set_running(learner, true);
        assert_eq!(ensemble.promote(learner), Ok(()));
        assert_eq!(ensemble.promote(learner), Err(Refusal::NotALearner));
    }

    #[test]
    fn only_the_leader_hands_over_and_only_to_a_member_that_can_lead() {
        let (mut ensemble, ids) = of(&["a", "b", "c"]);
        assert_eq!(ensemble.move_leader(ids[1], ids[2]), Err(Refusal::NotLeader));
        assert_eq!(ensemble.move_leader(ids[0], MemberId(1)), Err(Refusal::BadLeaderTransferee));
        ensemble.set_running(ids[2], false);
        assert_eq!(ensemble.move_leader(ids[0], ids[2]), Err(Refusal::TimedOut));
        assert_eq!(ensemble.move_leader(ids[0], ids[1]), Ok(()));
        assert_eq!(ensemble.leader(), Some(ids[1]));
    }
}
