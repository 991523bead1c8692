"""Pipelines: jobs of several steps, written as a flow. A pipeline compiles to one task over the stores, commits and
restores of any other.

pipeline     Pipeline, Stream, Table, Windowed: what users write
plan         the keys of the job that a pipeline stands for, and `explain`
task         the task: batches, event time and ends through the steps
step         what every step is; stateless, aggregates, timed, tables, foreign and custom have the steps
functions    users' functions as functions of batches; `field`
"""

from samzapy.operators.event_time import Duration
from samzapy.operators.joins import TimeRules, Within
from samzapy.operators.windows import Early, Hopping, OnChange, OnClose, Sessions, Sliding, Tumbling
from samzapy.pipeline.aggregates import Collect, Count, Distinct, Max, Mean, Min, Part, Sum, Top
from samzapy.pipeline.custom import Handle
from samzapy.pipeline.functions import Expression, field
from samzapy.pipeline.pipeline import Pipeline, Stream, Table, Windowed

__all__ = [
    "Collect",
    "Count",
    "Distinct",
    "Duration",
    "Early",
    "Expression",
    "Handle",
    "Hopping",
    "Max",
    "Mean",
    "Min",
    "OnChange",
    "OnClose",
    "Part",
    "Pipeline",
    "Sessions",
    "Sliding",
    "Stream",
    "Sum",
    "Table",
    "TimeRules",
    "Top",
    "Tumbling",
    "Windowed",
    "Within",
    "field",
]
