//! `windlass credentials` and `windlass backup --overwrite`, as a user runs them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use crate::served::{CONFIG_MAPS, Server};
use serde_json::Value;

/// The exit code and what was printed.
fn windlass(directory: &Path, arguments: &[&str]) -> (i32, String) {
    let output =
        Command::new(env!("CARGO_BIN_EXE_windlass")).args(arguments).current_dir(directory).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

#[tokio::test]
async fn a_kubeconfig_for_another_user_gets_in_and_may_do_what_roles_say() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let data = ["--data-dir", "data"];
    let run = |arguments: &[&str]| windlass(here, &[&["credentials"], arguments, &data].concat());
    let (code, said) = run(&["show"]);
    assert!(code == 2 && said.contains("has no credentials"), "{code} {said}");

    let mut server = Server::start(here);
    let (code, said) = run(&["show"]);
    assert!(code == 0 && said.contains("ca ") && said.contains("admin"), "{code} {said}");
    assert!(!said.contains("4096-"), "{said}");
    let url = format!("https://{}", server.address);
    let eve = [
        "kubeconfig",
        "--user",
        "eve",
        "--group",
        "dev",
        "--duration",
        "1h",
        "--server",
        &url,
        "--out",
        "eve",
    ];
    let (code, said) = run(&eve);
    assert_eq!(code, 0, "{said}");
    assert_eq!(std::fs::metadata(here.join("eve")).unwrap().permissions().mode() & 0o777, 0o600);
    let (code, said) = run(&["kubeconfig", "--user", "eve", "--duration", "9000h"]);
    assert!(code == 2 && said.contains("at most a year"), "{code} {said}");

    let tls = Server::trust(&here.join("eve"));
    let mut connection = Server::connect(&server.address, tls).await.unwrap();
    let review = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let (code, body) = connection.ask("POST", review, &serde_json::json!({})).await.unwrap();
    assert_eq!(code, 201, "{body}");
    assert_eq!(body["status"]["userInfo"]["username"], "eve");
    assert_eq!(body["status"]["userInfo"]["groups"][0], "dev");
    assert_eq!(connection.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap().0, 403);
    server.kill();

    let (code, said) = run(&["rotate", "--ca"]);
    assert!(code == 0 && said.contains("A new authority"), "{code} {said}");
    let server = Server::start(here);
    let old = Server::trust(&here.join("eve"));
    assert!(Server::connect(&server.address, old).await.is_none(), "the authority is another one");
    let mut admin = Server::connect(&server.address, Arc::clone(&server.tls)).await.unwrap();
    assert_eq!(admin.ask("GET", CONFIG_MAPS, &Value::Null).await.unwrap().0, 200);

    let (code, said) = windlass(here, &[&["backup", "file"], &data[..]].concat());
    assert_eq!(code, 0, "{said}");
    let (code, said) = windlass(here, &[&["backup", "file"], &data[..]].concat());
    assert!(code == 3 && said.contains("exists already\n  --overwrite replaces it"), "{code} {said}");
    let (code, said) = windlass(here, &[&["backup", "file", "--overwrite"], &data[..]].concat());
    assert_eq!(code, 0, "{said}");
}
