//! What templates of ClusterClasses use, what is said of mistakes in them, and that they cannot run away.

use serde_json::{Value, json};
use windlass_gotemplate::{MissingKey, Template, render};

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
            "{{ eq .name \"db\" \"web\" }} {{ ne 1 2 }} {{ lt 1.5 2.0 }} {{ ge \"b\" \"a\" }}",
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
        ("{{ ternary \"a\" \"b\" .on }} {{ coalesce .missing .empty \"c\" }} {{ empty .empty }}", "a c true"),
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
        ("{{ nothing 1 }}", "template, line 1: function \"nothing\" does not exist"),
        (
            "{{ if .on }}{{ define \"x\" }}{{ end }}{{ end }}",
            "template, line 1: define stands at the top of a template only",
        ),
        ("a\nb\n{{ template \"x\" }}", "template, line 3: template \"x\" is not defined"),
        (
            "a\n{{ now }}",
            "template, line 2: function \"now\" is not available: it depends on the time of day",
        ),
        ("{{ .name | trunc }}", "template, line 1: trunc takes 2 arguments, 1 given"),
        ("{{ .name\n | trunc \"3\" }}", "template, line 2: trunc: argument 1: expected int, got string"),
        ("{{ trunc (add 1 2) .name }}", "template, line 1: trunc: argument 1: expected int, got int64"),
        ("{{ upper .missing }}", "template, line 1: upper: argument 1: expected string, got nothing"),
        (
            "{{ hasKey .zones \"a\" }}",
            "template, line 1: hasKey: argument 1: expected map[string]interface {}, got []interface {}",
        ),
        ("{{ .name.first }}", "template, line 1: a value of type string has no field \"first\""),
        ("{{ $x }}", "template, line 1: variable $x is not defined"),
        ("{{ \"open }}", "template, line 1: a string is not closed"),
        ("{{ index .zones 9 }}", "template, line 1: index: 9 is out of range, there are 3 items"),
        ("{{ eq .name .zones }}", "template, line 1: eq: string and []interface {} cannot be compared"),
        ("{{ fail \"no zone\" }}", "template, line 1: fail: no zone"),
        ("{{ div 1 0 }}", "template, line 1: div: division by zero"),
        (
            "{{ decryptAES \"wrong\" \"AAECAwQFBgcICQoLDA0OD4aChIkqfhLglmmHSXlA6r0=\" }}",
            "template, line 1: decryptAES: the password is not the one that it was encrypted with",
        ),
        (
            "{{ derivePassword 1 \"longest\" \"secret\" \"u\" \"s\" }}",
            "template, line 1: derivePassword: there is no password type \"longest\", only basic, long, maximum, medium, \
             pin, short",
        ),
        (
            "{{ buildCustomCert \"LS0t\" \"LS0t\" }}",
            "template, line 1: buildCustomCert: the certificate is not PEM",
        ),
        (
            "{{ repeat 999999999 \"xxxxxxxxxx\" }}",
            "template, line 1: repeat: the result is larger than 1048576 bytes",
        ),
    ] {
        let error = render(template, &data(), MissingKey::NoValue).unwrap_err();
        assert_eq!(error.to_string(), message, "{template}");
    }
}

#[test]
fn a_missing_key_is_an_error_where_that_is_asked_for() {
    let error = render("{{ .cluster.nme }}", &json!({"cluster": {}}), MissingKey::Refuse).unwrap_err();
    assert_eq!(error.to_string(), "template, line 1: there is no key \"nme\"");
}

#[test]
fn deep_nesting_is_refused() {
    let template = format!("{}{}", "{{ if .on }}".repeat(5000), "{{ end }}".repeat(5000));
    assert!(Template::parse(&template).is_err());
    let template = format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000));
    assert!(Template::parse(&template).is_err());
}

/// Templates that would take for ever, or all memory.
#[test]
fn templates_are_bounded() {
    const STEPS: &str = "the template takes more than 4194304 steps";
    const LARGE: &str = "the result is larger than 1048576 bytes";
    const OUTPUT: &str = "the output is larger than 1048576 bytes";
    const DEEP: &str = "nested more than 100 deep";
    const LEVELS: &str = "a value has more than 100 levels";
    // Makes $x as large as a string can be.
    let big = "{{ $x := repeat 1000000 \"a\" }}";
    let rows = [
        ("{{ until 1000000000 }}".to_owned(), STEPS),
        ("{{ untilStep 0 9000000000000000000 1 }}".to_owned(), STEPS),
        ("{{ seq 1000000000 }}".to_owned(), LARGE),
        ("{{ range 1000000000 }}{{ end }}".to_owned(), STEPS),
        ("{{ range 1000000000 }}x{{ end }}".to_owned(), OUTPUT),
        ("{{ range 3000 }}{{ range 3000 }}{{ end }}{{ end }}".to_owned(), STEPS),
        ("{{ define \"x\" }}{{ template \"x\" }}{{ end }}{{ template \"x\" }}".to_owned(), DEEP),
        (
            "{{ define \"x\" }}{{ range 2 }}{{ template \"x\" }}{{ end }}{{ end }}{{ template \"x\" }}"
                .to_owned(),
            DEEP,
        ),
        ("{{ $x := \"ab\" }}{{ range 100 }}{{ $x = print $x $x }}{{ end }}".to_owned(), LARGE),
        ("{{ $x := \"\" }}{{ range 1000000 }}{{ $x = print $x \"a\" }}{{ end }}".to_owned(), STEPS),
        ("{{ $x := list 1 }}{{ range 100 }}{{ $x = concat $x $x }}{{ end }}".to_owned(), STEPS),
        ("{{ $x := list }}{{ range 1000 }}{{ $x = list $x }}{{ end }}".to_owned(), LEVELS),
        ("{{ $x := dict }}{{ range 1000 }}{{ $x = dict \"a\" $x }}{{ end }}{{ $x }}".to_owned(), LEVELS),
        ("{{ $x := dict }}{{ $_ := set $x \"x\" $x }}{{ $x }}".to_owned(), LEVELS),
        ("{{ $x := dict }}{{ $_ := set $x \"x\" $x }}{{ toJson $x }}".to_owned(), LEVELS),
        ("{{ $x := dict }}{{ $_ := set $x \"x\" $x }}{{ deepCopy $x }}".to_owned(), LEVELS),
        ("{{ $x := dict }}{{ $_ := set $x \"x\" (list $x $x) }}{{ $x }}".to_owned(), LEVELS),
        ("{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ $x }}".to_owned(), LARGE),
        (
            "{{ $x := list 1 }}{{ range 60 }}{{ $x = list $x $x }}{{ end }}{{ deepEqual $x $x }}".to_owned(),
            STEPS,
        ),
        ("{{ range 10000000 }}{{ $x := dict \"a\" 1 }}{{ end }}".to_owned(), STEPS),
        (format!("{big}{{{{ replace \"a\" $x $x }}}}"), LARGE),
        (format!("{big}{{{{ regexReplaceAll \"a\" $x $x }}}}"), LARGE),
        (format!("{big}{{{{ indent 10 (replace \"a\" \"\\n\" $x) }}}}"), LARGE),
        ("{{ indent 1000000000 \"a\" }}".to_owned(), LARGE),
        (format!("{big}{{{{ join $x (until 1000) }}}}"), LARGE),
        (format!("{big}{{{{ wrapWith 1 $x $x }}}}"), LARGE),
        (format!("{big}{{{{ quote $x $x }}}}"), LARGE),
        (format!("{big}{{{{ print $x $x }}}}"), LARGE),
        (format!("{big}{{{{ html (replace \"a\" \"<\" $x) }}}}"), LARGE),
        (format!("{big}{{{{ range 1000000 }}}}{{{{ $_ := contains \"b\" $x }}}}{{{{ end }}}}"), STEPS),
        (
            format!(
                "{big}{{{{ regexMatch (repeat 1000 \"(a|b)*\") $x }}}}{{{{ regexFind (repeat 1000 \"a?\") $x }}}}"
            ),
            STEPS,
        ),
        ("{{ regexFind \"((a{100}){100}){100}\" \"a\" }}".to_owned(), "is not a regular expression"),
        ("{{ printf \"%1000000d%1000000d\" 1 2 }}".to_owned(), LARGE),
        ("{{ printf \"%.1000000f%1000000s%-1000000d%.1000000d\" 1.5 \"a\" 1 2 }}".to_owned(), LARGE),
        ("{{ printf \"%.1000000g %.1000000e\" 1.5 1.5 }}{{ repeat 2000000 \"a\" }}".to_owned(), LARGE),
        ("{{ range 1000000 }}{{ $x := until 1000 }}{{ end }}".to_owned(), STEPS),
        // Each takes 32 MiB and a tenth of a second.
        ("{{ range 5 }}{{ $x := derivePassword 1 \"pin\" \"p\" \"u\" \"s\" }}{{ end }}".to_owned(), STEPS),
    ];
    for (template, expected) in rows {
        let error = render(&template, &json!({}), MissingKey::NoValue).unwrap_err().to_string();
        assert!(error.contains(expected), "{template}: {error}");
    }
}
