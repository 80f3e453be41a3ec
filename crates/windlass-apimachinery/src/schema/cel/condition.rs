//! Conditions on requests: expressions that say whether a webhook is asked.

use kube_cel::cel;
use serde_json::Value;

use super::convert::plain_to_cel;
use super::expression::Expression;
use super::meter::Budget;
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

    /// No schema bounds these, so only the account of the evaluation does.
    #[test]
    fn an_expression_cannot_fill_the_memory() {
        let doubled = ".map(s, s + s)".repeat(27);
        let nested = ".map(l, [l, l])".repeat(27);
        let expensive = [
            format!("['aaaaaaaaaa']{doubled}.size() == 1"),
            format!("[b'aaaaaaaaaa']{doubled}.size() == 1"),
            format!("[[1]]{doubled}.size() == 1"),
            format!("[['a']]{nested}[0] == [['a']]{nested}[0]"),
            format!("[['a']]{nested}.flatten().size() == 1"),
            "object.text.replace('', object.text).size() == 1".to_owned(),
            "object.text.replace('a', object.text).size() == 1".to_owned(),
            "object.text.split('').join(object.text).size() == 1".to_owned(),
            "'%.999999999f'.format([1.0]).size() == 1".to_owned(),
            "lists.range(1000000000).size() == 1".to_owned(),
            "object.list.all(a, object.list.exists(b, object.list.size() < 0 || sets.contains(object.list, object.list)))"
                .to_owned(),
            "object.list.map(a, object.text + a).size() == 1".to_owned(),
            "object.list.all(a, (string(size(a)) + object.text).matches('x{0,' + a + '}'))".to_owned(),
            "object.list.distinct().size() == 1".to_owned(),
        ];
        let text = "a".repeat(100_000);
        let list: Vec<String> = (0..5_000).map(|number| number.to_string()).collect();
        let object = json!({"text": text, "list": list});
        for text in expensive {
            let condition =
                Condition::compile(&text, &["object"]).unwrap_or_else(|error| panic!("{text}: {error}"));
            let error = condition.holds(&[("object", &object)]).unwrap_err().to_string();
            assert!(error.contains("cost limit exceeded"), "{text}: {error}");
        }
        for text in [
            "object.list.map(a, a + 'x').size() == 5000",
            "object.list.filter(a, a != '1').size() == 4999",
            "object.list.all(a, a.matches('^[0-9]+$'))",
            "'%.2f %s'.format([1.0, 'a']) == '1.00 a'",
            "lists.range(3).sum() == 3",
        ] {
            let condition = Condition::compile(text, &["object"]).unwrap();
            assert_eq!(condition.holds(&[("object", &object)]), Ok(true), "{text}");
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_an_error_and_not_a_panic() {
        for text in [
            "[9223372036854775807, 1].sum() == 0",
            "math.bitShiftLeft(1, 1000) == 0",
            "math.abs(-9223372036854775808) == 0",
            "-(-9223372036854775808) == 0",
            "-9223372036854775808 / -1 == 0",
            "-9223372036854775808 % -1 == 1",
            "quantity('1e999999999').asInteger() == 0",
            "quantity('1e999999999').compareTo(quantity('1')) == 0",
            "quantity('1e-999999999').add(quantity('1e999999999')).asApproximateFloat() == 0.0",
            "'a'.substring(-1) == ''",
            "'ab'.charAt(-9223372036854775808) == ''",
            "[1].slice(-1, 9223372036854775807) == []",
            "[1][-1] == 1",
            "lists.range(-5) == [1]",
            "duration('999999999h') > duration('1s')",
        ] {
            let condition = Condition::compile(text, &[]).unwrap_or_else(|error| panic!("{text}: {error}"));
            let _ = condition.holds(&[]);
        }
    }
}
