//! What keys and values of labels look like.

use crate::dns_label::is_rfc1123_subdomain;

/// Whether a string can be the key of a label, an annotation or a taint: a name, optionally after a DNS subdomain and a
/// slash.
pub fn is_label_key(key: &str) -> bool {
    label_key_problems(key).is_empty()
}

/// Whether a string can be the value of a label or a taint: empty, or like the name of a label.
pub fn is_label_value(value: &str) -> bool {
    label_value_problems(value).is_empty()
}

/// What is wrong with a label key, in the words of the API server; empty if it is fine.
pub fn label_key_problems(key: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let name = match key.split_once('/') {
        None => key,
        Some((prefix, name)) if !name.contains('/') => {
            if prefix.is_empty() {
                problems.push("prefix part must be non-empty".to_owned());
            } else if prefix.len() > 253 {
                problems.push("prefix part must be no more than 253 bytes".to_owned());
            } else if !is_rfc1123_subdomain(prefix) {
                problems.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                     characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                     'example.com', regex used for validation is \
                     '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
            name
        }
        Some(_) => {
            return vec![format!(
                "a valid label key {QUALIFIED_NAME} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        problems.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        problems.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_name(name) {
        problems.push(format!("name part {QUALIFIED_NAME}"));
    }
    problems
}

/// What is wrong with a label value, in the words of the API server; empty if it is fine.
pub fn label_value_problems(value: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if value.len() > 63 {
        problems.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_name(value) {
        problems.push(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
             and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or \
             '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
                .to_owned(),
        );
    }
    problems
}

const QUALIFIED_NAME: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
     character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
     '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";

fn is_name(text: &str) -> bool {
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
}
