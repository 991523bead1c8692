"""Finds the offset at which a partition starts: its checkpoint, the default of its stream, or an operator's choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemAdmin
from samzapy.config.streams import StreamConfig
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange, PositionVoid


def starting_offset(
    ssp: SystemStreamPartition,
    checkpoint: Checkpoint | None,
    stream: StreamConfig,
    log: OffsetRange,
    *,
    late: bool = False,
    goes_back: bool = False,
) -> int:
    """The first offset to process.

    1. A `late` partition was added after the job's first start. Until it has a committed offset it is read from its
       oldest record, not from the stream's default, because its records were meant for the job.
    2. A committed offset is used unless `reset.offset` is set. It must lie in the log (its end included): otherwise
       retention has deleted records, or the topic was created again, and the operator has to decide.
    3. If the log's end `goes_back`, because its newest records can be deleted, a committed offset beyond the end is
       used as well.

    Raises OffsetOutOfRange for one that is not in the log any more, PositionVoid for one beyond its end: with the
    numbers and the command that repairs it.
    """
    committed = None if checkpoint is None or stream.reset_offset else checkpoint.input_offsets.get(ssp)
    if committed is None:
        return default_offset("oldest" if late and not stream.reset_offset else stream.offset_default, log)
    if committed > log.upcoming and not goes_back:
        raise PositionVoid.beyond_end(ssp, committed, log.upcoming)
    if log.oldest <= committed:
        return committed
    repair = (
        "the committed offset is outside; to start with the oldest record that is left, run the job once with "
        f"{stream.from_oldest}"
    )
    raise OffsetOutOfRange(ssp, committed, log.oldest, log.upcoming, repair)


def default_offset(default: str, log: OffsetRange) -> int:
    """The offset of `oldest`, `upcoming`, or `newest` (the last one in the log; behind a transaction it is that of the
    transaction's mark, as in Samza)."""
    if default == "oldest":
        return log.oldest
    if default == "newest":
        return max(log.oldest, log.upcoming - 1)
    return log.upcoming


Positions = dict[SystemStreamPartition, int]

_PLACES = ("oldest", "newest", "upcoming")


@dataclass(frozen=True)
class Target:
    """A position as text: oldest, newest (the last offset), upcoming, default (as at a first start), an offset, or a
    time for the first record that is not older. A time is ISO 8601 (UTC by default), or @ and milliseconds."""

    text: str

    def offsets(
        self,
        offset_default_of: Callable[[SystemStreamPartition], str],
        logs: Mapping[SystemStreamPartition, OffsetRange],
        admin_of: Callable[[str], SystemAdmin],
    ) -> Positions:
        """The offset for each partition of `logs`. `offset_default_of` a partition: the `offset.default` of its stream.

        Raises ConfigError for any other text, OffsetOutOfRange.
        """
        text = self.text.strip()
        if text == "default":
            return {ssp: default_offset(offset_default_of(ssp), log) for ssp, log in logs.items()}
        if text in _PLACES:
            return {ssp: default_offset(text, log) for ssp, log in logs.items()}
        if text.isdecimal() and len(text) < 20:
            return {ssp: _within(ssp, int(text), log) for ssp, log in logs.items()}
        time_ms = self._time_ms(text)
        found: Positions = {}
        for system in sorted({ssp.system for ssp in logs}):
            found.update(admin_of(system).offsets_at([ssp for ssp in logs if ssp.system == system], time_ms))
        return {ssp: min(max(offset, logs[ssp].oldest), logs[ssp].upcoming) for ssp, offset in found.items()}

    def check(self) -> None:
        """Raise ConfigError for any other text. Whether the log has an offset is seen when it is used."""
        text = self.text.strip()
        if text != "default" and text not in _PLACES and not (text.isdecimal() and len(text) < 20):
            self._time_ms(text)

    @staticmethod
    def _time_ms(text: str) -> int:
        if text.startswith("@") and text[1:].isdecimal() and len(text) < 16:
            return int(text[1:])
        try:
            time = datetime.fromisoformat(text.replace("Z", "+00:00"))
        except ValueError as cause:
            allowed = f"{', '.join(_PLACES)}, default, an offset, a time (2026-01-31T12:00:00Z) or @MILLISECONDS"
            raise ConfigError([ConfigProblem("position", text, allowed)]) from cause
        return round((time if time.tzinfo else time.replace(tzinfo=timezone.utc)).timestamp() * 1000)


def _within(ssp: SystemStreamPartition, offset: int, log: OffsetRange) -> int:
    if not log.oldest <= offset <= log.upcoming:
        raise OffsetOutOfRange(ssp, offset, *log)
    return offset
