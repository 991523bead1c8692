"""Commits positions to a consumer group that has no members.

A consumer does it, and no admin client: librdkafka aborts the process when the coordinator of a group goes down during
an admin call about groups (its issue 3663).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from samzapy.api.stream import SystemStreamPartition
from samzapy.clock import Clock
from samzapy.errors import RetriableError
from samzapy.system.kafka.client import ClientErrors, make_client
from samzapy.system.kafka.errors import error_of

#: The time limit of one commit.
_COMMIT_S = 5.0
_POLL_S = 0.1


class GroupPositions:
    """The committed offsets of one group. Used by one thread."""

    def __init__(self, group: str, properties: Mapping[str, str], client_errors: ClientErrors, clock: Clock) -> None:
        """`properties` say how to connect."""
        self._group = group
        self._client_errors = client_errors
        self._clock = clock
        self._answered = False
        self._error: KafkaError | None = None
        own: dict[str, Any] = {"group.id": group, "enable.auto.commit": "false", "on_commit": self._answer}
        self._consumer = make_client(Consumer, {**dict(properties), **own}, client_errors)

    def commit(self, positions: Mapping[SystemStreamPartition, int]) -> None:
        """Wait at most 5 s until the offsets are committed. Raises EnvironmentFailure where the broker does not allow
        it or the group has members, RetriableError without an answer."""
        self._answered, self._error = False, None
        offsets = [TopicPartition(ssp.stream, ssp.partition, offset) for ssp, offset in positions.items()]
        try:
            self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as cause:
            raise self._client_errors.general_error(error_of(cause), self._where, "READ") from cause
        deadline = self._clock.monotonic() + _COMMIT_S
        while not self._answered:
            if self._clock.monotonic() > deadline:
                silence = RetriableError(f"{self._where}: no answer from {self._client_errors.servers}")
                silence.outage = True
                raise silence
            self._consumer.poll(_POLL_S)
        if self._error is not None:
            raise self._client_errors.general_error(self._error, self._where, "READ")

    def close(self) -> None:
        """Disconnect; a commit without an answer is given up."""
        self._consumer.close()

    @property
    def _where(self) -> str:
        return f"group '{self._group}'"

    def _answer(self, error: KafkaError | None, offsets: list[Any]) -> None:
        self._error = error or next((each.error for each in offsets if each.error is not None), None)
        self._answered = True
