"""The keys of job files, by topic, from their declarations."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from docs.generator.markdown import cell, code, table
from samzapy.config.known_keys import ALL_KEYS, texts, unsupported
from samzapy.config.reading.keys import Key

#: The topics in their order on the page, with what the names of their keys begin with. The longest beginning counts.
_TOPICS = {
    "The job": r"job\.",
    "Tasks: class, inputs, guarantee, timing": r"task\.",
    "Messages that fail": r"task\.(error|drop|ignored|dead)",
    "Positions and checkpoints": r"task\.checkpoint|state\.checkpoint",
    "Event time and timers": r"task\.(watermark|timers)|job\.clock",
    "Systems": r"systems\.",
    "Streams": r"streams\.",
    "Tables of a database as streams": r"(systems|streams)\.\{\w+\}\.database",
    "Serdes and schema registries": r"serializers\.",
    "Stores": r"stores\.",
    "Stores: changelog": r"stores\.\{store\}\.changelog",
    "Stores: filled from streams": r"stores\.\{store\}\.(side|restore\.inputs)",
    "Stores: snapshots": r"stores\.\{store\}\.backup",
    "Stores: RocksDB": r"stores\.\{store\}\.(rocksdb|container)",
    "Stores: views": r"stores\.\{store\}\.(base|heap|bloom|hyperloglog|quantiles|index|cube)",
    "Where local state is, and who has a copy": r"job\.(logged|non-logged|host-affinity|standbytasks|orphaned)",
    "Memory of a container": r"container\.",
    "Spark": r"job\.spark",
    "Metrics": r"metrics\.",
    "Logs, stalls and lag": r"job\.(log\.|lag|offsets)|task\.stall",
    "Queries": r"job\.query",
}
_OTHER = "More"


def keys() -> str:
    """A table for each topic."""
    about = texts()
    return "\n".join(
        f"## {title}\n\n{table(('key', 'default', 'meaning'), [_row(key, about[key.name]) for key in found])}"
        for title, found in _by_topic(ALL_KEYS).items()
        if found
    )


def unsupported_keys() -> str:
    """Samza's keys without a meaning here."""
    rows = [(code(key), cell(effect), cell(why)) for key, effect, why in unsupported()]
    return table(("key", "a job with it", "why"), rows)


def _row(key: Key[Any], text: str) -> tuple[str, ...]:
    default = "" if key.default_text == "-" else cell(key.default_text)
    meaning = f"{cell(text)} *Takes {cell(key.kind.allowed)}.*"
    if key.leaves:
        meaning += f" The names: {', '.join(map(code, key.leaves))}."
    if key.otherwise:
        meaning += f" If it is absent: {', '.join(map(code, key.otherwise))}."
    return f'<a id="{key.name}"></a>{code(key.name)}', default, meaning


def _by_topic(found: Iterable[Key[Any]]) -> dict[str, list[Key[Any]]]:
    topics: dict[str, list[Key[Any]]] = {title: [] for title in [*_TOPICS, _OTHER]}
    for key in found:
        topics[_topic(key.name)].append(key)
    return topics


def _topic(name: str) -> str:
    matches = {title: re.match(beginning, name) for title, beginning in _TOPICS.items()}
    lengths = {title: match.end() for title, match in matches.items() if match}
    return max(lengths, key=lambda title: lengths[title], default=_OTHER)
