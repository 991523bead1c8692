"""Reads the plan of a store benchmark: the scenarios, their stores, and their parameters.

bench.seed, bench.repeats, bench.warmup       7, 3 and 1: repeats are measured, warm-ups are not
stores.STORE.*                                the stores of every test, with a job file's keys (default serdes: bytes)
systems.*                                     as in a job file; `local` is there by default, in a temporary folder
test.methods=T1,T2                            the tests to run
test.T.scenario=NAME                          default: T itself
test.T.stores.STORE.*                         stores of this test
test.T.set.count=N                            sets of numbers, each one case, named T/label
test.T.set-I.label                            default: set-I
test.T.set-I.target=TARGET                    store (the default) or raw
test.T.set-I.store.KEY                        a key of the store, for this set only
test.T.set-I.PARAM                            a parameter of the scenario
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from samzapy.bench.scenarios import SCENARIOS
from samzapy.config.reading import properties
from samzapy.config.reading.keys import did_you_mean, split_list
from samzapy.config.reading.properties import References
from samzapy.errors import ConfigError, raise_if_any

TARGETS = ("store", "raw")
_SETTINGS = {"bench.seed": 7, "bench.repeats": 3, "bench.warmup": 1}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One scenario with one set of numbers over one store. `name` is its name in results and ratios; `store_keys` are
    the keys below `stores.STORE.`, `parameters` those below `prefix`."""

    name: str
    test: str
    scenario: str
    target: str
    store: str
    store_keys: Mapping[str, str]
    parameters: Mapping[str, str]
    prefix: str


@dataclass(frozen=True)
class Plan:
    """The parsed plan file. `job` are its `systems.*` and `serializers.*`."""

    cases: tuple[Case, ...]
    job: Mapping[str, str]
    seed: int
    repeats: int
    warmup: int

    def only(self, tests: Iterable[str]) -> Plan:
        """The part about these tests; all of it if none are named. Raises ConfigError for an unknown test."""
        chosen = set(tests)
        if not chosen:
            return self
        known = {case.test for case in self.cases}
        for name in sorted(chosen - known):
            raise ConfigError.of("--only", name, f"one of {', '.join(sorted(known))}")
        return replace(self, cases=tuple(case for case in self.cases if case.test in chosen))


def read_plan(path: Path | str | Mapping[str, str], overrides: Mapping[str, str] | None = None) -> Plan:
    """The plan of a `.properties` file (by path) or of flat pairs, `overrides` on top. Raises ConfigError."""
    raw = {**properties.read(path).values, **properties.read(overrides or {}).values}
    references = References(raw, os.environ)
    raise_if_any(references.problems)
    values = references.values
    tests = tuple(dict.fromkeys(split_list(values.get("test.methods", ""))))
    if not tests:
        raise ConfigError.of("test.methods", None, "required, e.g. rocksdb-write-performance")
    numbers = {key: _whole(values, key, default, int(key == "bench.repeats")) for key, default in _SETTINGS.items()}
    for key in values:
        if key.startswith("bench.") and key not in _SETTINGS:
            raise ConfigError.of(key, values[key], f"unknown key{did_you_mean(key, _SETTINGS)}")
    cases = tuple(case for test in tests for case in _cases(values, test))
    if twice := [name for name, number in Counter(case.name for case in cases).items() if number > 1]:
        raise ConfigError.of("label", twice[0], "expected a label of its own for each set of a test")
    job = {key: value for key, value in values.items() if key.startswith(("systems.", "serializers."))}
    return Plan(cases, job, numbers["bench.seed"], numbers["bench.repeats"], numbers["bench.warmup"])


def _cases(values: Mapping[str, str], test: str) -> Iterable[Case]:
    prefix = f"test.{test}."
    scenario = values.get(f"{prefix}scenario", test)
    if scenario not in SCENARIOS:
        key = f"{prefix}scenario" if f"{prefix}scenario" in values else "test.methods"
        raise ConfigError.of(key, scenario, f"one of {', '.join(SCENARIOS)}")
    stores = _stores({**_below(values, "stores."), **_below(values, f"{prefix}stores.")}) or {"store": {}}
    count = _whole(values, f"{prefix}set.count", 1, 1)
    read = ("scenario", "set.count", "stores.", *(f"set-{number + 1}." for number in range(count)))
    for leaf, value in _below(values, prefix).items():
        if not leaf.startswith(read):
            raise ConfigError.of(f"{prefix}{leaf}", value, f"unknown key, or a set above set.count={count}")
    for number in range(1, count + 1):
        of_set = f"{prefix}set-{number}."
        parameters = _below(values, of_set)
        label, target = parameters.pop("label", f"set-{number}"), parameters.pop("target", "store")
        if target not in TARGETS:
            raise ConfigError.of(f"{of_set}target", target, f"one of {', '.join(TARGETS)}")
        own = {key.removeprefix("store."): parameters.pop(key) for key in list(parameters) if key.startswith("store.")}
        for store, keys in stores.items():
            yield Case(
                name=f"{test}/{label}" if len(stores) == 1 else f"{test}/{label}/{store}",
                test=test,
                scenario=scenario,
                target=target,
                store=store,
                store_keys={**keys, **own},
                parameters=parameters,
                prefix=of_set,
            )


def _stores(below: Mapping[str, str]) -> dict[str, dict[str, str]]:
    stores: dict[str, dict[str, str]] = {}
    for key, value in below.items():
        store, _, leaf = key.partition(".")
        stores.setdefault(store, {})[leaf] = value
    return stores


def _whole(values: Mapping[str, str], key: str, default: int, least: int) -> int:
    text = values.get(key, str(default))
    if not text.isdecimal() or int(text) < least:
        raise ConfigError.of(key, text, f"integer >= {least}")
    return int(text)


def _below(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {key[len(prefix) :]: value for key, value in values.items() if key.startswith(prefix)}
