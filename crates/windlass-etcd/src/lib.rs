//! A small client of etcd's own protocol: gRPC over HTTP/2, with or without TLS, to one member at a time.
//!
//! It can do what a control plane has to do with the members of its etcd: list them, add one as a learner and promote it,
//! remove one, move the leadership, read alarms, and ask whether a majority answers. It reads and writes no data.
//!
//! A [`Channel`] is a `tower` service: over any stream that leads to a member, through a port-forward for one, or to a
//! [`MemoryEtcd`] in this process, which answers the same messages without connections and without time.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use windlass_etcd::{EtcdClient, MemoryEtcd};
//!
//! let etcd = MemoryEtcd::new();
//! etcd.join("a")?;
//! etcd.join("b")?;
//! let client = EtcdClient::new(etcd.channel("a"));
//! let members = client.members().await?;
//! client.move_leader(members.iter().find(|member| member.name == "b").unwrap().id).await?;
//! assert_eq!(etcd.leader().as_deref(), Some("b"));
//! # Ok(())
//! # }
//! ```
//!
//! Messages are written by hand (`wire`, `messages`): there are a dozen of them with few fields each, and the HTTP/2 that
//! carries them is in the tree already.

mod channel;
mod client;
mod error;
mod grpc;
mod memory;
mod messages;
mod tls;
mod wire;

pub use channel::Channel;
pub use client::{Alarm, EtcdClient, Member, MemberId, Status};
pub use error::{ConnectionError, EtcdError, Refusal};
pub use memory::MemoryEtcd;
pub use messages::AlarmKind;
pub use tls::Credentials;
