from __future__ import annotations

from pathlib import Path

import pytest

from samzapy.examples.page_views import PageViewCountTask
from samzapy.testing import TaskTestDriver, TestRunner

JOB = Path(__file__).parents[3] / "configs" / "page-views.properties"
VIEW = {"user": "ann"}


@pytest.fixture
def driver():
    with TaskTestDriver(PageViewCountTask, JOB, partitions=4) as made:
        yield made


def view(driver, *pages):
    for page in pages:
        driver.send("page-views", VIEW, key=page)


def counts(driver, page):
    return [count["views"] for count in driver.outputs("page-view-counts").messages if count["page"] == page]


def test_each_view_sends_the_new_count_of_its_page(driver):
    view(driver, "/home", "/docs", "/home")
    assert driver.outputs("page-view-counts").keys.count("/home") == 2
    assert counts(driver, "/home") == [1, 2]
    assert counts(driver, "/docs") == [1]


def test_a_commit_writes_a_page_to_the_changelog_once_however_often_it_was_seen(driver):
    view(driver, *["/home"] * 10, "/docs")
    driver.advance(60)  # task.commit.ms, by default
    assert sorted(driver.changelog("counts").pairs) == [("/docs", 1), ("/home", 10)]


def test_counts_go_on_after_a_crash(driver):
    view(driver, "/home", "/home")
    driver.commit()
    driver.crash()
    driver.restart()
    view(driver, "/home")
    assert counts(driver, "/home") == [1, 2, 3]


@pytest.mark.parametrize("point", ["commit.2", "commit.3", "commit.4", "commit.5", "commit.6"])
def test_in_exactly_once_no_crash_inside_a_commit_repeats_or_loses_a_count(point):
    exactly_once = {"task.guarantee": "exactly-once", "task.commit.ms": "10000"}
    with TaskTestDriver(PageViewCountTask, JOB, exactly_once) as driver:
        view(driver, "/home", "/home")
        driver.crash(at=point)
        driver.restart()
        view(driver, "/home")
        driver.commit()
        assert [count["views"] for count in driver.committed("page-view-counts").messages] == [1, 2, 3]


def test_the_whole_job_counts_every_view_of_its_input():
    views = [(page, VIEW) for page in ("/home", "/docs", "/home", "/about", "/home")]
    run = TestRunner.of(JOB).with_input("page-views", views, partitions=4).run()
    assert run.store("counts") == {"/home": 3, "/docs": 1, "/about": 1}
    assert run.status.processed == 5
