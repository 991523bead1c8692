"""A task's metrics under the groups and names that Samza has for them, so that dashboards made for Samza find them.

Samza publishes a snapshot a task, its source `TaskName-Partition 0`; a store's metrics are named `STORE-PROPERTY` in the
group of the class that counts them. Of a store there is everything in the first group, and in the others what they share
with Samza's:

    KeyValueStoreMetrics            counts-gets, counts-puts, counts-deletes, counts-flushes, ... every property there is
    CachedStoreMetrics              counts-gets, ..., counts-cache-hits, counts-dirty-count, counts-cache-size
    KeyValueStorageEngineMetrics    counts-gets, ..., counts-messages-restored, counts-messages-bytes
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

Groups = dict[str, dict[str, float]]

#: Between a task's group in the registry and its stores' metrics: `store.NAME.PROPERTY`.
STORE = "store."
_PACKAGE = "org.apache.samza.storage.kv."
_CALLS = {"gets": "gets", "puts": "puts", "deletes": "deletes", "flushes": "flushes"}
#: Of every group our name of a property and Samza's.
_GROUPS: Mapping[str, Mapping[str, str]] = {
    f"{_PACKAGE}CachedStoreMetrics": {
        **_CALLS,
        "hits": "cache-hits",
        "dirty-entries": "dirty-count",
        "cached-entries": "cache-size",
    },
    f"{_PACKAGE}KeyValueStorageEngineMetrics": {
        **_CALLS,
        "messages-restored": "messages-restored",
        "messages-bytes": "messages-bytes",
    },
}
_EVERYTHING = f"{_PACKAGE}KeyValueStoreMetrics"


def task_snapshots(metrics: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, Groups]]:
    """The source and the groups of every task that has stores; `metrics` are a container's, by group and name."""
    for task, values in metrics.items():
        groups: Groups = {}
        for name, value in values.items():
            if name.startswith(STORE):
                store, _, leaf = name.removeprefix(STORE).rpartition(".")
                _add(groups, store, leaf, value)
        if groups:
            yield f"TaskName-{task}", groups


def _add(groups: Groups, store: str, leaf: str, value: float) -> None:
    groups.setdefault(_EVERYTHING, {})[f"{store}-{leaf}"] = value
    for group, names in _GROUPS.items():
        if leaf in names:
            groups.setdefault(group, {})[f"{store}-{names[leaf]}"] = value
