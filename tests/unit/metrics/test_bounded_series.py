"""The series of a job against a plain model: every value by name, added up by a look at each of them."""

from __future__ import annotations

from functools import partial

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samzapy.metrics.bounded import COMBINE, DROPPED, Bounds
from samzapy.metrics.columns import MetricColumns
from samzapy.metrics.families import BUCKET, container_metric, task_metric
from samzapy.metrics.series import OF_THE_JOB, ContainerSnapshot, JobSnapshot, job_series

TASKS = ("t0", "t1", "t2")
NAMES = (
    "sent",
    "clock-ms",
    "processed.k.a",
    "processed.k.b",
    "store.s.gets",
    "store.u.gets",
    "store.s.block-cache-usage",
)
GROUPS = {
    "commit": ("commits", "commit.max-s", "step.a.le.1.0", "step.a.le.count", "step.b.le.1.0"),
    "restores": ("s.le.1.0", "u.le.1.0", "u.le.sum"),
    "mine": ("x", "y z", "y_z"),
}
_VALUES = st.integers(0, 1_000).map(float)
_TASK = st.dictionaries(st.sampled_from(NAMES), _VALUES)


@st.composite
def _containers(draw):
    tasks = draw(st.dictionaries(st.sampled_from(TASKS), _TASK))
    groups = {name: draw(st.dictionaries(st.sampled_from(names), _VALUES)) for name, names in GROUPS.items()}
    return {**groups, **tasks}


def _model(containers, limit, most_buckets):
    found = {}
    for number, groups in enumerate(containers):
        for group, values in groups.items():
            for name, value in values.items():
                named = task_metric(name) if group in TASKS else container_metric(group, name)
                labels = {"job": "j", "container": str(number), **dict(named.labels)}
                labels |= {"task": group} if group in TASKS else {}
                rows = found.setdefault(named.family.name, (named.family, {}))[1]
                rows.setdefault((named.part, frozenset(labels.items())), []).append(value * named.family.scale)
    for name, (family, rows) in found.items():
        for label in DROPPED:
            if len([part for part, _ in rows if part != BUCKET]) <= limit:
                break
            fewer = {}
            for (part, labels), values in rows.items():
                left = frozenset(pair for pair in labels if pair[0] != label)
                fewer.setdefault((part, left), []).extend(values)
            rows = fewer  # noqa: PLW2901
        if len([part for part, _ in rows if part == BUCKET]) > most_buckets:
            rows = {key: values for key, values in rows.items() if key[0] != BUCKET}  # noqa: PLW2901
        combine = COMBINE[family.merge]
        found[name] = {key: combine(values) for key, values in rows.items()}
    return found


@given(st.lists(_containers(), max_size=4), st.integers(0, 12), st.integers(0, 6))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_the_series_of_a_job_are_those_of_a_look_at_each_value(containers, limit, most_buckets):
    snapshots = [ContainerSnapshot(str(n), frozenset(TASKS), groups) for n, groups in enumerate(containers)]
    made = job_series(JobSnapshot("j", tuple(snapshots)), Bounds(limit, buckets=most_buckets))
    of_the_job = {family.name for family in OF_THE_JOB}
    rounded = partial(round, ndigits=6)
    assert {
        family.name: {(each.part, frozenset(each.labels)): rounded(each.value) for each in samples}
        for family, samples in made
        if family.name not in of_the_job
    } == {
        name: {key: rounded(value) for key, value in rows.items()}
        for name, rows in _model(containers, limit, most_buckets).items()
        if rows
    }


@given(_containers())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_columns_are_the_mapping_that_they_were_made_of(groups):
    made = MetricColumns.of(groups)
    assert dict(made) == groups
    assert made.groups() == groups
    assert MetricColumns.of(made) is made
    assert made.get("none") is None
