"""What holds for each key, whatever dataclass declares it."""

import ast
from pathlib import Path

import pytest

import samzapy
from samzapy.config.known_keys import ALL_KEYS, REMOVED, SECTIONS, KnownKeys, no_effect, refused, removed, texts
from samzapy.config.reading.keys import Reader, keys_by_field

NAMES = {"system": "k", "stream": "s", "physical": "p", "store": "t", "serde": "x", "reporter": "r"}
DECLARED = [
    pytest.param(section, field, key, id=key.name)
    for section in SECTIONS
    for field, key in keys_by_field(section).items()
    if not key.name.endswith(".*")
]
#: Texts of which one is no value of any kind that refuses some text.
ODD = ["?", "-99", "[", "a b/", "~no-such-user/x", "a\0b"]


def refused_by(kind):
    for text in ODD:
        try:
            kind.parse(text)
        except ValueError:
            return text
    return None


@pytest.mark.parametrize(("section", "field", "key"), DECLARED)
def test_a_bad_value_is_refused_with_its_key_and_counts_as_the_default(section, field, key):
    text = refused_by(key.kind)
    for place in key.places(**NAMES) if text is not None else ():
        reader = Reader({place: text})
        assert reader.value(section, field, **NAMES) == key.default
        (problem, *required) = reader.problems
        assert (problem.key, problem.value) == (place, text)
        assert problem.message.startswith("expected ")
        assert not required


@pytest.mark.parametrize(("section", "field", "key"), DECLARED)
def test_an_absent_key_has_its_default_and_a_required_one_is_named(section, field, key):
    reader = Reader({})
    assert reader.value(section, field, **NAMES) == key.default
    named = [str(problem) for problem in reader.problems]
    assert named == ([] if key.example is None else [f"{key.places(**NAMES)[0]}: required, e.g. {key.example}"])


def test_the_first_of_a_keys_places_counts():
    for section, field, key in (param.values for param in DECLARED):
        places = key.places(**NAMES)
        for number, place in enumerate(places):
            reader = Reader(dict.fromkeys(places[number:], ""))
            assert reader.place(section, field, **NAMES) == place


def test_each_key_has_a_text_and_one_declaration():
    about = texts()
    assert all(about[key.name].endswith((".", ".)")) for key in ALL_KEYS)
    assert len({key.name for key in ALL_KEYS}) == len(ALL_KEYS)
    assert all(key.default_text for key in ALL_KEYS)


def test_no_key_that_is_read_is_removed_or_without_effect():
    for key in ALL_KEYS:
        for place in key.places(**NAMES):
            assert removed(place) is None
            assert no_effect(place) is None or place.startswith("stores-default.")


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_key_is_refused_with_what_to_do(problems, name):
    key = name.replace("systems.*", "systems.kafka").replace("*", "s")
    assert f"{key}: no key any more: {REMOVED[name]}, got 'x'" in problems({key: "x"})


#: The first parts of keys, which texts of the sources begin with; and the texts that are no keys.
FIRST = ("job.", "task.", "stores.", "systems.", "streams.", "serializers.", "metrics.", "state.checkpoint.")
OTHERS = {"job.properties", "job.properties.txt", "task.py.txt", "serializers.registry", "metrics.list"}


def keys_in_sources():
    """The texts of the product that are whole keys; a name in a key is `x`."""
    for path in Path(samzapy.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else [node]
            text = "".join(str(getattr(part, "value", "")) if isinstance(part, ast.Constant) else "x" for part in parts)
            whole = text.startswith(FIRST) and "x" not in text.split(".")[2:]
            if whole and text.replace(".", "").replace("-", "").isalnum() and text.islower():
                yield text


def test_each_key_that_the_sources_name_is_known():
    named = sorted({text for text in keys_in_sources() if not text.endswith((".", "x"))} - OTHERS)
    assert len(named) > 100
    unknown = [key for key, _ in KnownKeys(ALL_KEYS, {}).unknown(named)]
    assert [key for key in unknown if not (removed(key) or no_effect(key) or refused(key))] == []
