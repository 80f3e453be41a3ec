//! The machines of a control plane: scaling, rollout, remediation.
