//! Tokens that come from the application whenever a fresh one is needed.

use std::{
    fmt,
    future::{self, Future},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use nolag_core::Token;
use serde::Deserialize;

use crate::runtime::BoxFuture;

/// A token and how long it can be used. Texts and [`Token`]s convert into it.
///
/// Its `Debug` does not show the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FreshToken {
    token: Token,
    valid_for: Option<Duration>,
}

impl FreshToken {
    /// A token whose end is not known, unless it is a JWT: then its `exp` and the clock of this machine say it. A JWT
    /// that has ended by this clock counts as one whose end is not known, because the clock may be wrong.
    pub fn new(token: impl Into<Token>) -> Self {
        Self { token: token.into(), valid_for: None }
    }

    /// How long it can be used from now on. Half a minute before the end the provider is asked for the next one, which
    /// is then given to the broker without a reconnect.
    #[must_use]
    pub fn valid_for(mut self, duration: Duration) -> Self {
        self.valid_for = Some(duration);
        self
    }

    pub(crate) fn into_parts(self) -> (Token, Option<Duration>) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let valid_for = self.valid_for.or_else(|| jwt_validity(self.token.expose(), now));
        (self.token, valid_for)
    }
}

impl From<&str> for FreshToken {
    fn from(token: &str) -> Self {
        Self::new(token)
    }
}

impl From<String> for FreshToken {
    fn from(token: String) -> Self {
        Self::new(token)
    }
}

impl From<Token> for FreshToken {
    fn from(token: Token) -> Self {
        Self::new(token)
    }
}

/// What a token provider may return: `Result<T, E>`, or a future of one. `T` is a [`FreshToken`] or converts into it, as
/// texts and [`Token`]s do; `E` says why there is none.
///
/// So both `|| read_token()` and `|| async { fetch_token().await }` are providers. `Kind` tells the two apart and is
/// always inferred.
pub trait TokenReturn<Kind>: sealed::Sealed<Kind> {}

impl<T, E> TokenReturn<sealed::Returned> for Result<T, E>
where
    T: Into<FreshToken>,
    E: fmt::Display,
{
}

impl<F, T, E> TokenReturn<sealed::Awaited> for F
where
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Into<FreshToken>,
    E: fmt::Display,
{
}

/// A token, or why there is none.
pub(crate) type Provided = Result<FreshToken, String>;

/// Asks the application for a token.
pub(crate) type Provider = Box<dyn FnMut() -> BoxFuture<Provided> + Send>;

pub(crate) fn provider<R, Kind>(mut provider: impl FnMut() -> R + Send + 'static) -> Provider
where
    R: TokenReturn<Kind>,
{
    Box::new(move || provider().into_answer().0)
}

fn provided<T: Into<FreshToken>, E: fmt::Display>(result: Result<T, E>) -> Provided {
    let token = result.map_err(|error| error.to_string())?.into();
    if token.token.expose().is_empty() { Err("it is empty".into()) } else { Ok(token) }
}

mod sealed {
    use super::{BoxFuture, FreshToken, Future, Provided, fmt, future, provided};

    /// Of providers that return a token.
    #[derive(Debug)]
    pub struct Returned;

    /// Of providers that return a future.
    #[derive(Debug)]
    pub struct Awaited;

    pub trait Sealed<Kind> {
        #[doc(hidden)]
        fn into_answer(self) -> Answer;
    }

    /// Hides the type of the boxed future from the public trait.
    #[doc(hidden)]
    #[allow(missing_debug_implementations)]
    pub struct Answer(pub(crate) BoxFuture<Provided>);

    impl<T: Into<FreshToken>, E: fmt::Display> Sealed<Returned> for Result<T, E> {
        fn into_answer(self) -> Answer {
            Answer(Box::pin(future::ready(provided(self))))
        }
    }

    impl<F, T, E> Sealed<Awaited> for F
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
        T: Into<FreshToken>,
        E: fmt::Display,
    {
        fn into_answer(self) -> Answer {
            Answer(Box::pin(async move { provided(self.await) }))
        }
    }
}

/// How long a JWT is still good, by its own claim. Nothing is verified: the broker does that.
fn jwt_validity(token: &str, now: Duration) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let mut parts = token.split('.');
    let (_header, claims, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    let claims = URL_SAFE_NO_PAD.decode(claims.trim_end_matches('=')).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    let left = Duration::try_from_secs_f64(claims.exp).ok()?.checked_sub(now)?;
    Some(left).filter(|left| !left.is_zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_700_000_000);

    fn jwt(claims: &str) -> String {
        format!("eyJhbGciOiJub25lIn0.{}.sig", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn a_jwt_says_how_long_it_is_good() {
        for (claims, expected) in [
            (r#"{"sub":"a","exp":1700000060}"#, Some(60.0)),
            (r#"{"exp":1700000000.5}"#, Some(0.5)),
            (r#"{"exp":1700000000}"#, None),
            (r#"{"exp":1600000000}"#, None),
            (r#"{"exp":-1}"#, None),
            (r#"{"exp":1e300}"#, None),
            (r#"{"exp":"soon"}"#, None),
            (r#"{"sub":"a"}"#, None),
            ("no json", None),
        ] {
            let validity = jwt_validity(&jwt(claims), NOW);
            assert_eq!(validity, expected.map(Duration::from_secs_f64), "{claims}");
        }
    }

    #[test]
    fn other_tokens_say_nothing() {
        for token in ["", "dev-token-alice", "a.b", "a.b.c", "a.%%%.c", "..", "at_live_x.y.z"] {
            assert_eq!(jwt_validity(token, NOW), None, "{token}");
        }
    }

    #[test]
    fn what_is_said_wins_over_what_the_token_says() {
        let token = FreshToken::new(jwt(r#"{"exp":99999999999}"#)).valid_for(Duration::from_secs(5));
        assert!(!format!("{token:?}").contains("eyJ"));
        assert_eq!(token.into_parts().1, Some(Duration::from_secs(5)));
    }
}
