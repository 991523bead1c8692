"""Bytewax: one worker; state in memory, with a snapshot in SQLite files at each commit."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSink, KafkaSinkMessage, KafkaSource, KafkaSourceMessage
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main
from confluent_kafka import OFFSET_BEGINNING
from run import COMMITTED, PASS_THROUGH, Run, parsed

PARTITIONS = 4


class _Dropped(StatelessSinkPartition[Any]):
    def write_batch(self, items: list[Any]) -> None:
        """Nothing reads the counts: as in the other programs they stay in the state."""


class Nowhere(DynamicSink[Any]):
    def build(self, step_id: str, worker_index: int, worker_count: int) -> _Dropped:
        return _Dropped()


def add_fields(flow: Dataflow, run: Run, events: Any) -> None:
    def add_field(message: KafkaSourceMessage) -> KafkaSinkMessage:
        event = json.loads(message.value)
        event["seen"] = True
        run.processed()
        return KafkaSinkMessage(message.key, json.dumps(event).encode())

    op.output("out", op.map("seen", events, add_field), KafkaSink([run.bootstrap], run.output))


def count(flow: Dataflow, run: Run, events: Any) -> None:
    def by_user(message: KafkaSourceMessage) -> tuple[str, None]:
        return json.loads(message.value)["user"], None

    def counted(state: int | None, value: None) -> tuple[int, None]:
        run.processed()
        return (state or 0) + 1, None

    op.output("out", op.stateful_map("count", op.map("user", events, by_user), counted), Nowhere())


def main() -> None:
    run = parsed()
    flow = Dataflow("peer")
    source = KafkaSource([run.bootstrap], [run.input], starting_offset=OFFSET_BEGINNING, tail=False, batch_size=1_000)
    (add_fields if run.workload == PASS_THROUGH else count)(flow, run, op.input("in", flow, source))
    init_db_dir(run.folder, PARTITIONS)
    cli_main(
        flow, epoch_interval=timedelta(milliseconds=run.commit_ms), recovery_config=RecoveryConfig(str(run.folder))
    )
    run.mark(COMMITTED)


if __name__ == "__main__":
    main()
