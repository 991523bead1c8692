"""Sums up room temperatures in windows of ten minutes. Late readings of a sensor without network go to a separate
stream."""

from __future__ import annotations

import msgspec

from samzapy import Context, MessageBatch, MessageCollector, SystemStream, TaskCoordinator
from samzapy.operators.windows import Fold, Tumbling, WindowedAggregation, WindowedBatchTask


class Reading(msgspec.Struct):
    """A temperature. Its key is the sensor."""

    celsius: float


#: Readings, their sum, the lowest and the highest.
Climate = list[float]


def _empty() -> Climate:
    return [0, 0.0, float("inf"), float("-inf")]


def _with_reading(climate: Climate, celsius: float) -> Climate:
    count, total, low, high = climate
    return [count + 1, total + celsius, min(low, celsius), max(high, celsius)]


def _summary(climate: Climate) -> dict[str, float]:
    count, total, low, high = climate
    return {"readings": count, "mean": round(total / count, 3), "low": low, "high": high}


class RoomClimateTask(WindowedBatchTask[str, Reading]):
    """Sends a sensor's ten minutes once, five minutes after their end by the readings of the partition. A reading that
    comes later changes no result: it goes to a stream of its own, unchanged.

    `room.climate.output` and `room.climate.late` in the job file name the streams, as `system.stream`."""

    def aggregation(self, context: Context) -> WindowedAggregation:
        config = context.job.config
        return WindowedAggregation(
            Tumbling("10m", grace="5m"),
            Fold(_empty, _with_reading, result=_summary, name="climate"),
            output=SystemStream.parse(config["room.climate.output"]),
            late=SystemStream.parse(config["room.climate.late"]),
        )

    def process_batch(
        self, batch: MessageBatch[str, Reading], collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        self.windows.add_all(batch, collector, value=lambda reading: reading.celsius)
