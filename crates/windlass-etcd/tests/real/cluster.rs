//! Members of a real etcd as processes of the test, on loopback, with TLS as kubeadm sets it up.

use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rcgen::ExtendedKeyUsagePurpose;
use tokio::net::TcpStream;
use windlass_etcd::{Channel, ConnectionError, Credentials, EtcdClient, EtcdError, Member, MemberId};

use crate::authority::Authority;

/// Where `cargo xtask real` put something.
fn given(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.unwrap_or_else(|| panic!("{variable} is not set: these tests are run by cargo xtask real"))
}

/// A figure of a run. `cargo xtask real` prints all of them at its end.
pub(crate) fn figure(what: &str, value: impl std::fmt::Display) {
    println!("{what}: {value}");
    let file = File::options().create(true).append(true).open(given("WINDLASS_REAL_FIGURES"));
    writeln!(file.unwrap(), "{what}\t{value}").unwrap();
}

/// How long anything may take here. Elections take a second, and the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// One member: where it is, and its process while it runs.
struct Process {
    name: String,
    client: u16,
    peer: u16,
    child: Option<Child>,
}

impl Process {
    fn peer_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.peer)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A real etcd.
pub(crate) struct Cluster {
    members: Vec<Process>,
    pub(crate) authority: Authority,
    directory: tempfile::TempDir,
    flags: Vec<String>,
}

impl Cluster {
    /// Starts members with these names, and waits until all answer.
    pub(crate) async fn start(names: &[&str], flags: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        // Members are clients of each other.
        let usages = [ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let (certificate, key) = authority.signed(&["node", "localhost", "127.0.0.1"], &usages);
        for (file, text) in [("ca.crt", &authority.pem), ("tls.crt", &certificate), ("tls.key", &key)] {
            std::fs::write(directory.path().join(file), text).unwrap();
        }
        let process = |name: &&str| Process {
            name: (*name).to_owned(),
            client: free_port(),
            peer: free_port(),
            child: None,
        };
        let members = names.iter().map(process).collect();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut cluster = Self { members, authority, directory, flags };
        let all: Vec<String> =
            cluster.members.iter().map(|one| format!("{}={}", one.name, one.peer_url())).collect();
        for name in names {
            cluster.spawn(name, "new", &all.join(","));
        }
        for name in names {
            cluster
                .until(&format!("{name} answers"), async |cluster| cluster.client(name).await?.health().await)
                .await;
        }
        cluster
    }

    fn member(&self, name: &str) -> &Process {
        self.members.iter().find(|member| member.name == name).unwrap()
    }

    fn member_mut(&mut self, name: &str) -> &mut Process {
        self.members.iter_mut().find(|member| member.name == name).unwrap()
    }

    fn spawn(&mut self, name: &str, state: &str, initial: &str) {
        let directory = self.directory.path().to_owned();
        let member = self.member(name);
        let client = format!("https://127.0.0.1:{}", member.client);
        let log = log_of(&directory, name);
        let log = File::options().create(true).append(true).open(log).unwrap();
        let mut command = Command::new(given("WINDLASS_REAL_BIN").join("etcd"));
        command.current_dir(&directory).stdout(log.try_clone().unwrap()).stderr(log);
        command.args([
            format!("--name={name}"),
            format!("--data-dir={name}"),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={}", member.peer_url()),
            format!("--initial-advertise-peer-urls={}", member.peer_url()),
            format!("--initial-cluster={initial}"),
            format!("--initial-cluster-state={state}"),
        ]);
        command.args(["--client-cert-auth", "--trusted-ca-file=ca.crt", "--cert-file=tls.crt"]);
        command.args(["--key-file=tls.key", "--peer-client-cert-auth", "--peer-trusted-ca-file=ca.crt"]);
        command.args(["--peer-cert-file=tls.crt", "--peer-key-file=tls.key"]);
        command.args(&self.flags);
        self.member_mut(name).child = Some(command.spawn().unwrap());
    }

    /// A connection to one member, asked for by the name that a pod of kubeadm has.
    pub(crate) async fn connect(
        &self,
        name: &str,
        credentials: &Credentials,
    ) -> Result<Channel, ConnectionError> {
        let stream = TcpStream::connect(("127.0.0.1", self.member(name).client)).await;
        let stream = stream.map_err(|error| ConnectionError::Refused(error.to_string()))?;
        Channel::tls(stream, credentials, &format!("etcd-{name}")).await
    }

    /// A client of one member.
    pub(crate) async fn client(&self, name: &str) -> Result<EtcdClient, EtcdError> {
        let credentials = self.authority.credentials(&self.authority);
        let channel = self.connect(name, &credentials).await;
        let channel = channel.map_err(|why| EtcdError::Connection { method: "connect", why })?;
        Ok(EtcdClient::new(channel))
    }

    /// All members, as one of them says.
    pub(crate) async fn list(&self, through: &str) -> Vec<Member> {
        self.client(through).await.unwrap().members().await.unwrap()
    }

    /// The identifier of a member.
    pub(crate) async fn id(&self, name: &str, through: &str) -> MemberId {
        self.list(through).await.iter().find(|member| member.name == name).unwrap().id
    }

    /// The name of the leader, as one member sees it.
    pub(crate) async fn leader(&self, through: &str) -> Result<Option<String>, EtcdError> {
        let client = self.client(through).await?;
        let leader = client.status().await?.leader;
        let members = client.members().await?;
        Ok(members.into_iter().find(|member| Some(member.id) == leader).map(|member| member.name))
    }

    /// A member that was removed ends by itself. Then everything that it had is taken away.
    pub(crate) async fn ended(&mut self, name: &str) {
        let begun = Instant::now();
        while self.member_mut(name).child.as_mut().unwrap().try_wait().unwrap().is_none() {
            assert!(begun.elapsed() < LIMIT, "{name} does not end:\n{}", self.logs(name));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.member_mut(name).child = None;
        std::fs::remove_dir_all(self.directory.path().join(name)).unwrap();
    }

    /// Kills a member, which it remains.
    pub(crate) fn kill(&mut self, name: &str) {
        let mut child = self.member_mut(name).child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Adds a member that was removed again, as `kubeadm join` does: as a learner, which votes when it has caught up.
    pub(crate) async fn join(&mut self, name: &str, through: &str) -> MemberId {
        let url = self.member(name).peer_url();
        let added = self
            .until(&format!("{name} is added"), async |cluster| {
                cluster.client(through).await?.add_learner(&url).await
            })
            .await;
        assert_eq!((added.name.as_str(), added.is_learner), ("", true));
        let mut initial = vec![format!("{name}={url}")];
        for member in self.list(through).await.into_iter().filter(|member| member.id != added.id) {
            initial.push(format!("{}={}", member.name, member.peer_urls[0]));
        }
        self.spawn(name, "existing", &initial.join(","));
        self.until(&format!("{name} votes"), async |cluster| {
            cluster.client(through).await?.promote(added.id).await
        })
        .await;
        added.id
    }

    /// Tries until it succeeds.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        mut attempt: impl AsyncFnMut(&Self) -> Result<T, EtcdError>,
    ) -> T {
        let begun = Instant::now();
        loop {
            match attempt(self).await {
                Ok(done) => return done,
                Err(error) => assert!(begun.elapsed() < LIMIT, "{what}: {error}"),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    fn logs(&self, name: &str) -> String {
        std::fs::read_to_string(log_of(self.directory.path(), name)).unwrap_or_default()
    }
}

fn log_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.log"))
}

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}
