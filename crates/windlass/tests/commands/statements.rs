//! The table of statements: what Windlass says about upgrades and about steering them, one row each, with what shows it.
//!
//! Where a story can show it, the story stands in the row and is played here, with the real controllers in virtual time. What
//! needs an extension that is written for it, or a process of its own, is a test elsewhere, which is looked up.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A statement, and everything that shows it.
struct Statement {
    says: &'static str,
    shown_by: &'static [Shown],
}

enum Shown {
    /// What a story prints, in this order, and what it never prints.
    Story { told: &'static str, shows: &'static [&'static str], never: &'static [&'static str] },
    /// What a command prints.
    Command {
        arguments: &'static [&'static str],
        shows: &'static [&'static str],
        never: &'static [&'static str],
    },
    /// A story of `tests/stories`, compared with its output by another test.
    Golden(&'static str),
    /// A test of a whole system in virtual time, by its file in the tests of the simulator.
    Virtual(&'static str, &'static str),
    /// A test of something that has no time, or of real processes.
    Test(&'static str, &'static str),
    /// A page.
    Page(&'static str),
}

use Shown::{Command as Prints, Golden, Page, Story, Test, Virtual};

const STATEMENTS: &[Statement] = &[
    Statement {
        says: "a new upgrade waits for worker rollouts in progress, and names the group and the way out",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.30.0
  workers web 1
  versions v1.30.0 v1.31.0
until prod is at v1.30.0
edit devmachinetemplate/quick-worker
  spec: {template: {spec: {backend: {inMemory: {vm: {provisioning: {startupDuration: 10m}}}}}}}
advance 5s
upgrade prod to v1.31.0
advance 5m
describe prod
until prod is at v1.31.0 within 3h
",
                shows: &[
                    "> advance 5m\n\n> describe prod",
                    "Waiting on the rollout of MachineDeployment prod-web-",
                    "upgrade.windlass.dev/ignore-rollouts",
                    "hook BeforeClusterUpgrade v1.30.0 -> v1.31.0: success",
                    "workers web v1.30.0 -> v1.31.0",
                ],
                never: &[],
            },
            Golden("rollout-first"),
        ],
    },
    Statement {
        says: "a held MachineDeployment holds what comes after it, MachinePools included",
        shown_by: &[Story {
            told: "
create cluster prod v1.31.0
  workers a 1
  workers b 1
  workers c 1
  pool p 1
until prod is at v1.31.0
annotate prod/b topology.cluster.x-k8s.io/hold-upgrade-sequence=
upgrade prod to v1.32.0
advance 1h
describe prod
annotate prod/b topology.cluster.x-k8s.io/hold-upgrade-sequence-
until prod is at v1.32.0 within 1h
",
            shows: &[
                "> advance 1h",
                "workers a at v1.32.0",
                "> describe prod",
                "topology.cluster.x-k8s.io/hold-upgrade-sequence",
                "> until prod is at",
                "workers b v1.31.0 -> v1.32.0",
                "workers c v1.31.0 -> v1.32.0",
                "workers p v1.31.0 -> v1.32.0",
                "hook AfterWorkersUpgrade v1.32.0: success",
            ],
            never: &[],
        }],
    },
    Statement {
        says: "a deferred MachineDeployment holds only itself",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.31.0
  workers a 1
  workers b 1
  pool p 1
until prod is at v1.31.0
annotate prod/a topology.cluster.x-k8s.io/defer-upgrade=
upgrade prod to v1.32.0
advance 1h
annotate prod/a topology.cluster.x-k8s.io/defer-upgrade-
until prod is at v1.32.0 within 1h
",
                shows: &[
                    "> advance 1h",
                    "workers b at v1.32.0",
                    "workers p at v1.32.0",
                    "> until prod is at",
                    "workers a v1.31.0 -> v1.32.0",
                    "hook AfterWorkersUpgrade v1.32.0: success",
                ],
                never: &[],
            },
            Golden("hold-and-defer"),
        ],
    },
    Statement {
        says: "the plan of an extension is computed anew before every step, and followed when it changes while a hook holds",
        shown_by: &[
            Virtual("extensions/plans.rs", "every_step_begins_with_a_plan_that_was_asked_for_from_where_it_begins"),
            Virtual("extensions/plans.rs", "a_plan_that_changes_while_a_hook_holds_is_followed_once_the_hook_passes"),
            Golden("upgrade-plan-extension"),
        ],
    },
    Statement {
        says: "no surge machine in place while maxUnavailable is above 0, also when the template changes in mid-rollout",
        shown_by: &[
            Prints {
                arguments: &[
                    "simulate", "rollout", "--replicas", "6", "--max-surge", "3", "--max-unavailable", "1", "--in-place",
                    "--change-spec", "--at-step", "4",
                ],
                shows: &["0 created, 0 deleted", "at most 6 machines, at least 5 available"],
                never: &[],
            },
            Virtual("in_place_updates/workers.rs", "no_worker_is_added_whenever_the_template_changes_again"),
            Test(
                "crates/windlass-engine/tests/decisions/rollout_world.rs",
                "in_place_keeps_its_limits_when_the_template_changes_again",
            ),
        ],
    },
    Statement {
        says: "what an in-place patch changes outside of spec is dropped with a note",
        shown_by: &[Virtual(
            "in_place_updates/workers.rs",
            "what_an_extension_patches_outside_of_the_specification_does_not_stop_the_update",
        )],
    },
    Statement {
        says: "a plan that goes back is refused with the rule and both versions",
        shown_by: &[
            Virtual("extensions/plans.rs", "a_plan_that_goes_back_is_refused_with_the_rule_that_it_breaks"),
            Prints {
                arguments: &[
                    "plan", "check", "--from", "v1.30.0", "--to", "v1.32.0", "--control-plane-upgrades",
                    "v1.31.5,v1.32.1,v1.32.0",
                ],
                shows: &["v1.32.0 must be greater than the one before it, v1.32.1"],
                never: &[],
            },
        ],
    },
    Statement {
        says: "every hook that fails is called with an even back-off, which is shown with the handler",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.31.0
until prod is at v1.31.0
hook AfterClusterUpgrade answers failure \"the disk is full\"
upgrade prod to v1.32.0
until hook AfterClusterUpgrade is called 9 times
describe prod
",
                shows: &[
                    "handler \"afterclusterupgrade.simulation\": answered Failure: the disk is full; tried again after 1m",
                ],
                never: &[],
            },
            Virtual("extensions/pace.rs", "a_hook_that_fails_is_called_at_growing_intervals"),
            Virtual("extensions/pace.rs", "patches_that_fail_are_asked_for_at_growing_intervals"),
            Virtual(
                "extensions/pace.rs",
                "a_deletion_that_a_failing_hook_holds_is_tried_again_at_growing_intervals",
            ),
            Virtual("in_place_updates/pace.rs", "an_update_that_fails_is_tried_again_at_growing_intervals"),
            Virtual("in_place_updates/pace.rs", "questions_that_fail_are_asked_again_at_growing_intervals"),
            Virtual("in_place_updates/pace.rs", "an_external_updater_that_fails_is_asked_again_at_growing_intervals"),
            Test(
                "crates/windlass-hooks/tests/hooks/caches.rs",
                "handlers_that_fail_are_called_at_growing_intervals_however_often_they_are_asked_for",
            ),
        ],
    },
    Statement {
        says: "no wait is longer than an hour, whatever an extension asks for, and an edit asks again at once",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.31.0
until prod is at v1.31.0
hook BeforeClusterUpgrade blocks 2147483647s \"never\"
upgrade prod to v1.32.0
advance 59m
describe prod
until hook BeforeClusterUpgrade is called within 2m
until prod is at v1.32.0 within 1h
hook BeforeClusterUpgrade blocks 2147483647s \"never\"
upgrade prod to v1.33.0
advance 5m
annotate prod example.com/approved=yes
until hook BeforeClusterUpgrade is called within 2s
until prod is at v1.33.0 within 1h
",
                shows: &[
                    "BeforeClusterUpgrade (beforeclusterupgrade.simulation): never; asked for 2147483647s, asked again after 1h",
                    "hook BeforeClusterUpgrade v1.31.0 -> v1.32.0: success",
                    "> annotate prod example.com/approved=yes",
                    "hook BeforeClusterUpgrade v1.32.0 -> v1.33.0: success",
                ],
                never: &[],
            },
            Virtual("extensions/pace.rs", "no_hook_holds_a_cluster_for_longer_than_an_hour_without_being_asked_again"),
            Virtual("extensions/pace.rs", "an_edit_asks_a_hook_again_at_once_that_holds_or_fails"),
            Virtual("in_place_updates/pace.rs", "no_update_is_left_alone_for_longer_than_an_hour"),
            Virtual("in_place_updates/pace.rs", "an_edit_asks_an_update_again_at_once"),
            Virtual("in_place_updates/pace.rs", "an_external_updater_is_asked_again_after_an_hour_at_most"),
        ],
    },
    Statement {
        says: "no group will upgrade to the version that it has",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.29.0
  workers a 1
  workers b 1
  versions v1.29.0 v1.30.0 v1.31.0 v1.32.0 v1.33.0
until prod is at v1.29.0
upgrade prod to v1.33.0
until prod/a is at v1.32.0 within 2h
describe prod
",
                shows: &["MachineDeployment prod-a-", " will upgrade to v1.33.0"],
                never: &["prod-a-gjxs2 will upgrade to v1.32.0"],
            },
            Test("crates/windlass-engine/tests/topology_upgrade/main.rs", "the_condition_says_who_goes_where_and_what_holds_it"),
        ],
    },
    Statement {
        says: "an update that no external updater accepts is told on the Cluster",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.32.0
  workers edge 1
until prod is at v1.32.0
edit cluster/prod
  spec:
    topology:
      workers:
        machineDeployments:
        - class: default
          name: edge
          replicas: 1
          rollout: {strategy: {type: External}}
external updater site refuses \"not in winter\"
upgrade prod to v1.33.0
until cluster/prod TopologyReconciled is False says \"refuses: not in winter\" within 1h
",
                shows: &["reached after"],
                never: &[],
            },
            Golden("external-strategy-refused"),
        ],
    },
    Statement {
        says: "describe agrees with the control plane on what is done, and counts the machines that are wanted and are there",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.30.0
  control plane 3
  versions v1.30.0 v1.30.4 v1.31.0
until prod is at v1.30.0
upgrade prod to v1.30.4
until 2 machines of prod/control-plane at v1.30.4
describe prod
",
                shows: &[
                    "running  control plane to v1.30.4, 1 of 3 machines",
                    "Waiting on KubeadmControlPlane prod-kzmck to reach v1.30.4",
                ],
                never: &["of 4 machines", "done     control plane to v1.30.4"],
            },
            Test("crates/windlass-engine/src/describe/tests.rs", "a_machine_counts_when_its_node_is_there"),
        ],
    },
    Statement {
        says: "without a path describe lists no steps to come",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.30.0
  versions v1.30.0 v1.31.0 v1.32.0 v1.33.0
until prod is at v1.30.0
upgrade prod to v1.33.0
until 1 machine of prod/control-plane at v1.31.0
edit clusterclass/quick
  spec: {kubernetesVersions: [v1.33.0]}
until cluster/prod TopologyReconciled says \"no upgrade path\"
describe prod
",
                shows: &["Waiting on", "no upgrade path"],
                never: &["to come"],
            },
            Golden("path-lost"),
        ],
    },
    Statement {
        says: "the handler and the next retry stand in every message about a hook",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.31.0
  workers web 1
until prod is at v1.31.0
hook BeforeWorkersUpgrade blocks 30m \"a backup runs\"
upgrade prod to v1.32.0
until cluster/prod TopologyReconciled says \"BeforeWorkersUpgrade (beforeworkersupgrade.simulation): a backup runs; asked again after 30m\"
describe prod
",
                shows: &[
                    "Waiting on BeforeWorkersUpgrade (beforeworkersupgrade.simulation): a backup runs; asked again after 30m",
                ],
                never: &[],
            },
            Virtual("extensions/waiting.rs", "the_condition_the_event_the_log_the_description_and_the_metric_say_the_same"),
            Virtual("in_place_updates/pace.rs", "no_update_is_left_alone_for_longer_than_an_hour"),
            Golden("hook-blocks"),
        ],
    },
    Statement {
        says: "requests of hooks have cluster.status, and nothing that repeats the object",
        shown_by: &[
            Virtual("extensions/requests.rs", "requests_about_a_topology_have_the_status_and_nothing_that_repeats_the_object"),
            Virtual("extensions/requests.rs", "requests_about_machines_have_nothing_that_repeats_the_object"),
        ],
    },
    Statement {
        says: "GeneratePatches has the templates of the class; labels of the topology and cloned-from come afterwards, as upstream",
        shown_by: &[Virtual("extensions/requests.rs", "patches_see_the_templates_of_the_class")],
    },
    Statement {
        says: "an extension that goes down is reported within a minute, and so is its return",
        shown_by: &[Virtual(
            "extensions/registration.rs",
            "an_extension_that_goes_down_and_comes_back_is_reported_within_a_minute",
        )],
    },
    Statement {
        says: "the tester agrees with the callers: self-signed certificates, T7, the order of independent operations",
        shown_by: &[
            Test("crates/windlass-conformance/tests/well_behaved.rs", "a_self_signed_certificate_in_the_bundle_is_trusted_as_a_server"),
            Test("crates/windlass-conformance/tests/broken.rs", "every_rule_of_every_check_is_broken_by_some_case"),
            Test("crates/windlass-conformance/src/patch_order.rs", "independent_operations_may_come_in_any_order"),
        ],
    },
    Statement {
        says: "a page says where Cluster API's documents and its code differ, and what Windlass does",
        shown_by: &[Page("docs/differences.md")],
    },
    Statement {
        says: "an example implements ExternalUpdate end to end, and a page says what an external updater must keep",
        shown_by: &[
            Test(
                "crates/windlass-simulate/tests/clusters/in_place_https.rs",
                "the_external_updater_example_takes_over_and_keeps_what_a_machine_is",
            ),
            Page("docs/in-place.md"),
        ],
    },
    Statement {
        says: "H1: marks are written on condition that the target is unchanged",
        shown_by: &[
            Virtual("extensions/lifecycle.rs", "a_target_that_is_taken_back_while_a_hook_answers_is_not_gone_beyond"),
            Test("crates/windlass-runtime/tests/runtime/conditional.rs", "a_condition_that_does_not_hold_any_more_is_a_conflict"),
            Test(
                "crates/windlass-runtime/tests/runtime/conditional.rs",
                "a_refusal_of_a_webhook_is_no_conflict_unless_the_condition_fails_too",
            ),
        ],
    },
    Statement {
        says: "H2: admission reads marks from the stored object and carries them over",
        shown_by: &[Test(
            "crates/windlass-manager/tests/admission/defaults.rs",
            "what_was_promised_survives_a_client_that_writes_the_whole_cluster",
        )],
    },
    Statement {
        says: "H3: workers that stop where no step of the control plane promised it have their hooks",
        shown_by: &[Story {
            told: "
create cluster prod v1.29.0
  workers web 1
  versions v1.29.0 v1.30.0 v1.31.0 v1.32.0 v1.33.0
until prod is at v1.29.0
hook AfterControlPlaneUpgrade blocks
upgrade prod to v1.33.0
until hook AfterControlPlaneUpgrade is called within 1h
upgrade prod to v1.30.0
hook AfterControlPlaneUpgrade answers success
until prod is at v1.30.0 within 2h
",
            shows: &[
                "> upgrade prod to v1.30.0",
                "hook AfterControlPlaneUpgrade v1.30.0: success",
                "hook BeforeWorkersUpgrade v1.29.0 -> v1.30.0: success",
                "workers web v1.29.0 -> v1.30.0",
                "hook AfterWorkersUpgrade v1.30.0: success",
                "hook AfterClusterUpgrade v1.30.0: success",
            ],
            never: &["control plane v1.30.0 ->"],
        }],
    },
    Statement {
        says: "H4: workers that do not stop any more where the plan changed have no hooks there",
        shown_by: &[Story {
            told: "
create cluster prod v1.29.0
  workers web 1
  versions v1.29.0 v1.30.0 v1.31.0 v1.32.0
until prod is at v1.29.0
hook AfterControlPlaneUpgrade blocks
upgrade prod to v1.30.0
until hook AfterControlPlaneUpgrade is called within 1h
upgrade prod to v1.32.0
hook AfterControlPlaneUpgrade answers success
until prod is at v1.32.0 within 2h
",
            shows: &[
                "> upgrade prod to v1.32.0",
                "hook AfterControlPlaneUpgrade v1.30.0: success",
                "hook BeforeClusterUpgrade v1.30.0 -> v1.32.0: success",
                "hook BeforeWorkersUpgrade v1.29.0 -> v1.32.0: success",
                "hook AfterWorkersUpgrade v1.32.0: success",
                "hook AfterClusterUpgrade v1.32.0: success",
            ],
            never: &[
                "hook BeforeWorkersUpgrade v1.29.0 -> v1.30.0",
                "hook AfterWorkersUpgrade v1.30.0",
                "hook AfterClusterUpgrade v1.30.0",
                "workers web v1.29.0 -> v1.30.0",
            ],
        }],
    },
    Statement {
        says: "the target is raised, lowered, cancelled or taken back after any write, also with a crash before and after the next",
        shown_by: &[
            Virtual("chains/retarget.rs", "a_target_that_is_raised_after_any_write_is_reached"),
            Virtual("chains/retarget.rs", "a_target_that_is_lowered_after_any_write_is_reached_or_refused"),
            Virtual("chains/retarget.rs", "an_upgrade_that_is_cancelled_after_any_write_ends_where_it_is"),
            Virtual("chains/retarget.rs", "an_upgrade_can_be_taken_back_until_something_has_moved"),
        ],
    },
    Statement {
        says: "BeforeClusterUpgrade is called again on a raise, AfterClusterUpgrade once at the end, and nothing goes below what was reached",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.30.0
  workers web 1
  versions v1.30.0 v1.31.0 v1.32.0 v1.33.0
until prod is at v1.30.0
upgrade prod to v1.32.0
until 1 machine of prod/control-plane at v1.31.0
try upgrade prod to v1.30.0
upgrade prod to v1.33.0
until prod is at v1.33.0 within 2h
",
                shows: &[
                    "hook BeforeClusterUpgrade v1.30.0 -> v1.32.0: success",
                    "KubeadmControlPlane prod-kzmck is moving to v1.31.0; v1.31.0 or newer is accepted",
                    "hook BeforeClusterUpgrade v1.31.0 -> v1.33.0: success",
                    "hook AfterClusterUpgrade v1.33.0: success",
                ],
                never: &["hook AfterClusterUpgrade v1.32.0"],
            },
            Golden("retarget"),
            Test(
                "crates/windlass-engine/tests/topology_upgrade/steering.rs",
                "a_raised_target_is_told_and_holds_only_what_is_beyond_the_former_one",
            ),
        ],
    },
    Statement {
        says: "a cancel ends where the control plane is, and workers come up to it",
        shown_by: &[Golden("cancel")],
    },
    Statement {
        says: "a step is redirected to a later patch: the way out of a version without an image",
        shown_by: &[
            Golden("redirect"),
            Test(
                "crates/windlass-engine/tests/topology_upgrade/steering.rs",
                "a_step_goes_to_a_later_patch_where_no_machine_is_rolled_twice",
            ),
        ],
    },
    Statement {
        says: "a step that no machine came up with is gone back from, and no other",
        shown_by: &[
            Golden("abort"),
            Virtual("chains/abort.rs", "a_step_that_no_machine_came_up_with_is_given_up"),
            Virtual("chains/abort.rs", "a_step_that_a_machine_came_up_with_is_not_gone_back_from"),
        ],
    },
    Statement {
        says: "admission says what a new target changes, and refuses what goes below what was reached or promised",
        shown_by: &[
            Test(
                "crates/windlass-manager/tests/admission/versions.rs",
                "versions_change_also_in_mid_chain_and_never_below_what_was_reached_or_promised",
            ),
            Test(
                "crates/windlass-engine/tests/decisions/topology_admission.rs",
                "a_new_target_says_what_it_changes_about_the_upgrade_that_runs",
            ),
        ],
    },
    Statement {
        says: "pins: every combination of pin and target of eight minors, planner against brute force; a sample end to end",
        shown_by: &[
            Test("crates/windlass-plan/tests/pins.rs", "a_plan_with_a_pin_is_the_plan_without_that_group_or_is_refused"),
            Virtual("chains/pins.rs", "pins_where_the_upgrade_begins"),
            Virtual("chains/pins.rs", "pins_behind_where_the_upgrade_begins"),
            Virtual("chains/pins.rs", "pins_that_allow_no_further_step"),
        ],
    },
    Statement {
        says: "pins: window, gate, and the annotation form; a chain that would break the skew is refused with the pin named",
        shown_by: &[
            Test("crates/windlass-engine/tests/decisions/topology_admission.rs", "pins_stay_in_their_window_and_never_go_back"),
            Virtual("chains/pins.rs", "with_the_feature_gate_off_a_pin_has_no_effect_and_that_is_said"),
            Virtual("chains/pins.rs", "a_pin_that_is_raised_rolls_its_group_alone_and_is_removed_without_a_rollout"),
            Golden("pin"),
        ],
    },
    Statement {
        says: "a chain is held at once or at a version; what moves ends, and hooks after it are called",
        shown_by: &[
            Golden("hold-and-resume"),
            Test(
                "crates/windlass-engine/tests/topology_upgrade/steering.rs",
                "holds_and_approvals_come_before_hooks_and_stop_between_steps",
            ),
        ],
    },
    Statement {
        says: "an approval has the version of its step, and an old one starts nothing new",
        shown_by: &[
            Story {
                told: "
create cluster prod v1.31.0
  workers web 1
  versions v1.31.0 v1.32.0 v1.33.0
until prod is at v1.31.0
annotate prod upgrade.windlass.dev/require-approval=control-plane
annotate prod upgrade.windlass.dev/approved=control-plane/v1.32.0
upgrade prod to v1.32.0
until prod is at v1.32.0 within 1h
annotate prod upgrade.windlass.dev/approved=control-plane/v1.32.0
upgrade prod to v1.33.0
advance 2h
describe prod
",
                shows: &[
                    "hook AfterClusterUpgrade v1.32.0: success",
                    "Waiting on approval of control-plane/v1.33.0",
                    "windlass upgrade approve -n default prod control-plane/v1.33.0",
                ],
                never: &["hook BeforeClusterUpgrade v1.32.0 -> v1.33.0", "control plane v1.32.0 -> v1.33.0"],
            },
            Golden("approvals"),
            Test("crates/windlass-engine/src/topology/steering.rs", "an_approval_counts_for_its_own_step_only"),
        ],
    },
    Statement {
        says: "affectsAvailability of in-place answers is honoured; a drain before an update if the extension asks for it",
        shown_by: &[
            Virtual("in_place_updates/workers.rs", "workers_that_stay_available_are_updated_without_one_more"),
            Virtual("in_place_updates/control_plane.rs", "with_a_surge_machines_that_stay_available_are_updated_without_one_more"),
            Virtual("in_place_updates/workers.rs", "workers_are_drained_before_their_update_where_the_extension_asks_for_it"),
        ],
    },
    Statement {
        says: "the verbs of windlass upgrade change one thing each, print the kubectl command that does the same, and speak JSON",
        shown_by: &[Test("crates/windlass/tests/up/steering.rs", "an_upgrade_is_steered_by_hand")],
    },
    Statement {
        says: "plan, simulate and describe know pins, holds, approvals and retargets",
        shown_by: &[
            Page("crates/windlass/tests/scenarios/steering.md"),
            Test("crates/windlass-simulate/tests/clusters/upgrade.rs", "an_upgrade_that_is_held_ends_where_it_stops"),
            Test("crates/windlass-simulate/tests/clusters/upgrade.rs", "a_target_that_changes_in_mid_chain_is_followed"),
        ],
    },
    Statement {
        says: "a story for each verb, and one recorded from a real extension behind HTTPS",
        shown_by: &[
            Golden("retarget"),
            Golden("cancel"),
            Golden("hold-and-resume"),
            Golden("approvals"),
            Golden("pin"),
            Golden("abort"),
            Test("crates/windlass/tests/commands/live_stories.rs", "a_real_extension_behind_https_holds_an_upgrade_until_it_approves"),
        ],
    },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// What the program prints, on both outputs.
fn printed(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    text(&output.stdout) + &text(&output.stderr)
}

/// What is missing or too much in what was printed.
fn problems(printed: &str, shows: &[&str], never: &[&str]) -> Vec<String> {
    let mut rest = printed;
    let mut problems = Vec::new();
    for expected in shows {
        match rest.split_once(expected) {
            Some((_, after)) => rest = after,
            None => problems.push(format!("does not show, or not in this order: {expected}")),
        }
    }
    problems
        .extend(never.iter().filter(|never| printed.contains(**never)).map(|never| format!("shows {never}")));
    problems
}

fn check(statement: &Statement, shown: &Shown) -> Vec<String> {
    let found: Vec<String> = match shown {
        Story { told, shows, never } => {
            let printed = printed(&["simulate", "script", "-"], told);
            let mut found = problems(&printed, shows, never);
            if printed.contains("\nerror: ") || printed.starts_with("error: ") {
                found.push("is not played to its end".to_owned());
            }
            found.iter().map(|problem| format!("the story {problem}\n{printed}")).take(1).collect()
        }
        Prints { arguments, shows, never } => {
            let printed = printed(arguments, "");
            let found = problems(&printed, shows, never);
            found.iter().map(|problem| format!("windlass {arguments:?} {problem}\n{printed}")).collect()
        }
        Golden(name) => {
            let exists = |end: &str| Path::new("tests/stories").join(format!("{name}.{end}")).exists();
            let all = exists("txt") && exists("out");
            if all { Vec::new() } else { vec![format!("there is no story {name}")] }
        }
        Virtual(file, name) => {
            let file = format!("crates/windlass-simulate/tests/{file}");
            missing(&file, name, "#[tokio::test(start_paused = true)]")
        }
        Test(file, name) => missing(file, name, "]"),
        Page(file) => {
            let exists = root().join(file).exists();
            if exists { Vec::new() } else { vec![format!("there is no {file}")] }
        }
    };
    found.into_iter().map(|problem| format!("{}: {problem}", statement.says)).collect()
}

/// Whether a file has a test, with this at the end of its attributes.
fn missing(file: &str, name: &str, attribute: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    let is_test = |(before, _): (&str, &str)| {
        before.trim_end().trim_end_matches("async").trim_end().ends_with(attribute)
    };
    let found = text.split_once(&format!("fn {name}(")).is_some_and(is_test);
    if found { Vec::new() } else { vec![format!("{file} has no test {name} after {attribute}")] }
}

#[test]
fn every_statement_is_shown() {
    let rows: Vec<(&Statement, &Shown)> =
        STATEMENTS.iter().flat_map(|row| row.shown_by.iter().map(move |shown| (row, shown))).collect();
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let problems: Vec<String> = std::thread::scope(|scope| {
        let shares = (0..workers).map(|worker| rows.iter().skip(worker).step_by(workers));
        let threads: Vec<_> = shares
            .map(|share| {
                scope.spawn(move || share.flat_map(|(row, shown)| check(row, shown)).collect::<Vec<String>>())
            })
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
}

#[test]
fn no_statement_is_made_twice_or_without_anything_that_shows_it() {
    let said: BTreeSet<&str> = STATEMENTS.iter().map(|row| row.says).collect();
    assert_eq!(said.len(), STATEMENTS.len());
    for row in STATEMENTS {
        assert!(!row.shown_by.is_empty(), "{}", row.says);
    }
}
