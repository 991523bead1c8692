"""Decides on the source and the target of a migration: serdes and classes of keys and values, and the function in
between.

1. The target comes from the command, else from the job file.
2. The source comes from the command, else from the serdes in the checkpoints. No record has the class of the entries,
   only the serde. Without a function they are read as objects of the target's class; with one it gets plain values,
   but keys of the target's class.
3. A migration that was interrupted goes on as it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from samzapy.api.checkpoint import Checkpoint
from samzapy.api.serde import Serde
from samzapy.checkpoint.records import Migration
from samzapy.config.job import JobConfig
from samzapy.config.reading.classes import SCHEMA_SERDES
from samzapy.config.reading.reader import did_you_mean
from samzapy.config.stores import StoreConfig
from samzapy.config.streams.serdes import key_identity, serde_identity, takes_types, typed_name, unknown_serde
from samzapy.errors import ConfigError, ConfigProblem, SerdeError
from samzapy.plugins import PluginError, load_name
from samzapy.serializers import task_serdes
from samzapy.serializers.plain import plain_form
from samzapy.storage.local.marker import SerdePair

#: (key, value) to (key, value), or None to delete the entry.
Convert = Callable[[Any, Any], Any]

_PARTS = (("key", "key.serde", "key.type"), ("msg", "msg.serde", "msg.type"))
LEAVES = tuple(leaf for _, *leaves in _PARTS for leaf in leaves)


@dataclass(frozen=True)
class StoreForm:
    """The names of the serdes of a store's keys and values, and the paths of their classes, None for plain values."""

    key_serde: str
    key_type: str | None
    msg_serde: str
    msg_type: str | None

    @classmethod
    def of(cls, leaves: Mapping[str, str]) -> StoreForm:
        """The form of these keys below a store (`key.serde`, ...)."""
        return cls(leaves["key.serde"], leaves.get("key.type"), leaves["msg.serde"], leaves.get("msg.type"))

    @classmethod
    def of_store(cls, store: StoreConfig) -> StoreForm:
        """The form that the job file gives a store."""
        return cls(store.key_serde, store.key_type, store.msg_serde, store.msg_type)

    @property
    def leaves(self) -> dict[str, str]:
        """The inverse of `of`."""
        named = ((field.name.replace("_", "."), getattr(self, field.name)) for field in fields(self))
        return {leaf: value for leaf, value in named if value is not None}

    def __str__(self) -> str:
        return ", ".join(f"{leaf} {value}" for leaf, value in self.leaves.items())


@dataclass(frozen=True)
class MigrationPlan:
    """A store's way from one form to another. `convert` is the path of a function, empty for none; `serdes` are the
    identities of the target's serdes, for the checkpoints."""

    store: str
    source: StoreForm
    target: StoreForm
    convert: str
    serdes: SerdePair

    @property
    def keys_stay(self) -> bool:
        """Whether the bytes of the keys stay."""
        return not self.convert and (self.source.key_serde, self.source.key_type) == (
            self.target.key_serde,
            self.target.key_type,
        )

    @property
    def values_stay(self) -> bool:
        """Whether the bytes of the values stay."""
        return not self.convert and (self.source.msg_serde, self.source.msg_type) == (
            self.target.msg_serde,
            self.target.msg_type,
        )


def plan_migration(
    config: JobConfig,
    store: StoreConfig,
    asked: tuple[Mapping[str, str], Mapping[str, str], str],
    unfinished: Migration | None,
    committed: Iterable[Checkpoint | None],
) -> MigrationPlan:
    """The plan for what the command has `asked`: the keys of the source and of the target below the store, and the path
    of the function, empty for none.

    Raises ConfigError with every problem: an unknown serde, a class that its serde does not take, a source that is not
    recorded, or is another one in the record, and a migration that changes nothing.
    """
    given_source, given_target, convert = asked
    problems = [*_unknown_leaves("--from", given_source), *_unknown_leaves("--to", given_target)]
    if problems:
        raise ConfigError(problems)
    if unfinished is not None:
        _same(unfinished, given_source, given_target, convert)
        source, target = StoreForm.of(unfinished.source), StoreForm.of(unfinished.target)
        return MigrationPlan(store.name, source, target, unfinished.convert, _identities(config, target))
    target = _target(store, given_target)
    recorded = _recorded(store.name, committed)
    source = _source(config, given_source, target, recorded, convert)
    plan = MigrationPlan(store.name, source, target, convert, _identities(config, target))
    problems = [*_problems(config, "--from", source), *_problems(config, "--to", target)]
    if config.serdes.get(target.key_serde) in SCHEMA_SERDES:
        message = "the id of a schema is part of its bytes, so a new schema would hide the entries: take string or json"
        problems.append(ConfigProblem("--to key.serde", target.key_serde, message))
    if not problems:
        problems += _contradictions(recorded, _identities(config, source), source)
    if not problems and plan.keys_stay and plan.values_stay:
        message = "nothing changes: name the old serdes and classes (--from), or a function (--convert)"
        problems.append(ConfigProblem(f"store '{store.name}'", str(target), message))
    if problems:
        raise ConfigError(problems)
    return plan


def _unknown_leaves(option: str, given: Mapping[str, str]) -> Iterator[ConfigProblem]:
    for leaf in given:
        if leaf not in LEAVES:
            yield ConfigProblem(option, leaf, f"expected {', '.join(LEAVES)}{did_you_mean(leaf, LEAVES)}")


def _same(unfinished: Migration, source: Mapping[str, str], target: Mapping[str, str], convert: str) -> None:
    """Raise ConfigError if the request differs from the unfinished migration."""
    asked = (("--from", source, unfinished.source), ("--to", target, unfinished.target))
    problems = [
        ConfigProblem(
            f"{option} {leaf}", value, f"the unfinished migration has {began.get(leaf, 'none')}; leave this out"
        )
        for option, given, began in asked
        for leaf, value in given.items()
        if began.get(leaf) != value
    ]
    if convert and convert != unfinished.convert:
        message = f"the unfinished migration has {unfinished.convert or 'none'}; leave this out"
        problems.append(ConfigProblem("--convert", convert, message))
    if problems:
        raise ConfigError(problems)


def _target(store: StoreConfig, given: Mapping[str, str]) -> StoreForm:
    leaves = StoreForm.of_store(store).leaves
    for _, serde, kind in _PARTS:
        # Another serde than that of the job file comes with its own class, or with none.
        if serde in given:
            leaves.pop(kind, None)
    return StoreForm.of({**leaves, **given})


def _recorded(store: str, committed: Iterable[Checkpoint | None]) -> SerdePair:
    """The serdes that the checkpoints name, by their identities; empty where they name none. Raises ConfigError if they
    disagree."""
    found = {each.serdes[store] for each in committed if each is not None and store in each.serdes}
    if len(found) > 1:
        shown = "; ".join(" and ".join(pair) for pair in sorted(found))
        message = f"its tasks were written with different serdes ({shown}): no single migration reads them"
        raise ConfigError([ConfigProblem(f"store '{store}'", None, message)])
    return next(iter(found), ("", ""))


def _source(
    config: JobConfig, given: Mapping[str, str], target: StoreForm, recorded: SerdePair, convert: str
) -> StoreForm:
    leaves, problems = dict(given), []
    for (part, serde, kind), identity in zip(_PARTS, recorded, strict=True):
        if serde not in leaves:
            named = _named(config, part, identity, target.leaves[serde])
            if len(named) != 1:
                problems.append(ConfigProblem(f"--from {serde}", None, _not_named(identity, named)))
                continue
            leaves[serde] = named[0]
        # A function for values is written for the old class's output, so it gets that output unchanged.
        if kind not in given and (part == "key" or not convert) and takes_types(leaves[serde], config.serdes):
            leaves.update({kind: target.leaves[kind]} if kind in target.leaves else {})
    if problems:
        raise ConfigError(problems)
    return StoreForm.of(leaves)


def _named(config: JobConfig, part: str, identity: str, preferred: str) -> list[str]:
    """The names of the job's serdes with that identity: one, if it is clear which."""
    names = [name for name in config.serdes if identity and _identity(config, part, name) == identity]
    for name in (preferred, identity):
        if name in names:
            return [name]
    return names


def _not_named(identity: str, named: list[str]) -> str:
    if not identity:
        return "is required: the checkpoints do not record the serdes of the store"
    if not named:
        return f"is required: the store was written with {identity}, and no serde of the job file is that (serializers.registry)"
    return f"is required: the store was written with {identity}, which is {' or '.join(named)} in the job file"


def _problems(config: JobConfig, option: str, form: StoreForm) -> Iterator[ConfigProblem]:
    for serde, kind in (("key_serde", "key_type"), ("msg_serde", "msg_type")):
        name, path = getattr(form, serde), getattr(form, kind)
        leaf = serde.replace("_", ".")
        if name not in config.serdes:
            yield ConfigProblem(f"{option} {leaf}", name, unknown_serde(name, dict(config.serdes)))
        elif path is not None and not takes_types(name, config.serdes):
            yield ConfigProblem(f"{option} {kind.replace('_', '.')}", path, f"serde {name} takes no class")


def _contradictions(recorded: SerdePair, source: SerdePair, form: StoreForm) -> Iterator[ConfigProblem]:
    for leaf, before, said in zip(("key.serde", "msg.serde"), recorded, source, strict=True):
        if before and before != said:
            yield ConfigProblem(f"--from {leaf}", form.leaves[leaf], f"the store was written with {before}")


def _identities(config: JobConfig, form: StoreForm) -> SerdePair:
    return _identity(config, "key", form.key_serde), _identity(config, "msg", form.msg_serde)


def _identity(config: JobConfig, part: str, name: str) -> str:
    return key_identity(name, config.serdes, config.resolved) if part == "key" else serde_identity(name, config.serdes)


@dataclass(frozen=True)
class Conversion:
    """The parts of a plan at work: the serdes of keys and values before and after, and the function that makes new
    objects of old ones."""

    source: tuple[Serde, Serde]
    target: tuple[Serde, Serde]
    change: Convert


def conversion_of(config: JobConfig, store: StoreConfig, plan: MigrationPlan) -> Conversion:
    """The serdes and the function of a plan. Raises ConfigError with every problem, EnvironmentFailure for a serde that
    cannot ask for its schema."""
    assert store.changelog is not None
    known, problems = task_serdes(config), []
    made: dict[tuple[str, str], Serde] = {}
    for option, form, writing in (("--from", plan.source, False), ("--to", _written(config, plan), True)):
        for part, place in (("key", "key"), ("msg", "value")):
            name, path = getattr(form, f"{part}_serde"), getattr(form, f"{part}_type")
            try:
                made[option, part] = serde = known[typed_name(name, path)].at(store.changelog.stream, place)
                serde.ready(writing=writing)
            except SerdeError as cause:
                problems.append(ConfigProblem(f"{option} {part}.type", path, str(cause)))
    try:
        change = _function(plan)
    except PluginError as cause:
        problems.append(ConfigProblem("--convert", plan.convert, str(cause)))
    if problems:
        raise ConfigError(problems)
    return Conversion(
        (made["--from", "key"], made["--from", "msg"]), (made["--to", "key"], made["--to", "msg"]), change
    )


def _written(config: JobConfig, plan: MigrationPlan) -> StoreForm:
    """The form to write with. Objects of a class that become plain values are written as their class says."""
    source, target = plan.source, plan.target

    def kind(name: str, before: str | None, after: str | None) -> str | None:
        if after is None and not plan.convert and takes_types(name, config.serdes):
            return before
        return after

    return StoreForm(
        target.key_serde,
        kind(target.key_serde, source.key_type, target.key_type),
        target.msg_serde,
        kind(target.msg_serde, source.msg_type, target.msg_type),
    )


def _function(plan: MigrationPlan) -> Convert:
    """The user's function, else one that makes objects of the new classes of objects of the old ones."""
    if plan.convert:
        found = load_name(plan.convert)
        if not callable(found):
            raise PluginError("must be a function of key and value")
        function: Convert = found
        return function
    key = _reclassed(plan.source.key_type, plan.target.key_type)
    value = _reclassed(plan.source.msg_type, plan.target.msg_type)
    return lambda old_key, old_value: (key(old_key), value(old_value))


def _reclassed(before: str | None, after: str | None) -> Callable[[Any], Any]:
    if before is None or after is None or before == after:
        return lambda value: value
    to_plain, from_plain = plain_form(load_name(before)).to_plain, plain_form(load_name(after)).from_plain
    return lambda value: from_plain(to_plain(value))
