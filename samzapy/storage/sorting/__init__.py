"""Many byte strings without an object for each, and their order."""

from samzapy.storage.sorting.arena import Arena, Rows
from samzapy.storage.sorting.order import key_order, unreplaced

__all__ = ["Arena", "Rows", "key_order", "unreplaced"]
