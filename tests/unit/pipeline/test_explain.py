"""What is told about a pipeline's steps: the text, and the time that each takes."""

import dataclasses
from itertools import count
from types import SimpleNamespace

from samzapy.metrics import Registry
from samzapy.pipeline import Count, Pipeline, Tumbling, field
from samzapy.pipeline import step as steps
from samzapy.pipeline.stateless import Merge


@dataclasses.dataclass
class View:
    page: str
    size: int


def test_explain_shows_steps_streams_and_stores_in_columns():
    pipeline = Pipeline("page-views")
    views = pipeline.stream("kafka.views", View).filter(field("size") > 0).key_by(lambda view: view.page)
    sums = views.window(Tumbling("1m")).aggregate(n=Count())
    sums.to("kafka.sums")
    assert pipeline.explain() == EXPECTED.strip()


def test_the_time_of_a_step_is_without_that_of_the_steps_behind_it(monkeypatch):
    ticks, registry = count(), Registry()
    monkeypatch.setattr(steps, "perf_counter", lambda: next(ticks))
    opening = steps.Opening(SimpleNamespace(container=SimpleNamespace(metrics=registry)), {}, frozenset(), ())
    opening.measures = True
    last = opening.measured(Merge(name="last"), lambda: None)
    opening.measured(Merge(name="first"), lambda: (last(), last()))()
    assert registry.snapshot()["pipeline"] == {"last": 2, "first": 3}


EXPECTED = """
pipeline page-views
  step            does                                                   works on  reads           keeps
  views           stream kafka.views of View                             columns
  views-filter    filter                                                 columns   views
  by-page         key-by                                                 rows      views-filter
  by-page-out     through kafka.page-views-by-page, keys only            columns   by-page
  by-page-in      stream kafka.page-views-by-page of View                columns   by-page-out
  by-page-window  windows of 60000 ms every 60000 ms from 0 ms: n:Count  columns   by-page-in      by-page-window
  to-sums         to kafka.sums                                          columns   by-page-window
"""
