"""Quix Streams: state in RocksDB with a changelog, committed with the offsets."""

from __future__ import annotations

from typing import Any

from quixstreams import Application, State
from run import COMMITTED, PASS_THROUGH, REPARTITIONED, parsed


def main() -> None:
    run = parsed()
    app = Application(
        broker_address=run.bootstrap,
        consumer_group=run.id,
        auto_offset_reset="earliest",
        state_dir=run.folder,
        commit_interval=run.commit_ms / 1_000,
        processing_guarantee="exactly-once" if run.guarantee == "exactly-once" else "at-least-once",
        loglevel="WARNING",
    )
    events = app.dataframe(app.topic(run.input, key_deserializer="str", value_deserializer="json"))

    def done() -> None:
        if run.processed():
            app.stop()

    def add_field(event: dict[str, Any]) -> dict[str, Any]:
        event["seen"] = True
        done()
        return event

    def count(event: dict[str, Any], state: State) -> None:
        state.set("count", state.get("count", 0) + 1)
        done()

    if run.workload == PASS_THROUGH:
        events.apply(add_field).to_topic(app.topic(run.output, key_serializer="str", value_serializer="json"))
    elif run.workload == REPARTITIONED:
        events.update(lambda _: run.begin()).group_by("page").update(count, stateful=True)
    else:
        events.update(count, stateful=True)
    app.run()
    run.mark(COMMITTED)


if __name__ == "__main__":
    main()
