"""`task.timers.store`: where a task's timers live."""

from __future__ import annotations

from collections.abc import Mapping

from samzapy.config.classes import ENGINES
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import TEXT
from samzapy.config.reader import Reader
from samzapy.config.stores import StoreConfig

STORE = Key(
    "task.timers.store",
    TEXT,
    None,
    "The store of the task's timers; its stores.NAME.factory is timers.",
    "the only store of that kind",
)
KEYS = collect(globals())


def parse_timers(reader: Reader, stores: Mapping[str, StoreConfig]) -> str | None:
    """The store of the timers, None for a job without; notes one that is none, and a choice that is not made."""
    fit = sorted(name for name, store in stores.items() if store.factory == ENGINES.short["timers"])
    named = reader.get(STORE)
    if named is None:
        if len(fit) > 1:
            reader.problem(STORE.name, f"required with several stores of factory timers: {', '.join(fit)}")
        return fit[0] if fit else None
    if named not in fit:
        reader.problem(
            STORE.name, f"expected a store whose factory is timers: {', '.join(fit) or 'there is none'}", named
        )
        return None
    return named
