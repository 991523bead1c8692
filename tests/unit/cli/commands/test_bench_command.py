"""`samzapy bench events` and `samzapy bench job`."""

import json

import pytest
from counting_job import PAGES, prepare_job

JOB = """
job.name=views
job.default.system=local
task.class=views:Views
task.inputs=local.views-.*
systems.local.samza.factory=local
systems.local.path=log.db
"""


def test_events_need_an_input_with_a_name(samzapy, tmp_path):
    (tmp_path / "job.properties").write_text(JOB)
    code, _, errors = samzapy("bench", "events", "job.properties", "--count", "10")
    assert code == 2
    assert "task.inputs: must name a stream for the events, not only regular expressions" in errors
    assert "got 'local.views-.*'" in errors


def test_runs_that_would_share_the_streams_between_steps_are_refused(samzapy, tmp_path):
    (tmp_path / "flows.py").write_text(
        "from samzapy import Pipeline\np = Pipeline('p')\np.stream('local.in').key_by(str).count()"
    )
    code, _, errors = samzapy("bench", "job", "flows:p", "--repeat", "2")
    assert (code, "--repeat: runs would share local.p-by-str" in errors) == (2, True)


@pytest.mark.slow
def test_the_repeats_of_every_call_read_everything(samzapy):
    prepare_job(samzapy)
    for _ in range(2):
        code, output, errors = samzapy("bench", "job", "job.properties", "--repeat", "2", "--json")
        assert code == 0, errors
        assert [run["messages"] for run in json.loads(output)] == [len(PAGES), len(PAGES)]
