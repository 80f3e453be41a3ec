//! What every example needs to serve: flags, a certificate, a log, an end.

use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;

use windlass_extension::{DevelopmentCertificate, Extension, Server, Tls, termination};

/// How the extension is served.
#[derive(clap::Args)]
pub(crate) struct Serving {
    /// Address at which hooks are called; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9443")]
    listen: SocketAddr,
    /// Address of /healthz and /readyz, plain HTTP
    #[arg(long, value_name = "ADDRESS")]
    health: Option<SocketAddr>,
    /// Host name or address under which callers reach this machine
    #[arg(long, default_value = "127.0.0.1")]
    host: String,
    /// Certificate chain, PEM, read again when it changes; without it one is generated for development
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Key of the certificate, PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Directory in which a generated certificate is kept, so that it is the same after a restart
    #[arg(long, value_name = "DIR", conflicts_with = "tls_cert")]
    keep_certificate: Option<PathBuf>,
    /// Let in only callers with a certificate of these authorities, PEM
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
}

impl Serving {
    /// Prints the ExtensionConfig and serves until the process is told to end.
    pub(crate) async fn serve(self, extension: Extension) -> Result<(), Box<dyn Error>> {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
        let mut tls = match (self.tls_cert, self.tls_key) {
            (Some(certificate), Some(key)) => Tls::files(certificate, key),
            _ => {
                let hosts = [self.host.as_str(), "localhost"];
                Tls::development(match self.keep_certificate {
                    Some(directory) => DevelopmentCertificate::kept_in(directory, hosts)?,
                    None => DevelopmentCertificate::generate(hosts)?,
                })
            }
        };
        if let Some(client_ca) = self.client_ca {
            tls = tls.client_ca_file(client_ca);
        }
        let mut server = Server::new(extension, tls);
        if let Some(address) = self.health {
            server = server.health_address(address);
        }
        let server = server.bind(self.listen).await?;
        let end = termination();
        std::io::stdout().write_all(server.manifest(&self.host).as_bytes())?;
        let _ = server.run_until(end).await;
        Ok(())
    }
}
