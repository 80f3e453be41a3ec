//! What the document says about each hook.

use crate::hooks::Hook;

/// One line about a hook, and what its author has to know.
pub(super) const fn prose(hook: Hook) -> (&'static str, &'static str) {
    match hook {
        Hook::Discovery => (
            "List the handlers of an extension",
            "Called when an extension is registered and from time to time after that. The answer decides which \
             of the other hooks are called, under which names, with which timeouts.",
        ),
        Hook::BeforeClusterCreate => (
            "Before the objects of a topology are created",
            "Called after a Cluster with a managed topology was created and before anything is created for it. \
             Blocking holds all of that.",
        ),
        Hook::AfterControlPlaneInitialized => (
            "When the control plane can be reached for the first time",
            "Called once the API server of the Cluster accepts requests, usually long before all machines are \
             there. Cannot block; a failure is tried again.",
        ),
        Hook::BeforeClusterUpgrade => (
            "Before an upgrade starts",
            "Called once per upgrade, after the version of the topology was changed and before the first step. \
             Blocking holds the whole upgrade.",
        ),
        Hook::BeforeControlPlaneUpgrade => (
            "Before a step of the control plane",
            "Called before the control plane takes the next version of the upgrade plan. Blocking holds this step.",
        ),
        Hook::AfterControlPlaneUpgrade => (
            "After a step of the control plane",
            "Called after all machines of the control plane have reached a version of the upgrade plan. Blocking \
             holds the workers and the next step of the control plane.",
        ),
        Hook::BeforeWorkersUpgrade => (
            "Before a step of the workers",
            "Called before workers take a version of the upgrade plan; versions that the workers skip have no \
             such call. Blocking holds the workers and the next step of the control plane.",
        ),
        Hook::AfterWorkersUpgrade => (
            "After a step of the workers",
            "Called after all workers have reached a version of the upgrade plan. Blocking holds the next step of \
             the control plane; at the target version there is none, and the retry time is ignored.",
        ),
        Hook::AfterClusterUpgrade => (
            "After an upgrade",
            "Called after the whole Cluster has reached the version of its topology. Blocking keeps the next \
             upgrade from starting and holds nothing else.",
        ),
        Hook::BeforeClusterDelete => (
            "Before a Cluster is deleted",
            "Called after deletion of a Cluster was asked for and before anything it owns is deleted. Blocking \
             holds all of that.",
        ),
        Hook::GeneratePatches => (
            "Patch the templates of a topology",
            "Called whenever a topology is computed, so it must be quick. The answer must depend on the templates \
             and variables only, neither on their order nor on their uids.",
        ),
        Hook::ValidateTopology => (
            "Validate the templates of a topology",
            "Called after all patches of all extensions were applied. A failure stops the change and is shown to \
             the user.",
        ),
        Hook::DiscoverVariables => (
            "List the variables of an extension",
            "Called when a ClusterClass uses the extension. The answer is kept for some minutes; changing the \
             schema of a variable can make existing Clusters invalid.",
        ),
        Hook::GenerateUpgradePlan => (
            "Plan an upgrade",
            "Called whenever the plan of an upgrade is computed, several times in the course of one. The control \
             plane must not skip a minor version, and the last step of each list is the target.",
        ),
        Hook::CanUpdateMachine => (
            "Which changes of a Machine can be made in place",
            "Called before a control plane Machine is replaced. The extension answers with patches of what it can \
             change in place; if the patches of all extensions together do not make the whole change, the Machine \
             cannot be updated in place.",
        ),
        Hook::CanUpdateMachineSet => (
            "Which changes of the Machines of a MachineSet can be made in place",
            "Called before the Machines of a MachineSet are replaced. The extension answers with patches of what \
             it can change in place on every one of them.",
        ),
        Hook::UpdateMachine => (
            "Update a Machine in place",
            "Called until the extension answers success without a retry time. It is called again while the update \
             is under way and must not start it twice.",
        ),
        Hook::ExternalUpdate => (
            "Take over the update of Machines",
            "Called with strategy External when no extension covers the change in place. An extension that accepts brings the \
             Machines, their infrastructure and their bootstrap configs to what is desired, on the machines and in the \
             objects; it is called again after the retry time, and a refusal then withdraws the acceptance. After a \
             refusal the next external updater is asked. This hook is Windlass's own: Cluster API does not know it.",
        ),
    }
}
