//! Settings that Kraken's file has no place for: what stands under its top-level key `dev`.

use std::collections::BTreeMap;

use nolag_core::Token;
use serde_json::Value as Json;

use super::client_token::SigningKey;

/// What `dev` holds, read. Keys that are not known are ignored.
///
/// ```json
/// {"signingKeys": [{"id": "sk_live_1", "secret": "…", "projectId": "optional"}],
///  "hydration": {"APP": {"TOPIC": "any JSON", "#": "for every other topic of the app"}}}
/// ```
#[derive(Debug, Clone, Default)]
pub(super) struct DevSettings {
    pub(super) signing_keys: Vec<SigningKey>,
    hydration: BTreeMap<String, BTreeMap<String, Json>>,
}

impl DevSettings {
    /// Reads the settings. Errors name the place and never quote values, because a secret may stand in the wrong one.
    pub(super) fn read(dev: &Json) -> Result<Self, String> {
        let Some(dev) = dev.as_object() else { return Err("dev: not an object".into()) };
        let mut settings = Self::default();
        let keys = match dev.get("signingKeys") {
            None => &[],
            Some(keys) => keys.as_array().ok_or("dev.signingKeys: not a list")?.as_slice(),
        };
        for (index, key) in keys.iter().enumerate() {
            let text = |name: &str| key.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
            let needed = |name| {
                text(name).ok_or_else(|| {
                    format!("dev.signingKeys[{index}].{name}: a text that is not empty is needed")
                })
            };
            settings.signing_keys.push(SigningKey {
                id: needed("id")?.into(),
                secret: Token::new(needed("secret")?),
                project_id: text("projectId").map(String::from),
            });
        }
        if let Some(hydration) = dev.get("hydration") {
            let apps = hydration.as_object().ok_or("dev.hydration: not an object of apps")?;
            for (app, topics) in apps {
                let topics = topics
                    .as_object()
                    .ok_or_else(|| format!("dev.hydration.{app}: not an object of topics"))?;
                let topics = topics.iter().map(|(topic, body)| (topic.clone(), body.clone()));
                settings.hydration.insert(app.clone(), topics.collect());
            }
        }
        Ok(settings)
    }

    /// What a topic is hydrated with: its own body, else its app's.
    pub(super) fn hydration(&self, app: &str, topic: &str) -> Option<&Json> {
        let topics = self.hydration.get(app)?;
        topics.get(topic).or_else(|| topics.get("#"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_topic_is_hydrated_with_its_own_body_or_its_apps() {
        let settings = DevSettings::read(&json!({"hydration": {"demo": {"chat": [1], "#": null}}})).unwrap();
        assert_eq!(settings.hydration("demo", "chat"), Some(&json!([1])));
        assert_eq!(settings.hydration("demo", "other"), Some(&Json::Null));
        assert_eq!(settings.hydration("shop", "chat"), None);
    }

    #[test]
    fn errors_name_the_place_and_never_quote_values() {
        let cases = [
            (json!([]), "dev: "),
            (json!({"signingKeys": "hush"}), "dev.signingKeys: "),
            (json!({"signingKeys": ["hush"]}), "dev.signingKeys[0].id: "),
            (json!({"signingKeys": [{"id": "k", "secret": ["hush"]}]}), "dev.signingKeys[0].secret: "),
            (json!({"hydration": {"demo": "hush"}}), "dev.hydration.demo: "),
        ];
        for (dev, place) in cases {
            let error = DevSettings::read(&dev).unwrap_err();
            assert!(error.starts_with(place) && !error.contains("hush"), "{error}");
        }
    }
}
