"""Compares two replays of the same records: the outputs, changes of state and failures of two versions of a task.

Steps are compared by their messages. If one version takes messages one by one and the other in batches, they have no
steps in common; then all of their effects are compared as one step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from samzapy.replay.recording import Change, Step
from samzapy.serializers import as_json


class Difference(NamedTuple):
    """A step in which the two versions differ; None for a version without that step."""

    at: str
    before: Step | None
    after: Step | None


def differences(before: Sequence[Step], after: Sequence[Step]) -> Iterator[Difference]:
    """The differences in order, of the job's own class (`before`) and another version (`after`)."""
    processed = [{step.at for step in steps if step.inputs} for steps in (before, after)]
    if not processed[0] & processed[1] and all(processed):
        before, after = [_together(before)], [_together(after)]
    theirs = _by_place(after)
    ours = _by_place(before)
    for place in dict.fromkeys(chain(ours, theirs)):
        one, other = ours.get(place), theirs.get(place)
        if _effects(one) != _effects(other):
            yield Difference(place[0], one, other)


def _by_place(steps: Sequence[Step]) -> dict[tuple[str, int], Step]:
    """The steps by name and number, in order: windows and timers have one name."""
    numbers: dict[str, int] = {}
    found = {}
    for step in steps:
        number = numbers[step.at] = numbers.get(step.at, 0) + 1
        found[step.at, number] = step
    return found


def _effects(step: Step | None) -> str:
    """The effects as text: values that are equal in Python, such as 1 and True, differ as messages."""
    if step is None:
        return _effects(Step("", 0))
    failures = [(each.exception, each.message) for each in step.failures]
    return as_json([[vars(each) for each in step.outputs], [vars(each) for each in step.changes], failures, step.ended])


def _together(steps: Sequence[Step]) -> Step:
    """All steps as one; several changes of an entry become one, from before the first to after the last."""
    entries: dict[tuple[str, str], Change] = {}
    for change in chain.from_iterable(step.changes for step in steps):
        place = change.store, as_json(change.key)
        first = entries.get(place, change)
        entries[place] = Change(change.store, change.key, first.before, change.after)
    return Step(
        "all messages",
        steps[-1].time_ms if steps else 0,
        outputs=tuple(chain.from_iterable(step.outputs for step in steps)),
        changes=tuple(entries[place] for place in sorted(entries)),
        failures=tuple(chain.from_iterable(step.failures for step in steps)),
        ended=any(step.ended for step in steps),
    )
