//! Where the page is served, for `windlass up` and `windlass run`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use kube::Client;
use windlass_web::{Web, WebOptions};

use crate::exit::Failure;
use crate::output;

/// The most that is read of a file with a token.
const TOKEN: u64 = 4096;
/// What is shorter can be tried out.
const SHORTEST_TOKEN: usize = 16;

/// Where the page is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WebListen {
    /// Nowhere.
    Off,
    /// There.
    At(SocketAddr),
}

impl FromStr for WebListen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "off" => Ok(Self::Off),
            text => text
                .parse()
                .map(Self::At)
                .map_err(|_| "expected IP:PORT, as 127.0.0.1:8081, or off".to_owned()),
        }
    }
}

/// How the page is served.
#[derive(Clone, Debug)]
pub(crate) struct WebSettings {
    pub(crate) listen: WebListen,
    pub(crate) token_file: Option<PathBuf>,
}

impl WebSettings {
    /// Begins to listen, if it shall be served.
    pub(crate) async fn start(&self, client: Client) -> Result<Option<Web>, Failure> {
        let WebListen::At(listen) = self.listen else { return Ok(None) };
        let token = match &self.token_file {
            None => None,
            Some(file) => {
                let token = output::read_file(file, TOKEN).map_err(Failure::Invalid)?.trim().to_owned();
                if token.len() < SHORTEST_TOKEN {
                    let shown = file.display();
                    return Err(Failure::Invalid(format!(
                        "{shown}: a token has at least {SHORTEST_TOKEN} letters"
                    )));
                }
                Some(token)
            }
        };
        if !listen.ip().is_loopback() {
            output::note(
                "the page is served over plain HTTP beyond this machine: put something with TLS in front of it",
            );
        }
        let web = Web::start(client, WebOptions { listen, token }).await;
        web.map(Some).map_err(|error| Failure::Failed(format!("cannot serve the page on {listen}: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_at_an_address_or_nowhere() {
        assert_eq!("off".parse(), Ok(WebListen::Off));
        assert_eq!("127.0.0.1:0".parse(), Ok(WebListen::At(([127, 0, 0, 1], 0).into())));
        for wrong in ["", "on", "localhost:80", "8080"] {
            assert!(wrong.parse::<WebListen>().is_err(), "{wrong}");
        }
    }
}
