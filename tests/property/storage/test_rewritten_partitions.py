"""The records of a migrated partition make the new store of the old one, also after a crash anywhere between them."""

from contextlib import ExitStack

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from samzapy.admin.migration.plan import Conversion, MigrationPlan, StoreForm
from samzapy.admin.migration.rewriting import EntryRewriter, RewrittenPartition, rewrite_partition
from samzapy.api.engine import EngineSettings
from samzapy.api.stream import SystemStreamPartition
from samzapy.serializers import JsonSerde, LongSerde, StringSerde
from samzapy.storage.inspection import Contents
from samzapy.storage.kv.memory import InMemoryStorageEngineFactory

SSP = SystemStreamPartition("k", "log", 0)
KEYS = st.sampled_from("abcdef")
OLD = st.dictionaries(KEYS, st.integers(0, 9))
#: By old key the new one, None to delete the entry; the other keys stay.
MOVES = st.dictionaries(KEYS, st.sampled_from(["a", "b", "c", "x", "y", None]))
#: Entries that stay in memory, entries of a file.
SIZES = [0, 10**9]


def rewritten(old, moves, size, folder, apart):
    """The result for the entries `old`, by bytes, and its misfits."""

    def change(key, value):
        new = moves.get(key, key)
        return None if new is None else (new, {"n": value})

    with ExitStack() as opened:
        engine = InMemoryStorageEngineFactory().open(None, EngineSettings("s"))
        engine.write(old, b"marker")
        contents = Contents({0: engine}, opened, None, {})
        form = StoreForm("string", None, "long", None)
        plan = MigrationPlan("s", form, form, "some:function", ("string", "json"))
        conversion = Conversion((StringSerde(), LongSerde()), (StringSerde(), JsonSerde()), change)
        result = RewrittenPartition("s", 0, size, folder)
        opened.callback(result.close)
        misfits = rewrite_partition(contents, SSP, EntryRewriter(plan, conversion, None), result, bool, apart=apart)
        records = [(key, value) for key, value, _ in result.values()] + [(key, None) for key in result.tombstones()]
    return records, misfits


def as_bytes(old):
    return {key.encode(): value.to_bytes(8, "big") for key, value in old.items()}


def model(old, moves):
    """The new store, None if two entries become one."""
    new = [(moves.get(key, key), b'{"n":%d}' % value) for key, value in old.items()]
    new = [(key.encode(), value) for key, value in new if key is not None]
    return dict(new) if len(dict(new)) == len(new) else None


def applied(store, records):
    merged = {**store, **dict(records)}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.mark.parametrize("size", SIZES)
@hypothesis_settings(max_examples=25)
@given(old=OLD, moves=MOVES)
def test_the_records_turn_the_old_store_into_the_new_one(size, old, moves, tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") if size else None
    records, misfits = rewritten(as_bytes(old), moves, size, folder, apart=False)
    expected = model(old, moves)
    assert bool(misfits) == (expected is None)
    if expected is not None:
        assert len(dict(records)) == len(records)
        assert applied(as_bytes(old), records) == expected


@given(old=OLD, moves=MOVES, cut=st.integers(0, 20), compacted=st.booleans())
def test_a_second_attempt_without_transactions_makes_the_same_store(old, moves, cut, compacted):
    old_bytes, expected = as_bytes(old), model(old, moves)
    records, misfits = rewritten(old_bytes, moves, 0, None, apart=True)
    if misfits:
        return
    first = records[:cut]
    # Compaction drops an old record once a later one has its key.
    kept = {key: value for key, value in old_bytes.items() if not compacted or key not in dict(first)}
    again, misfits = rewritten(kept, moves, 0, None, apart=True)
    assert not misfits
    assert applied(applied(old_bytes, first), again) == expected
