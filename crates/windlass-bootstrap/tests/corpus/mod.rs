//! KubeadmConfigs that use every field, and the data that machines of a version boot from with them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfigSpec;
use windlass_bootstrap::certificate_files::{ClusterCertificates, Found};
use windlass_bootstrap::certificates::Purpose;
use windlass_bootstrap::cloud_config::Contents;
use windlass_bootstrap::data::{Inputs, init_data, join_data};
use windlass_bootstrap::discovery;
use windlass_bootstrap::kubeadm::{ClusterFacts, JoinRole};
use windlass_bootstrap::token::Token;

/// An expression that cloud-init fills in on the machine.
pub(crate) const HOSTNAME: &str = "{{ ds.meta_data.local_hostname }}";

/// What a machine does.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Boot {
    Init,
    Join(JoinRole),
}

/// A KubeadmConfig and what becomes of it.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) boot: Boot,
    pub(crate) spec: Value,
}

/// Files and commands with everything that breaks templates and parsers. None of it is an expression of Jinja.
pub(crate) fn hostile() -> Vec<&'static str> {
    vec![
        "  indented first line\nsecond",
        "trailing newlines\n\n\n",
        "yes",
        "0640",
        "12:30:45",
        "~",
        "- a list\n- of two",
        "key: value # comment",
        "'single' \"double\" \\ backslash",
        "tab\there\n\tand there",
        "windows\r\nline ends\r\n",
        "---\n...\n--- document",
        "&anchor *alias !!tag %directive @at `tick`",
        "control \u{1} delete \u{7f} next line \u{85} separator \u{2028} mark \u{feff}",
        "e\u{301} \u{1f600} \u{10ffff}",
        "\n",
        " ",
        "a\n   \n  b\n ",
        "echo $(id) && cat <<'EOF' > /tmp/x\n#cloud-config\nEOF",
    ]
}

fn cluster_configuration() -> Value {
    let arguments = json!([{"name": "v", "value": "2"}, {"name": "profiling", "value": "false"}]);
    json!({
        "apiServer": {
            "extraArgs": arguments, "certSANs": ["api.test", "10.0.0.1"],
            "extraVolumes": [{"name": "audit", "hostPath": "/etc/audit", "mountPath": "/etc/audit", "readOnly": true, "pathType": "DirectoryOrCreate"}],
            "extraEnvs": [{"name": "HTTPS_PROXY", "value": "http://proxy.test:3128"}],
        },
        "controllerManager": {"extraArgs": arguments, "extraEnvs": [{"name": "A", "value": "b"}]},
        "scheduler": {"extraArgs": arguments},
        "etcd": {"local": {"imageTag": "3.6.5-0", "dataDir": "/var/lib/etcd", "extraArgs": [{"name": "quota-backend-bytes", "value": "8589934592"}],
            "serverCertSANs": ["etcd.test"], "peerCertSANs": ["etcd.test"], "extraEnvs": [{"name": "A", "value": "b"}]}},
        "dns": {"imageRepository": "registry.test/coredns", "imageTag": "v1.12.1"}, "imageRepository": "registry.test",
        "featureGates": {"NodeLocalCRISocket": true}, "certificatesDir": "/etc/kubernetes/pki",
        "certificateValidityPeriodDays": 365, "caCertificateValidityPeriodDays": 3650, "encryptionAlgorithm": "ECDSA-P256",
    })
}

fn registration() -> Value {
    json!({
        "name": HOSTNAME, "criSocket": "unix:///run/containerd/containerd.sock", "imagePullPolicy": "IfNotPresent",
        "imagePullSerial": false, "ignorePreflightErrors": ["NumCPU"], "taints": [{"key": "dedicated", "effect": "NoSchedule", "value": "gpu"}],
        "kubeletExtraArgs": [{"name": "node-labels", "value": "a=b,c=d"}, {"name": "provider-id", "value": "test:///{{ ds.meta_data.instance_id }}"}],
    })
}

fn timeouts() -> Value {
    json!({"controlPlaneComponentHealthCheckSeconds": 300, "kubeletHealthCheckSeconds": 120, "kubernetesAPICallSeconds": 60,
        "etcdAPICallSeconds": 60, "tlsBootstrapSeconds": 300, "discoverySeconds": 300})
}

/// All cases. `folder` is where a kubeconfig may be written to, because kubeadm wants to see it.
pub(crate) fn cases(folder: &Path) -> Vec<Case> {
    let host = json!({
        "preKubeadmCommands": hostile(), "postKubeadmCommands": ["echo 'done'", r#"echo {{ v1["region"] }}"#], "bootCommands": hostile(),
        "files": hostile().into_iter().enumerate().map(|(at, content)| json!({
            "path": format!("/etc/hostile/{at}"), "content": content, "owner": "root:root", "permissions": "0640", "append": at % 2 == 0,
        })).chain([json!({"path": "/etc/secret", "contentFrom": {"secret": {"name": "s", "key": "bytes"}}, "encoding": "gzip"})]).collect::<Vec<_>>(),
        "users": [
            {"name": "admin", "gecos": "The admin: yes", "groups": "adm, sudo", "primaryGroup": "admin", "homeDir": "/home/admin", "shell": "/bin/bash",
                "inactive": true, "lockPassword": false, "passwdFrom": {"secret": {"name": "s", "key": "hash"}}, "sudo": "ALL=(ALL) NOPASSWD:ALL",
                "sshAuthorizedKeys": ["ssh-ed25519 AAAA admin@test"]},
            {"name": "plain", "passwd": "$6$rounds=4096$salt$hash"},
        ],
        "ntp": {"enabled": true, "servers": ["time1.test", "time2.test"]},
        "diskSetup": {
            "partitions": [{"device": "/dev/sdb", "layout": true, "overwrite": false, "tableType": "gpt"},
                {"device": "/dev/sdc", "diskLayout": [{"percentage": 60, "partitionType": "Linux"}, {"percentage": 40, "partitionType": "LinuxSwap"}]}],
            "filesystems": [{"device": "/dev/sdb", "filesystem": "ext4", "label": "etcd_disk", "partition": "auto", "overwrite": true,
                "replaceFS": "ntfs", "extraOpts": ["-E", "lazy_itable_init=1,lazy_journal_init=1"]}],
        },
        "mounts": [["LABEL=etcd_disk", "/var/lib/etcd"], ["tmpfs", "/run/x", "tmpfs", "defaults,size=1G", "0", "0"]],
        "verbosity": 8, "joinConfiguration": {"nodeRegistration": registration()},
    });
    let kubeconfig = folder.join("discovery.conf");
    vec![
        Case { name: "init, nothing said", boot: Boot::Init, spec: json!({}) },
        Case {
            name: "init, everything said",
            boot: Boot::Init,
            spec: json!({
                "clusterConfiguration": cluster_configuration(),
                "initConfiguration": {
                    "bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 3600, "usages": ["signing", "authentication"],
                        "groups": ["system:bootstrappers:kubeadm:default-node-token"], "description": "of a user"}],
                    "nodeRegistration": registration(), "localAPIEndpoint": {"advertiseAddress": "10.0.0.2", "bindPort": 6443},
                    "skipPhases": ["addon/kube-proxy"], "patches": {"directory": "/etc/kubernetes/patches"}, "timeouts": timeouts(),
                },
            }),
        },
        Case {
            name: "init, external etcd",
            boot: Boot::Init,
            spec: json!({"clusterConfiguration": {"etcd": {"external": {"endpoints": ["https://10.0.0.9:2379"],
                "caFile": "/etc/etcd/ca.crt", "certFile": "/etc/etcd/client.crt", "keyFile": "/etc/etcd/client.key"}}}}),
        },
        Case {
            name: "control plane joins, nothing said",
            boot: Boot::Join(JoinRole::ControlPlane),
            spec: json!({}),
        },
        Case {
            name: "control plane joins, everything said",
            boot: Boot::Join(JoinRole::ControlPlane),
            spec: json!({"clusterConfiguration": cluster_configuration(), "joinConfiguration": {
                "nodeRegistration": registration(), "caCertPath": "/etc/kubernetes/pki/ca.crt",
                "controlPlane": {"localAPIEndpoint": {"advertiseAddress": "10.0.0.3", "bindPort": 6443}},
                "skipPhases": ["preflight"], "patches": {"directory": "/etc/kubernetes/patches"}, "timeouts": timeouts(),
            }}),
        },
        Case { name: "worker joins, nothing said", boot: Boot::Join(JoinRole::Worker), spec: json!({}) },
        Case { name: "worker joins, the host in full", boot: Boot::Join(JoinRole::Worker), spec: host },
        Case {
            name: "worker joins by a kubeconfig",
            boot: Boot::Join(JoinRole::Worker),
            spec: json!({"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": kubeconfig.to_string_lossy(),
                "kubeConfig": {"user": {"exec": {"command": "get-token", "args": ["--cluster", "prod"]}}}}}}}),
        },
    ]
}

/// The data of a machine at a version.
pub(crate) fn render(case: &Case, version: &str) -> String {
    let spec: KubeadmConfigSpec = serde_json::from_value(case.spec.clone()).unwrap();
    let pem = |name: &str| Found {
        certificate: format!("-----BEGIN {name}-----\nAAAA\n-----END {name}-----\n"),
        key: Some(format!("-----BEGIN {name} KEY-----\nAAAA\n-----END {name} KEY-----\n")),
    };
    let purposes = Purpose::ALL.into_iter().chain([Purpose::ApiServerEtcdClient]);
    let certificates: ClusterCertificates = purposes.map(|purpose| (purpose, pem("TEST"))).collect();
    let keys = BTreeMap::from([
        ("bytes".to_owned(), vec![0x1f, 0x8b, 0xff, 0x00]),
        ("hash".to_owned(), b"$6$rounds=4096$salt$hash".to_vec()),
    ]);
    let contents: Contents = BTreeMap::from([("s".to_owned(), keys)]);
    let cluster = ClusterFacts {
        name: "prod".to_owned(),
        endpoint: Some("[fd00::1]:6443".to_owned()),
        service_domain: "cluster.local".to_owned(),
        services: vec!["10.96.0.0/12".to_owned()],
        pods: vec!["192.168.0.0/16".to_owned()],
    };
    let inputs = Inputs {
        spec: &spec,
        cluster: &cluster,
        version,
        control_plane_version: Some(version),
        certificates: &certificates,
        contents: &contents,
    };
    let rendered = match case.boot {
        Boot::Init => init_data(&inputs),
        Boot::Join(role) => {
            let token = Token::parse("abcdef.0123456789abcdef").unwrap();
            let authority = include_str!("../data/authority.pem");
            let join = discovery::complete(
                spec.join_configuration.as_ref(),
                "[fd00::1]:6443",
                authority,
                Some(&token),
            );
            join_data(&inputs, &join.unwrap(), role)
        }
    };
    rendered.unwrap_or_else(|error| panic!("{}: {error}", case.name))
}
