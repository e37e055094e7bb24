//! Threads and nothing else: each task has a thread of its own, which sleeps until one of its sockets is ready, its
//! next timer is due, or somebody wakes it.

use std::{
    cell::{Cell, RefCell},
    future::{Future, poll_fn},
    io::{self, Read as _, Write as _},
    net::SocketAddr,
    pin::{Pin, pin},
    sync::{
        Arc, Condvar, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
    time::{self, Duration},
};

use futures_io::{AsyncRead, AsyncWrite};
use mio::{Events, Interest, Token};
use nolag_core::Instant;

use super::{BoxFuture, Driver, Timer, resolve};
use crate::{
    engine::{catch, dispose, lock},
    transport::Io,
};

/// The threads of one client.
pub(crate) struct Threads {
    origin: time::Instant,
    running: Arc<Running>,
}

/// How many threads run.
#[derive(Default)]
struct Running {
    count: Mutex<usize>,
    none: Condvar,
}

impl Threads {
    pub(crate) fn new() -> Self {
        Self { origin: time::Instant::now(), running: Arc::default() }
    }
}

impl Driver for Threads {
    fn now(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    fn timer(&self) -> Box<dyn Timer> {
        Box::new(Deadline { origin: self.origin, helper: None })
    }

    fn spawn(&self, task: BoxFuture<()>) -> bool {
        let place = Place::take(&self.running);
        let run = move || {
            let _place = place;
            OURS.set(true);
            let _ = catch(|| block_on(task, None)).map_err(dispose);
        };
        thread::Builder::new().name("nolag".into()).spawn(run).is_ok()
    }

    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        resolve::on_a_thread(host, port)
    }

    fn connect(&self, address: SocketAddr, nodelay: bool) -> BoxFuture<io::Result<Box<dyn Io>>> {
        Box::pin(async move { Ok(Box::new(Stream::connect(address, nodelay).await?) as Box<dyn Io>) })
    }

    fn lost(&self, polled: bool) -> &'static str {
        if polled { "its thread panicked" } else { "the system gave it no thread" }
    }

    fn join(&self, patience: Duration) {
        // Threads of clients that wait for one another would wait for ever.
        if OURS.get() {
            return;
        }
        let running = lock(&self.running.count);
        let waited = self.running.none.wait_timeout_while(running, patience, |count| *count > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

thread_local! {
    /// Whether this is a thread of a client.
    static OURS: Cell<bool> = const { Cell::new(false) };

    /// What wakes this thread, while it runs a future.
    static SLEEPER: RefCell<Option<Sleeper>> = const { RefCell::new(None) };
}

/// One thread among those that run.
struct Place(Arc<Running>);

impl Place {
    fn take(running: &Arc<Running>) -> Self {
        *lock(&running.count) += 1;
        Self(running.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut count = lock(&self.0.count);
        *count -= 1;
        if *count == 0 {
            self.0.none.notify_all();
        }
    }
}

/// Runs a future on this thread. `None` when the deadline comes first.
pub(crate) fn block_on<F: Future>(future: F, deadline: Option<time::Instant>) -> Option<F::Output> {
    let wakeup = Arc::new(Wakeup::new());
    let waker = Waker::from(wakeup.clone());
    let mut cx = Context::from_waker(&waker);
    // A handler that waits does so inside the future of the thread that called it.
    let _outer = Entered::new(Sleeper { wakeup: wakeup.clone(), timer: None, poll: None });
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return Some(output);
        }
        if deadline.is_some_and(|deadline| time::Instant::now() >= deadline) {
            return None;
        }
        let _ = sleeper(|sleeper| sleeper.sleep(deadline));
    }
}

/// Puts the sleeper of an outer future back.
struct Entered(Option<Sleeper>);

impl Entered {
    fn new(sleeper: Sleeper) -> Self {
        Self(SLEEPER.replace(Some(sleeper)))
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        SLEEPER.set(self.0.take());
    }
}

/// Uses what this thread sleeps with. It fails on a thread that polls by other means.
fn sleeper<R>(usage: impl FnOnce(&mut Sleeper) -> R) -> io::Result<R> {
    SLEEPER.with_borrow_mut(|sleeper| match sleeper {
        Some(sleeper) => Ok(usage(sleeper)),
        None => Err(io::Error::other("this is not a thread of the client")),
    })
}

/// How a thread sleeps: in the readiness poll once it has a socket, parked before that.
struct Sleeper {
    wakeup: Arc<Wakeup>,
    /// The earliest timer that was polled last.
    timer: Option<time::Instant>,
    poll: Option<(mio::Poll, Events)>,
}

/// Ends the sleep of a thread.
struct Wakeup {
    thread: Thread,
    woken: AtomicBool,
    notifier: OnceLock<mio::Waker>,
}

impl Wakeup {
    fn new() -> Self {
        Self { thread: thread::current(), woken: AtomicBool::new(false), notifier: OnceLock::new() }
    }
}

impl Wake for Wakeup {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // Before the look at the notifier: a thread that gets one now looks here before it sleeps.
        if self.woken.swap(true, Ordering::SeqCst) {
            return;
        }
        match self.notifier.get() {
            // It fails only when the system is out of resources; the next timer then wakes the thread.
            Some(notifier) => drop(notifier.wake()),
            None => self.thread.unpark(),
        }
    }
}

impl Sleeper {
    const NOTIFIER: Token = Token(0);
    const SOCKET: Token = Token(1);

    /// From now on the socket wakes this thread whenever it becomes ready, in either direction.
    fn register(&mut self, stream: &mut mio::net::TcpStream) -> io::Result<()> {
        if self.poll.is_none() {
            let poll = mio::Poll::new()?;
            let notifier = mio::Waker::new(poll.registry(), Self::NOTIFIER)?;
            let _ = self.wakeup.notifier.set(notifier);
            self.poll = Some((poll, Events::with_capacity(16)));
        }
        match &self.poll {
            Some((poll, _)) => {
                poll.registry().register(stream, Self::SOCKET, Interest::READABLE | Interest::WRITABLE)
            }
            None => Ok(()),
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&mut self, deadline: Option<time::Instant>) {
        let until = self.timer.take().into_iter().chain(deadline).min();
        if !self.wakeup.woken.swap(false, Ordering::SeqCst) {
            let timeout = until.map(|until| until.saturating_duration_since(time::Instant::now()));
            match (&mut self.poll, timeout) {
                // An interrupted or failed poll is a spurious wake-up.
                (Some((poll, events)), timeout) => drop(poll.poll(events, timeout)),
                (None, Some(timeout)) => thread::park_timeout(timeout),
                (None, None) => thread::park(),
            }
            self.wakeup.woken.store(false, Ordering::SeqCst);
        }
    }
}

/// A timer of the thread that polls it.
struct Deadline {
    origin: time::Instant,
    /// What helps on a thread that is not ours.
    helper: Option<Helper>,
}

/// A thread that wakes somebody at its time. It ends without doing so when this is dropped.
struct Helper {
    at: Instant,
    waker: Waker,
    /// Tells it whom to wake instead.
    wakers: mpsc::Sender<Waker>,
}

impl Helper {
    /// `None` where the system has no thread for it.
    fn start(at: Instant, due: time::Instant, waker: &Waker) -> Option<Self> {
        let (wakers, changes) = mpsc::channel();
        let mut latest: Waker = waker.clone();
        let help = move || {
            loop {
                match changes.recv_timeout(due.saturating_duration_since(time::Instant::now())) {
                    Ok(waker) => latest = waker,
                    Err(RecvTimeoutError::Timeout) => return latest.wake(),
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        };
        thread::Builder::new().name("nolag-timer".into()).spawn(help).ok()?;
        Some(Self { at, waker: waker.clone(), wakers })
    }

    fn wakes(&mut self, waker: &Waker) {
        if !self.waker.will_wake(waker) {
            self.waker.clone_from(waker);
            // One that has ended has woken who stood there, who asks again.
            let _ = self.wakers.send(waker.clone());
        }
    }
}

impl Timer for Deadline {
    fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let due = self.origin + Duration::from_micros(at.as_micros());
        if time::Instant::now() >= due {
            return Poll::Ready(());
        }
        let set = sleeper(|sleeper| {
            sleeper.timer = Some(sleeper.timer.map_or(due, |timer| timer.min(due)));
        });
        // Somebody awaits this in an async runtime.
        if set.is_err() {
            match &mut self.helper {
                Some(helper) if helper.at == at => helper.wakes(cx.waker()),
                helper => *helper = Helper::start(at, due, cx.waker()),
            }
            // The helper may have ended before it heard of this waker.
            if time::Instant::now() >= due {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

/// Whether a connection that was begun stands.
fn is_connected(stream: &mio::net::TcpStream) -> Poll<io::Result<()>> {
    if let Some(error) = stream.take_error()? {
        return Poll::Ready(Err(error));
    }
    match stream.peer_addr() {
        Ok(_) => Poll::Ready(Ok(())),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Poll::Pending,
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// A socket that wakes its thread.
struct Stream(mio::net::TcpStream);

impl Stream {
    async fn connect(address: SocketAddr, nodelay: bool) -> io::Result<Self> {
        let mut stream = mio::net::TcpStream::connect(address)?;
        sleeper(|sleeper| sleeper.register(&mut stream))??;
        poll_fn(|_| is_connected(&stream)).await?;
        // A socket that cannot do this still works.
        let _ = stream.set_nodelay(nodelay);
        Ok(Self(stream))
    }
}

/// Tries until it is not interrupted. What would block is pending: the thread is woken when it does not any more.
fn attempt<T>(mut call: impl FnMut() -> io::Result<T>) -> Poll<io::Result<T>> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return Poll::Ready(result),
        }
    }
}

impl AsyncRead for Stream {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        attempt(|| self.0.read(buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        attempt(|| self.0.write(buf))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.shutdown(std::net::Shutdown::Write))
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, sync::mpsc};

    use super::*;

    /// Far more than anything here takes; only a failure waits for it.
    const PATIENCE: Duration = Duration::from_secs(20);

    fn after(duration: Duration) -> Option<time::Instant> {
        Some(time::Instant::now() + duration)
    }

    /// Fails where only the limit wakes the thread.
    #[track_caller]
    fn soon<F: Future>(future: F) -> F::Output {
        let limit = time::Instant::now() + PATIENCE;
        let output = block_on(future, Some(limit)).expect("it is ready in time");
        assert!(time::Instant::now() < limit, "nobody woke it");
        output
    }

    /// Is ready once it was woken.
    #[derive(Clone, Default)]
    struct Gate(Arc<Mutex<(bool, Option<Waker>)>>);

    impl Gate {
        fn open(&self) {
            let mut inner = lock(&self.0);
            inner.0 = true;
            inner.1.take().into_iter().for_each(Waker::wake);
        }

        /// Opens once somebody stands before it.
        fn open_when_waited_for(&self) {
            while lock(&self.0).1.is_none() {
                thread::yield_now();
            }
            self.open();
        }

        async fn pass(&self) {
            poll_fn(|cx| {
                let mut inner = lock(&self.0);
                inner.1 = Some(cx.waker().clone());
                if inner.0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
    }

    #[test]
    fn a_thread_sleeps_until_another_wakes_it() {
        let gate = Gate::default();
        let opener = thread::spawn({
            let gate = gate.clone();
            move || gate.open_when_waited_for()
        });
        soon(gate.pass());
        opener.join().unwrap();
    }

    #[test]
    fn what_is_not_ready_in_time_is_given_up() {
        assert_eq!(block_on(Gate::default().pass(), after(Duration::from_millis(1))), None);
        assert_eq!(block_on(Gate::default().pass(), after(Duration::ZERO)), None);
        assert_eq!(block_on(async { 7 }, after(Duration::ZERO)), Some(7), "what is ready needs no time");
    }

    #[test]
    fn a_future_may_wait_for_another_inside() {
        let (outer, inner) = (Gate::default(), Gate::default());
        let both = async {
            // As a handler does that waits.
            assert_eq!(block_on(inner.pass(), after(Duration::from_millis(1))), None);
            inner.open();
            soon(inner.pass());
            assert!(sleeper(|_| ()).is_ok(), "the outer one has back what it sleeps with");
            let outer = outer.clone();
            thread::spawn(move || outer.open_when_waited_for());
        };
        let whole = async {
            both.await;
            outer.pass().await;
        };
        soon(whole);
    }

    #[test]
    fn a_wake_before_the_first_socket_is_not_lost() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut woken = false;
        let mut connecting = pin!(Stream::connect(address, true));
        let future = poll_fn(|cx| {
            if std::mem::replace(&mut woken, true) {
                return Poll::Ready(());
            }
            // It parks the thread when it has no socket; from here on it has one.
            cx.waker().wake_by_ref();
            let _ = connecting.as_mut().poll(cx);
            Poll::Pending
        });
        soon(future);
    }

    #[test]
    fn a_socket_wakes_its_thread_when_it_can_be_read_and_when_it_can_be_written() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // More than the system keeps for a reader that does not read.
        let size = 64 << 20;
        let (full, is_full) = mpsc::channel();
        let peer = thread::spawn(move || {
            let (mut peer, _) = listener.accept().unwrap();
            is_full.recv().unwrap();
            let read = io::copy(&mut (&mut peer).take(size as u64), &mut io::sink()).unwrap();
            peer.write_all(b"thanks").unwrap();
            read
        });
        let talk = async {
            let mut stream = Stream::connect(address, true).await.unwrap();
            let (data, mut written) = (vec![7; 1 << 20], 0);
            let mut answer = [0; 6];
            poll_fn(|cx| {
                while written < size {
                    let polled =
                        Pin::new(&mut stream).poll_write(cx, &data[..data.len().min(size - written)]);
                    match polled {
                        Poll::Ready(count) => written += count.unwrap(),
                        Poll::Pending => {
                            let _ = full.send(());
                            return Poll::Pending;
                        }
                    }
                }
                Poll::Ready(())
            })
            .await;
            poll_fn(|cx| Pin::new(&mut stream).poll_read(cx, &mut answer)).await.unwrap();
            answer
        };
        assert_eq!(&soon(talk), b"thanks");
        assert_eq!(peer.join().unwrap(), size as u64);
    }

    #[test]
    fn small_writes_leave_at_once_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        for nodelay in [true, false] {
            let stream = soon(Stream::connect(address, nodelay)).unwrap();
            assert_eq!(stream.0.nodelay().unwrap(), nodelay);
        }
    }

    #[test]
    fn of_several_timers_the_earliest_wakes() {
        let threads = Threads::new();
        let (near, far) = (threads.now() + Duration::from_millis(2), threads.now() + PATIENCE * 10);
        let (mut first, mut second) = (threads.timer(), threads.timer());
        let both = poll_fn(|cx| {
            assert!(second.poll_at(far, cx).is_pending());
            let rung = first.poll_at(near, cx);
            assert!(second.poll_at(far, cx).is_pending());
            rung
        });
        soon(both);
    }

    #[test]
    fn timers_wake_threads_of_the_client_and_others() {
        let threads = Threads::new();
        let at = || threads.now() + Duration::from_millis(2);
        let (mut ours, due) = (threads.timer(), at());
        soon(poll_fn(|cx| ours.poll_at(due, cx)));
        assert!(threads.now() >= due);
        // A thread that polls by other means is woken by a helper.
        struct Unpark(Thread);
        impl Wake for Unpark {
            fn wake(self: Arc<Self>) {
                self.0.unpark();
            }
        }
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let (mut theirs, due) = (threads.timer(), at());
        while theirs.poll_at(due, &mut Context::from_waker(&waker)).is_pending() {
            thread::park_timeout(PATIENCE);
        }
        assert!(threads.now() >= due);
        assert!(threads.now() < due + PATIENCE / 2, "nobody woke it");
        // Whoever polled last is woken, and one helper is enough.
        let (late, due) =
            (Waker::from(Arc::new(Unpark(thread::current()))), at() + Duration::from_millis(20));
        assert!(theirs.poll_at(due, &mut Context::from_waker(Waker::noop())).is_pending());
        while theirs.poll_at(due, &mut Context::from_waker(&late)).is_pending() {
            thread::park_timeout(PATIENCE);
        }
        assert!(threads.now() < due + PATIENCE / 2, "nobody woke it");
        let unpark = Arc::new(Unpark(thread::current()));
        let waker = Waker::from(unpark.clone());
        let far = threads.now() + PATIENCE;
        for _ in 0..100 {
            assert!(theirs.poll_at(far, &mut Context::from_waker(&waker)).is_pending());
        }
        assert!(Arc::strong_count(&unpark) <= 4, "{} hold it", Arc::strong_count(&unpark));
    }

    #[test]
    fn a_helper_ends_with_its_timer() {
        struct Kept;
        impl Wake for Kept {
            fn wake(self: Arc<Self>) {}
        }
        let threads = Threads::new();
        let hour = threads.now() + Duration::from_secs(3600);
        let kept = Arc::new(Kept);
        let mut timer = threads.timer();
        let waker = Waker::from(kept.clone());
        assert!(timer.poll_at(hour, &mut Context::from_waker(&waker)).is_pending());
        assert!(timer.poll_at(hour + PATIENCE, &mut Context::from_waker(&waker)).is_pending());
        drop((timer, waker));
        let limit = time::Instant::now() + PATIENCE;
        while Arc::strong_count(&kept) > 1 {
            assert!(time::Instant::now() < limit, "a helper still sleeps");
            thread::yield_now();
        }
    }

    #[test]
    fn joining_waits_for_tasks_and_no_longer_than_it_may() {
        let threads = Threads::new();
        threads.join(PATIENCE);
        let gate = Gate::default();
        let (done, is_done) = mpsc::channel();
        let task = {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                done.send(()).unwrap();
            }
        };
        assert!(threads.spawn(Box::pin(task)));
        threads.join(Duration::from_millis(1));
        assert!(is_done.try_recv().is_err(), "it gave up");
        gate.open();
        threads.join(PATIENCE);
        is_done.try_recv().expect("it waited");
    }

    #[test]
    fn a_task_does_not_wait_for_itself() {
        let threads = Arc::new(Threads::new());
        let theirs = threads.clone();
        let (done, is_done) = mpsc::channel();
        let task = async move {
            theirs.join(PATIENCE * 10);
            done.send(()).unwrap();
        };
        assert!(threads.spawn(Box::pin(task)));
        is_done.recv_timeout(PATIENCE).expect("it did not wait");
    }

    #[test]
    fn a_task_does_not_wait_for_those_of_another_client() {
        let (ours, theirs) = (Threads::new(), Threads::new());
        let gate = Gate::default();
        let waits = gate.clone();
        assert!(theirs.spawn(Box::pin(async move { waits.pass().await })));
        let (done, is_done) = mpsc::channel();
        let task = async move {
            theirs.join(PATIENCE * 10);
            done.send(()).unwrap();
        };
        assert!(ours.spawn(Box::pin(task)));
        is_done.recv_timeout(PATIENCE).expect("it did not wait");
        gate.open();
    }

    #[test]
    fn a_panicking_task_leaves_no_trace() {
        let threads = Threads::new();
        assert!(threads.spawn(Box::pin(async { panic!("on purpose") })));
        threads.join(PATIENCE);
        assert_eq!(*lock(&threads.running.count), 0);
    }
}
