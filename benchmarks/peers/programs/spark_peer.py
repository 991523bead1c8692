"""Spark's Structured Streaming: counts on the RocksDB state store, in SQL or by `transformWithState` in Python, and the
counts that a micro-batch changed go to the output.

A micro-batch reads, counts, writes and commits. Its start and its end come from the query's progress.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.streaming import StatefulProcessor, StreamingQuery
from run import COMMITTED, FIRST, LAST, PASS_THROUGH, REPARTITIONED, Run, parsed

SQL, ROWS, PANDAS, REAL_TIME = "sql", "rows", "pandas", "real-time"
EVENT = "id long, user string, page string, amount double, at long, referrer string"
#: Messages of a micro-batch: without a bound one would take the whole topic.
MOST = 200_000
PARTITIONS = 4
#: Of a real-time batch, which is how often it commits: the least that Spark takes.
REAL_TIME_COMMIT = "5 seconds"
_STATE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_LOOK_S = 0.05


class CountRows(StatefulProcessor):
    """Counts the rows of a key."""

    def init(self, handle: Any) -> None:
        self._count = handle.getValueState("count", "n bigint")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        yield Row(key=key[0], value=str(self._add(sum(1 for _ in rows))))

    def _add(self, more: int) -> int:
        before = self._count.get()
        count = (before[0] if before else 0) + more
        self._count.update((count,))
        return count

    def close(self) -> None:
        """The state store needs nothing."""


class CountFrames(CountRows):
    """The same, a data frame at a time."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:  # noqa: N802, N803
        yield pd.DataFrame({"key": [key[0]], "value": [str(self._add(sum(len(frame) for frame in rows)))]})


def session(run: Run) -> SparkSession:
    # Each partition of a real-time query has a task that does not end.
    slots = PARTITIONS if run.engine == REAL_TIME else 1
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(run.folder),
        "spark.jars": ",".join(str(jar) for jar in sorted(Path(sys.prefix, "lib").glob("*.jar"))),
        "spark.sql.shuffle.partitions": str(PARTITIONS),
        "spark.sql.streaming.stateStore.providerClass": _STATE,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master(f"local[{slots}]").appName(run.id).config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def events(spark: SparkSession, run: Run) -> DataFrame:
    """The input's key as `key`, its value as `event`."""
    source = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("subscribe", run.input)
        .option("startingOffsets", "earliest")
    )
    if run.engine != REAL_TIME:
        source = source.option("maxOffsetsPerTrigger", MOST)
    value = sql.from_json(sql.col("value").cast("string"), EVENT)
    return source.load().select(sql.col("key").cast("string"), value.alias("event"))


def output(run: Run, found: DataFrame) -> DataFrame:
    """The records to write."""
    if run.workload == PASS_THROUGH:
        return found.select("key", sql.to_json(sql.struct("event.*", sql.lit(True).alias("seen"))).alias("value"))
    field = "event.page" if run.workload == REPARTITIONED else "event.user"
    by_key = found.select(sql.col(field).alias("key")).groupBy("key")
    if run.engine == ROWS:
        return by_key.transformWithState(CountRows(), "key string, value string", "Update", "None")
    if run.engine == PANDAS:
        return by_key.transformWithStateInPandas(CountFrames(), "key string, value string", "Update", "None")
    return by_key.count().select("key", sql.col("count").cast("string").alias("value"))


def started(run: Run, records: DataFrame) -> StreamingQuery:
    writer = (
        records.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", run.bootstrap)
        .option("topic", run.output)
        .option("checkpointLocation", str(run.folder / "checkpoints"))
    )
    if run.engine == REAL_TIME:
        return writer.trigger(realTime=REAL_TIME_COMMIT).start()
    return writer.trigger(processingTime="0 seconds").start()


def mark_batches(run: Run, batches: Iterable[dict[str, Any]], done: int) -> int:
    """Mark the first and the last of these micro-batches; returns the number of messages with them."""
    to_monotonic = time.monotonic() - time.time()
    for batch in batches:
        start = datetime.fromisoformat(batch["timestamp"].replace("Z", "+00:00")).timestamp() + to_monotonic
        if not done:
            run.mark(FIRST, start)
        done += batch["numInputRows"]
        if done == run.events:
            run.mark(LAST, start + batch["durationMs"]["triggerExecution"] / 1_000)
    return done


def main() -> None:
    run = parsed()
    spark = session(run)
    query = started(run, output(run, events(spark, run)))
    seen, done = -1, 0
    while query.isActive and not (run.events and done >= run.events):
        time.sleep(_LOOK_S)
        new = [item for item in query.recentProgress if item["batchId"] > seen and item["numInputRows"]]
        if new:
            seen = new[-1]["batchId"]
            done = mark_batches(run, new, done)
    if query.exception():
        raise SystemExit(str(query.exception()))
    query.stop()
    run.mark(COMMITTED)
    spark.stop()


if __name__ == "__main__":
    main()
