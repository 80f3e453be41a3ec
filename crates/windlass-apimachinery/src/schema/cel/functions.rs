//! The functions that rules may call.

use std::sync::LazyLock;

use kube_cel::KubeCelExt;
use kube_cel::cel::Context;

/// A scope with all functions and no variables.
pub(super) fn context() -> Context<'static> {
    FUNCTIONS.new_inner_scope()
}

/// Whether there is a function of this name, with its namespace if it has one.
pub(super) fn is_supported(name: &str) -> bool {
    let mut supported = CEL.split_whitespace().chain(KUBERNETES.split_whitespace());
    supported.any(|supported| supported == name)
}

/// Every function, registered once: building the registry costs more than most rules.
static FUNCTIONS: LazyLock<Context<'static>> = LazyLock::new(|| Context::default().with_all());

/// The functions of CEL itself. The registry cannot be asked, so tests compare it with these names.
const CEL: &str = "\
    bytes contains double duration endsWith getDate getDayOfMonth getDayOfWeek getDayOfYear getFullYear \
    getHours getMilliseconds getMinutes getMonth getSeconds hasValue int matches max min optional.none \
    optional.of optional.ofNonZeroValue or orValue size startsWith string timestamp uint value";

/// The functions of Kubernetes' libraries.
const KUBERNETES: &str = "\
    add asApproximateFloat asInteger base64.decode base64.encode charAt cidr compareTo containsCIDR \
    containsIP distinct family find findAll first flatten format format.byte format.date \
    format.datetime format.labelValue format.named format.qualifiedName format.uri format.uuid \
    getEscapedPath getHost getHostname getPort getQuery getScheme indexOf ip ip.isCanonical isCIDR \
    isGlobalUnicast isGreaterThan isIP isInteger isLessThan isLinkLocalMulticast isLinkLocalUnicast \
    isLoopback isQuantity isSemver isSorted isURL isUnspecified join jsonpatch.escapeKey last \
    lastIndexOf lists.range lowerAscii major masked math.abs math.bitAnd math.bitNot math.bitOr \
    math.bitShiftLeft math.bitShiftRight math.bitXor math.ceil math.floor math.greatest math.isFinite \
    math.isInf math.isNaN math.least math.round math.sign math.sqrt math.trunc minor patch prefixLength \
    quantity replace reverse semver sets.contains sets.equivalent sets.intersects sign slice sort split \
    strings.quote sub substring sum trim upperAscii url validate";

#[cfg(test)]
mod tests {
    use kube_cel::cel::{ExecutionError, Program};

    use super::*;

    fn is_registered(name: &str) -> bool {
        let program = Program::compile(&format!("{name}()")).unwrap();
        !matches!(program.execute(&FUNCTIONS), Err(ExecutionError::UndeclaredReference(_)))
    }

    #[test]
    fn every_function_we_accept_exists() {
        for name in CEL.split_whitespace().chain(KUBERNETES.split_whitespace()) {
            assert!(is_registered(name), "{name} is listed but not registered");
        }
    }

    #[test]
    fn functions_we_do_not_accept_do_not_exist() {
        for name in ["type", "dyn", "optMap", "cel.bind", "math.pi", "nothing"] {
            assert!(!is_supported(name), "{name} is listed");
            assert!(!is_registered(name), "{name} is registered but not listed");
        }
    }
}
