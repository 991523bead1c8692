"""`serializers.registry.*`."""

from __future__ import annotations

from samzapy.config.classes import SERDES
from samzapy.config.keys import Key, collect
from samzapy.config.kinds import TEXT
from samzapy.config.reader import Reader, did_you_mean

CLASS = Key(
    "serializers.registry.{serde}.class",
    SERDES.kind,
    None,
    "The serde of that name: a Serde or SerdeFactory class, a built-in's name, or Samza's Java class name.",
    "the built-ins need none",
)
SETTINGS = Key("serializers.registry.{serde}.*", TEXT, None, "Given to the serde's factory, without the prefix.")
KEYS = collect(globals())

_PREFIX, _SUFFIX = "serializers.registry.", ".class"


def parse_serdes(reader: Reader) -> dict[str, str]:
    """Class paths by serde name, the built-in ones included; nothing is imported."""
    serdes = dict(SERDES.short)
    for key in reader.values:
        if key.startswith(_PREFIX) and key.endswith(_SUFFIX) and len(key) > len(_PREFIX + _SUFFIX):
            name = key[len(_PREFIX) : -len(_SUFFIX)]
            serdes[name] = reader.get(CLASS, serde=name) or serdes.get(name, "")
    return serdes


def check_serde(reader: Reader, serdes: dict[str, str], key: str, name: str | None) -> None:
    """Note a problem if `key` names a serde that nobody registered."""
    if name and name not in serdes:
        reader.problem(key, unknown_serde(name, serdes))


def unknown_serde(name: str, known: dict[str, str]) -> str:
    """The sentence about a serde that is not registered."""
    return f"serde {name!r} unknown; known: {', '.join(known)}{did_you_mean(name, known)}"
