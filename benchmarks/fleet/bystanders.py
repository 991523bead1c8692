"""All who connect to the coordinator and are no containers, in a process of their own: strangers, a browser, tools.

1. A stranger connects and says nothing. A second after it was shown out it comes back.
2. A browser has the page open: it gets the sections that change as server-sent events, and is reloaded now and then.
3. Prometheus scrapes `/metrics`, and a tool asks for `/status`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.fleet.http import Caller, place_of

STRANGERS, PAGE, SCRAPES = "strangers", "page", "scrapes"
#: Those who may be there.
ALL = (STRANGERS, PAGE, SCRAPES)
#: Connections that keep silent, and seconds between two scrapes, two statuses and two reloads of the page.
SILENT, SCRAPE_S, STATUS_S, RELOAD_S = 2_000, 15.0, 10.0, 30.0


@dataclass
class Seen:
    """What they have seen. Times in seconds by path, `news` the bytes of events."""

    times: dict[str, list[float]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    strangers: int = 0
    news: int = 0


def stand_by(who: Collection[str], seconds: float, address: str, token: str, pipe: Connection) -> None:
    """Be there for `seconds`, and send what was `Seen`. `token` is the one that reads."""
    pipe.send(asyncio.run(_run(who, seconds, address, token)))


async def _run(who: Collection[str], seconds: float, address: str, token: str) -> Seen:
    seen, end = Seen(), time.monotonic() + seconds
    there: list[Coroutine[Any, Any, None]] = []
    if STRANGERS in who:
        there += [_stranger(address, seen) for _ in range(SILENT)]
    if PAGE in who:
        there += [_browser(address, token, seen), _looks("/", RELOAD_S, Caller(address, token), seen)]
    if SCRAPES in who:
        there += [_looks("/metrics", SCRAPE_S, Caller(address, token), seen)]
        there += [_looks("/status", STATUS_S, Caller(address, token), seen)]
    running = [asyncio.create_task(each) for each in there]
    await asyncio.sleep(max(0.0, end - time.monotonic()))
    for each in running:
        each.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return seen


async def _looks(path: str, pause_s: float, caller: Caller, seen: Seen) -> None:
    while True:
        await asyncio.sleep(pause_s)
        asked = time.monotonic()
        try:
            seen.sizes[path] = len(await caller.call("GET", path))
        except (OSError, ValueError) as failure:
            seen.failures.append(str(failure))
        seen.times.setdefault(path, []).append(time.monotonic() - asked)


async def _browser(address: str, token: str, seen: Seen) -> None:
    host, port = place_of(address)
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            writer.write(
                f"GET /events HTTP/1.1\r\nHost: {host}:{port}\r\nauthorization: Bearer {token}\r\n\r\n".encode()
            )
            while received := await reader.read(65_536):
                seen.news += len(received)
            writer.close()
        except OSError as failure:
            seen.failures.append(str(failure))
        await asyncio.sleep(1.0)


async def _stranger(address: str, seen: Seen) -> None:
    host, port = place_of(address)
    while True:
        try:
            reader, writer = await asyncio.open_connection(host, port)
            seen.strangers += 1
            await reader.read(1)
            writer.close()
        except OSError:
            pass
        await asyncio.sleep(1.0)
