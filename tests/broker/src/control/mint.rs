//! Ids, suffixes and tokens.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};

use super::{ControlPlane, State};

/// Makes ids and tokens from a seed: the same ones in the same order. An id does not give away the tokens that follow.
#[derive(Clone)]
pub(super) struct Mint {
    seed: [u8; 32],
    count: u64,
}

impl Mint {
    pub(super) fn new(seed: u64, more: &[u8]) -> Self {
        let seed = Sha256::new().chain_update(seed.to_be_bytes()).chain_update(more).finalize();
        Self { seed: seed.into(), count: 0 }
    }

    /// One that makes other things, depending on `more` too.
    pub(super) fn beside(&self, more: &[u8]) -> Self {
        let seed = Sha256::new().chain_update(self.seed).chain_update(more).finalize();
        Self { seed: seed.into(), count: 0 }
    }

    fn draw(&mut self) -> [u8; 32] {
        self.count += 1;
        Sha256::new().chain_update(self.seed).chain_update(self.count.to_be_bytes()).finalize().into()
    }

    /// A version 4 UUID.
    pub(super) fn uuid(&mut self) -> String {
        let mut bytes = self.draw();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let parts = [&bytes[..4], &bytes[4..6], &bytes[6..8], &bytes[8..10], &bytes[10..16]];
        parts.map(hex).join("-")
    }

    /// Four hexadecimal digits.
    pub(super) fn suffix(&mut self) -> String {
        hex(&self.draw()[..2])
    }

    /// The name of a token, and the token.
    pub(super) fn token(&mut self) -> (String, String) {
        let key_id = format!("at_live_{}", hex(&self.draw()[..6]));
        let token = format!("{key_id}.{}", URL_SAFE_NO_PAD.encode(self.draw()));
        (key_id, token)
    }
}

impl ControlPlane {
    /// The slug with a suffix that makes it one which no other app has or had; `None` when it is hard to find.
    pub(super) fn suffixed(&mut self, slug: &str) -> Option<String> {
        const ATTEMPTS: usize = 1000;
        let taken = |state: &State, slug: &str| state.apps.iter().any(|app| app.slug == slug);
        (0..ATTEMPTS).map(|_| format!("{slug}-{}", self.mint.suffix())).find(|slug| !taken(&self.state, slug))
    }
}

/// The hash that stands for a secret, in hexadecimal digits.
pub(super) fn sha256(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_has_its_form_and_comes_only_once() {
        let mut mint = Mint::new(7, b"");
        let uuid = mint.uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"));
        assert!("89ab".contains(&uuid[19..20]) && uuid != mint.uuid());
        let (key_id, token) = mint.token();
        assert_eq!((key_id.len(), token.len()), ("at_live_".len() + 12, "at_live_".len() + 12 + 1 + 43));
        assert!(token.starts_with(&key_id));
        assert_eq!(Mint::new(7, b"").uuid(), uuid);
        assert_ne!(Mint::new(7, b"").beside(b"").uuid(), uuid);
        assert_eq!(mint.suffix().len(), 4);
    }
}
