//! Go templates, as far as cluster classes use them: fields, variables, pipelines, `if`, `with`, `range`, and
//! the functions of Go and Sprig that depend on nothing but their arguments.
//!
//! Two things are better than in Go, and nothing else differs for a template that Go accepts: whole numbers are
//! printed as such (Go turns `1000000` of a JSON document into `1e+06`), and maps are walked in the order of
//! their keys.

mod eval;
mod functions;
mod lex;
mod parse;
mod print;
mod semver;

use serde_json::Value;

/// Templates are evaluated in every reconcile; a loop in a class must not fill the memory.
const MAX_OUTPUT: usize = 1 << 20;

/// What a missing key of a map comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MissingKey {
    /// Nothing: `if` takes it for false, and it is printed as `<no value>`.
    NoValue,
    /// An error.
    Refuse,
}

/// A template that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    nodes: Vec<parse::Node>,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    ///
    /// When it is not well formed, or uses something that is not supported.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Ok(Self { nodes: parse::parse(lex::lex(text)?)? })
    }

    /// Evaluates the template on data.
    ///
    /// # Errors
    ///
    /// When a function refuses its arguments, or a field of something that has none is asked for.
    pub fn render(&self, data: &Value, missing: MissingKey) -> Result<String, TemplateError> {
        eval::render(&self.nodes, data, missing)
    }
}

/// Reads and evaluates a template.
///
/// # Errors
///
/// As [`Template::parse`] and [`Template::render`].
pub fn render(text: &str, data: &Value, missing: MissingKey) -> Result<String, TemplateError> {
    Template::parse(text)?.render(data, missing)
}

/// What is wrong with a template, or with what it was evaluated on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// It cannot be read.
    #[error("template, line {line}: {problem}")]
    Syntax {
        /// Where, counted from 1.
        line: usize,
        /// What was found.
        problem: String,
    },
    /// It cannot be evaluated.
    #[error("template: {0}")]
    Evaluation(String),
}

pub(super) fn evaluation<T>(problem: impl Into<String>) -> Result<T, TemplateError> {
    Err(TemplateError::Evaluation(problem.into()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn data() -> Value {
        json!({
            "name": "web",
            "replicas": 3,
            "big": 1_000_000,
            "ratio": 0.5,
            "on": true,
            "off": false,
            "empty": "",
            "zones": ["a", "b", "c"],
            "labels": {"tier": "front", "app.kubernetes.io/name": "web"},
            "users": [{"name": "x", "keys": ["k1", "k2"]}, {"name": "y"}],
            "builtin": {"controlPlane": {"version": "v1.31.4"}, "cluster": {"name": "c1"}},
        })
    }

    #[test]
    fn what_templates_of_classes_use() {
        for (template, output) in [
            ("plain", "plain"),
            ("{{ .name }}", "web"),
            ("{{.replicas}} {{.big}} {{.ratio}} {{.on}} {{.zones}}", "3 1000000 0.5 true [a b c]"),
            ("{{ .missing }}|{{ .labels.none }}", "<no value>|<no value>"),
            ("{{/* a comment */}}x{{- /* trims */ -}} y", "xy"),
            ("a  {{- .name -}}  b", "awebb"),
            ("{{ if .on }}yes{{ else }}no{{ end }}", "yes"),
            ("{{ if .missing }}yes{{ else if .off }}maybe{{ else }}no{{ end }}", "no"),
            ("{{ if and .on (gt .replicas 2) }}many{{ end }}", "many"),
            ("{{ if or .off .empty \"x\" }}t{{ end }}{{ if not .off }}n{{ end }}", "tn"),
            ("{{ range .zones }}{{ . }},{{ end }}", "a,b,c,"),
            ("{{ range $i, $z := .zones }}{{ $i }}={{ $z }} {{ end }}", "0=a 1=b 2=c "),
            (
                "{{ range $k, $v := .labels }}{{ $k }}:{{ $v }} {{ end }}",
                "app.kubernetes.io/name:web tier:front ",
            ),
            ("{{ range .missing }}x{{ else }}none{{ end }}", "none"),
            ("{{ range .zones }}{{ if eq . \"b\" }}{{ continue }}{{ end }}{{ . }}{{ end }}", "ac"),
            ("{{ range .zones }}{{ if eq . \"b\" }}{{ break }}{{ end }}{{ . }}{{ end }}", "a"),
            ("{{ range .users }}{{ .name }}{{ range .keys }}-{{ . }}{{ end }};{{ end }}", "x-k1-k2;y;"),
            ("{{ with .labels }}{{ .tier }} of {{ $.name }}{{ end }}", "front of web"),
            ("{{ with .missing }}x{{ else }}nothing{{ end }}", "nothing"),
            ("{{ $x := 1 }}{{ if .on }}{{ $x = 2 }}{{ end }}{{ $x }}", "2"),
            ("{{ .name | upper | quote }}", "\"WEB\""),
            ("{{ .missing | default \"d\" }} {{ default 1 .replicas }}", "d 3"),
            ("{{ index .labels \"app.kubernetes.io/name\" }} {{ index .zones 1 }}", "web b"),
            ("{{ (index .users 0).name }}", "x"),
            ("{{ printf \"%s-%d-%v-%q-%05d\" .name 7 .on .name 42 }}", "web-7-true-\"web\"-00042"),
            ("{{ len .zones }}{{ len .name }}", "33"),
            (
                "{{ eq .name \"db\" \"web\" }} {{ ne 1 2 }} {{ lt 1.5 2 }} {{ ge \"b\" \"a\" }}",
                "true true true true",
            ),
            ("{{ `raw \"text\"` }}", "raw \"text\""),
            ("{{ \"a\\tb\\u00e9\" }}", "a\tb\u{e9}"),
            ("{{ join \",\" .zones }} {{ splitList \"-\" \"a-b\" | last }}", "a,b,c b"),
            ("{{ \"k\" | b64enc }} {{ \"aw==\" | b64dec }}", "aw== k"),
            ("x:{{ .labels | toYaml | nindent 2 }}", "x:\n  app.kubernetes.io/name: web\n  tier: front"),
            ("{{ .labels | toJson }}", "{\"app.kubernetes.io/name\":\"web\",\"tier\":\"front\"}"),
            (
                "{{ trimSuffix \".0\" \"1.0\" }} {{ replace \".\" \"-\" \"1.2\" }} {{ trunc 2 \"abc\" }}",
                "1 1-2 ab",
            ),
            (
                "{{ ternary \"a\" \"b\" .on }} {{ coalesce .missing .empty \"c\" }} {{ empty .empty }}",
                "a c true",
            ),
            (
                "{{ add 1 2 3 }} {{ sub 5 2 }} {{ mul 2 3 }} {{ div 7 2 }} {{ mod 7 2 }} {{ max 1 5 2 }}",
                "6 3 6 3 1 5",
            ),
            ("{{ (dict \"a\" 1 \"b\" (list 1 2)) | toJson }}", "{\"a\":1,\"b\":[1,2]}"),
            (
                "{{ hasKey .labels \"tier\" }} {{ has \"b\" .zones }} {{ keys .labels | join \" \" }}",
                "true true app.kubernetes.io/name tier",
            ),
            ("{{ semverCompare \">= 1.31.0\" .builtin.controlPlane.version }}", "true"),
            ("{{ semverCompare \"< v1.31\" .builtin.controlPlane.version }}", "false"),
            ("{{ (semver .builtin.controlPlane.version).Minor }}", "31"),
            ("{{ \"abc\" | sha256sum | trunc 8 }}", "ba7816bf"),
            ("{{ kindIs \"slice\" .zones }} {{ int \"7\" }} {{ toString 3 | quote }}", "true 7 \"3\""),
            ("{{ range until 3 }}{{ . }}{{ end }}", "012"),
        ] {
            assert_eq!(render(template, &data(), MissingKey::NoValue).as_deref(), Ok(output), "{template}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (template, message) in [
            ("a\n{{ .name", "template, line 2: {{ is not closed"),
            ("{{ if .on }}x", "template, line 1: if has no end"),
            ("{{ end }}", "template, line 1: unexpected end"),
            ("{{ nothing 1 }}", "template: function \"nothing\" does not exist"),
            ("{{ define \"x\" }}{{ end }}", "template, line 1: define is not supported"),
            ("{{ .name.first }}", "template: a string has no field \"first\""),
            ("{{ .missing.deeper }}", "template: nothing has no field \"deeper\""),
            ("{{ $x }}", "template: variable $x is not defined"),
            ("{{ \"open }}", "template, line 1: a string is not closed"),
            ("{{ index .zones 9 }}", "template: index: 9 is out of range, there are 3 items"),
            ("{{ eq .name .zones }}", "template: eq: a string and a list cannot be compared"),
            ("{{ fail \"no zone\" }}", "template: no zone"),
            ("{{ div 1 0 }}", "template: div: division by zero"),
            ("{{ repeat 999999999 \"xxxxxxxxxx\" }}", "template: the output is larger than 1048576 bytes"),
        ] {
            let error = render(template, &data(), MissingKey::NoValue).unwrap_err();
            assert_eq!(error.to_string(), message, "{template}");
        }
    }

    #[test]
    fn a_missing_key_is_an_error_where_that_is_asked_for() {
        let error = render("{{ .cluster.nme }}", &json!({"cluster": {}}), MissingKey::Refuse).unwrap_err();
        assert_eq!(error.to_string(), "template: there is no key \"nme\"");
    }

    #[test]
    fn deep_nesting_is_refused() {
        let template = format!("{}{}", "{{ if .on }}".repeat(5000), "{{ end }}".repeat(5000));
        assert!(Template::parse(&template).is_err());
        let template = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
        assert!(Template::parse(&template).is_err());
    }
}
