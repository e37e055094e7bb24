//! The address of a server, checked before anything connects to it.

use tungstenite::http::Uri;

use nolag_core::Misuse;

/// Where to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) tls: bool,
    /// A name or an IP address, without the brackets of IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The whole address.
    pub(crate) uri: Uri,
}

/// The schemes of an address: without and with TLS.
type Schemes = [&'static str; 2];

impl Address {
    /// Of a WebSocket.
    pub(crate) fn parse(url: &str) -> Result<Self, Misuse> {
        Self::parse_as(["ws", "wss"], url)
    }

    /// Of an HTTP server.
    #[cfg(feature = "rest")]
    pub(crate) fn parse_http(url: &str) -> Result<Self, Misuse> {
        Self::parse_as(["http", "https"], url)
    }

    fn parse_as([plain, secure]: Schemes, url: &str) -> Result<Self, Misuse> {
        let refuse =
            |reason: &str| Misuse::InvalidUrl { url: without_secrets(url).into(), reason: reason.into() };
        let wrong_scheme = || refuse(&format!("it must start with {plain}:// or {secure}://"));
        let Some((scheme, rest)) = url.split_once("://") else { return Err(wrong_scheme()) };
        let tls = match scheme.to_ascii_lowercase() {
            scheme if scheme == plain => false,
            scheme if scheme == secure => true,
            _ => return Err(wrong_scheme()),
        };
        // Libraries below know only small letters.
        let url = format!("{}://{rest}", if tls { secure } else { plain });
        let uri: Uri = url.parse().map_err(|error| refuse(&format!("it is not a URL: {error}")))?;
        if tls && !cfg!(feature = "tls") {
            return Err(refuse(&format!("{secure}:// needs the crate feature `tls`")));
        }
        let Some(authority) = uri.authority() else { return Err(refuse("it has no host")) };
        if authority.as_str().contains('@') {
            return Err(refuse(
                "it holds a user name or password, which are not used; the token is the credential",
            ));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err(refuse("it has no host"));
        }
        let port = match authority.as_str().strip_prefix(authority.host()) {
            Some("") if tls => 443,
            Some("") => 80,
            rest => {
                let port = rest.and_then(|rest| rest.strip_prefix(':')).and_then(|port| port.parse().ok());
                port.ok_or_else(|| refuse("its port is not a number up to 65535"))?
            }
        };
        Ok(Self { tls, host, port, uri })
    }
}

/// The address for display: without user, password and query, any of which can hold a secret.
pub(crate) fn without_secrets(url: &str) -> String {
    let start = url.find("://").map_or(0, |index| index + 3);
    // A password may hold what begins a query elsewhere, so it goes first.
    let shown = match url[start..].rfind('@') {
        Some(at) => format!("{}…{}", &url[..start], &url[start + at..]),
        None => url.to_owned(),
    };
    match shown.find(['?', '#']) {
        Some(end) => format!("{}…", &shown[..end]),
        None => shown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_scheme_host_port_and_path() {
        let plain = Address::parse("ws://localhost:8080/ws").unwrap();
        assert_eq!((plain.tls, plain.host.as_str(), plain.port), (false, "localhost", 8080));
        assert_eq!(Address::parse("ws://broker/ws").unwrap().port, 80);
        let v6 = Address::parse("ws://[::1]:9/ws").unwrap();
        assert_eq!((v6.host.as_str(), v6.port), ("::1", 9));
        let shouted = Address::parse("WS://[::1]/ws").unwrap();
        assert_eq!((shouted.port, shouted.uri.scheme_str()), (80, Some("ws")));
        #[cfg(feature = "tls")]
        assert_eq!(Address::parse("wss://broker.nolag.app/ws").unwrap().port, 443);
    }

    #[test]
    fn what_is_no_address_is_refused_with_a_reason() {
        for bad in [
            "",
            "localhost:8080",
            "localhost",
            "http://localhost/ws",
            "ws://",
            "ws:///ws",
            "ws://:80/ws",
            "ws://host:99999/ws",
            "ws://host:abc/ws",
            "ws://ho st/ws",
            "ws://user@host/ws",
            "ws://[::1]x/ws",
            "ws://[::1]x:80/ws",
            "ws://host:/ws",
        ] {
            assert!(matches!(Address::parse(bad), Err(Misuse::InvalidUrl { .. })), "{bad}");
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        for bad in [
            "ws://user:hunter2@host/ws",
            "http://user:hunt?er2hunter2@host/ws",
            "ws://user:hunter2#hunter2@host/ws",
            "http://host/ws?token=hunter2",
            "user:hunter2@host",
            "ws://user:hunter2@ho st/ws",
            "ws://a@b:hunter2@host/ws",
            "x://host/#hunter2",
        ] {
            let shown = Address::parse(bad).unwrap_err().to_string();
            assert!(!shown.contains("hunt"), "{shown}");
        }
    }
}
