"""`outcome`: every torture test says what it measured; the run ends with one table of all of them."""

import sys
import uuid
from pathlib import Path

import pytest
from crash_job import CrashJob
from outcomes import Outcomes, Row

from samzapy.failpoints import disarm

# Torture looks at processes with what the integration tests look at them with.
sys.path.append(str(Path(__file__).parents[1] / "integration"))

_OUTCOMES = pytest.StashKey[Outcomes]()
_PASSED = pytest.StashKey[bool]()


def pytest_addoption(parser):
    parser.addoption("--torture-table", metavar="FILE", help="write the table of what was measured as Markdown")


def pytest_configure(config):
    config.stash.setdefault(_OUTCOMES, Outcomes())


@pytest.fixture
def outcome(request):
    """`outcome(scenario, guarantee=, system=, events=, faults=, lost=, duplicated=, mismatches=, recovery_s=None)`.

    Stores what was measured, then holds it to the promise table: nothing lost except at-most-once, nothing duplicated
    at-most-once and exactly-once, no mismatch of state effectively-once and exactly-once. `guarantee="any"` promises all
    three. A test that asks for it and ends well without a call fails.
    """
    outcomes = request.config.stash.setdefault(_OUTCOMES, Outcomes())
    before = len(outcomes.rows)

    def store(scenario, *, guarantee, system, events, faults, lost, duplicated, mismatches, recovery_s=None):
        row = Row(scenario, guarantee, system, 1, events, faults, lost, duplicated, mismatches, recovery_s)
        outcomes.rows.append(row)
        broken = row.broken_promises()
        assert not broken, broken

    yield store
    if request.node.stash.get(_PASSED, False):
        assert len(outcomes.rows) > before, "the test has not said what it measured"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


def pytest_terminal_summary(terminalreporter, config):
    outcomes = config.stash.setdefault(_OUTCOMES, Outcomes())
    if not outcomes.rows:
        return
    terminalreporter.section("what was lost, duplicated and different")
    terminalreporter.write_line(outcomes.text())
    file = config.getoption("--torture-table", default=None)
    if file:
        Path(file).write_text(outcomes.markdown(), encoding="utf-8")
        terminalreporter.write_line(f"written to {file}")


@pytest.fixture(params=["memory", "local"])
def ledger(request, tmp_path):
    """`ledger(guarantee, keys)`: a ledger job on an embedded system, its state below `tmp_path`."""
    jobs = []
    system = {"systems.sys.samza.factory": request.param}
    if request.param == "memory":
        system["systems.sys.cluster"] = uuid.uuid4().hex
    else:
        system["systems.sys.path"] = str(tmp_path / "local.db")

    def make(guarantee, keys=None, folder=None):
        jobs.append(CrashJob(system, uuid.uuid4().hex[:8], folder or tmp_path / "state", guarantee))
        jobs[-1].flat |= keys or {}
        return jobs[-1]

    yield make
    disarm()
    for job in jobs:
        job.close()
