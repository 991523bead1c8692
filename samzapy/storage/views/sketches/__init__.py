"""Answers that are close, from a few kilobytes: is it in, how many different ones, which quantile. One sketch a key.

A sketch lives as an object in the store's cache and is serialized when the store is flushed; an item that does not
change it costs no changelog record. The sketches themselves are those of `datasketches` (Apache) and `rbloom`, which
come with `pip install 'samzapy[sketches]'`.
"""

from samzapy.storage.views.sketches.bloom import BloomFilters, BloomFiltersFactory
from samzapy.storage.views.sketches.distinct import DistinctCounts, DistinctCountsFactory
from samzapy.storage.views.sketches.quantiles import Quantiles, QuantilesFactory

__all__ = [
    "BloomFilters",
    "BloomFiltersFactory",
    "DistinctCounts",
    "DistinctCountsFactory",
    "Quantiles",
    "QuantilesFactory",
]
