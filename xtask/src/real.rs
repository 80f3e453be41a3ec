//! Real components, from the Go module proxy: a kube-apiserver with etcd and kube-controller-manager, kubeadm, the CRDs that Cluster API
//! releases, and its managers. They are built once, kept below `target/real`, and used by the tests in
//! `crates/*/tests/real`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::acceptance::{KUBECTL, target_directory};
use crate::run::{self, Task, say};
use crate::tools::Tool;

/// The release of Kubernetes. Not every patch release has all of its modules on the proxy; this one does.
const KUBERNETES: &str = "1.35.4";

/// The versions that kubeadm is built to be, of which the first is its own. The others are the same program under an older name: it
/// checks versions as they would, and takes each version of its API that they take, up to v1beta3 of v1.30.
const KUBEADM: [&str; 4] = [KUBERNETES, "1.34.5", "1.31.9", "1.30.14"];

/// The release of etcd that current API servers are made for.
const ETCD: &str = "v3.6.16";

/// The release of Cluster API whose CRDs are used.
const CLUSTER_API: &str = "v1.14.0";

/// The release of Cluster API whose managers run. Of later ones, the proxy does not have all modules that they are built from.
const MANAGERS: &str = "v1.13.0";

/// Cluster API's managers: what a program is called here, its package, and the kustomization that it is released with.
const PROGRAMS: [(&str, &str, &str); 4] = [
    ("core", "sigs.k8s.io/cluster-api", "config/default"),
    ("bootstrap", "sigs.k8s.io/cluster-api/bootstrap/kubeadm", "bootstrap/kubeadm/config/default"),
    ("control-plane", "sigs.k8s.io/cluster-api/controlplane/kubeadm", "controlplane/kubeadm/config/default"),
    (
        "infrastructure",
        "sigs.k8s.io/cluster-api/test/infrastructure/docker",
        "infrastructure/docker/config/default",
    ),
];

/// Where the tests are that need these managers.
const NEED_MANAGERS: &str = "upstream::";

/// The modules that Kubernetes keeps in its own tree, and that others have to name.
const STAGING: [&str; 31] = [
    "api",
    "apiextensions-apiserver",
    "apimachinery",
    "apiserver",
    "cli-runtime",
    "client-go",
    "cloud-provider",
    "cluster-bootstrap",
    "code-generator",
    "component-base",
    "component-helpers",
    "controller-manager",
    "cri-api",
    "cri-client",
    "csi-translation-lib",
    "dynamic-resource-allocation",
    "endpointslice",
    "externaljwt",
    "kms",
    "kube-aggregator",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubectl",
    "kubelet",
    "metrics",
    "mount-utils",
    "pod-security-admission",
    "sample-apiserver",
    "sample-cli-plugin",
    "sample-controller",
];

/// Builds what is missing, and runs the tests on it; with names, only those whose names contain one.
pub(crate) fn run(names: &[&str]) -> Task {
    Tool { program: "go", package: "golang-go" }.ensure()?;
    KUBECTL.ensure()?;
    let folder = target_directory().join("real");
    let begun = Instant::now();
    kubernetes(&folder)?;
    etcd(&folder)?;
    let crds = cluster_api(&folder)?;
    crate::crds::compare(&crds.to_string_lossy(), false)?;
    let managers = folder.join("managers").join(MANAGERS);
    if selected(names)?.contains(NEED_MANAGERS) {
        cluster_api_managers(&folder, &managers)?;
    }
    say(&format!("xtask: components are there after {} s", begun.elapsed().as_secs()));
    let begun = Instant::now();
    let bin = folder.join("bin");
    let figures = folder.join("figures.tsv");
    fs::write(&figures, "").map_err(|error| format!("{}: {error}", figures.display()))?;
    let environment = [
        ("WINDLASS_REAL_BIN", &*bin.to_string_lossy()),
        ("WINDLASS_REAL_CRDS", &*crds.to_string_lossy()),
        ("WINDLASS_REAL_MANAGERS", &*managers.to_string_lossy()),
        ("WINDLASS_REAL_FIGURES", &*figures.to_string_lossy()),
    ];
    // One after the other: each has a management cluster of its own.
    let mut arguments = vec!["test", "--workspace", "--locked", "--test", "real", "--"];
    arguments.extend(["--test-threads", "1", "--nocapture"]);
    arguments.extend(names);
    run::with_env(&environment, &arguments)?;
    let figures = fs::read_to_string(&figures).map_err(|error| format!("{}: {error}", figures.display()))?;
    let rows: Vec<(&str, &str)> = figures.lines().filter_map(|line| line.split_once('\t')).collect();
    let width = rows.iter().map(|(what, _)| what.len()).max().unwrap_or_default();
    for (what, value) in rows {
        say(&format!("{what:width$}  {value}"));
    }
    say(&format!("xtask: tests on real components took {} s", begun.elapsed().as_secs()));
    Ok(())
}

/// The tests that would run.
fn selected(names: &[&str]) -> Result<String, String> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
    cargo.current_dir(run::root()).args([
        "test",
        "--workspace",
        "--locked",
        "--test",
        "real",
        "--",
        "--list",
    ]);
    let listed = cargo.args(names).stderr(Stdio::inherit()).output();
    let listed = listed.map_err(|error| format!("cargo test --list: {error}"))?;
    match listed.status.success() {
        true => Ok(String::from_utf8_lossy(&listed.stdout).into_owned()),
        false => Err(format!("cargo test --list: {}", listed.status)),
    }
}

fn kubernetes(folder: &Path) -> Task {
    let replaced: String = STAGING
        .iter()
        .map(|module| format!("\tk8s.io/{module} => k8s.io/{module} v0.{}\n", &KUBERNETES[2..]))
        .collect();
    let module = format!(
        "module real/kubernetes\n\ngo 1.25.0\n\nrequire k8s.io/kubernetes v{KUBERNETES}\n\nreplace (\n{replaced})\n"
    );
    let stamp = format!("-s -w -X k8s.io/component-base/version.gitVersion=v{KUBERNETES}");
    let source = folder.join("kubernetes");
    for program in ["kube-apiserver", "kube-controller-manager"] {
        let package = format!("k8s.io/kubernetes/cmd/{program}");
        build(&source, &module, None, &folder.join("bin").join(program), &package, &stamp)?;
    }
    for version in KUBEADM {
        let minor = version.split('.').nth(1).unwrap_or_default();
        let stamp = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"].map(|package| {
            format!(
                "-X {package}.gitVersion=v{version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}"
            )
        });
        let program = folder.join("bin").join(format!("v{version}")).join("kubeadm");
        let flags = format!("-s -w {}", stamp.join(" "));
        build(&source, &module, None, &program, "k8s.io/kubernetes/cmd/kubeadm", &flags)?;
    }
    Ok(())
}

fn etcd(folder: &Path) -> Task {
    let module = format!("module real/etcd\n\ngo 1.24\n\nrequire go.etcd.io/etcd/server/v3 {ETCD}\n");
    let main = "package main\n\nimport (\n\t\"os\"\n\n\t\"go.etcd.io/etcd/server/v3/etcdmain\"\n)\n\nfunc main() {\n\tetcdmain.Main(os.Args)\n}\n";
    build(&folder.join("etcd"), &module, Some(main), &folder.join("bin/etcd"), ".", "-s -w")
}

/// Builds a program, unless it is there and was made from the same module.
fn build(
    source: &Path,
    module: &str,
    main: Option<&str>,
    program: &Path,
    package: &str,
    flags: &str,
) -> Task {
    let wrote = |path: &Path, text: &str| {
        fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
    };
    // Building fills in the module's file, so what it was made from is kept beside the program.
    let recipe = program.with_extension("mod");
    if program.exists() && fs::read_to_string(&recipe).is_ok_and(|made_from| made_from == module) {
        return Ok(());
    }
    let parent = program.parent().unwrap_or(Path::new("."));
    for directory in [source, parent] {
        fs::create_dir_all(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    }
    wrote(&source.join("go.mod"), module)?;
    if let Some(main) = main {
        wrote(&source.join("main.go"), main)?;
    }
    say(&format!("xtask: building {} (minutes, once)", program.display()));
    let mut go = go(source);
    go.args(["build", "-ldflags", flags, "-o"]).arg(program).arg(package);
    succeed(&mut go, &format!("go build {package}"))?;
    wrote(&recipe, module)
}

/// The directory with the CRDs that Cluster API releases.
fn cluster_api(folder: &Path) -> Result<PathBuf, String> {
    let crds = folder.join("crds").join(CLUSTER_API);
    if crds.exists() {
        return Ok(crds);
    }
    let source = folder.join("cluster-api");
    fs::create_dir_all(&source).map_err(|error| format!("{}: {error}", source.display()))?;
    fs::write(source.join("go.mod"), "module real/cluster-api\n\ngo 1.24\n")
        .map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    for (module, folders) in [
        (
            "sigs.k8s.io/cluster-api",
            &[
                "core/config/crd/bases",
                "bootstrap/kubeadm/config/crd/bases",
                "controlplane/kubeadm/config/crd/bases",
            ][..],
        ),
        ("sigs.k8s.io/cluster-api/test", &["infrastructure/docker/config/crd/bases"]),
    ] {
        let module = downloaded(&source, module, CLUSTER_API)?;
        for below in folders {
            let directory = module.join(below);
            let entries =
                fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
            found.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
        }
    }
    // All or nothing: a directory that is there is whole.
    let partial = crds.with_extension("partial");
    fs::create_dir_all(&partial).map_err(|error| format!("{}: {error}", partial.display()))?;
    for file in found {
        let name = file.file_name().unwrap_or_default();
        let text = fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
        fs::write(partial.join(name), text).map_err(|error| error.to_string())?;
    }
    fs::rename(&partial, &crds).map_err(|error| error.to_string())?;
    Ok(crds)
}

/// Cluster API's managers, and the manifests that each is released with, made from its own kustomization.
fn cluster_api_managers(folder: &Path, manifests: &Path) -> Task {
    let source = folder.join("managers/source");
    let modules = ["sigs.k8s.io/cluster-api/test", "sigs.k8s.io/cluster-api"];
    let required: String = modules.iter().map(|module| format!("\t{module} {MANAGERS}\n")).collect();
    let module = format!("module real/managers\n\ngo 1.25.0\n\nrequire (\n{required})\n");
    fs::create_dir_all(manifests).map_err(|error| format!("{}: {error}", manifests.display()))?;
    for (name, package, kustomization) in PROGRAMS {
        // As it is called in its image: the API server records fields under the name of the program that wrote them.
        let program = folder.join("bin").join(format!("cluster-api-{name}")).join("manager");
        build(&source, &module, None, &program, package, "-s -w")?;
        let file = manifests.join(format!("{name}.yaml"));
        if file.exists() {
            continue;
        }
        let module = modules.into_iter().find(|module| package.starts_with(module)).unwrap_or(package);
        let directory = downloaded(&source, module, MANAGERS)?.join(kustomization);
        let output = Command::new(KUBECTL.program).arg("kustomize").arg(&directory).output();
        let output = output.map_err(|error| format!("kubectl kustomize: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Err(format!("kubectl kustomize {}: {said}", directory.display()));
        }
        fs::write(&file, output.stdout).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(())
}

/// Where Go keeps the files of a module, which are downloaded if they are not there.
fn downloaded(source: &Path, module: &str, version: &str) -> Result<PathBuf, String> {
    let output = go(source)
        .args(["mod", "download", "-json", &format!("{module}@{version}")])
        .output()
        .map_err(|error| format!("go mod download {module}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let directory =
        text.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")?.strip_suffix("\","));
    directory.map(PathBuf::from).ok_or_else(|| format!("go mod download {module}@{version}: {text}"))
}

/// Go, as it is needed here: modules are resolved as they are found, and nothing needs a C compiler.
fn go(directory: &Path) -> Command {
    let mut go = Command::new("go");
    go.current_dir(directory).env("GOFLAGS", "-mod=mod -buildvcs=false").env("CGO_ENABLED", "0");
    go
}

fn succeed(command: &mut Command, line: &str) -> Task {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{line}: {status}")),
        Err(error) => Err(format!("{line}: {error}")),
    }
}
