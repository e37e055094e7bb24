use nolag_broker::*;
use nolag_core::Instant;
use std::collections::BTreeMap;
use std::time::Duration;
fn unhex(s: &str) -> Vec<u8> {
    (0..s.len() / 2).map(|i| u8::from_str_radix(&s[2 * i..2 * i + 2], 16).unwrap()).collect()
}
fn main() {
    let auth = AuthConfig::from_file(std::path::Path::new("/work/shared/traces/auth.json")).unwrap();
    for f in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&f).unwrap();
        let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
        let wall = lines
            .iter()
            .find(|l| l["event"] == "clock")
            .map_or(0.0, |l| 1000.0 + l["fraction"].as_f64().unwrap() - l["t"].as_f64().unwrap());
        let cfg = || BrokerConfig {
            profile: Profile::Kraken04,
            auth: auth.clone(),
            record_messages: lines[0]["record_messages"] != false,
            wall_clock: Duration::from_secs_f64(wall),
            ..Default::default()
        };
        let mut b = BrokerCore::new(cfg(), Instant::ZERO);
        let mut ids: BTreeMap<u64, ConnectionId> = BTreeMap::new();
        println!("FILE {f}");
        for l in &lines[1..] {
            let now = Instant::from_micros((l["t"].as_f64().unwrap() * 1e6) as u64);
            while let Some(t) = b.poll_timeout() {
                if t > now {
                    break;
                }
                b.handle_timeout(t);
                drain(&mut b, &ids);
            }
            let c = l["conn"].as_u64().unwrap_or(0);
            if l["event"] == "open" {
                ids.insert(c, b.open(now));
            } else if l["event"] == "close" {
                if l["by"] == "client" {
                    if let Some(i) = ids.get(&c) {
                        b.handle_close(now, *i);
                    }
                }
            } else if l["event"] == "broker-killed" {
                b = BrokerCore::new(cfg(), now);
            } else if l["event"] == "auth-file-changed" {
                let mut v: serde_json::Value =
                    serde_json::from_str(&std::fs::read_to_string("/work/shared/traces/auth.json").unwrap())
                        .unwrap();
                for t in l["removed"].as_array().unwrap() {
                    v["tokens"].as_object_mut().unwrap().remove(t.as_str().unwrap());
                }
                b.set_auth(now, AuthConfig::from_json(&v.to_string()).unwrap());
            } else if l["dir"] == "c2s" {
                if let Some(t) = l["text"].as_str() {
                    b.handle_text(now, ids[&c], t);
                } else if let Some(h) = l["hex"].as_str() {
                    b.handle_binary(now, ids[&c], &unhex(h));
                } else {
                    let mut v = unhex(l["head"].as_str().unwrap());
                    let k = l["times"].as_u64().unwrap() as usize;
                    v.extend(vec![unhex(l["repeat"].as_str().unwrap())[0]; k]);
                    v.extend(unhex(l["tail"].as_str().unwrap()));
                    b.handle_binary(now, ids[&c], &v);
                }
            }
            drain(&mut b, &ids);
        }
    }
}
fn drain(b: &mut BrokerCore, ids: &BTreeMap<u64, ConnectionId>) {
    while let Some(o) = b.poll_output() {
        let c = ids.iter().rev().find(|(_, i)| **i == o.conn()).map(|x| *x.0).unwrap_or(0);
        match o {
            Output::Send { frame, .. } => {
                println!("S {c} {}", frame.iter().map(|b| format!("{b:02x}")).collect::<String>())
            }
            Output::Close { code, reason, .. } => println!("C {c} {code} {reason}"),
            Output::Cut { .. } => println!("X {c}"),
        }
    }
}
