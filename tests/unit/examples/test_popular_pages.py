"""A job that reads another job's changelog, beside a count of its own."""

import random
from collections import Counter
from pathlib import Path

import pytest
from rigs.streams_of import StreamsOf

from samzapy.config.loader import load_job
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare
from samzapy.system.factories import system_factory

CONFIGS = Path(__file__).parents[3] / "configs"
ENOUGH = 12


@pytest.fixture
def jobs(tmp_path):
    """The first job and the second, on one embedded system."""
    keys = {"systems.events.path": str(tmp_path / "local.db"), "job.logged.store.base.dir": str(tmp_path / "state")}
    first = load_job(CONFIGS / "page-views.properties", keys)
    second = load_job(CONFIGS / "popular-pages.properties", keys | {"popular.pages.views": str(ENOUGH)})
    streams = StreamsOf(first, "events")
    for stream, partitions in (("page-views", 4), ("page-view-counts", 1), ("popular-pages", 1)):
        streams.create(stream, partitions)
    return first, second, streams


def run(job):
    return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed


def test_pages_are_told_once_when_their_count_in_the_first_jobs_state_is_reached(jobs):
    first, second, streams = jobs
    pick, views = random.Random(7), Counter()
    for _ in range(2):
        pages = [f"/page-{min(pick.randint(0, 20), pick.randint(0, 20))}".encode() for _ in range(120)]
        views.update(pages)
        streams.send("page-views", [(page, b"{}") for page in pages])
        assert run(first) == len(pages)
        run(second)
        told = [key for key, _ in streams.read("popular-pages")]
        assert Counter(told) == Counter({page: 1 for page, count in views.items() if count >= ENOUGH})
    assert 0 < len(told) < len(views)


def test_a_second_job_that_comes_after_the_cleaner_finds_every_page(jobs):
    first, second, streams = jobs
    for _ in range(2):
        streams.send("page-views", [(b"/a", b"{}"), (b"/b", b"{}")] * (ENOUGH // 2) + [(b"/c", b"{}")])
        run(first)
    settings = first.systems["events"]
    admin = system_factory(settings).admin(settings, "test")
    assert admin.compact("page-views-counts-changelog") == 3
    assert run(second) == 3
    assert sorted(key for key, _ in streams.read("popular-pages")) == [b"/a", b"/b"]
