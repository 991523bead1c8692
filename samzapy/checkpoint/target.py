"""Where in its inputs a job is told to go, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone

from samzapy.api.stream import SystemStreamPartition
from samzapy.api.system import OffsetRange, SystemAdmin
from samzapy.checkpoint.offsets import default_offset
from samzapy.config.job import JobConfig
from samzapy.errors import ConfigError, ConfigProblem, OffsetOutOfRange

Positions = dict[SystemStreamPartition, int]

_PLACES = ("oldest", "newest", "upcoming")


@dataclass(frozen=True)
class Target:
    """Where to go: oldest, newest (the last record), upcoming, default (as a first start would), an offset, or the first
    record that is not older than a time, written as ISO 8601 (UTC unless it says otherwise) or as @ and milliseconds."""

    text: str

    def offsets(
        self,
        config: JobConfig,
        logs: Mapping[SystemStreamPartition, OffsetRange],
        admin_of: Callable[[str], SystemAdmin],
    ) -> Positions:
        """The offset for each partition of `logs`. Raises ConfigError for a text that is none of these, OffsetOutOfRange."""
        text = self.text.strip()
        if text == "default":
            return {
                ssp: default_offset(config.stream(ssp.system_stream).offset_default, log) for ssp, log in logs.items()
            }
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
        """Raise ConfigError for a text that is none of these; whether an offset is there is seen when it is used."""
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
