"""Windowed aggregation over event time: a library over the task API and a KeyValueStore.

aligned        tumbling and hopping windows
per_key        session and sliding windows
state          the open windows in a store
windows        EventTimeWindows, WindowedTask and WindowedBatchTask: all of it together, for one task; the results
"""

from samzapy.operators.event_time import Duration
from samzapy.operators.folds import Aggregation, Collect, Count, Fold, Max, Mean, Min, Sum, Top
from samzapy.operators.windows.aligned import Hopping, Tumbling
from samzapy.operators.windows.per_key import Sessions, Sliding
from samzapy.operators.windows.state import WindowDefinition
from samzapy.operators.windows.windows import (
    Early,
    EventTimeWindows,
    OnChange,
    OnClose,
    WindowedAggregation,
    WindowedBatchTask,
    WindowedTask,
    WindowResult,
)

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
    "WindowedBatchTask",
    "WindowedTask",
]
