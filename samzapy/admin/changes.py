"""Compares a job file with what the running or last run of the job has stored: steps, stores and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from samzapy.admin.job_check import Warn, reading
from samzapy.admin.store_queries import Question, store_entries
from samzapy.admin.user_code import JobCode
from samzapy.api.checkpoint import JobRecord, JobRun
from samzapy.checkpoint.managers import one_pass
from samzapy.checkpoint.records import read_changelog_partitions, read_owner
from samzapy.config.job import JobConfig
from samzapy.container.supervision.job_records import JobRecords
from samzapy.job.planner import from_json


class Change(NamedTuple):
    """A difference. `before` and `now`: what its state or stream is, empty for none. `refused`: a start raises."""

    kind: str
    name: str
    before: str
    now: str
    effect: str
    refused: bool = False


def changes_since(config: JobConfig, code: JobCode, warn: Warn) -> tuple[JobRun | None, Sequence[Change]]:
    """The run that owns or owned the job, None if there was none, and what its successor with this file would find
    changed. `warn` gets a line if an open transaction hides that. Raises NotReachable."""
    owner, inputs, stores = None, frozenset[str](), dict[str, str]()
    with (
        closing(JobRecords.of(config, "check")) as records,
        reading(records, "what earlier runs have stored", warn) as checkpoints,
        one_pass(checkpoints),
    ):
        owner = read_owner(checkpoints)
        inputs = frozenset(map(str, from_json(checkpoints.read_record(JobRecord.INPUTS).newest)))
        for item in filter(None, checkpoints.read(read_changelog_partitions(checkpoints)).values()):
            stores |= {name: ", ".join(serdes) for name, serdes in item.serdes.items()}
    # Known by its plan: jobs of tasks import no pipelines.
    plan: Any = getattr(code.task_class, "plan", None)
    wanted: Mapping[str, str] = {} if plan is None else plan.signatures
    known = _steps(config, plan.memory) if plan is not None and plan.memory in stores else {}
    specs = {name: spec for name, spec in code.engines.items() if spec.config.changelog is not None}
    now = {name: ", ".join(spec.serde_names) for name, spec in specs.items()}
    own = {str(stream) for stream in config.repartitions}
    streams = {str(stream): "between steps" if str(stream) in own else "input" for stream in config.task.inputs}
    of_steps = known.keys() | wanted.keys()
    return owner, [
        *_changes("step", known, wanted, _OF_STEPS),
        *(item for item in _changes("store", stores, now, _OF_STORES) if item.refused or item.name not in of_steps),
        *_changes("stream", {name: streams.get(name, "input") for name in inputs}, streams, _OF_STREAMS),
    ]


#: What follows if something is lost, gained, or changed.
_OF_STEPS = (
    "nothing reads its state, which stays in its changelog",
    "starts without state",
    "which it would read: give the new step another name with name=...",
)
_OF_STORES = (
    "nothing reads it; its changelog stays",
    "starts empty if its changelog is empty",
    "in which its state is written: give the store another name and changelog",
)
_OF_STREAMS = ("not read any more: what it holds beyond the commit stays there", "new to the job", "")


def _changes(
    kind: str, before: Mapping[str, str], now: Mapping[str, str], effects: tuple[str, str, str]
) -> Iterator[Change]:
    lost, gained, changed = effects
    for name in sorted(before.keys() | now.keys()):
        if name not in now:
            yield Change(kind, name, before[name], "", lost)
        elif name not in before:
            yield Change(kind, name, "", now[name], gained)
        elif before[name] != now[name]:
            yield Change(kind, name, before[name], now[name], changed, refused=True)


def _steps(config: JobConfig, store: str) -> dict[str, str]:
    """The steps that earlier runs have remembered."""
    with store_entries(Question(config, store)) as entries:
        return dict(entries.values(entry) for entry in entries.of_range())
