"""Timers by key, in order of time."""

from samzapy.storage.views.timers.factory import TimersFactory
from samzapy.storage.views.timers.store import Timer, TimerStore

__all__ = ["Timer", "TimerStore", "TimersFactory"]
