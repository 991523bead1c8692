"""Large values, watched objects, clean starts, and RocksDB's own choices."""

import pytest
from rigs.store_rig import LOGGED, store_job

from samzapy.errors import StoreError, StoreRefused
from samzapy.testing import open_store


def job(**keys):
    return store_job(LOGGED | {name.replace("_", "."): value for name, value in keys.items()})


LIMIT = {"changelog_max_message_size_bytes": "10"}
CACHES = [{}, {"object_cache_size": "0"}]


@pytest.mark.parametrize("cache", CACHES)
def test_a_large_value_is_refused_at_its_put_and_the_old_one_stays(tmp_path, cache):
    with open_store(job(disallow_large_messages="true", **LIMIT, **cache), "s", tmp_path) as opened:
        opened.store.put("a", "12345678")  # 10 bytes of JSON
        with pytest.raises(StoreRefused, match=r"store 's': value of key 'a' has 11 B, more than 10 B"):
            opened.store.put("a", "123456789")
        with pytest.raises(StoreRefused):
            opened.store.put_all({"b": 1, "c": "123456789"})
        opened.commit()
        assert list(opened.store.all()) == [("a", "12345678")]


@pytest.mark.parametrize("cache", CACHES)
def test_a_large_value_is_left_out_and_counted_and_never_seen(tmp_path, cache):
    with open_store(job(drop_large_messages="true", **LIMIT, **cache), "s", tmp_path) as opened:
        opened.store.put("a", 1)
        opened.store.put("a", "123456789")
        assert opened.store.get("a") == 1
        opened.store.put_all({"b": 2, "c": "123456789"})
        opened.commit()
        assert list(opened.store.all()) == [("a", 1), ("b", 2)]
        assert opened.changelog() == [(b"a", b"1"), (b"b", b"2")]
        assert opened.stores.metrics()["s.ignored-large-messages"] == 2


def test_a_record_that_the_changelog_does_not_take_is_large(tmp_path):
    # 100 bytes, and 128 for what a system counts beside key and value.
    keys = job(drop_large_messages="true", changelog_max_message_bytes="228")
    with open_store(keys, "s", tmp_path) as opened:
        opened.store.put("k" * 50, "v" * 48)  # with quotes 50 bytes
        opened.store.put("k" * 51, "v" * 48)
        opened.commit()
        assert [key for key, _ in opened.store.all()] == ["k" * 50]


@pytest.mark.parametrize("keys", [{}, {"object_cache_size": "0"}, {"object_cache_mode": "copy"}])
def test_an_object_changed_after_its_get_is_named(tmp_path, keys):
    with open_store(job(object_cache_check="true", **keys), "s", tmp_path) as opened:
        opened.store.put("user-7", [1])
        opened.commit()
        opened.store.get("user-7").append(2)
        with pytest.raises(StoreError, match="store 's': the value of key 'user-7' was changed without a put"):
            opened.commit()


def test_a_change_that_is_put_is_saved_and_not_complained_of(tmp_path):
    with open_store(job(object_cache_check="true"), "s", tmp_path) as opened:
        opened.store.put("a", [1])
        opened.commit()
        value = opened.store.get("a")
        value.append(2)
        opened.store.put("a", value)
        opened.store.get("b")
        opened.commit()
        opened.store.get("a").append(3)
        opened.store.delete("a")
        opened.commit()
        assert list(opened.store.all()) == []


def test_a_clean_start_restores_everything_from_the_changelog(tmp_path):
    for clean, source in (("false", "local store"), ("true", "changelog")):
        with open_store(job(clean_on_container_start=clean), "s", tmp_path / clean) as opened:
            opened.store.put("a", 1)
            opened.commit()
            opened.reopen()
            assert opened.restored.source == source
            assert opened.store.get("a") == 1
