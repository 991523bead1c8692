"""What people read of a verification."""

from __future__ import annotations

import pytest

from samzapy.config.task import Guarantee
from samzapy.verify.campaign import COLUMNS, Plan, Row, by_guarantee, cells, remarks
from samzapy.verify.checkers import Finding, Verdict
from samzapy.verify.target import schedule

RECOVERIES_S = (4.25, 9.5)


def row(guarantee=Guarantee.EXACTLY_ONCE, *findings: Finding, gave_up=()) -> Row:
    plan = Plan("driver", guarantee, 3_000, 2, 7)
    struck = schedule("driver", [], 2, 3_000, plan.own_seed)
    return Row(
        plan=plan,
        verdict=Verdict(guarantee, findings),
        struck=struck,
        recoveries_s=RECOVERIES_S,
        seconds=30.0,
        job="verify-driver-1",
        gave_up=gave_up,
    )


def test_a_line_has_a_cell_a_column():
    line = dict(zip(COLUMNS, cells([row()], "driver"), strict=True))
    assert line == {
        "scenario": "driver",
        "events": "3,000",
        "faults": "2",
        "lost": "0",
        "duplicated": "0",
        "reordered": "0",
        "mismatches": "0",
        "recovery s": "9.5",
        "verdict": "kept",
    }


def test_what_a_guarantee_allows_is_counted_and_keeps_the_promise():
    allowed = row(Guarantee.AT_LEAST_ONCE, Finding("duplicates", 12, "id 3 came 2 times"))
    assert allowed.kept
    assert cells([allowed])[4] == "12"
    assert remarks([allowed]) == []


@pytest.mark.parametrize("check", ["store", "state", "lag", "echo", "partition", "aborted-read", "progress"])
def test_any_other_finding_is_a_mismatch_and_breaks_the_promise(check):
    broken = row(Guarantee.AT_LEAST_ONCE, Finding(check, 3, "something"))
    assert not broken.kept
    assert cells([broken])[6:] == ("3", "9.5", "BROKEN")
    assert remarks([broken]) == [f"at-least-once driver: {check}: 3, first: something"]


def test_what_another_writer_wrote_was_refused_or_the_promise_is_broken():
    def foreign(*findings: Finding) -> Row:
        plan = Plan("foreign-writer", Guarantee.AT_LEAST_ONCE, 3_000, 1, 7)
        return Row(plan=plan, verdict=Verdict(plan.guarantee, findings), struck=(), recoveries_s=(), seconds=30.0)

    assert cells([foreign()])[-1] == "refused"
    assert cells([foreign(Finding("progress", 1, "did not refuse"))])[-1] == "BROKEN"


def test_totals_are_sums_the_longest_recovery_and_broken_if_anything_is():
    rows = [row(), row(Guarantee.EXACTLY_ONCE, Finding("loss", 4, "x")), row(Guarantee.AT_MOST_ONCE)]
    assert cells(rows) == ("all", "9,000", "6", "4", "0", "0", "0", "9.5", "BROKEN")
    assert [line[0] for line in by_guarantee(rows)] == ["exactly-once (2)", "at-most-once (1)"]


def test_a_job_that_ended_by_itself_is_mentioned():
    (line,) = remarks([row(gave_up=("the broker is away",))])
    assert "ended by itself" in line
    assert "the broker is away" in line


def test_a_row_as_json_says_what_is_needed_to_run_it_again():
    told = row(Guarantee.EXACTLY_ONCE, Finding("loss", 4, "input id 3 has no output")).to_json()
    assert (told["guarantee"], told["seed"], told["events"], told["lost"], told["kept"]) == (
        "exactly-once",
        7,
        3_000,
        4,
        False,
    )
    assert told["scenario"] == "driver"
    assert len(told["schedule"]) == told["faults"] == 2
    assert told["violations"] == ["loss: 4, first: input id 3 has no output"]
