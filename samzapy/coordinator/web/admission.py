"""Limits the coordinator's connections, so that clients without a token cannot use them up or hold them.

The coordinator has to answer its containers whatever other processes on the network do: a container that gets no answer
for the length of its lease stops. So a connection is a stranger until one of its requests has shown a token:

1. A stranger has `STRANGER_S` seconds for that. Then it is closed, whether it is silent or sends its headers byte by
   byte.
2. The number of strangers is limited. One more closes the oldest, so that a newcomer, which may be a container, gets
   its chance. The limit grows with the job, because all containers may connect at once. It is high, because it costs
   less to hold strangers than to close and accept them again and again. Connections that have shown a token have no
   limit.
3. A connection that has shown a token is closed after `IDLE_S` seconds without a request, and if an answer has not
   begun `REQUEST_S` seconds after its request. An answer that has begun may last as long as its reader stays. A handler
   with its own time limit lifts this one (`take_time`).

A TLS connection is a stranger from before its handshake (`samzapy.coordinator.web.tls`).

uvicorn's own limits do not distinguish strangers from containers, and it waits for a first request without a limit. So
its protocol reports to the `Admission` (`samzapy.coordinator.web.connection`). h11, inside that protocol, limits the
headers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from starlette.types import Scope

#: The key in a request's scope for the function that lifts the time limit of its answer.
SLOW = "samzapy.slow"
#: Seconds in which a stranger has to show a token and an answer has to begin, and after which an idle connection is
#: closed.
STRANGER_S, REQUEST_S, IDLE_S = 10.0, 15.0, 90.0
#: Strangers at a time, besides two connections for each container; at most half of the files that the process may open.
#: With TLS asyncio reserves 256 KiB for each.
STRANGERS, SECURED_STRANGERS = 2_048, 256
#: Bytes of the headers of one request.
HEADER_LIMIT = 16_384
#: Seconds between two looks at the connections.
_LOOK_S = 1.0
#: Connections that are accepted, or closed, before reports get their turn: two thousand at once take a tenth of a
#: second.
ACCEPTED = _CLOSED = 32
#: Connections that the system keeps until they are accepted.
BACKLOG = 2_048
#: Open files that the process needs at most: each container holds a connection, and so may strangers.
OPEN_FILES = 65_536


def strangers_of(containers: int, open_files: int | None, secured: bool) -> int:
    """The most strangers of a job with this number of containers and standbys. `open_files`: the most files of the
    process; None: no limit. `secured`: whether containers connect by TLS."""
    most = (SECURED_STRANGERS if secured else STRANGERS) + 2 * containers
    return most if open_files is None else min(most, open_files // 2)


class Visit:
    """One connection, as the admission sees it. Times are the event loop's, in seconds."""

    __slots__ = ("close", "is_answered", "known", "since", "slow", "under_way")

    def __init__(self, close: Callable[[], None], since: float, is_answered: Callable[[], bool] = bool) -> None:
        """`close` ends the connection at once. `is_answered`: whether the answer to the request under way has begun."""
        self.close = close
        self.since = since
        self.is_answered = is_answered
        self.known = False
        self.under_way = False
        self.slow = False


def take_time(scope: Scope) -> None:
    """Lift the limit of `REQUEST_S` for the answer to a request. The caller limits the time itself."""
    lift = scope.get(SLOW)
    if lift is not None:
        lift()


class Admission:
    """Tracks every connection of one server. Used only by the thread of its event loop."""

    def __init__(self, strangers: int) -> None:
        """`strangers`: the most connections without a token."""
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
        """Note a new connection."""
        if len(self._strangers) >= self._limit:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.close()
        self._strangers[visit] = None

    def trust(self, visit: Visit) -> None:
        """Note that it has shown a token."""
        if visit in self._strangers:
            del self._strangers[visit]
            visit.known = True
            self._known.add(visit)

    def leave(self, visit: Visit) -> None:
        """Note that it was closed."""
        self._strangers.pop(visit, None)
        self._known.discard(visit)

    def turn_away(self) -> None:
        """Close all strangers."""
        strangers, self._strangers = list(self._strangers), {}
        for visit in strangers:
            visit.close()

    def close_all(self) -> None:
        """Close all connections."""
        self.turn_away()
        for visit in list(self._known):
            visit.close()

    def overdue(self, now: float) -> list[Visit]:
        """Forget the connections that have used up their time, and return them. The caller closes them."""
        overdue = [visit for visit in self._strangers if now - visit.since > STRANGER_S]
        for visit in self._known:
            allowed = REQUEST_S if visit.under_way else IDLE_S
            if now - visit.since > allowed and not (visit.under_way and (visit.slow or visit.is_answered())):
                overdue.append(visit)
        for visit in overdue:
            self.leave(visit)
        return overdue

    async def watch(self) -> None:
        """Close the connections that have used up their time, once a second, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(_LOOK_S)
            overdue = self.overdue(loop.time())
            for start in range(0, len(overdue), _CLOSED):
                for visit in overdue[start : start + _CLOSED]:
                    visit.close()
                await asyncio.sleep(0)
