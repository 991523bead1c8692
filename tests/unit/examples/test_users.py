"""Two tables joined in a store whose changelog is the output, against a join that SQL makes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from rigs.streams_of import StreamsOf

from samzapy.config.loader import load_job
from samzapy.examples import users
from samzapy.runner.base import RunOptions
from samzapy.runner.local import LocalRunner
from samzapy.runner.prepare import prepare

JOB = Path(__file__).parents[3] / "configs" / "users.properties"
JOIN = """
SELECT p.user_id, p.name, p.city, s.theme, s.mails FROM profiles p
LEFT JOIN settings s ON s.user_id = p.user_id AND NOT s.deleted WHERE NOT p.deleted
"""


@pytest.fixture
def job(tmp_path):
    return load_job(
        JOB,
        {
            "systems.events.path": str(tmp_path / "local.db"),
            "systems.shop.database.url": f"sqlite:///{tmp_path}/users.db",
            "job.logged.store.base.dir": str(tmp_path / "state"),
        },
    )


def run(job):
    return LocalRunner().run(prepare(job, until_end=True), RunOptions()).status.processed


def output(job):
    found = StreamsOf(job, "events").table("users")
    return {key.decode(): json.loads(value) for key, value in found.items()}


def joined(tmp_path):
    with closing(sqlite3.connect(tmp_path / "users.db")) as connection:
        rows = connection.execute(JOIN).fetchall()
    found = {}
    for user, name, city, theme, mails in rows:
        found[user] = {"profiles": {"name": name, "city": city}}
        if theme is not None:
            found[user]["settings"] = {"theme": theme, "mails": bool(mails)}
    return found


def test_the_changelog_follows_the_tables_through_changes_and_a_replay_from_the_beginning(job, tmp_path):
    users.create(tmp_path / "users.db")
    assert run(job) == 0
    users.fill(tmp_path / "users.db")
    assert run(job) == 5
    assert output(job) == joined(tmp_path)
    assert len(output(job)) == 3
    users.change(tmp_path / "users.db")
    assert run(job) == 4
    assert output(job) == joined(tmp_path)
    assert len(output(job)) == 2
    shutil.rmtree(tmp_path / "state")
    again = {f"streams.{table}.samza.reset.offset": "true" for table in users.TABLES}
    assert run(load_job(dict(job.resolved), again)) == 6  # a row each, as it is now
    assert output(job) == joined(tmp_path)


def test_a_database_can_be_the_input_of_exactly_once(job, tmp_path):
    users.create(tmp_path / "users.db")
    users.fill(tmp_path / "users.db")
    exact = load_job(dict(job.resolved), {"task.guarantee": "exactly-once", "task.commit.ms": "1000"})
    assert run(exact) == 5
    assert output(job) == joined(tmp_path)
