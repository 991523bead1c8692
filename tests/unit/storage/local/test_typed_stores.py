"""Stores of a class: what was written before, and after fields were added; what cannot be read is refused at the
start."""

from __future__ import annotations

import pytest
from jobs.typed_views import Place, Visits, VisitsSince
from rigs.store_rig import LOGGED, store_job

from samzapy.api.system import SystemSettings
from samzapy.errors import ConfigError
from samzapy.system.local.factory import MemoryCluster
from samzapy.testing import ManualClock, open_store

JOB = store_job(LOGGED)
VISITS = {"stores.s.msg.type": "jobs.typed_views:Visits"}
SINCE = {"stores.s.msg.type": "jobs.typed_views:VisitsSince"}
NAMED = {"stores.s.msg.type": "jobs.typed_views:NamedVisits"}


class PagedPlace(Place, frozen=True):
    number: int = 1


PAGED = f"{__name__}:PagedPlace"


@pytest.fixture
def opened_as(tmp_path):
    """Opens the store with other keys of the job file, always on the same changelog and disk."""
    MemoryCluster.reset_all()
    settings = SystemSettings("changelogs", "samzapy.system.local.factory:MemorySystemFactory")
    return lambda clock=None, **keys: open_store(
        JOB | keys, "s", tmp_path, clock=clock or ManualClock(), changelogs=settings
    )


def test_a_store_of_plain_json_is_opened_with_a_class_that_fits_and_with_more_fields_later(opened_as):
    with opened_as() as opened:
        opened.store.put("ann", {"count": 1})
        opened.commit()
    with opened_as(**VISITS) as opened:
        assert opened.restored.source == "local store"
        assert opened.store.get("ann") == Visits(1)
        opened.store.put("gus", Visits(2))
        opened.commit()
    with opened_as(**SINCE) as opened:
        assert opened.restored.source == "local store"
        assert opened.store.get("ann") == VisitsSince(1)
        opened.store.put("eve", VisitsSince(3, 17))
        opened.commit()
        opened.lose_local_state()
        assert opened.restored.source == "changelog"
        assert dict(opened.store.all()) == {"ann": VisitsSince(1), "eve": VisitsSince(3, 17), "gus": VisitsSince(2)}
    with opened_as() as opened:
        assert opened.store.get("ann") == {"count": 1}


@pytest.mark.parametrize("lost", [False, True])
def test_a_class_that_cannot_read_what_the_store_holds_is_refused_at_the_start_in_one_line(opened_as, lost):
    with opened_as() as opened:
        opened.store.put("ann", {"count": 1})
        opened.commit()
    lose = {"stores.s.clean.on.container.start": "true"} if lost else {}
    with pytest.raises(ConfigError) as refused, opened_as(**NAMED, **lose):
        pass
    assert refused.value.exit_code == 2
    line = str(refused.value)
    assert line.startswith(
        "stores.s.msg.type: does not read what the store holds: key 'ann': $.count: Expected str, got int;"
    )
    assert line.endswith("got 'jobs.typed_views:NamedVisits'")
    assert "\n" not in line
    with opened_as(**VISITS) as opened:
        assert opened.store.get("ann") == Visits(1)


def test_keys_of_a_class_are_found_again_in_their_order(opened_as):
    keys = {"stores.s.key.serde": "json", "stores.s.key.type": "jobs.typed_views:Place"}
    with opened_as(**keys, **VISITS) as opened:
        opened.store.put(Place("b", "/"), Visits(2))
        opened.store.put(Place("a", "/"), Visits(1))
        opened.commit()
        opened.crash()
        assert list(opened.store.all()) == [(Place("a", "/"), Visits(1)), (Place("b", "/"), Visits(2))]
        assert opened.store.get(Place("b", "/")) == Visits(2)
    for kind, reason in (("jobs.typed_views:TupleView", "Expected array, got object"), (PAGED, "would not be found")):
        message = rf"stores\.s\.key\.type: does not read .*{reason}"
        with pytest.raises(ConfigError, match=message), opened_as(**keys | VISITS | {"stores.s.key.type": kind}):
            pass
