//! Waking the core: when it asks for it, too early, too late, twice, and with a clock that goes backwards.

#[path = "support/cases.rs"]
mod cases;
#[path = "support/steps.rs"]
mod steps;
mod support;
#[allow(dead_code, reason = "the rest is for other test binaries")]
#[path = "support/world.rs"]
mod world;

use std::time::Duration;

use cases::cases;
use nolag_core::Instant;
use proptest::{collection::vec, prelude::*};
use steps::{Step, steps};
use world::{Polling, VARIANTS, World, configuration};

/// The bit of a configuration that makes the inbound budget small. A pause ends with the first call that tells the time
/// after room was made, so with it every call tells the core something.
const SMALL_BUDGETS: u16 = 16;

/// A wake-up for which there is no reason.
#[derive(Debug, Clone, Copy)]
enum Needless {
    /// Before anything is due, or again after what was due has been done.
    Early(u8),
    /// With a time from before, that many microseconds ago.
    Backwards(u64),
}

fn needless() -> impl Strategy<Value = Needless> {
    prop_oneof![
        (1..4_u8).prop_map(Needless::Early),
        prop_oneof![0..1_000_u64, 0..100_000_000_u64, Just(u64::MAX)].prop_map(Needless::Backwards),
    ]
}

/// Makes steps with a world, and knows what time it is there.
struct Clocked {
    world: World,
    now: Instant,
}

impl Clocked {
    fn new(variant: u16, seed: u64) -> Self {
        let world = World::new(configuration(variant), seed, Polling::AsTold);
        Self { world, now: Instant::from_micros(5_000_000) }
    }

    /// Makes a step; `true` when it woke the core.
    fn take(&mut self, step: &Step) -> bool {
        let due = self.world.core.poll_timeout();
        self.world.take(step);
        match step {
            Step::Pass(micros) => {
                self.now = self.now + Duration::from_micros(*micros);
                true
            }
            Step::Lag(micros) => {
                self.now = self.now + Duration::from_micros(*micros);
                false
            }
            Step::Due => {
                self.now = due.map_or(self.now, |at| self.now.max(at));
                due.is_some()
            }
            _ => false,
        }
    }

    fn is_due(&self) -> bool {
        self.world.core.poll_timeout().is_some_and(|at| at <= self.now)
    }

    /// Wakes the core again if it asks for it.
    fn finish_waking(&mut self) {
        if self.is_due() {
            self.world.core.handle_timeout(self.now);
        }
    }

    fn wake(&mut self, needless: Needless) {
        match needless {
            Needless::Early(times) => (0..times).for_each(|_| self.world.core.handle_timeout(self.now)),
            Needless::Backwards(micros) => {
                let earlier = self.now.as_micros().saturating_sub(micros);
                self.world.core.handle_timeout(Instant::from_micros(earlier));
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(90))]

    /// A core that was just woken, however late, asks to be woken at a time to come, or not at all: one call does all
    /// that is due, or two when the first ends a connection, because that can put a publish back whose time has passed.
    #[test]
    fn a_core_that_was_woken_asks_for_a_later_time(
        steps in steps(80), variant in 0..VARIANTS, seed in any::<u64>(),
    ) {
        let mut clocked = Clocked::new(variant, seed);
        for step in &steps {
            if clocked.take(step) {
                clocked.finish_waking();
                prop_assert!(!clocked.is_due(), "after {:?} at {:?}: {}", step, clocked.now, clocked.world.core.explain());
            }
        }
    }

    /// Wake-ups without a reason change nothing: not what comes out, and not what the core remembers.
    #[test]
    fn needless_wake_ups_change_nothing(
        steps in steps(80), variant in 0..VARIANTS, seed in any::<u64>(), needless in vec(needless(), 1..20),
    ) {
        let variant = variant & !SMALL_BUDGETS;
        let (mut calm, mut nervous) = (Clocked::new(variant, seed), Clocked::new(variant, seed));
        for (n, step) in steps.iter().enumerate() {
            calm.take(step);
            nervous.take(step);
            // Where something is due, a wake-up is not needless, whatever time it tells.
            if !nervous.is_due() {
                nervous.wake(needless[n % needless.len()]);
            }
            prop_assert_eq!(calm.world.core.poll_timeout(), nervous.world.core.poll_timeout(), "after {:?}", step);
        }
        prop_assert_eq!(&calm.world.trace, &nervous.world.trace);
        prop_assert_eq!(format!("{:?}", calm.world.core), format!("{:?}", nervous.world.core));
        calm.world.poll_dry();
        nervous.world.poll_dry();
        prop_assert_eq!(calm.world.trace, nervous.world.trace);
    }

    /// Nobody wakes the core for long, and then once or several times: it is the same, for what was due is done once.
    #[test]
    fn a_late_wake_up_is_one_wake_up(
        steps in steps(60), variant in 0..VARIANTS, seed in any::<u64>(), late in 0..200_000_000_u64,
        times in 1..4_u8,
    ) {
        let variant = variant & !SMALL_BUDGETS;
        let (mut once, mut often) = (Clocked::new(variant, seed), Clocked::new(variant, seed));
        for world in [&mut once, &mut often] {
            steps.iter().for_each(|step| _ = world.take(step));
            world.take(&Step::Pass(late));
            world.finish_waking();
        }
        often.wake(Needless::Early(times));
        for world in [&mut once, &mut often] {
            world.world.poll_dry();
        }
        prop_assert_eq!(once.world.trace, often.world.trace);
        prop_assert_eq!(format!("{:?}", once.world.core), format!("{:?}", often.world.core));
    }
}
