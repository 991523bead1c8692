"""`samzapy startpoint`, on a job that has run on the local system."""

import shutil

from counting_job import COUNTS, run_job


def test_a_startpoint_is_written_shown_followed_once_and_gone(samzapy, ran):
    shutil.copytree(ran, ".", dirs_exist_ok=True)
    told = samzapy("startpoint", "set", "job.properties", "oldest")[1]
    assert told == "the next start begins at oldest in local.views[0], local.views[1]\n"
    shown = [line.split() for line in samzapy("startpoint", "show", "job.properties")[1].splitlines()]
    assert [row[:3] for row in shown if row and row[0].startswith("local.")] == [
        [f"local.views[{number}]", "all", "oldest"] for number in (0, 1)
    ]
    assert f"{sum(COUNTS.values())} messages" in run_job(samzapy)
    assert "0 messages" in run_job(samzapy)
    assert samzapy("startpoint", "clear", "job.properties")[1] == "0 startpoints dropped\n"
