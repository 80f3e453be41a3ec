//! Metrics in the text format of Prometheus: names that dashboards for controllers already query, and the progress of
//! upgrades.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, MachinesStatus};
use windlass_engine::waiting::Wait;
use windlass_hooks::Metrics as HookMetrics;
use windlass_runtime::{Cache, ControllerMetrics, Manager, ObjectKey};

/// What there is to measure.
#[derive(Clone)]
pub struct PlaneMetrics {
    manager: Manager,
    hooks: HookMetrics,
    clusters: Cache<Cluster>,
}

impl PlaneMetrics {
    /// Of a manager and of the calls of hooks.
    pub fn new(manager: &Manager, hooks: &HookMetrics) -> Self {
        Self { manager: manager.clone(), hooks: hooks.clone(), clusters: manager.cache() }
    }

    /// All of it, in a fixed order.
    pub fn render(&self) -> String {
        let mut clusters: Vec<Progress> =
            self.clusters.list().iter().map(|cluster| Progress::of(cluster)).collect();
        clusters.sort_by(|a, b| (&a.namespace, &a.name).cmp(&(&b.namespace, &b.name)));
        let mut text = String::new();
        // Writing to a String does not fail.
        let _ = controllers(&mut text, &self.manager.metrics());
        let _ = events(&mut text, self.manager.dropped_events());
        let _ = upgrades(&mut text, &clusters);
        text.push_str(&self.hooks.render());
        text
    }
}

/// How far the upgrade of a Cluster is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Progress {
    namespace: String,
    name: String,
    version: String,
    control_plane: usize,
    workers: usize,
    machines: i32,
    up_to_date: i32,
    wait: Option<Wait>,
}

impl Progress {
    fn of(cluster: &Cluster) -> Self {
        let (control_plane, workers) =
            (cluster.status.control_plane.as_ref(), cluster.status.workers.as_ref());
        let steps = |status: Option<&MachinesStatus>| status.map_or(0, |status| status.upgrade_plan.len());
        let sum = |field: fn(&MachinesStatus) -> Option<i32>| {
            [control_plane, workers].into_iter().flatten().filter_map(field).sum()
        };
        Self {
            namespace: ObjectKey::of(cluster).namespace,
            name: cluster.name_any(),
            version: cluster
                .spec
                .topology
                .as_ref()
                .map(|topology| topology.version.clone())
                .unwrap_or_default(),
            control_plane: steps(control_plane),
            workers: steps(workers),
            machines: sum(|status| status.replicas),
            up_to_date: sum(|status| status.up_to_date_replicas),
            wait: Wait::of_cluster(cluster),
        }
    }
}

fn controllers(text: &mut String, metrics: &BTreeMap<String, ControllerMetrics>) -> fmt::Result {
    let name = "controller_runtime_reconcile_total";
    head(text, name, "counter", "Reconciles that have ended, by how they ended.")?;
    for (controller, metrics) in metrics {
        let good = metrics.reconciles.saturating_sub(metrics.errors + metrics.conflicts + metrics.requeues);
        for (result, count) in [
            ("error", metrics.errors),
            ("requeue", metrics.conflicts),
            ("requeue_after", metrics.requeues),
            ("success", good),
        ] {
            writeln!(text, "{name}{{controller=\"{controller}\",result=\"{result}\"}} {count}")?;
        }
    }
    let name = "controller_runtime_reconcile_time_seconds";
    head(text, name, "summary", "How long reconciles took.")?;
    for (controller, metrics) in metrics {
        writeln!(text, "{name}_sum{{controller=\"{controller}\"}} {}", metrics.duration.as_secs_f64())?;
        writeln!(text, "{name}_count{{controller=\"{controller}\"}} {}", metrics.reconciles)?;
    }
    for (name, help, value) in [
        (
            "controller_runtime_active_workers",
            "How many keys are being reconciled.",
            (|metrics| metrics.running) as fn(&ControllerMetrics) -> usize,
        ),
        ("workqueue_depth", "How many keys wait for their turn.", |metrics| metrics.queued),
    ] {
        head(text, name, "gauge", help)?;
        let label = if name == "workqueue_depth" { "name" } else { "controller" };
        for (controller, metrics) in metrics {
            writeln!(text, "{name}{{{label}=\"{controller}\"}} {}", value(metrics))?;
        }
    }
    Ok(())
}

fn events(text: &mut String, dropped: u64) -> fmt::Result {
    let name = "windlass_events_dropped_total";
    head(text, name, "counter", "Events that were not written, because too many waited.")?;
    writeln!(text, "{name} {dropped}")
}

fn upgrades(text: &mut String, clusters: &[Progress]) -> fmt::Result {
    let name = "windlass_cluster_upgrade_steps_left";
    head(text, name, "gauge", "Versions that a part of a Cluster still goes through.")?;
    for cluster in clusters {
        for (part, left) in [("control-plane", cluster.control_plane), ("workers", cluster.workers)] {
            writeln!(text, "{name}{{{},part=\"{part}\"}} {left}", labels(cluster))?;
        }
    }
    let name = "windlass_cluster_machines";
    head(text, name, "gauge", "Machines of a Cluster, and how many of them are as they should be.")?;
    for cluster in clusters {
        let labels = labels(cluster);
        writeln!(text, "{name}{{{labels},state=\"all\"}} {}", cluster.machines)?;
        writeln!(text, "{name}{{{labels},state=\"up-to-date\"}} {}", cluster.up_to_date)?;
    }
    let name = "windlass_cluster_waiting_since_timestamp_seconds";
    head(
        text,
        name,
        "gauge",
        "When the wait of a Cluster began, by what it waits on. None if it waits on nothing.",
    )?;
    for (cluster, wait) in clusters.iter().filter_map(|cluster| Some((cluster, cluster.wait.as_ref()?))) {
        let hook = wait.hook.as_deref().unwrap_or_default();
        let what = format!("reason=\"{}\",hook=\"{}\"", escape(&wait.reason), escape(hook));
        writeln!(text, "{name}{{{},{what}}} {}", labels(cluster), wait.since.0.as_second())?;
    }
    Ok(())
}

fn labels(cluster: &Progress) -> String {
    let Progress { namespace, name, version, .. } = cluster;
    format!("namespace=\"{namespace}\",cluster=\"{name}\",version=\"{}\"", escape(version))
}

/// Names of Kubernetes need no escape; a version is any string that a user wrote.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn what_controllers_did_has_the_names_of_controller_runtime() {
        let metrics = ControllerMetrics {
            reconciles: 10,
            errors: 1,
            conflicts: 2,
            requeues: 3,
            duration: Duration::from_millis(1500),
            queued: 5,
            running: 1,
            ..ControllerMetrics::default()
        };
        let mut text = String::new();
        controllers(&mut text, &BTreeMap::from([("machine".to_owned(), metrics)])).unwrap();
        for line in [
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"error\"} 1",
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"requeue\"} 2",
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"requeue_after\"} 3",
            "controller_runtime_reconcile_total{controller=\"machine\",result=\"success\"} 4",
            "controller_runtime_reconcile_time_seconds_sum{controller=\"machine\"} 1.5",
            "controller_runtime_reconcile_time_seconds_count{controller=\"machine\"} 10",
            "controller_runtime_active_workers{controller=\"machine\"} 1",
            "workqueue_depth{name=\"machine\"} 5",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn what_a_cluster_waits_on_is_its_reason_and_its_beginning() {
        let wait = json!({"reason": "WaitingForHook", "what": "BeforeClusterUpgrade: busy",
            "hook": "BeforeClusterUpgrade", "since": "1970-01-01T00:01:40Z"});
        let cluster = |status: &str| -> Cluster {
            serde_json::from_value(json!({
                "metadata": {"namespace": "ns", "name": "c1",
                    "annotations": {"upgrade.windlass.dev/waiting-on": wait.to_string()}},
                "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}},
                "status": {"conditions": [{"type": "TopologyReconciled", "status": status, "reason": "R",
                    "message": "* The upgrade waits for BeforeClusterUpgrade: busy",
                    "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
            }))
            .unwrap()
        };
        let mut text = String::new();
        upgrades(&mut text, &[Progress::of(&cluster("False"))]).unwrap();
        let line = "windlass_cluster_waiting_since_timestamp_seconds{namespace=\"ns\",cluster=\"c1\",\
            version=\"v1.33.0\",reason=\"WaitingForHook\",hook=\"BeforeClusterUpgrade\"} 100";
        assert!(text.lines().any(|found| found == line), "{text}");
        let mut text = String::new();
        upgrades(&mut text, &[Progress::of(&cluster("True"))]).unwrap();
        assert!(!text.contains("WaitingForHook"), "a topology that is up to date waits on nothing: {text}");
    }

    #[test]
    fn the_progress_of_an_upgrade_is_counted() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"namespace": "ns", "name": "c1"},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"}},
            "status": {
                "controlPlane": {"replicas": 3, "upToDateReplicas": 1, "upgradePlan": [{"version": "v1.33.0"}]},
                "workers": {"replicas": 4, "upToDateReplicas": 4,
                    "upgradePlan": [{"version": "v1.32.0"}, {"version": "v1.33.0"}]},
            },
        }))
        .unwrap();
        let mut text = String::new();
        upgrades(&mut text, &[Progress::of(&cluster)]).unwrap();
        let labels = "namespace=\"ns\",cluster=\"c1\",version=\"v1.33.0\"";
        for line in [
            format!("windlass_cluster_upgrade_steps_left{{{labels},part=\"control-plane\"}} 1"),
            format!("windlass_cluster_upgrade_steps_left{{{labels},part=\"workers\"}} 2"),
            format!("windlass_cluster_machines{{{labels},state=\"all\"}} 7"),
            format!("windlass_cluster_machines{{{labels},state=\"up-to-date\"}} 5"),
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
