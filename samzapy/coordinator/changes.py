"""Sends the details of a container's reports as changes, and reassembles them.

`Changes` is the container's side, `Reported` the coordinator's. Both keep the details sent so far:

1. A detail is sent if it differs from the last acknowledged value.
2. If a detail has disappeared, all details are sent again, beginning with a `first` piece, which voids the earlier
   ones. A metric that has disappeared, or is not a finite number, is sent as NaN: it is unknown.
3. A piece ends at `PIECE_B` bytes, so the coordinator accepts it whatever the size of the container. A single larger
   detail is left out.
4. A piece without an acknowledgement may have arrived, so the next one is a `first` again. The coordinator asks for a
   `first` if a piece is missing.
5. A piece without an acknowledgement may still arrive after later pieces. Its sequence number is lower than theirs, so
   the coordinator ignores it.

A metric is named once and has a number from then on. The coordinator keeps the values of a container in one array, and
one copy of each list of names that tasks share: five million values of a thousand containers take some 60 MB.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from math import isnan, nan
from typing import Any

from samzapy.clock import Measured
from samzapy.config.guarantee_warnings import ERRORS, GUARANTEE
from samzapy.coordinator.wire import Details, WireError
from samzapy.job.lease import MOST_LINES, NO_FACTS, ContainerReport, Facts, PartitionLag, Stall, TaskProgress
from samzapy.metrics.columns import COUNTED, MetricColumns, Snapshot, counters_of, plain_number, shared

#: Bytes of a piece before it is compressed, roughly.
PIECE_B = 131_072
#: The parts of a report that are sent by key; `lags` are in its facts.
_KEYED = ("positions", "ends", "restored", "restoring", "clocks", "lags")
#: Estimated bytes of JSON around a value, and for each checkpoint of a task.
_AROUND, _TIME = 48, 16
#: Reports with facts that wait to be sent; the oldest is forgotten first.
_MOST_NOTED = 600


class Changes:
    """The details of one attempt that the coordinator has acknowledged. One thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, Any]] = {name: {} for name in _KEYED}
        self._numbers: dict[tuple[str, str], int] = {}
        self._values: list[float] = []
        self._first = True
        self._lags: Measured[dict[str, PartitionLag]] | None = None
        self._dated: Measured[dict[str, PartitionLag]] | None = None
        self._facts = self._sent = NO_FACTS
        self._noted: deque[Facts] = deque(maxlen=_MOST_NOTED)

    def forget(self) -> None:
        """Send everything again, because it is unknown which details have arrived."""
        self._known = {name: {} for name in _KEYED}
        self._numbers.clear()
        self._values.clear()
        self._first = True
        self._sent = NO_FACTS
        self._dated = None

    def note(self, facts: Facts) -> None:
        """Keep the facts of a report until they are sent: each report has only the facts since the last one. Any thread
        may call this."""
        self._noted.append(facts)

    def pieces(self, report: ContainerReport, now: float, *, metrics: bool) -> Iterator[Details]:
        """The changes, and the facts noted; with `metrics` always a piece, which says that the others are still true.
        `now` is the time of the monotonic clock in seconds. Before the caller takes the next piece, it calls
        `acknowledge` or `forget`; it may leave the remaining pieces to another call."""
        self._merge_facts()
        lags = self._lags
        of_lags = {} if lags is None else lags.value
        values = {name: of_lags if name == "lags" else getattr(report, name) for name in _KEYED}
        if any(known.keys() - values[name].keys() for name, known in self._known.items()):
            self.forget()
        piece = _Piece(report.epoch, first=self._first)
        if self._facts != self._sent:
            piece.details.facts = self._facts
            piece.size += _AROUND
        named = self._metrics(report.metrics if metrics else _urgent(report.metrics), all_of_them=metrics)
        for add in chain(self._keyed(values), named):
            add(piece)
            if piece.size >= PIECE_B:
                yield piece.details
                piece = _Piece(report.epoch)
        if lags is not None and lags is not self._dated:
            piece.details.lags_age_s, self._dated = max(0.0, now - lags.at), lags
            piece.size += _AROUND
        if piece.size or self._first or metrics:
            yield piece.details

    def acknowledge(self) -> None:
        """The last piece has arrived. Log lines and failures are sent once; a stall is sent until it ends."""
        self._first = False
        self._facts = self._sent = Facts(None, self._facts.stalled)

    def _merge_facts(self) -> None:
        while self._noted:
            before, new = self._facts, self._noted.popleft()
            self._lags = self._lags if new.partitions is None else new.partitions
            lines = (*before.lines, *new.lines)
            left_out = before.lines_left_out + new.lines_left_out + max(0, len(lines) - MOST_LINES)
            self._facts = Facts(None, new.stalled, new.failure or before.failure, lines[-MOST_LINES:], left_out)

    def _keyed(self, now: Mapping[str, Mapping[str, Any]]) -> Iterator[Callable[[_Piece], None]]:
        for name, known in self._known.items():
            for key, value in now[name].items():
                if known.get(key) != value and len(key) < PIECE_B:
                    known[key] = value
                    yield partial(_Piece.add, name=name, key=key, value=value)

    def _metrics(
        self, metrics: Mapping[str, Mapping[str, object]], *, all_of_them: bool
    ) -> Iterator[Callable[[_Piece], None]]:
        numbers, values, counters = self._numbers, self._values, counters_of(metrics)
        gone = dict.fromkeys(numbers.values()) if all_of_them else {}
        for group, named in metrics.items():
            for name, value in named.items():
                number, made = numbers.get((group, name)), _number(value)
                if number is None:
                    # A metric has no name before it has a value.
                    if not isnan(made) and len(group) + len(name) <= PIECE_B:
                        number = numbers[group, name] = len(values)
                        values.append(made)
                        known = f"{name}{COUNTED}" if (group, name) in counters else name
                        yield partial(_Piece.begin, group=group, name=known, number=number, value=made)
                elif not isnan(made):
                    gone.pop(number, None)
                    if values[number] != made:
                        values[number] = made
                        yield partial(_Piece.measure, number=number, value=made)
        for number in gone:
            if not isnan(values[number]):
                values[number] = nan
                yield partial(_Piece.measure, number=number, value=nan)


def _urgent(metrics: Mapping[str, Mapping[str, float]]) -> Snapshot:
    """The counters of weakened guarantees. All details have them, because an attempt may end without a last report."""
    urgent = {group: dict(metrics[group]) for group in (GUARANTEE, ERRORS) if group in metrics}
    return Snapshot(urgent, counters_of(metrics))


def _number(value: object) -> float:
    """A metric's value as a number; NaN if it is not one, or not finite."""
    made = plain_number(value)
    return made if made - made == 0 else nan


class _Piece:
    """A piece under construction. `size` is about its size as JSON, in bytes."""

    def __init__(self, epoch: int, *, first: bool = False) -> None:
        self.details = Details(epoch, first, {}, {}, {}, {}, {}, {}, None, None, [], [], [])
        self.size = 0

    def add(self, name: str, key: str, value: Any) -> None:
        """Add one detail."""
        getattr(self.details, name)[key] = value
        self.size += len(key) + _AROUND
        if isinstance(value, TaskProgress) and value.checkpoints:
            self.size += _TIME * len(value.checkpoints)

    def begin(self, group: str, name: str, number: int, value: float) -> None:
        """Add a new metric with its name."""
        names = self.details.names
        if not names or names[-1][0] != group:
            names.append((group, []))
            self.size += len(group)
        names[-1][1].append(name)
        self.size += len(name)
        self.measure(number, value)

    def measure(self, number: int, value: float) -> None:
        """Add the value of a metric."""
        self.details.numbers.append(number)
        self.details.values.append(value)
        self.size += _AROUND


class MetricValues(MetricColumns):
    """The metrics of one container at one moment. Immutable, because other threads read it."""

    __slots__ = ()

    def changed(self, piece: Details) -> MetricValues:
        """A copy with the changes of a piece, which may name new metrics. Raises WireError for a number without a
        name."""
        names, values = self.names, self._values[:]
        if piece.names:
            names += tuple((group, shared(tuple(new))) for group, new in piece.names)
            values.extend([0.0] * sum(len(new) for _, new in piece.names))
        if len(piece.numbers) != len(piece.values):
            raise WireError(f"values: expected {len(piece.numbers):,}, got {len(piece.values):,}")
        try:
            for number, value in zip(piece.numbers, piece.values, strict=True):
                values[number] = value
        except IndexError as cause:
            raise WireError(f"numbers: expected numbers below {len(values):,}, the count of named metrics") from cause
        return MetricValues(names, values)


@dataclass(frozen=True)
class Reported:
    """The reassembled details of one attempt. Immutable, because other threads read it."""

    epoch: int
    positions: Mapping[str, int] = field(default_factory=dict)
    ends: Mapping[str, int] = field(default_factory=dict)
    restored: Mapping[str, tuple[int, float, str]] = field(default_factory=dict)
    restoring: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    clocks: Mapping[str, TaskProgress] = field(default_factory=dict)
    lags: Mapping[str, PartitionLag] = field(default_factory=dict)
    metrics: MetricValues = field(default_factory=MetricValues)
    stalled: Stall | None = None
    newest: int = 0

    def is_late(self, piece: Details) -> bool:
        """Whether a later piece of this attempt has arrived. A piece without a sequence number is never late."""
        return piece.epoch == self.epoch and 0 < piece.sequence <= self.newest

    def changed(self, piece: Details) -> Reported:
        """A copy with the changes of a piece. Raises WireError."""
        before = Reported(self.epoch) if piece.first else self
        new: dict[str, Any] = {
            name: {**getattr(before, name), **sent} for name in _KEYED if (sent := getattr(piece, name))
        }
        if piece.names or piece.numbers or piece.values:
            new["metrics"] = before.metrics.changed(piece)
        if piece.facts is not None:
            new["stalled"] = piece.facts.stalled
        if piece.sequence:
            new["newest"] = piece.sequence
        return replace(before, **new) if new else before

    def report(
        self,
        container_id: str,
        phase: str,
        processed: int,
        commits: int,
        piece: Details | None = None,
        now: float = 0.0,
    ) -> ContainerReport:
        """The report that has these details, and the facts of the piece that has just changed them, `now` in seconds of
        the monotonic clock."""
        sent = NO_FACTS if piece is None or piece.facts is None else piece.facts
        lags = None
        if piece is not None and piece.lags_age_s is not None:
            lags = Measured(dict(self.lags), now - piece.lags_age_s)
        facts = NO_FACTS
        if lags is not None or self.stalled is not None or sent is not NO_FACTS:
            facts = Facts(lags, self.stalled, sent.failure, sent.lines, sent.lines_left_out)
        return ContainerReport(
            container_id,
            self.epoch,
            phase,
            processed,
            self.positions,
            self.ends,
            self.restored,
            self.restoring,
            self.metrics,
            commits,
            self.clocks,
            facts,
        )
