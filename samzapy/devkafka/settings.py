"""The file `server.properties` of a development broker: one node, loopback only."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import NamedTuple

#: The folder of the data, relative to the working folder of the broker.
DATA = "data"


class Listener(NamedTuple):
    """A further address of the broker, on loopback like the others. `name` is unique (`PROXIED`), `protocol` one of
    PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL; clients connect to `advertised_port`, by default the port itself."""

    name: str
    protocol: str
    port: int
    advertised_port: int | None = None


def server_properties(
    port: int,
    controller_port: int,
    listeners: Sequence[Listener] = (),
    properties: Mapping[str, str] | None = None,
) -> str:
    """The text of `server.properties`: one node, loopback only, no automatic topics, short time-outs.

    The broker talks to itself, and answers the probe, on `port`; `listeners` are further addresses for clients.
    `properties` override all others.
    """
    own = Listener("PLAINTEXT", "PLAINTEXT", port)
    open_to_clients = [own, *listeners]
    protocols = {"CONTROLLER": "PLAINTEXT"} | {each.name: each.protocol for each in open_to_clients}
    settings = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": _addresses(
            [*open_to_clients, Listener("CONTROLLER", "PLAINTEXT", controller_port)], advertised=False
        ),
        "advertised.listeners": _addresses(open_to_clients, advertised=True),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in protocols.items()),
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "PLAINTEXT",
        # Kafka would split an absolute path at its commas. This one is relative to the broker's working folder.
        "log.dirs": DATA,
        "auto.create.topics.enable": "false",
        "default.replication.factor": 1,
        "min.insync.replicas": 1,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
        # After a kill, a new broker may register only when the old session has expired: 9 s by default.
        "broker.heartbeat.interval.ms": 1000,
        "broker.session.timeout.ms": 3000,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 16_777_216,
        "log.cleaner.backoff.ms": 1000,
        **(properties or {}),
    }
    return _escaped("".join(f"{key}={value}\n" for key, value in settings.items()))


def _escaped(text: str) -> str:
    """The text in ASCII, with Java's escapes for other characters: Kafka reads the file as Latin-1."""
    return "".join(each if each.isascii() else json.dumps(each)[1:-1] for each in text)


def _addresses(listeners: Sequence[Listener], *, advertised: bool) -> str:
    return ",".join(
        f"{each.name}://127.0.0.1:{(advertised and each.advertised_port) or each.port}" for each in listeners
    )


def new_cluster_id() -> str:
    """A fresh id in Kafka's form: 16 bytes, URL-safe base64 without padding; never with a leading dash."""
    return "s" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:21] + "A"
