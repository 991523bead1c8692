"""One librdkafka handle: where its log lines go, what alarms it has raised, and whether it reaches the cluster."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from samzapy.clock import SYSTEM_CLOCK, Clock
from samzapy.errors import ConfigError, ConfigProblem, SamzapyError, Unreachable
from samzapy.system.kafka.arenas import give_threads_arenas
from samzapy.system.kafka.errors import error_of, general_error, is_failed_handshake, is_refused, one_line

#: What librdkafka logs; quiet unless a program gives it a handler.
LOGGER = logging.getLogger("samzapy.kafka")
LOGGER.addHandler(logging.NullHandler())

#: How long a client may try to reach its cluster, in seconds.
REACH_S = 10.0
_ATTEMPT_S = 1.0
_PAUSE_S = 0.1
#: librdkafka's names for its lines about lost connections and requests without an answer.
_DISTURBANCES = frozenset({"FAIL", "REQTMOUT"})
#: What librdkafka calls experimental, at every start, and is set here all the same.
_ON_PURPOSE = "enable.gapless.guarantee"
#: What such a line says when the first request of a connection went unanswered.
_FIRST_WORD = "in state APIVERSION_QUERY"


class Alarms:
    """The errors a handle reports beside its calls: those no waiting cures are raised by the next check.

    `system` and `servers` are what the messages name. `disturbed`: a connection was lost or a request was not answered in
    time, so librdkafka may have sent something twice.
    """

    def __init__(self, system: str, servers: str) -> None:
        self.system = system
        self.servers = servers
        self.refusal: KafkaError | None = None
        self.handshake: KafkaError | None = None
        self.last = ""
        self.disturbed = False

    def note(self, error: KafkaError) -> None:
        """What librdkafka calls as its `error_cb`."""
        self.disturbed = True
        # Behind the reason for a lost connection comes the news that all are lost, which says less.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001
            self.last = one_line(error)
        if is_refused(error):
            self.refusal = error
        elif is_failed_handshake(error):
            self.handshake = error

    def log(self, level: int, form: str, facility: str, client: str, line: str) -> None:
        """What librdkafka calls as its `logger`: of most lost connections and late answers it tells in no other way."""
        if facility in _DISTURBANCES:
            self.disturbed = True
            if _FIRST_WORD in line:
                self.last = f"it closes connections at once; is systems.{self.system}.consumer.security.protocol right?"
        if facility == "CONFWARN" and _ON_PURPOSE in line:
            level = logging.DEBUG
        LOGGER.log(level, form, facility, client, line)

    def check(self) -> None:
        """Raise EnvironmentFailure if the cluster has refused us."""
        if self.refusal is not None:
            raise general_error(self.refusal, self.system, self.servers)

    def check_first_contact(self) -> None:
        """As `check`, and a failed TLS handshake counts: later it may only be a broker that is going down."""
        self.check()
        if self.handshake is not None:
            raise general_error(self.handshake, self.system, self.servers)

    def unreachable(self, waited_s: float) -> SamzapyError:
        """The error for a cluster that did not answer in time."""
        reason = f" ({self.last})" if self.last else ""
        return Unreachable(f"cannot reach {self.servers} within {waited_s:.0f} s{reason}")


def make_client(kind: type, properties: Mapping[str, str], alarms: Alarms) -> Any:
    """A Consumer, Producer or AdminClient. Raises ConfigError for what librdkafka does not take."""
    give_threads_arenas()
    try:
        return kind({**properties, "error_cb": alarms.note, "logger": alarms})
    except KafkaException as cause:
        side = "producer" if kind.__name__ == "Producer" else "consumer"
        key = f"systems.{alarms.system}.{side}"
        raise ConfigError([ConfigProblem(key, None, one_line(error_of(cause)))]) from cause


def reach(client: Any, alarms: Alarms, clock: Clock = SYSTEM_CLOCK, topic: str | None = None) -> Any:
    """The cluster's metadata, of all topics or of one.

    Raises EnvironmentFailure if the cluster refuses us, or does not answer within 10 s.
    """
    deadline = clock.monotonic() + REACH_S
    while True:
        left = deadline - clock.monotonic()
        try:
            return client.list_topics(topic, timeout=max(0.1, min(left, _ATTEMPT_S)))
        except KafkaException as cause:
            # Alarms are delivered by poll, which also keeps a refused connection from being retried in a spin.
            client.poll(_PAUSE_S)
            alarms.check_first_contact()
            if clock.monotonic() >= deadline:
                raise alarms.unreachable(REACH_S) from cause
