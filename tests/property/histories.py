"""Random histories for a model test: each step has a name and a seed, so a failing history is shortened by leaving
steps out.

Ten times as many steps a second as a rule-based state machine of hypothesis, and rare pairs of steps need them.
"""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

Step = tuple[str, int]
_MOST_TRIES = 100


def check_histories(machine: Callable[[], Any], weights: Mapping[str, int], histories: int, length: int) -> None:
    """Run that many histories of `length` steps on a new machine each: `machine().NAME(random)`, then
    `machine().check()`; at last `close()`. Raises the failure of the shortest part of the first history that fails,
    with its steps."""
    names, shares = list(weights), list(weights.values())
    for seed in range(histories):
        random = Random(seed)
        steps = [(name, random.getrandbits(32)) for name in random.choices(names, shares, k=length)]
        if _failure(machine, steps) is not None:
            _raise_shortest(machine, steps)


def _raise_shortest(machine: Callable[[], Any], steps: list[Step]) -> None:
    kind = type(_failure(machine, steps))
    size, tries = len(steps) // 2, _MOST_TRIES
    while size:
        for start in range(len(steps) - size, -1, -1):
            shorter = steps[:start] + steps[start + size :]
            tries -= 1
            if tries >= 0 and isinstance(_failure(machine, shorter), kind):
                steps = shorter
        size //= 2
    notes: list[str] = []
    failure = _failure(machine, steps, notes)
    assert failure is not None
    failure.args = (f"{failure}\nafter " + "\n      ".join(notes),)
    raise failure


def _failure(machine: Callable[[], Any], steps: list[Step], notes: list[str] | None = None) -> Exception | None:
    made = machine()
    try:
        for name, seed in steps:
            note = getattr(made, name)(Random(seed))
            if notes is not None:
                notes.append(name if note is None else f"{name}: {note}")
            made.check()
    except Exception as failure:  # noqa: BLE001  # whatever fails is a failure of the history
        if notes is not None:
            notes.append(f"{name}, which failed")
        return failure
    finally:
        made.close()
    return None
