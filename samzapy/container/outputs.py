"""Which streams a task may send to: those of a system that the job knows, and none that the runtime keeps for itself."""

from __future__ import annotations

from collections.abc import Callable

from samzapy.api.serde import Serde
from samzapy.api.stream import SystemStream
from samzapy.config.job import JobConfig
from samzapy.config.own_streams import own_streams

SerdesOf = Callable[[SystemStream], tuple[Serde | None, Serde | None]]


def serdes_of_outputs(config: JobConfig, serdes_of: SerdesOf) -> SerdesOf:
    """`serdes_of`, asked once a stream, after a look at what the stream is.

    Raises TypeError for what is no SystemStream, ValueError for an unknown system and for the job's own changelogs and
    checkpoints: the error comes out of the user's `send`, so that it is told with the input at hand.
    """
    own = own_streams(config)

    def checked(stream: SystemStream) -> tuple[Serde | None, Serde | None]:
        if not isinstance(stream, SystemStream):
            raise TypeError(f"expected a SystemStream to send to, got {type(stream).__name__} {stream!r}")
        if stream.system not in config.systems:
            known = ", ".join(sorted(config.systems))
            raise ValueError(f"cannot send to {stream}: system {stream.system!r} is not configured; known: {known}")
        if stream in own:
            raise ValueError(f"cannot send to {stream}: it is {own[stream]}, which only the runtime writes")
        return serdes_of(stream)

    return checked
