"""The page of a coordinator, drawn once."""

from samzapy.coordinator.page.board import Board
from samzapy.coordinator.page.inspector import NoInspector
from samzapy.testing import ManualClock


def page_of(coordinator):
    return Board(coordinator.status, NoInspector(), ManualClock()).page()
