//! cloud-init itself reads every cloud-config, and finds in it what was meant. `cargo xtask test` installs it.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

mod corpus;

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use windlass_bootstrap::yaml::Yaml;

use corpus::{Case, cases, hostile, render};

fn run(program: &str, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{program} is needed: install cloud-init ({error})"));
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The document as cloud-init has it once the machine has filled in what it knows of itself.
fn filled_in(folder: &Path, text: &str) -> String {
    let (template, instance) = (folder.join("template.yaml"), folder.join("instance.json"));
    let data = json!({"ds": {"meta_data": {"local_hostname": "host-1", "instance_id": "i-1"}}, "v1": {"region": "north"}});
    fs::write(&template, text).unwrap();
    fs::write(&instance, data.to_string()).unwrap();
    let (template, instance) = (template.to_string_lossy(), instance.to_string_lossy());
    let (rendered, output) = run("cloud-init", &["devel", "render", "-i", &instance, &template]);
    assert!(rendered, "{output}");
    assert!(output.starts_with("#cloud-config\n"), "{output}");
    output
}

/// What the schema of cloud-init says of a document.
fn schema(folder: &Path, text: &str) -> (bool, String) {
    let file = folder.join("cloud-config.yaml");
    fs::write(&file, text).unwrap();
    run("cloud-init", &["schema", "--config-file", &file.to_string_lossy()])
}

/// A document as cloud-init's own parser reads it.
fn read(folder: &Path, text: &str) -> Value {
    let file = folder.join("document.yaml");
    fs::write(&file, text).unwrap();
    let script =
        "import sys, json, yaml; print(json.dumps(yaml.safe_load(open(sys.argv[1], newline='').read())))";
    let (is_read, output) = run("python3", &["-c", script, &file.to_string_lossy()]);
    assert!(is_read, "{output}\n{text}");
    serde_json::from_str(&output).unwrap()
}

#[test]
fn the_schema_of_cloud_init_accepts_every_document() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(folder.path()) {
        let text = filled_in(folder.path(), &render(&case, "v1.33.1"));
        let (accepted, said) = schema(folder.path(), &text);
        assert!(accepted, "{}: {said}\n{text}", case.name);
    }
}

#[test]
fn a_document_that_is_wrong_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = filled_in(folder.path(), &render(&cases(folder.path())[0], "v1.33.1"));
    let wrong = text.replace("permissions: '0640'", "permissions: [0640]");
    assert_ne!(wrong, text);
    let (accepted, said) = schema(folder.path(), &wrong);
    assert!(!accepted && said.contains("write_files"), "{said}");
}

#[test]
fn the_machine_fills_in_what_it_knows_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let all = cases(folder.path());
    let case = all.iter().find(|case| case.name == "worker joins, the host in full").unwrap();
    let document = read(folder.path(), &filled_in(folder.path(), &render(case, "v1.33.1")));
    let commands = document["runcmd"].as_array().unwrap();
    assert_eq!(commands.last().unwrap(), "echo north", "an expression with quotes in it");
    let files = document["write_files"].as_array().unwrap();
    let kubeadm = files.iter().find(|file| file["path"] == "/run/kubeadm/kubeadm-join-config.yaml").unwrap();
    let join = kubeadm["content"].as_str().unwrap();
    let join = read(folder.path(), join);
    assert_eq!(join["nodeRegistration"]["name"], "host-1");
    assert_eq!(join["nodeRegistration"]["kubeletExtraArgs"][1]["value"], "test:///i-1");
}

#[test]
fn files_and_commands_arrive_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let all = cases(folder.path());
    let find = |name: &str| -> &Case { all.iter().find(|case| case.name == name).unwrap() };
    let document = read(folder.path(), &render(find("worker joins, the host in full"), "v1.33.1"));
    let commands = document["runcmd"].as_array().unwrap();
    assert_eq!(commands[..hostile().len()], hostile().into_iter().map(Value::from).collect::<Vec<_>>());
    assert_eq!(document["bootcmd"], json!(hostile()));
    for (at, content) in hostile().into_iter().enumerate() {
        let path = format!("/etc/hostile/{at}");
        let file =
            document["write_files"].as_array().unwrap().iter().find(|file| file["path"] == path.as_str());
        assert_eq!(file.unwrap()["content"], content);
        assert_eq!(file.unwrap()["permissions"], "0640", "a string, not a number");
    }
}

#[test]
fn keys_of_maps_arrive_as_they_were_written() {
    let folder = tempfile::tempdir().unwrap();
    let document: Value = hostile().into_iter().map(|text| (text.to_owned(), json!([text]))).collect();
    assert_eq!(read(folder.path(), &Yaml::from(document.clone()).to_string()), document);
}

/// cloud-init 22.4 hands a partition type to sfdisk as it is, but its schema knows numbers only.
#[test]
fn the_schema_objects_to_partition_types_that_are_no_numbers_and_to_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let layout = json!([{"percentage": 50, "partitionType": "LVM"}, {"percentage": 50}]);
    let case = Case {
        name: "types",
        boot: corpus::Boot::Init,
        spec: json!({"diskSetup": {"partitions": [{"device": "/dev/sdb", "diskLayout": layout}]}}),
    };
    let (accepted, said) = schema(folder.path(), &filled_in(folder.path(), &render(&case, "v1.33.1")));
    let errors: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("Cloud config schema errors: ")).collect();
    assert!(!accepted && errors.len() == 1, "{said}");
    assert!(errors[0].starts_with("disk_setup./dev/sdb.layout: "), "{said}");
}
