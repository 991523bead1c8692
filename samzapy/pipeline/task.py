"""The task of a pipeline: opens its steps, and passes batches, time and ends through them.

    input ──> Source ──> steps ──> Through ──> stream of the job ──> Source ──> steps ──> To

1. A batch goes through all steps up to the next stream, within one call.
2. Every `task.window.ms` the event time of each partition goes the same way: windows and joins advance, and a `Through`
   sends a watermark to every partition of its stream. Nothing older follows it.
3. When all partitions that a step's messages come from have ended, the step finishes. The task commits, and only then
   its `Through` sends the end: nothing before the end is ever sent again behind it. The reader's partition has ended
   when all tasks have sent theirs: so ends go through all stages of a bounded run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from samzapy.api.collector import EndOfStream, MessageCollector, TaskCoordinator, Watermark
from samzapy.api.context import Context
from samzapy.api.event_time import PartitionListenerTask
from samzapy.api.stream import SystemStreamPartition
from samzapy.api.task import BatchTask, ClosableTask, CopartitionedTask, InitableTask, TimerTask, WindowableTask
from samzapy.config.reading.keys import Reader
from samzapy.config.task import TaskConfig
from samzapy.errors import StoreError
from samzapy.operators.folds import grouped
from samzapy.pipeline.functions import Batch
from samzapy.pipeline.plan import STEPS, Plan
from samzapy.pipeline.stateless import Merge, Through, To
from samzapy.pipeline.step import OF_STEP, Opening, Receive, Step, clock_of
from samzapy.pipeline.tables import Lookup

logger = logging.getLogger(__name__)


class PipelineTask(
    BatchTask[Any, Any], InitableTask, WindowableTask, TimerTask, ClosableTask, PartitionListenerTask, CopartitionedTask
):
    """Runs the steps of `plan` in one task."""

    plan: ClassVar[Plan]
    needs_window = True

    def init(self, context: Context) -> None:
        """Open the steps, the last ones first. Raises StoreError for stores of other steps."""
        plan = self.plan
        direct = plan.direct if context.job.tasks == 1 else ()
        self._opening = opening = Opening(context, plan.origins(context.task.ssps, direct), plan.own_streams, direct)
        self._check_steps(context)
        self._is_one_by_one = self._has_ids_of_several(context) or self._has_ways_that_meet()
        opening.measures = not self._is_one_by_one
        receivers: dict[Step, Sequence[Receive]] = {}
        for step in reversed(plan.steps):
            ways = [receivers[child][number] for child, number in plan.children(step, direct)]
            opening.emitters[step] = emit = _to_all(ways)
            opened = [step.receiver(receive, at) for at, receive in enumerate(step.open(opening, emit))]
            receivers[step] = [opening.measured(step, receive) for receive in opened]
        self._sources = {
            step.stream: _to_all([receivers[source][0] for source in plan.sources if source.stream == step.stream])
            for step in plan.sources
        }
        self._throughs = [step for step in plan.steps if isinstance(step, Through)]
        self._clocks = [opening.clocks[clock_of(step)] for step in plan.steps if clock_of(step) in opening.clocks]
        self._event_time: Callable[[Any], int | None] = context.task.event_time
        self._ended: set[SystemStreamPartition] = set()
        #: The newest time that each `Through` has sent.
        self._announced: dict[Step, int] = {}
        self._ending: list[Through] = []

    def process_batch(self, batch: Batch, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Pass a batch through the steps."""
        self._opening.collector = collector
        receive = self._sources[batch.ssp.system_stream]
        for part in [batch[n : n + 1] for n in range(len(batch))] if self._is_one_by_one else [batch]:
            self._opening.call += 1
            receive(part)

    def window(self, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Pass event time through the steps."""
        self._opening.collector = collector
        self._advance()
        if self._ending:
            for through in self._ending:
                collector.send_control(through.stream, EndOfStream())
            self._ending.clear()
            # Readers of transactions see the ends only now.
            coordinator.commit()
        # A task has no partition of an input with fewer partitions than others: what comes of it ends at once.
        if self._end():
            coordinator.commit()

    def on_timer(self, key: Any, time_ms: int, collector: MessageCollector, coordinator: TaskCoordinator) -> None:
        """Call the step that has set the timer."""
        self._opening.collector = collector
        step, of_step = key
        if step in self._opening.timers:  # the pipeline may no longer have it
            self._opening.timers[step](of_step, time_ms)

    def on_partition_end(
        self, ssp: SystemStreamPartition, collector: MessageCollector, coordinator: TaskCoordinator
    ) -> None:
        """Finish the steps whose inputs have all ended."""
        self._opening.collector = collector
        self._ended.add(ssp)
        self._advance()
        if self._end():
            coordinator.commit()

    def close(self) -> None:
        """Release what the steps hold."""
        for close in self._opening.closers:
            close()

    def _has_ids_of_several(self, context: Context) -> bool:
        """Whether outputs with ids may come from several messages: after a crash other batches give other ids."""
        has_ids = Reader(context.job.config).value(TaskConfig, "guarantee").outputs_have_ids
        return has_ids and any(isinstance(step, To) and step.follows_state for step in self.plan.steps)

    def _has_ways_that_meet(self) -> bool:
        """Whether messages of a partition meet again, in a step or an output: by batches, not in their order."""
        meetings: list[Sequence[Step]] = [step.inputs for step in self.plan.steps if isinstance(step, Merge | Lookup)]
        outputs = grouped((step.stream, step.inputs[0]) for step in self.plan.steps if isinstance(step, To))
        for steps in [*meetings, *outputs.values()]:
            origins = [self._opening.origins[step] for step in steps]
            if len(frozenset().union(*origins)) < sum(map(len, origins)):
                return True
        return False

    def _end(self) -> bool:
        """Finish the steps whose inputs have ended; returns whether the next `window` has to send their ends."""
        for clock in self._clocks:
            if not clock.ended and self._has_ended(clock.step):
                clock.ended = True
                clock.finish()
                self._ended.update(origin for origin, item in self._opening.clocks.items() if item is clock)
        ended = [item for item in self._throughs if self._announced.get(item) != _END and self._has_ended(item)]
        self._announced |= dict.fromkeys(ended, _END)
        self._ending += ended
        return bool(self._ending)

    def _has_ended(self, step: Step) -> bool:
        origins = self._opening.origins
        return all(origins[parent] <= self._ended for parent in step.inputs)

    def _advance(self) -> None:
        opening = self._opening
        for origin, followers in opening.followers.items():
            time_ms = self._time_of([origin])
            if time_ms is not None:
                for follow in followers:
                    follow(time_ms)
        for clock in self._clocks:
            clock.advance()
        for through in self._throughs:
            time_ms = self._time_of(opening.origins[through.inputs[0]])
            if time_ms is not None and time_ms > self._announced.get(through, 0):
                self._announced[through] = time_ms
                opening.collector.send_control(through.stream, Watermark(time_ms))

    def _time_of(self, origins: Any) -> int | None:
        """The event time that none of these partitions goes back behind; None if it is not known yet."""
        clocks, own = self._opening.clocks, self._opening.times
        times: list[int | None] = [clocks[origin].mark for origin in origins if origin.system == OF_STEP]
        timed = [origin for origin in origins if origin in own]
        times += [own[origin] for origin in timed if origin not in self._ended]
        inputs = [origin for origin in origins if origin.system != OF_STEP and origin not in own]
        if inputs:
            times.append(self._event_time(inputs))
        if not times:  # all have ended
            times = [max((own[origin] or 0 for origin in timed), default=None)]
        return None if not times or None in times else min(times)  # type: ignore[type-var]

    def _check_steps(self, context: Context) -> None:
        """Compare the steps with those of earlier runs, and remember them; the first task reports the changes."""
        wanted = self.plan.signatures
        if not wanted:
            return
        store = context.get_store(STEPS)
        with store.all() as entries:
            known: Mapping[str, str] = dict(entries)
        for name in known.keys() & wanted.keys():
            if known[name] != wanted[name]:
                raise StoreError(
                    f"{context.task.task_name}: step '{name}' was '{known[name]}' and is '{wanted[name]}' now: it "
                    "would read the other's state; give the new step another name with name=..."
                )
        lost, gained = sorted(known.keys() - wanted.keys()), sorted(wanted.keys() - known.keys())
        for name in gained:
            store.put(name, wanted[name])
        if not known or not any(ssp.partition == 0 for ssp in context.task.ssps):
            return
        for name in lost:
            logger.warning(
                "Step '%s' (%s) of earlier runs is not in the pipeline: nothing reads its state, which stays in its "
                "changelog; if the step has another name now, give it this one with name=...",
                name,
                known[name],
            )
        for name in gained:
            logger.warning("Step '%s' (%s) is new: it starts without state", name, wanted[name])


#: What a `Through` has announced after its end.
_END = 1 << 62


def _to_all(ways: Sequence[Receive]) -> Receive:
    if len(ways) == 1:
        return ways[0]

    def receive(batch: Batch) -> None:
        for way in ways:
            way(batch)

    return receive
