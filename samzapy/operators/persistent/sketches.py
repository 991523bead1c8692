"""Estimates the number of different items in little memory, by the HyperLogLog sketch of the package `datasketches`."""

from __future__ import annotations

from typing import Any

from samzapy.operators.persistent.monoids import Monoid
from samzapy.storage.views.sketches import EMPTY_TEXT, HyperLogLogSerde, library


class HyperLogLog(Monoid[Any]):
    """A sketch of the different items (str, int of 64 bits, float) seen; `estimate(total)` is about their number.

    Its error is about 1.04 / sqrt(2 ** lg_k) of the number, 1.6 % with the default of 12, for 2 KiB. Merged in another
    order, as after a crash, the estimate may differ within that error. Needs `samzapy[sketches]`: EnvironmentFailure.
    """

    def __init__(self, lg_k: int = 12) -> None:
        """`lg_k`: from 4 to 21."""
        if not 4 <= lg_k <= 21:
            raise ValueError(f"lg_k must be from 4 to 21, got {lg_k}")
        self._lg_k = lg_k
        self._library: Any = library("datasketches")
        self._serde = HyperLogLogSerde()

    def zero(self) -> Any:
        return self._library.hll_sketch(self._lg_k, self._library.HLL_8)

    def plus(self, left: Any, right: Any) -> Any:
        union = self._library.hll_union(self._lg_k)
        union.update(left)
        union.update(right)
        return union.get_result(self._library.HLL_8)

    def add(self, total: Any, item: str | float) -> Any:
        total.update(EMPTY_TEXT if item == "" else item)
        return total

    def to_plain(self, total: Any) -> bytes:
        return self._serde.to_bytes(total)

    def from_plain(self, plain: Any) -> Any:
        return self._serde.from_bytes(plain)

    @staticmethod
    def estimate(total: Any) -> float:
        """The approximate number of different items."""
        return float(total.get_estimate())
