//! The target of an upgrade changes after any of its writes: it is accepted if nothing goes back, and then everything
//! ends there, every step with its hooks.

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{ACKNOWLEDGED_TARGET_ANNOTATION, UPGRADE_STEP_ANNOTATION};
use windlass_plan::{PlanRequest, Source, WorkerGroup, plan};
use windlass_runtime::WriteFault;
use windlass_simulate::worlds::pair_hooks;
use windlass_simulate::{TopologyManifests, World, is_at, key};
use windlass_version::{Comparison, Version};

use crate::support::{Chains, LONG, releases};

const FIRST: u64 = 30;
/// A class lists at most a hundred versions.
const LAST: u64 = FIRST + 80;

/// How a user changes their mind.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// One minor further than at first.
    Raise,
    /// One minor less than at first.
    Lower,
    /// To the lowest version that is accepted.
    Cancel,
    /// Back to where the upgrade began: accepted only while nothing has moved.
    TakeBack,
}

/// When the controllers are killed after the change: not at all, before they have written anything more, or after that.
const CRASHES: [Option<WriteFault>; 3] = [None, Some(WriteFault::CrashBefore), Some(WriteFault::CrashAfter)];

fn version(minor: u64) -> Version {
    Version::new(1, minor, 0)
}

/// What was reached or promised: nothing may go below it.
fn floor(world: &World) -> Version {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let step = cluster.annotations().get(UPGRADE_STEP_ANNOTATION).cloned();
    let control_planes = world.list::<KubeadmControlPlane>();
    let groups = world.list::<MachineDeployment>();
    let versions = control_planes.iter().map(|found| found.spec.version.clone());
    let versions =
        versions.chain(groups.iter().map(|group| group.spec.template.spec.version.clone())).chain(step);
    let versions = versions.map(|version| Version::parse(&version).unwrap());
    versions
        .reduce(|floor, next| if next.compare(&floor) == Comparison::Greater { next } else { floor })
        .unwrap()
}

/// How often workers are rolled out from where everything is, by the plan for a target.
fn rollouts_left(world: &World, to: &Version) -> usize {
    let control_plane = Version::parse(&world.list::<KubeadmControlPlane>()[0].spec.version).unwrap();
    let group = Version::parse(&world.list::<MachineDeployment>()[0].spec.template.spec.version).unwrap();
    let request = PlanRequest::new(control_plane, to.clone())
        .with_workers([WorkerGroup::new("a", group)])
        .with_source(Source::versions(releases(FIRST..=LAST)));
    plan(&request).unwrap().operations.iter().filter(|operation| operation.step.group().is_some()).count()
}

fn rollouts(chains: &Chains) -> usize {
    chains.chronicle.facts("c1").iter().filter(|fact| fact.starts_with("a ") && fact.contains("->")).count()
}

/// Every hook before something has the one after it, in order; AfterClusterUpgrade is called once, if anything moved, at the
/// end that was reached.
fn check_hooks(story: &[String], to: &Version, began: bool, about: &str) {
    let hooks = pair_hooks(story);
    let ended = hooks.as_ref().map(|hooks| hooks.ended.clone());
    let expected = if began { vec![to.to_string()] } else { Vec::new() };
    assert_eq!(ended, Ok(expected), "{about}: {story:#?}");
}

/// Begins an upgrade by two minors, changes the target after so many writes, with a crash at the next write if asked for,
/// and checks the end. The minor that was reached; nothing if the upgrade was over before.
async fn upgrade(
    chains: &mut Chains,
    minor: u64,
    change: Change,
    writes: u64,
    crash: Option<WriteFault>,
) -> Option<u64> {
    let about = format!("{change:?} after {writes} writes, then {crash:?}");
    chains.forget("c1");
    let begun = chains.world.faults().writes();
    let first = version(minor + 2);
    chains.change_version("c1", &first.to_string()).await;
    let over = |world: &World| world.faults().writes() >= begun + writes || is_at(world, &key("c1"), &first);
    chains.world.run_until("a number of writes", LONG, over).await.unwrap();
    if is_at(&chains.world, &key("c1"), &first) {
        return None;
    }
    let floor = floor(&chains.world);
    let wanted = match change {
        Change::Raise => version(minor + 3),
        Change::Lower => version(minor + 1),
        Change::Cancel => floor.clone(),
        Change::TakeBack => version(minor),
    };
    let finishing = chains.story("c1").iter().any(|entry| entry.starts_with("AfterWorkersUpgrade"))
        && floor == first
        && rollouts_left(&chains.world, &first) == 0;
    if let Some(crash) = crash {
        let next = chains.world.faults().writes() + 1;
        chains.world.faults().on_write(next, crash);
    }
    let patch = serde_json::json!({"spec": {"topology": {"version": wanted.to_string()}}});
    let answer = chains.world.patch::<Cluster>(&key("c1"), patch).await;
    let is_back = wanted.compare(&floor) == Comparison::Less;
    if is_back {
        assert!(answer.is_err(), "{about}: {wanted} is below {floor}");
    } else if !finishing && let Err(error) = &answer {
        // Only a step that was promised while the change was on its way may have come before it.
        let now = self::floor(&chains.world);
        assert!(
            wanted.compare(&now) == Comparison::Less,
            "{about}: {wanted}, {floor} was the lowest, {now} is: {error}"
        );
    }
    let target = if answer.is_ok() { wanted } else { first };
    let (rolled, left) = (rollouts(chains), rollouts_left(&chains.world, &target));
    loop {
        let over = |world: &World| world.has_crashed() || is_at(world, &key("c1"), &target);
        chains.world.run_until(&format!("{about}: {target}"), LONG, over).await.unwrap();
        if !chains.world.has_crashed() {
            break;
        }
        chains.world.restart().await;
    }
    chains.world.faults().forget();
    chains.pass(15).await;
    let story = chains.story("c1");
    let began = story.iter().any(|entry| entry.starts_with("BeforeControlPlaneUpgrade"));
    check_hooks(&story, &target, began, &about);
    assert!(rollouts(chains) - rolled <= left, "{about}: {story:#?}");
    chains.nothing_is_pending("c1");
    let cluster = chains.world.get::<Cluster>(&key("c1")).unwrap();
    assert!(!cluster.annotations().contains_key(ACKNOWLEDGED_TARGET_ANNOTATION), "{about}");
    Some(target.minor().minor)
}

/// Changes the target after every so many writes, with each crash in turn. After each of them and with every crash, if the
/// environment asks for it.
async fn change_at_every_write(change: Change, offset: u64, stride: u64) {
    if std::env::var_os("WINDLASS_EVERY_WRITE").is_some() {
        for crash in CRASHES {
            change_at_writes(change, offset, 1, |_| crash).await;
        }
    } else {
        change_at_writes(change, offset, stride, |round| CRASHES[round % CRASHES.len()]).await;
    }
}

async fn change_at_writes(
    change: Change,
    offset: u64,
    stride: u64,
    crash: impl Fn(usize) -> Option<WriteFault>,
) {
    let begin = async |seed| {
        let manifests = TopologyManifests::new("c1", &version(FIRST).to_string(), 1)
            .machine_deployment("a", 1)
            .versions(releases(FIRST..=LAST));
        Chains::with(seed, manifests, &version(FIRST).to_string()).await
    };
    let (mut chains, mut minor, mut writes) = (begin(60 + offset).await, FIRST, 1 + offset % stride);
    let mut round = 0;
    while let Some(reached) = upgrade(&mut chains, minor, change, writes, crash(round)).await {
        minor = reached;
        writes += stride;
        round += 1;
        if minor + 4 > LAST {
            (chains, minor) = (begin(60 + writes).await, FIRST);
        }
    }
    assert!(writes > 100, "an upgrade has more than {writes} writes");
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_raised_after_any_write_is_reached() {
    change_at_every_write(Change::Raise, 0, 9).await;
}

#[tokio::test(start_paused = true)]
async fn a_target_that_is_lowered_after_any_write_is_reached_or_refused() {
    change_at_every_write(Change::Lower, 1, 9).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_that_is_cancelled_after_any_write_ends_where_it_is() {
    change_at_every_write(Change::Cancel, 2, 9).await;
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_can_be_taken_back_until_something_has_moved() {
    change_at_every_write(Change::TakeBack, 3, 13).await;
}
