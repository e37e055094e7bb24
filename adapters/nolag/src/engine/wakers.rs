//! Futures that wait for the same thing.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex},
    task::Waker,
};

use super::lock;

/// The wakers of futures that wait for the same thing, or for points of one row of things.
///
/// It has a lock of its own, under which nothing of the application but `Waker::clone` runs. Who waits registers first
/// and then looks whether it still has to; who brings it about does so first and then wakes. So nothing is missed.
#[derive(Debug)]
pub(crate) struct Wakers<P = ()>(Arc<Mutex<Inner<P>>>);

#[derive(Debug)]
struct Inner<P> {
    last: u64,
    /// By what is waited for, then by who does.
    waiting: BTreeMap<(P, u64), Waker>,
}

/// One who waits. Its waker goes when it is dropped.
#[derive(Debug)]
pub(crate) struct Waiting<P: Copy + Ord = ()> {
    wakers: Arc<Mutex<Inner<P>>>,
    key: (P, u64),
}

impl<P> Default for Wakers<P> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Inner { last: 0, waiting: BTreeMap::new() })))
    }
}

impl<P: Copy + Ord> Wakers<P> {
    /// One more that waits.
    pub(crate) fn wait(&self, point: P) -> Waiting<P> {
        let mut inner = lock(&self.0);
        inner.last += 1;
        Waiting { wakers: self.0.clone(), key: (point, inner.last) }
    }

    /// Whom to wake: all.
    pub(crate) fn take(&self) -> impl Iterator<Item = Waker> + use<P> {
        mem::take(&mut lock(&self.0).waiting).into_values()
    }

    /// Whom to wake: all that wait for points before this one.
    pub(crate) fn take_before(&self, point: P) -> Vec<Waker> {
        let mut inner = lock(&self.0);
        let mut taken = Vec::new();
        while let Some(first) = inner.waiting.first_entry() {
            if first.key().0 >= point {
                break;
            }
            taken.push(first.remove());
        }
        taken
    }

    /// Wakes all. Not to be called under a lock.
    pub(crate) fn wake(&self) {
        self.take().for_each(Waker::wake);
    }
}

impl<P: Copy + Ord> Waiting<P> {
    /// What is waited for.
    pub(crate) fn point(&self) -> P {
        self.key.0
    }

    /// Is woken from now on, once, by this waker and no other. Not to be called under a lock.
    pub(crate) fn register(&self, waker: &Waker) {
        let mut inner = lock(&self.wakers);
        if inner.waiting.get(&self.key).is_some_and(|known| known.will_wake(waker)) {
            return;
        }
        // It is the application's, and may call the client when it is dropped.
        let former = inner.waiting.insert(self.key, waker.clone());
        drop(inner);
        drop(former);
    }

    /// Is not woken any more. Not to be called under a lock.
    pub(crate) fn forget(&self) {
        let former = lock(&self.wakers).waiting.remove(&self.key);
        drop(former);
    }
}

impl<P: Copy + Ord> Drop for Waiting<P> {
    fn drop(&mut self) {
        self.forget();
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::Wake,
    };

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// How often it was woken, and how many wakers there are of it.
    fn count(count: &Arc<Count>) -> (usize, usize) {
        (count.0.load(Ordering::SeqCst), Arc::strong_count(count) - 1)
    }

    #[test]
    fn each_has_one_waker_until_it_is_woken_or_dropped() {
        let (wakers, first, second) = (Wakers::default(), Arc::default(), Arc::default());
        let (one, other) = (wakers.wait(()), wakers.wait(()));
        for _ in 0..3 {
            one.register(&Waker::from(Arc::clone(&first)));
            other.register(&Waker::from(Arc::clone(&first)));
        }
        assert_eq!(count(&first), (0, 2));
        other.register(&Waker::from(Arc::clone(&second)));
        assert_eq!((count(&first), count(&second)), ((0, 1), (0, 1)));
        drop(other);
        assert_eq!(count(&second), (0, 0));
        wakers.wake();
        assert_eq!(count(&first), (1, 0));
        wakers.wake();
        assert_eq!(count(&first), (1, 0));
        one.register(&Waker::from(Arc::clone(&first)));
        one.forget();
        assert_eq!(count(&first), (1, 0));
    }

    #[test]
    fn those_are_woken_whose_point_has_passed() {
        let wakers = Wakers::default();
        let counts: [Arc<Count>; 4] = Default::default();
        let waiting = [3, 1, 2, 1].map(|point| wakers.wait(point));
        for (waiting, count) in waiting.iter().zip(&counts) {
            waiting.register(&count.clone().into());
        }
        let woken = |point| {
            wakers.take_before(point).into_iter().for_each(Waker::wake);
            counts.each_ref().map(|known| count(known).0)
        };
        assert_eq!(woken(1), [0, 0, 0, 0]);
        assert_eq!(woken(3), [0, 1, 1, 1]);
        assert_eq!(woken(4), [1, 1, 1, 1]);
    }
}
