"""Timers by key, in order of time."""

from samzapy.storage.views.timers.factory import TimersFactory
from samzapy.storage.views.timers.head import NEVER
from samzapy.storage.views.timers.store import Timer, TimerStore

__all__ = ["NEVER", "Timer", "TimerStore", "TimersFactory"]
