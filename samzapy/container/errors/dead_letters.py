"""Writes dead letters: an input that failed, with its position and the reason.

The record has the input's key and value bytes and headers, and on top, all as UTF-8 text:

    samzapy-error-stage       deserialize, process, serialize or produce
    samzapy-error-reason      the exception's message, a kilobyte at most
    samzapy-error-exception   the exception's class
    samzapy-error-traceback   where it was raised, eight kilobytes at most
    samzapy-error-topic       the input's stream, partition and offset
    samzapy-error-partition
    samzapy-error-offset
    samzapy-error-task        the task's name
    samzapy-error-time-ms     when, in milliseconds since 1970

If the letter is larger than its stream takes, traceback and reason are cut as much as needed. The policy of `produce`
decides about one that is still too large.

The letter about an output that does not serialize, or is too large, carries the input of that output. Outputs of
`window` or `on_end_of_stream` come from no input: their letters have no key, value or position.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from functools import cache

from samzapy.api.envelope import ID_HEADER, Headers, IncomingMessageEnvelope
from samzapy.api.stream import SystemStream, SystemStreamPartition
from samzapy.api.system import OutgoingRecord, RecordBatch
from samzapy.clock import Clock
from samzapy.config.error_policy import Stage
from samzapy.container.errors.user_failures import whole_traceback
from samzapy.container.outputs.output_ids import OutputIds
from samzapy.container.outputs.producers import size_of
from samzapy.errors import RecordTooLarge

PREFIX = "samzapy-error-"
_LONGEST_REASON = 1_000
#: What a system adds to a record, an upper bound.
_ENVELOPE_BYTES = 512


class DeadLetters:
    """Writes the letters of one task among its outputs."""

    def __init__(
        self,
        stream: SystemStream,
        task_name: str,
        raw: RawRecords,
        clock: Clock,
        deliver: Callable[[str, OutgoingRecord], None],
        limit_of: Callable[[SystemStream], int | None],
        *,
        ids: OutputIds | None = None,
    ) -> None:
        """`deliver` takes a letter for a system. `limit_of` gives the bytes of a stream's largest record; called once.
        With `ids` letters carry ids, of another kind than the task's outputs."""
        self._deliver = deliver
        self.stream = stream
        self._task_name = task_name
        self._raw = raw
        self._clock = clock
        self._ids = ids
        self._limit_of = cache(limit_of)

    def write(
        self, stage: Stage, failure: BaseException, envelope: IncomingMessageEnvelope | None, number: int = 0
    ) -> None:
        """Write the letter about `envelope` (None: no input), its `number`-th; under ids no two have the same id.
        Raises RecordTooLarge for a letter that its stream would refuse for the size of the input."""
        letter = self._letter(stage, failure, envelope, number)
        if (limit := self._limit_of(self.stream)) is not None:
            letter = _shortened(letter, limit - _ENVELOPE_BYTES)
            if (size := size_of(letter)) > limit:
                about = "no input" if envelope is None else envelope.position
                larger = "message.max.bytes of the producer, and max.message.bytes of the stream"
                advice = f"(raise {larger}, or set task.error.produce.policy=skip)"
                raise RecordTooLarge(f"{self.stream}: the dead letter about {about} does not fit {advice}", size, limit)
        self._deliver(self.stream.system, letter)

    def _letter(
        self, stage: Stage, failure: BaseException, envelope: IncomingMessageEnvelope | None, number: int
    ) -> OutgoingRecord:
        kind = type(failure)
        about = {
            "stage": stage.value,
            "reason": " ".join(str(failure).split())[:_LONGEST_REASON],
            "exception": kind.__qualname__
            if kind.__module__ == "builtins"
            else f"{kind.__module__}.{kind.__qualname__}",
            "traceback": whole_traceback(failure),
            "task": self._task_name,
            "time-ms": str(self._clock.wall_ms()),
        }
        key: bytes | None = None
        value: bytes | None = None
        original: Headers = ()
        if envelope is not None:
            ssp = envelope.ssp
            about |= {"topic": ssp.stream, "partition": str(ssp.partition), "offset": str(envelope.offset)}
            key, value = self._bytes(stage, envelope)
            original = envelope.headers or ()
        headers = [*original, *((PREFIX + name, text.encode(errors="replace")) for name, text in about.items())]
        place: bytes | None = None
        if self._ids is not None and envelope is not None:
            headers = [(name, held) for name, held in headers if name != ID_HEADER]
            headers.append((ID_HEADER, self._ids.letter(envelope, number)))
            if key is None:
                place = b"%d:%d" % (envelope.offset, number)  # a repeated letter belongs where the first one went
        return OutgoingRecord(self.stream.stream, key, value, partition_key=place, headers=headers)

    def _bytes(self, stage: Stage, envelope: IncomingMessageEnvelope) -> Pair:
        if stage is Stage.DESERIALIZE:
            return envelope.key, envelope.message
        return self._raw.find(envelope.ssp, envelope.offset)


def _shortened(letter: OutgoingRecord, most: int) -> OutgoingRecord:
    """The letter with as much less of its traceback, then of its reason, as it is above `most` bytes."""
    excess = size_of(letter) - most
    if excess <= 0:
        return letter
    headers = list(letter.headers or ())
    for name in (PREFIX + "traceback", PREFIX + "reason"):
        at = max(index for index, (each, _) in enumerate(headers) if each == name)  # an input may be a letter itself
        held = headers[at][1] or b""
        kept = held[min(max(excess, 0), len(held)) :]
        headers[at] = (name, kept.decode(errors="ignore").encode())
        excess -= len(held) - len(kept)
    return letter._replace(headers=headers)


Pair = tuple[bytes | None, bytes | None]


class RawRecords:
    """The bytes that the messages of one container were decoded from, for the few that become dead letters.

    Envelopes do not hold them. So the polled batches are kept as they came until every task that reads their partition
    is past them, and a message's bytes are looked up by its offset. That costs one list operation per batch. `follow`
    the tasks' positions first, then `keep` every poll. Without positions nothing is kept.
    """

    def __init__(self) -> None:
        self._positions: dict[SystemStreamPartition, list[Mapping[SystemStreamPartition, int]]] = {}
        self._batches: dict[SystemStreamPartition, list[RecordBatch]] = {}

    def follow(self, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Keep the batches that a task has not processed; `positions` is the task's live map."""
        for ssp in positions:
            self._positions.setdefault(ssp, []).append(positions)

    def keep(self, batches: Iterable[RecordBatch]) -> None:
        """Keep the batches of a poll, and release those that all tasks have processed."""
        for batch in batches if self._positions else ():
            ssp = batch.ssp
            done = min(positions[ssp] for positions in self._positions[ssp])
            kept = [each for each in self._batches.get(ssp, ()) if each.offsets[-1] >= done]
            self._batches[ssp] = [*kept, batch]

    def find(self, ssp: SystemStreamPartition, offset: int) -> Pair:
        for batch in self._batches.get(ssp, ()):
            if batch.offsets[0] <= offset <= batch.offsets[-1]:
                index = bisect_left(batch.offsets, offset)
                if batch.offsets[index] == offset:
                    return batch.keys[index], batch.values[index]
        raise LookupError(f"{ssp}@{offset}: the message's bytes are not kept any more")
