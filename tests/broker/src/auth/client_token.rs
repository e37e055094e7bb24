//! Client tokens: short-lived JWTs that an application's own server signs for its clients.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};
use hmac::{Hmac, KeyInit, Mac};
use nolag_core::Token;
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Longest lifetime of a client token, in seconds.
const MAX_LIFETIME: u64 = 3600;

/// How far into the future a token may begin, in seconds, because clocks differ.
const CLOCK_SKEW: u64 = 60;

/// What signs client tokens: an entry of `dev.signingKeys`.
#[derive(Debug, Clone)]
pub(super) struct SigningKey {
    /// The `kid` of the tokens.
    pub(super) id: String,
    pub(super) secret: Token,
    /// When given, only actors of this project.
    pub(super) project_id: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct Header {
    alg: String,
    kid: String,
}

/// The claims of a client token whose signature and times are right.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Claims {
    /// The actor's id, or the key id of its token: what stands before the first dot.
    pub(super) sub: String,
    /// When it expires, in Unix seconds.
    pub(super) exp: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    iat: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    nbf: Option<u64>,
}

/// Why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// Unknown, or not to be trusted.
    Denied,
    /// A client token that was good once.
    Expired,
}

/// Whether a token has the form of a client token.
pub(super) fn has_form(token: &str) -> bool {
    token.starts_with("eyJ") && token.split('.').count() == 3
}

/// Checks a client token against the keys. Returns its claims and the key.
pub(super) fn verify<'k>(
    token: &str,
    keys: &'k [SigningKey],
    unix_now: u64,
) -> Result<(Claims, &'k SigningKey), Refused> {
    let (signed, signature) = token.rsplit_once('.').ok_or(Refused::Denied)?;
    let (header, claims) = signed.split_once('.').ok_or(Refused::Denied)?;
    let header: Header = read(header).ok_or(Refused::Denied)?;
    let signature = BASE64.decode(signature).map_err(|_| Refused::Denied)?;
    let key = keys.iter().find(|key| key.id == header.kid && header.alg == "HS256").ok_or(Refused::Denied)?;
    let mac = mac(key, signed).ok_or(Refused::Denied)?;
    mac.verify_slice(&signature).map_err(|_| Refused::Denied)?;
    let claims: Claims = read(claims).ok_or(Refused::Denied)?;
    if unix_now >= claims.exp {
        return Err(Refused::Expired);
    }
    let latest_start = unix_now.saturating_add(CLOCK_SKEW);
    let issued = claims.iat.unwrap_or(latest_start);
    let too_early = [claims.iat, claims.nbf].iter().flatten().any(|start| *start > latest_start);
    if too_early || claims.exp.saturating_sub(issued) > MAX_LIFETIME {
        return Err(Refused::Denied);
    }
    Ok((claims, key))
}

/// A client token for `sub`, valid until `exp`.
pub(super) fn sign(key: &SigningKey, sub: &str, exp: u64) -> Option<String> {
    let header = write(&Header { alg: "HS256".into(), kid: key.id.clone() })?;
    let claims = write(&Claims { sub: sub.into(), exp, iat: None, nbf: None })?;
    let signed = format!("{header}.{claims}");
    let signature = BASE64.encode(mac(key, &signed)?.finalize().into_bytes());
    Some(format!("{signed}.{signature}"))
}

fn mac(key: &SigningKey, signed: &str) -> Option<Hmac<Sha256>> {
    // HMAC takes keys of any length, so this is always there.
    let mac = Hmac::<Sha256>::new_from_slice(key.secret.expose().as_bytes()).ok()?;
    Some(mac.chain_update(signed))
}

fn read<T: for<'de> Deserialize<'de>>(part: &str) -> Option<T> {
    serde_json::from_slice(&BASE64.decode(part).ok()?).ok()
}

fn write(part: &impl Serialize) -> Option<String> {
    Some(BASE64.encode(serde_json::to_vec(part).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey { id: "sk_live_1".into(), secret: Token::new("s3cret"), project_id: None }
    }

    fn check(token: &str, now: u64) -> Result<u64, Refused> {
        verify(token, &[key()], now).map(|(claims, _)| claims.exp)
    }

    #[test]
    fn what_was_signed_is_accepted_until_it_expires() {
        let token = sign(&key(), "alice", 5000).unwrap();
        assert!(has_form(&token));
        assert_eq!(check(&token, 4000), Ok(5000));
        assert_eq!(check(&token, 4999), Ok(5000));
        assert_eq!(check(&token, 5000), Err(Refused::Expired));
        assert_eq!(check(&token, 1000), Err(Refused::Denied), "longer than an hour");
    }

    #[test]
    fn a_token_of_another_maker_is_read() {
        // Made with Python's hmac module: HS256, kid "k", secret "secret".
        let token = "eyJhbGciOiJIUzI1NiIsImtpZCI6ImsiLCJ0eXAiOiJKV1QifQ.\
                     eyJzdWIiOiJhbm4iLCJpYXQiOjEwMDAsImV4cCI6MTYwMH0.O-z3kI9Tr8Q-cetfzm76_nk3SwjxCbZ245apy9qQpmc";
        let keys = [SigningKey { id: "k".into(), secret: Token::new("secret"), project_id: None }];
        let (claims, _) = verify(token, &keys, 1200).unwrap();
        assert_eq!((claims.sub.as_str(), claims.exp), ("ann", 1600));
    }

    #[test]
    fn tampered_tokens_are_denied() {
        let token = sign(&key(), "alice", 5000).unwrap();
        let other = SigningKey { secret: Token::new("other"), ..key() };
        let forged = sign(&other, "alice", 5000).unwrap();
        let (signed, _) = token.rsplit_once('.').unwrap();
        let unsigned = format!("{}.e30.", BASE64.encode(r#"{"alg":"none","kid":"sk_live_1"}"#));
        let cases =
            [forged, format!("{signed}."), format!("{signed}.AAAA"), unsigned, "a.b.c".into(), "x".into()];
        for case in cases {
            assert_eq!(check(&case, 4000), Err(Refused::Denied), "{case}");
        }
    }
}
