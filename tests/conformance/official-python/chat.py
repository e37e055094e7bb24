"""The official Python client's half of the conversation: chat.py URL TOKEN COUNT.

Sends COUNT messages, each of which must be confirmed, and expects COUNT answers. Prints "ok" or "FAILED" per check.
"""

import asyncio
import sys

from nolag import EmitOptions, NoLag, NoLagOptions

PATIENCE = 10.0


def chat(sender, number):
    """What is said; the other side computes the same."""
    return {
        "from": sender,
        "number": number,
        "text": f"grüße ✓ {number}",
        "big": 2**64 - number,
        "list": [-number, number + 0.5, None, True, {"inner": "map"}],
        "bytes": bytes([0xFF, 0x00, number]),
    }


class Checks:
    failed = 0

    def check(self, name, problem=None):
        if problem is None:
            print(f"ok python {name}", flush=True)
        else:
            self.failed += 1
            print(f"FAILED python {name}: {problem}", flush=True)


def settled(future):
    """A callback of the client that settles a future with its error, or None."""
    return lambda error: future.done() or future.set_result(error)


async def main(url, token, count):
    checks = Checks()
    loop = asyncio.get_running_loop()
    client = NoLag(token, NoLagOptions(url=url, reconnect=False))
    await asyncio.wait_for(client.connect(), PATIENCE)
    checks.check("connects as alice", None if client.actor_id == "alice" else client.actor_id)

    room = client.set_app("demo").set_room("general")
    heard = asyncio.Queue()
    room.on("messages", lambda data, meta: heard.put_nowait(data))
    subscribed = loop.create_future()
    await room.subscribe("messages", callback=settled(subscribed))
    checks.check("subscribes", await asyncio.wait_for(subscribed, PATIENCE))

    for number in range(1, count + 1):
        acked = loop.create_future()
        options = EmitOptions(echo=False)
        await room.emit("messages", chat("python", number), options, callback=settled(acked))
        checks.check(f"message {number} acked", await asyncio.wait_for(acked, PATIENCE))
    for number in range(1, count + 1):
        data = await asyncio.wait_for(heard.get(), PATIENCE)
        intact = data == chat("rust", number)
        checks.check(f"message {number} from rust intact", None if intact else f"got {data!r}")
    checks.check("nothing else arrives", None if heard.empty() else f"got {heard.get_nowait()!r}")
    client.disconnect()
    return 1 if checks.failed else 0


if __name__ == "__main__":
    try:
        sys.exit(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
    except Exception as error:  # One line says more than a traceback.
        print(f"FAILED python goes on: {type(error).__name__} {error}", flush=True)
        sys.exit(1)
