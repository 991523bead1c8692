"""Dimensional aggregates: facts are counted and their measures summed up as they come, over chosen dimensions."""

from samzapy.storage.views.cube.aggregate import Aggregate, Measure
from samzapy.storage.views.cube.factory import CubeFactory
from samzapy.storage.views.cube.store import Cell, CubeStore

__all__ = ["Aggregate", "Cell", "CubeFactory", "CubeStore", "Measure"]
