"""Windowed aggregation over event time: a library over the task API and a KeyValueStore.

aggregations   what a window makes of its values
aligned        tumbling and hopping windows
sessions       session windows
sliding        sliding windows
state          how windows stand in a store
results        what comes out, and when
windows        all of it together, for one task
task           a task that is windows and little else
"""

from samzapy.operators.durations import Duration
from samzapy.operators.windows.aggregations import Aggregation, Collect, Count, Fold, Max, Mean, Min, Sum, Top
from samzapy.operators.windows.aligned import Hopping, Tumbling
from samzapy.operators.windows.results import Early, OnChange, OnClose, WindowResult
from samzapy.operators.windows.sessions import Sessions
from samzapy.operators.windows.sliding import Sliding
from samzapy.operators.windows.state import WindowDefinition
from samzapy.operators.windows.task import WindowedTask
from samzapy.operators.windows.windows import EventTimeWindows, WindowedAggregation

__all__ = [
    "Aggregation",
    "Collect",
    "Count",
    "Duration",
    "Early",
    "EventTimeWindows",
    "Fold",
    "Hopping",
    "Max",
    "Mean",
    "Min",
    "OnChange",
    "OnClose",
    "Sessions",
    "Sliding",
    "Sum",
    "Top",
    "Tumbling",
    "WindowDefinition",
    "WindowResult",
    "WindowedAggregation",
    "WindowedTask",
]
