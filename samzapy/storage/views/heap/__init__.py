"""Items in the order of their scores: running top-N, and bounded sort of a stream that is nearly in order."""

from samzapy.storage.views.heap.factory import HeapStoreFactory
from samzapy.storage.views.heap.store import HeapItem, HeapStore

__all__ = ["HeapItem", "HeapStore", "HeapStoreFactory"]
