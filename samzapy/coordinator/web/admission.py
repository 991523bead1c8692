"""Keeps strangers from using up the coordinator's connections, and slow ones from holding them.

The coordinator has to answer its containers whatever any other process on the network does: a container that gets no answer
for a lease stops. So a connection counts as a stranger's until one of its requests has shown a token:

1. A stranger has `STRANGER_S` to show one; a connection that is silent, or sends its headers a byte at a time, is closed then.
2. Strangers have a limit of their own. One more closes the oldest of them, so the newcomer, who may be a container, is heard.
   The limit grows with the job: all its containers may connect at once. Connections that have shown a token have no limit.
3. A connection that has shown a token is closed when a request has been under way for `REQUEST_S` and its answer has not
   begun, and after `IDLE_S` without a request. An answer may go on for as long as the page that listens to it.

A connection with TLS is a stranger's from before its handshake on (`samzapy.coordinator.web.tls`).

uvicorn's own limits do not tell strangers from containers, and it waits for ever for a first request; so its protocol keeps the
`Admission` informed (`samzapy.coordinator.web.connection`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: Seconds until a stranger has to have shown a token, a request has to be over, and an idle connection is closed.
STRANGER_S, REQUEST_S, IDLE_S = 10.0, 15.0, 90.0
#: Strangers at a time, besides two connections for each container.
STRANGERS = 256
#: Bytes of the headers of one request.
HEADER_LIMIT = 16_384
#: Seconds between two looks at the connections.
_LOOK_S = 1.0
#: Open files that the process is to be allowed: each container holds a connection, and so may strangers.
OPEN_FILES = 65_536


class Visit:
    """One connection, as the admission sees it. Times are the event loop's, in seconds."""

    __slots__ = ("close", "is_answered", "known", "since", "under_way")

    def __init__(self, close: Callable[[], None], since: float, is_answered: Callable[[], bool] = bool) -> None:
        """`close` ends the connection at once. `is_answered`: whether the answer to the request under way has begun."""
        self.close = close
        self.since = since
        self.is_answered = is_answered
        self.known = False
        self.under_way = False


class Admission:
    """Knows every connection of one server. Used by the thread of its event loop only."""

    def __init__(self, strangers: int = STRANGERS) -> None:
        """`strangers`: how many connections may be open that have not shown a token."""
        self._limit = strangers
        # Oldest first: a dict keeps the order of arrival.
        self._strangers: dict[Visit, None] = {}
        self._known: set[Visit] = set()

    def __len__(self) -> int:
        return len(self._strangers) + len(self._known)

    @property
    def strangers(self) -> int:
        """Connections that have not shown a token."""
        return len(self._strangers)

    def arrive(self, visit: Visit) -> None:
        """A connection was opened."""
        if len(self._strangers) >= self._limit:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.close()
        self._strangers[visit] = None

    def trust(self, visit: Visit) -> None:
        """It has shown a token."""
        if visit in self._strangers:
            del self._strangers[visit]
            visit.known = True
            self._known.add(visit)

    def leave(self, visit: Visit) -> None:
        """It was closed."""
        self._strangers.pop(visit, None)
        self._known.discard(visit)

    def turn_away(self) -> None:
        """Close those that have not shown a token."""
        strangers, self._strangers = list(self._strangers), {}
        for visit in strangers:
            visit.close()

    def look(self, now: float) -> None:
        """Close those that have had their time."""
        overdue = [visit for visit in self._strangers if now - visit.since > STRANGER_S]
        for visit in self._known:
            allowed = REQUEST_S if visit.under_way else IDLE_S
            if now - visit.since > allowed and not (visit.under_way and visit.is_answered()):
                overdue.append(visit)
        for visit in overdue:
            self.leave(visit)
            visit.close()

    async def watch(self) -> None:
        """Look for ever, at a steady pace."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            self.look(loop.time())
