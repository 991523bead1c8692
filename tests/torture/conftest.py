"""`outcome`: every torture test says what it measured; the run ends with one table of all of them."""

import uuid
from dataclasses import astuple
from pathlib import Path

import pytest
from crash_job import CrashJob
from outcomes import Outcomes, Row
from rigs.tcp_proxy import TcpProxy

from samzapy.devkafka import DevBroker, Listener
from samzapy.devkafka.broker import free_port
from samzapy.failpoints import disarm

_OUTCOMES = pytest.StashKey[Outcomes]()
_PASSED = pytest.StashKey[bool]()
#: The name under which a test's rows travel with its report, from whichever process ran it.
_ROW = "outcome"


def pytest_addoption(parser):
    parser.addoption("--torture-table", metavar="FILE", help="write the table of what was measured as Markdown")


def pytest_configure(config):
    outcomes = config.stash.setdefault(_OUTCOMES, Outcomes())
    config.pluginmanager.register(Collecting(outcomes), "torture-outcomes")


@pytest.fixture
def outcome(request):
    """`outcome(scenario, guarantee=, system=, events=, faults=, lost=, duplicated=, mismatches=, **largest)`.

    Stores what was measured, then holds it to the promise table: nothing lost except at-most-once, nothing duplicated
    at-most-once and exactly-once, no mismatch of state except at-most-once. `guarantee="any"` promises all three.
    `largest`, each None if it was not measured: `recovery_s`; `silent_s`, which `MOST` bounds; `cpu_percent`. A test
    that asks for it and ends well without a call fails.
    """
    told = request.node.user_properties

    def store(scenario, *, guarantee, system, events, faults, lost, duplicated, mismatches, **largest):
        row = Row(scenario, guarantee, system, 1, events, faults, lost, duplicated, mismatches, **largest)
        told.append((_ROW, astuple(row)))
        broken = row.broken_promises()
        assert not broken, broken

    yield store
    if request.node.stash.get(_PASSED, False):
        assert any(name == _ROW for name, _ in told), "the test has not said what it measured"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    return report


class Collecting:
    """Gathers the rows of every report that comes in."""

    def __init__(self, outcomes):
        self._outcomes = outcomes

    def pytest_runtest_logreport(self, report):
        if report.when == "call":
            self._outcomes.rows += [Row(*cells) for name, cells in report.user_properties if name == _ROW]


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


@pytest.fixture(scope="module")
def proxied(tmp_path_factory):
    """(bootstrap past the proxy, proxy): a broker with one address behind the proxy."""
    hidden = free_port()
    with TcpProxy(hidden) as proxy:
        listener = Listener("PROXIED", "PLAINTEXT", hidden, proxy.port)
        with DevBroker(tmp_path_factory.mktemp("proxied"), tied=True, listeners=[listener]) as broker:
            yield broker.running.bootstrap, proxy


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
