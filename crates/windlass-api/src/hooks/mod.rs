//! The hooks of the Runtime SDK: which exist, and what goes over the wire for each.
//!
//! Every hook has a marker type ([`BeforeClusterUpgrade`], [`Discovery`], ...) that ties its request to its
//! response through [`HookType`], so that neither a client nor a server can mix them up.
//!
//! Decoding is as tolerant as that of Cluster API itself: unknown fields are ignored, `null` counts as
//! absent, and `kind` and `apiVersion` are not checked. What the contract forbids but an extension may send
//! all the same (a status that is neither success nor failure, a negative retry time) decodes into a value
//! that the caller can inspect and quote.
//!
//! Use [`decode`] rather than `serde_json` for what comes from outside: it differs on repeated fields and on
//! arrays in place of objects.

mod decode;
mod discovery;
mod external_update;
mod hook;
mod in_place;
mod lifecycle;
mod patch;
mod protocol;
mod topology_mutation;
mod upgrade_plan;
pub(crate) mod wire;

pub use self::decode::{decode, decode_lenient, decode_value};
pub use self::discovery::{Discovery, DiscoveryRequest, DiscoveryResponse, ExtensionHandler, FailurePolicy};
pub use self::external_update::{ExternalUpdate, ExternalUpdateRequest, ExternalUpdateResponse, UpdateOwner};
pub use self::hook::{GroupVersionHook, Hook, HookTag, UnknownHook};
pub use self::in_place::requirement;
pub use self::in_place::{
    CanUpdateMachine, CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSet,
    CanUpdateMachineSetRequest, CanUpdateMachineSetResponse, MachineObjects, MachineSetObjects,
    UpdateMachine, UpdateMachineRequest, UpdateMachineResponse,
};
pub use self::lifecycle::{
    AfterClusterUpgrade, AfterClusterUpgradeRequest, AfterClusterUpgradeResponse,
    AfterControlPlaneInitialized, AfterControlPlaneInitializedRequest, AfterControlPlaneInitializedResponse,
    AfterControlPlaneUpgrade, AfterControlPlaneUpgradeRequest, AfterControlPlaneUpgradeResponse,
    AfterWorkersUpgrade, AfterWorkersUpgradeRequest, AfterWorkersUpgradeResponse, BeforeClusterCreate,
    BeforeClusterCreateRequest, BeforeClusterCreateResponse, BeforeClusterDelete, BeforeClusterDeleteRequest,
    BeforeClusterDeleteResponse, BeforeClusterUpgrade, BeforeClusterUpgradeRequest,
    BeforeClusterUpgradeResponse, BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest,
    BeforeControlPlaneUpgradeResponse, BeforeWorkersUpgrade, BeforeWorkersUpgradeRequest,
    BeforeWorkersUpgradeResponse,
};
pub use self::patch::{Patch, PatchDocument, PatchError, PatchType};
pub use self::protocol::{HookRequest, HookResponse, HookType, ResponseStatus, RetryResponse, Settings};
pub use self::topology_mutation::{
    ClusterClassVariable, ClusterClassVariableMetadata, DiscoverVariables, DiscoverVariablesRequest,
    DiscoverVariablesResponse, GeneratePatches, GeneratePatchesRequest, GeneratePatchesRequestItem,
    GeneratePatchesResponse, GeneratePatchesResponseItem, HolderReference, ValidateTopology,
    ValidateTopologyRequest, ValidateTopologyRequestItem, ValidateTopologyResponse, Variable, VariableSchema,
};
pub use self::upgrade_plan::{
    GenerateUpgradePlan, GenerateUpgradePlanRequest, GenerateUpgradePlanResponse, UpgradePlan, UpgradeStep,
};
