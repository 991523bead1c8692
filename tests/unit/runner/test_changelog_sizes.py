"""The sizes of changelogs, as the driver looks at them."""

import threading

import pytest
from jobs.memory_job import MemoryJob

from samzapy.api.stream import SystemStreamPartition
from samzapy.container.supervision.job_records import JobRecords
from samzapy.coordinator.coordinator import Coordinator
from samzapy.coordinator.status import ChangelogSize
from samzapy.coordinator.views import job_series
from samzapy.coordinator.wire import JobSpec
from samzapy.metrics.registry import as_text
from samzapy.runner import driver
from samzapy.runner.checks import Checks
from samzapy.runner.driver import changelogs_of, watch_sizes
from samzapy.runner.prepare import prepare

DEADLINE_S = 60.0


class Looks(Coordinator):
    """A coordinator that can be waited for."""

    def __init__(self, prepared):
        super().__init__("job", JobSpec(prepared.model, {}), 5.0)
        self.looked = threading.Event()

    def note_changelogs(self, sizes, period_s):
        super().note_changelogs(sizes, 60.0)
        self.looked.set()


@pytest.fixture(autouse=True)
def early(monkeypatch):
    monkeypatch.setattr(driver, "_SIZES_FIRST_S", 0.01)
    monkeypatch.setattr(driver, "_SIZES_PACE_S", 0.01)


@pytest.fixture
def job(tmp_path):
    made = MemoryJob(tmp_path)
    made.send((0, "a", {"id": 1}), (1, "b", {"id": 2}), (1, "c", {"id": 3}))
    made.run()
    return made


def checks_of(job):
    return Checks(JobRecords.of(job.config, "checks"))


def offsets_of(job):
    ssps = [SystemStreamPartition("mem", "counts-changelog", number) for number in range(2)]
    return sum(log.upcoming - log.oldest for log in job.admin.offsets(ssps).values())


def test_the_status_and_the_metrics_have_the_offsets_of_each_changelog(job):
    prepared = prepare(job.config, until_end=True)
    coordinator = Looks(prepared)
    with checks_of(job) as checks:
        watch_sizes(changelogs_of(prepared), coordinator, checks)
        assert coordinator.looked.wait(DEADLINE_S)
    status = coordinator.status()
    assert offsets_of(job) >= 3
    assert status.changelogs == {"counts": ChangelogSize(2, offsets_of(job))}
    assert status.to_json()["changelogs"] == {"counts": {"partitions": 2, "offsets": offsets_of(job)}}
    text = as_text(job_series(status)).decode()
    assert f'samzapy_job_changelog_offsets{{job="job",store="counts"}} {float(offsets_of(job))}' in text


def test_a_changelog_that_has_grown_is_one_warning_with_the_way_back(job):
    prepared = prepare(job.config, until_end=True)
    job.admin.grow("counts-changelog", 4)
    heard, coordinator = [], Looks(prepared)
    with checks_of(job) as checks:
        watch_sizes(changelogs_of(prepared), coordinator, checks, heard.append)
        for _ in range(3):
            coordinator.looked.clear()
            assert coordinator.looked.wait(DEADLINE_S)
    (line,) = heard
    assert line.startswith("warning: changelog mem.counts-changelog of store 'counts' has grown from 2 to 4 partitions")
    assert "stores.counts.changelog (samzapy.dataframe.read_store" in line
    assert coordinator.status().changelogs["counts"].partitions == 2


def test_a_job_without_changelogs_has_no_check_for_them(tmp_path):
    job = MemoryJob(tmp_path, **{"stores.counts.changelog": ""})
    prepared = prepare(job.config, until_end=True)
    with checks_of(job) as checks:
        watch_sizes(changelogs_of(prepared), Looks(prepared), checks)
        assert "cluster-checks" not in {thread.name for thread in threading.enumerate()}
