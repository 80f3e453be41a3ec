//! Conditions on requests: expressions that say whether a webhook is asked.

use kube_cel::cel;
use serde_json::Value;

use super::convert::plain_to_cel;
use super::cost::Budget;
use super::expression::Expression;
use super::with_parser_stack;

/// A condition, compiled.
#[derive(Debug)]
pub struct Condition {
    expression: Expression,
    text: String,
}

/// Why a condition is neither true nor false.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    /// It cannot be compiled.
    #[error("compilation failed: {0}")]
    Compile(String),
    /// It failed.
    #[error("expression '{expression}' resulted in error: {problem}")]
    Evaluate {
        /// The expression.
        expression: String,
        /// What went wrong.
        problem: String,
    },
}

impl Condition {
    /// Compiles a condition over variables of these names.
    pub fn compile(text: &str, variables: &[&str]) -> Result<Self, ConditionError> {
        let failed = || ConditionError::Compile("the condition could not be compiled".to_owned());
        let compiled = with_parser_stack(|| Expression::about(text, variables)).ok_or_else(failed)?;
        let expression = compiled.map_err(|error| ConditionError::Compile(error.to_string()))?;
        Ok(Self { expression, text: text.trim().to_owned() })
    }

    /// Whether it holds for these values.
    pub fn holds(&self, variables: &[(&str, &Value)]) -> Result<bool, ConditionError> {
        let failed = |problem: String| ConditionError::Evaluate { expression: self.text.clone(), problem };
        let variables = variables.iter().map(|(name, value)| (*name, plain_to_cel(value)));
        match self.expression.evaluate_with(variables, &mut Budget::default()) {
            Ok(Ok(cel::Value::Bool(holds))) => Ok(holds),
            Ok(Ok(_)) => Err(failed("it is not a condition".to_owned())),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("operation cancelled: actual cost limit exceeded".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_condition_looks_at_the_request_and_its_objects() {
        let variables = ["object", "oldObject", "request"];
        let holds = |text: &str| {
            let condition = Condition::compile(text, &variables)?;
            let object = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"a.b/x-y": "y"}}, "spec": {"replicas": 3}});
            let request = json!({"operation": "UPDATE", "userInfo": {"groups": ["dev"]}});
            condition.holds(&[("object", &object), ("oldObject", &Value::Null), ("request", &request)])
        };
        assert_eq!(holds("object.spec.replicas > 2 && oldObject == null"), Ok(true));
        assert_eq!(holds("'admin' in request.userInfo.groups"), Ok(false));
        assert_eq!(holds("!has(object.status) && request.operation == 'UPDATE'"), Ok(true));
        assert_eq!(
            holds("object.metadata.namespace == 'n' && object.metadata.labels['a.b/x-y'] == 'y'"),
            Ok(true)
        );
        assert!(matches!(holds("object.status.phase == 'x'"), Err(ConditionError::Evaluate { .. })));
        assert!(matches!(holds("object.spec.replicas"), Err(ConditionError::Evaluate { .. })));
        assert!(matches!(holds("authorizer.path('/x')"), Err(ConditionError::Compile(_))));
        assert!(matches!(holds("object.("), Err(ConditionError::Compile(_))));
    }
}
