"""Python's cyclic garbage collector while messages flow.

A poll makes thousands of objects that live for milliseconds. By default every 700 of them cost a scan of the young, and
those scans add up to scans of everything there is; measured on the keyed count that is a quarter of the CPU time.
What was loaded before the first message is not garbage, so it is left out, and the young are scanned every 100,000.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_YOUNG = 100_000
_MIDDLE = 20
_OLD = 100


@contextmanager
def tuned_for_messages() -> Iterator[None]:
    """Collect seldom inside the context; the settings before come back after it."""
    before = gc.get_threshold()
    if before[0] == 0:  # Somebody has switched it off, which is theirs to say.
        yield
        return
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
