"""The official Python SDK receives, or publishes with so many confirmations under way.

    receive URL TOPIC START WARMUP DURATION SIZE
    publish URL TOPIC WINDOW WARMUP DURATION SIZE

Prints one line of JSON.
"""

import asyncio
import json
import sys
import time

from nolag import EmitOptions, NoLag, NoLagOptions

FIRST = 1 << 32
PATIENCE = 10.0


class Meter:
    """Counts during the time that is measured, after the warm-up."""

    def __init__(self, warmup, duration):
        self.warm = time.perf_counter() + warmup
        self.duration = duration
        self.counted = 0
        self.began = None
        self.done = asyncio.get_running_loop().create_future()

    def step(self):
        if self.done.done():
            return
        self.counted += 1
        if self.counted % 16:
            return
        now = time.perf_counter()
        if self.began is None:
            if now >= self.warm:
                self.began, self.before = now, self.counted
        elif now - self.began >= self.duration:
            self.done.set_result((self.counted - self.before, now - self.began))


def report(counted, lost=0, duplicates=0, failed=0):
    count, seconds = counted
    print(json.dumps(dict(count=count, seconds=seconds, lost=lost, duplicates=duplicates, failed=failed)))


def settled(future):
    return lambda error: future.done() or future.set_result(error)


async def connect(url):
    client = NoLag("bench", NoLagOptions(url=url, reconnect=False, heartbeat_interval=0))
    await asyncio.wait_for(client.connect(), PATIENCE)
    return client


async def receive(url, topic, start, warmup, duration, size):
    client = await connect(url)
    state = {"next": FIRST, "lost": 0, "duplicates": 0}
    meter = None

    def take(data, meta):
        nonlocal meter
        number = data["seq"]
        if number >= state["next"]:
            state["lost"] += number - state["next"]
            state["next"] = number + 1
        else:
            state["duplicates"] += 1
        if meter is None:
            meter = Meter(warmup, duration)
            meter.done.add_done_callback(lambda done: finished.set_result(done.result()))
        meter.step()

    finished = asyncio.get_running_loop().create_future()
    client.on(topic, take)
    subscribed = asyncio.get_running_loop().create_future()
    await client.subscribe(topic, callback=settled(subscribed))
    await asyncio.wait_for(subscribed, PATIENCE)
    await client.emit(start, None)
    counted = await asyncio.wait_for(finished, warmup + duration + PATIENCE)
    report(counted, lost=state["lost"], duplicates=state["duplicates"])


async def publish(url, topic, window, warmup, duration, size):
    client = await connect(url)
    # What is not payload takes about 90 bytes of a message.
    text = "x" * max(0, size - 90)
    free = asyncio.Semaphore(window)
    meter = Meter(warmup, duration)
    options = EmitOptions(echo=False)
    failed = 0

    def confirmed(error):
        nonlocal failed
        failed += error is not None
        meter.step()
        free.release()

    number = FIRST
    while not meter.done.done():
        await free.acquire()
        await client.emit(topic, {"text": text, "seq": number}, options, callback=confirmed)
        number += 1
    for _ in range(window):
        await asyncio.wait_for(free.acquire(), PATIENCE)
    report(meter.done.result(), failed=failed)


async def main(work, url, topic, third, warmup, duration, size):
    times = float(warmup), float(duration), int(size)
    if work == "receive":
        await receive(url, topic, third, *times)
    else:
        await publish(url, topic, int(third), *times)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
    sys.stdout.flush()
