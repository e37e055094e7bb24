//! Making the broker's subscriptions those that are wanted after a reconnect, whatever it says that it restored.

#[path = "support/cases.rs"]
mod cases;
mod support;

use std::collections::{BTreeMap, BTreeSet};

use bytes::BytesMut;
use cases::cases;
use nolag_core::{
    SubscribeOptions,
    wire::{self, ClientFrame, Filter, QoS, RawValue, write},
};
use proptest::{collection::vec, prelude::*, sample::select};
use support::*;

const TOPICS: [&str; 5] = ["a/b/one", "a/b/two", "a/b/three", "a/+/four", "a/b/#"];

/// A subscription as it stands at a broker.
#[derive(Debug, Clone, PartialEq)]
struct Standing {
    qos: u8,
    /// As sent: order and spelling say nothing, see [`Standing::means`].
    filters: Vec<Filter>,
    /// The group, if its messages are shared with one.
    group: Option<String>,
}

impl Standing {
    /// What it receives.
    fn means(&self) -> (u8, BTreeSet<String>, Option<&str>) {
        (self.qos, self.filters.iter().map(Filter::canonical).collect(), self.group.as_deref())
    }

    fn of_frame(frame: &wire::Subscribe<'_>) -> Self {
        Self {
            qos: frame.qos.unwrap_or_default().as_u8(),
            filters: frame.filters.clone(),
            group: frame.load_balance.then(|| frame.load_balance_group.unwrap_or(ACTOR).into()),
        }
    }

    fn options(&self) -> SubscribeOptions {
        SubscribeOptions {
            qos: QoS::try_from(self.qos).ok(),
            filters: self.filters.clone(),
            load_balance: Some(self.group.is_some()),
            load_balance_group: self.group.clone().filter(|group| group != ACTOR),
        }
    }
}

/// The four shapes of an entry (protocol-facts §13).
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    Name,
    Pattern,
    Topic,
}

#[derive(Debug, Clone)]
struct Entry {
    standing: Standing,
    shape: Shape,
    /// Whether the broker really restored it. Only the shapes of its own memory and of a control plane promise that.
    really: bool,
    /// What differs from that which stood before, where it is taken from there.
    differs: Option<Difference>,
}

#[derive(Debug, Clone, Copy)]
enum Difference {
    Qos,
    Filters,
    Group,
    Sharing,
}

impl Entry {
    fn stands(&self) -> bool {
        self.really || matches!(self.shape, Shape::Pattern | Shape::Topic)
    }

    /// Becomes what stood before, or nearly.
    fn remember(&mut self, before: &Standing) {
        self.standing = before.clone();
        let Standing { qos, filters, group } = &mut self.standing;
        match self.differs {
            Some(Difference::Qos) => *qos = (*qos + 1) % 3,
            Some(Difference::Filters) => filters.push("z".into()),
            Some(Difference::Sharing) if group.is_some() => *group = None,
            Some(Difference::Group) if group.as_deref() == Some("red") => *group = Some("blue".into()),
            Some(Difference::Group | Difference::Sharing) => *group = Some("red".into()),
            None => {}
        }
    }

    fn encode(&self, topic: &str, out: &mut BytesMut) {
        let Standing { qos, filters, group } = &self.standing;
        let prefixed = group.as_ref().map(|group| format!("project1_app1_{group}"));
        let (keys, lb, lb_group, group) = match self.shape {
            Shape::Plain => return write::str(out, topic),
            Shape::Pattern => (&["pattern", "topic"][..], "load_balance", "load_balance_group", &prefixed),
            Shape::Name => (&["name"][..], "loadBalance", "loadBalanceGroup", group),
            Shape::Topic => (&["topic"][..], "loadBalance", "loadBalanceGroup", group),
        };
        write::map_header(out, keys.len() + 2 + 2 * usize::from(group.is_some()));
        for (key, text) in keys.iter().zip([topic, "5d0e/internal"]) {
            write::str(out, key);
            write::str(out, text);
        }
        write::str(out, "qos");
        write::uint(out, (*qos).into());
        write::str(out, "filters");
        Filter::encode_list(filters, out);
        if let Some(group) = group {
            write::str(out, lb);
            write::bool(out, true);
            write::str(out, lb_group);
            write::str(out, group);
        }
    }
}

fn standing() -> impl Strategy<Value = Standing> {
    let filter = prop_oneof![
        3 => select(vec!["x", "y", "X"]).prop_map(Filter::from),
        1 => select(vec![["x", "y"], ["y", "X"]])
            .prop_map(|values| Filter::All(values.map(String::from).to_vec())),
    ];
    // A group of ours never ends like another: a control plane's prefix could not be told from it.
    let group = proptest::option::weighted(0.4, select(vec![ACTOR, "red", "blue"]).prop_map(String::from));
    (prop_oneof![4 => Just(1_u8), 1 => 0..3_u8], vec(filter, 0..3), group)
        .prop_map(|(qos, filters, group)| Standing { qos, filters, group })
}

type Wanted = BTreeMap<usize, Standing>;

fn wanted() -> impl Strategy<Value = Wanted> {
    vec((0..TOPICS.len(), standing()), 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

fn entries() -> impl Strategy<Value = BTreeMap<usize, Entry>> {
    let shape = select(vec![Shape::Plain, Shape::Name, Shape::Pattern, Shape::Topic, Shape::Topic]);
    let differs = select(vec![Difference::Qos, Difference::Filters, Difference::Group, Difference::Sharing]);
    let differs = proptest::option::weighted(0.4, differs);
    let entry =
        (standing(), shape, any::<bool>(), differs).prop_map(|(mut standing, shape, really, differs)| {
            if shape == Shape::Plain {
                standing = Standing { qos: 1, filters: Vec::new(), group: None };
            }
            Entry { standing, shape, really, differs }
        });
    vec((0..TOPICS.len(), entry), 0..5).prop_map(|pairs| pairs.into_iter().collect())
}

proptest! {
    #![proptest_config(cases(512))]

    /// With a stable id, what is sent after a reconnect makes the broker's set the wanted one; nothing is sent about what
    /// the broker surely restored as it is wanted; and nothing is said twice. Without an id all is subscribed anew, and
    /// what the list says is nobody's.
    #[test]
    fn the_brokers_set_becomes_the_wanted_one(
        before in wanted(), after in wanted(), same in any::<bool>(), restored in entries(), faithful in any::<bool>(),
        odd in any::<bool>(), has_id in proptest::bool::weighted(0.8),
    ) {
        let mut peer = Peer::connected(if has_id { named() } else { config() });
        let subscribe = |peer: &mut Peer, n: usize, standing: &Standing| {
            peer.subscribe_as(TOPICS[n], |subscribe| subscribe.options = standing.options());
        };
        for (n, standing) in &before {
            subscribe(&mut peer, *n, standing);
            peer.subscribed(TOPICS[*n]);
        }
        peer.close(1006);
        // What is wanted can change while there is no session.
        let after = if same { before.clone() } else { after };
        if !same {
            for n in before.keys().filter(|n| !after.contains_key(n)) {
                peer.unsubscribe(TOPICS[*n]);
            }
            after.iter().for_each(|(n, standing)| subscribe(&mut peer, *n, standing));
        }
        // A broker with a good memory restores what stood before, or nearly.
        let mut restored = restored;
        for (n, entry) in restored.iter_mut().filter(|(_, entry)| faithful && entry.shape != Shape::Plain) {
            if let Some(standing) = before.get(n) {
                entry.remember(standing);
            }
        }
        let mut list = BytesMut::new();
        write::list_header(&mut list, restored.len() + 2 * usize::from(odd));
        if odd {
            write::uint(&mut list, 7);
            write::map_header(&mut list, 0);
        }
        restored.iter().for_each(|(n, entry)| entry.encode(TOPICS[*n], &mut list));
        peer.forget();
        peer.reopen();
        let list = list.freeze();
        let list = RawValue::parse(&list).expect("a list");
        peer.accept_with(|reply| reply.restored_subscriptions = Some(list));

        // The broker's set, as it is before and after what is sent.
        let mut set: BTreeMap<usize, Standing> = BTreeMap::new();
        if has_id {
            set.extend(restored.iter().filter(|(_, entry)| entry.stands()).map(|(n, entry)| (*n, entry.standing.clone())));
        }
        let mut told = BTreeSet::new();
        for frame in peer.frames() {
            let topic = match decode(&frame) {
                ClientFrame::Auth(auth) => {
                    prop_assert_eq!(auth.reconnect, has_id);
                    continue;
                }
                ClientFrame::Subscribe(frame) => {
                    let n = TOPICS.iter().position(|topic| *topic == frame.topic).expect("a topic of ours");
                    set.insert(n, Standing::of_frame(&frame));
                    n
                }
                ClientFrame::Unsubscribe { topic } => {
                    let n = TOPICS.iter().position(|known| *known == topic).expect("a topic of ours");
                    set.remove(&n);
                    n
                }
                other => panic!("neither subscribed nor unsubscribed: {other:?}"),
            };
            prop_assert!(told.insert(topic), "{} is told twice", TOPICS[topic]);
        }
        let means = |set: &Wanted| format!("{:?}", set.iter().map(|(n, s)| (*n, s.means())).collect::<Vec<_>>());
        prop_assert_eq!(means(&set), means(&after));
        for (n, wanted) in &after {
            let certain = restored.get(n).is_some_and(|entry| {
                matches!(entry.shape, Shape::Pattern | Shape::Topic) && entry.standing == *wanted
            });
            prop_assert_eq!(told.contains(n), !(certain && has_id), "{}: {:?}", TOPICS[*n], restored.get(n));
        }
        for n in told.iter().filter(|n| !after.contains_key(n)) {
            prop_assert!(has_id && restored.contains_key(n), "{} was never there", TOPICS[*n]);
        }
    }
}
