"""Aggregations: several by name over the values of a key, and the step that keeps their totals by key."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar

from samzapy.operators import folds
from samzapy.operators.folds import Aggregation, grouped
from samzapy.pipeline.functions import Batch, Expression, checked, form_of, picked, unnamed, with_columns
from samzapy.pipeline.step import Opening, Receive, Step
from samzapy.serializers.documents import JsonSerde

#: What of a message a fold takes: a function of its content, such as `field("size")`, or None for the content.
Value = Callable[[Any], Any] | Expression | None


@dataclass(frozen=True)
class Part:
    """One aggregation of an `aggregate`: a fold, and what of each message it takes."""

    fold: Aggregation
    value: Value = None

    def __post_init__(self) -> None:
        if self.value is not None:
            checked(self.value, 1)

    def add_all(self, accumulated: Any, messages: Sequence[Any]) -> Any:
        """The accumulated value, in plain form, after these messages."""
        value = self.value
        if isinstance(value, Expression):
            values = value.of_all(messages)
        else:
            values = messages if value is None else [value(message) for message in messages]
        if isinstance(self.fold, _Items | folds.Collect | folds.Top | folds.Min | folds.Max) and (
            kind := unnamed(values)
        ):
            raise TypeError(f"an object of {kind.__name__} would come back as a dict: aggregate a plain value of it")
        return self.fold.add_all(accumulated, values)


class _Items(Aggregation):
    """A set, kept as a list of its items in the order of their arrival: stores keep no sets."""

    @property
    def name(self) -> str:
        return "Distinct"

    def init(self) -> list[Any]:
        return []

    def add(self, accumulated: list[Any], value: Any) -> list[Any]:
        return self.add_all(accumulated, (value,))

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        held = [folds.as_tuples(item) if type(item) is list else item for item in accumulated]
        return list(dict.fromkeys([*held, *values]))

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        return self.add_all([*one, *other], ())


def Count() -> Part:  # noqa: N802  # a constructor for its users
    """The number of messages."""
    return Part(folds.Count())


def Sum(value: Value = None) -> Part:  # noqa: N802
    """The sum of `value(message)`."""
    return Part(folds.Sum(), value)


def Min(value: Value = None) -> Part:  # noqa: N802
    """The least `value(message)`."""
    return Part(folds.Min(), value)


def Max(value: Value = None) -> Part:  # noqa: N802
    """The greatest `value(message)`."""
    return Part(folds.Max(), value)


def Mean(value: Value = None) -> Part:  # noqa: N802
    """The arithmetic mean of `value(message)`."""
    return Part(folds.Mean(), value)


def Distinct(value: Value = None) -> Part:  # noqa: N802
    """The different values of `value(message)`, as a list in the order of their arrival."""
    return Part(_Items(), value)


def Collect(value: Value = None) -> Part:  # noqa: N802
    """All values of `value(message)`, in the order of arrival."""
    return Part(folds.Collect(), value)


def Top(count: int, value: Value = None) -> Part:  # noqa: N802
    """The `count` greatest values of `value(message)`."""
    return Part(folds.Top(count), value)


def _part_of(name: str, fold: object) -> Part:
    if not isinstance(fold, Aggregation):
        hint = "; a window's name is window(..., name=)" if name == "name" else ""
        raise TypeError(f"aggregate: expected an aggregation such as Count() for {name}, got {fold!r:.100}{hint}")
    return Part(_Items() if isinstance(fold, folds.Distinct) else fold)


class Named(Aggregation):
    """Several aggregations at once. The accumulated value is a list with the one of each; the result is a dict."""

    def __init__(self, parts: Mapping[str, Part | Aggregation], kind: Any = None) -> None:
        """`kind`: the class of the messages. A part that takes whole messages takes them in plain form."""
        if not parts:
            raise ValueError("aggregate: expected aggregations by name, like views=Count()")
        whole = None if kind is None else form_of(kind).to_plain
        item = {name: part if isinstance(part, Part) else _part_of(name, part) for name, part in parts.items()}
        takes_whole = [
            name for name, part in item.items() if part.value is None and not isinstance(part.fold, folds.Count)
        ]
        self._parts = item | {name: replace(item[name], value=whole) for name in takes_whole}
        self.keeps_messages = bool(takes_whole)
        self.counts = all(part.value is None and type(part.fold) is folds.Count for part in item.values())
        self.in_any_order = all(part.fold.in_any_order for part in self._parts.values())

    @property
    def name(self) -> str:
        return ",".join(f"{name}:{part.fold.name}" for name, part in self._parts.items())

    def init(self) -> list[Any]:
        return [part.fold.init() for part in self._parts.values()]

    def add(self, accumulated: list[Any], value: Any) -> list[Any]:
        return self.add_all(accumulated, (value,))

    def add_all(self, accumulated: list[Any], values: Sequence[Any]) -> list[Any]:
        parts = zip(self._parts.values(), accumulated, strict=True)
        return [part.add_all(before, values) for part, before in parts]

    def merge(self, one: list[Any], other: list[Any]) -> list[Any]:
        both = zip(self._parts.values(), one, other, strict=True)
        return [part.fold.merge(left, right) for part, left, right in both]

    def result(self, accumulated: list[Any]) -> dict[str, Any]:
        values = zip(self._parts.items(), accumulated, strict=True)
        # Whoever gets it may change it.
        return {name: copy(part.fold.result(item)) for (name, part), item in values}


class Reduced(Aggregation):
    """A fold without a beginning: `function(accumulated, value)`, from the first value on. It may change the first."""

    def __init__(self, function: Callable[[Any, Any], Any], kind: Any = None, *, plain: bool = False) -> None:
        """`kind`: the class of the values, which are kept in plain form. `plain`: so is the result."""
        self._function, self._form = checked(function, 2), form_of(kind)
        self._result = deepcopy if plain or kind is None else self._form.from_plain

    @property
    def name(self) -> str:
        return "Reduce"

    def init(self) -> Any:
        return None

    def add(self, accumulated: Any, value: Any) -> Any:
        # Others have the value, too.
        return self._form.to_plain(deepcopy(value)) if accumulated is None else self._of(accumulated, value)

    def merge(self, one: Any, other: Any) -> Any:
        return self._of(one, self._form.from_plain(other))

    def _of(self, accumulated: Any, value: Any) -> Any:
        result = self._function(self._form.from_plain(accumulated), value)
        if result is None:
            raise TypeError("reduce: its function returned None: return the accumulated value")
        return self._form.to_plain(result)

    def result(self, accumulated: Any) -> Any:
        return self._result(accumulated)


@dataclass(eq=False, kw_only=True)
class Folding(Step):
    """Folds the messages of each key."""

    keeps_state: ClassVar[bool] = True
    skips_nulls: ClassVar[bool] = True
    fold: Aggregation

    @property
    def keeps_messages(self) -> bool:
        return isinstance(self.fold, Reduced) or (isinstance(self.fold, Named) and self.fold.keeps_messages)

    @property
    def reads_contents(self) -> bool:
        return not (self.fold.counts if isinstance(self.fold, Named) else type(self.fold) is folds.Count)


#: What a total begins with on its way to the step that adds it up.
TOTAL = b"+"


@dataclass(eq=False, kw_only=True)
class Aggregate(Folding):
    """The totals of each key, as a table. A batch gives the last total of each of its keys."""

    kind: ClassVar[str] = "aggregate"
    #: Whether nothing follows: then the store is all there is.
    is_last: bool = False
    #: Whether it gets what `combined` gives.
    takes_totals: bool = False

    @property
    def signature(self) -> str:
        return f"{self.kind} {self.fold.name}"

    def open(self, task: Opening, emit: Receive) -> Sequence[Receive]:
        store, fold = task.context.get_store(self.name), self.fold
        if self.is_last and type(fold) is folds.Count and not self.takes_totals:
            return [lambda batch: store.merge_all(Counter(batch.keys), operator.add)]
        add_all = self._merge_all if self.takes_totals else fold.add_all

        def receive(batch: Batch) -> None:
            places = dict(zip(batch.keys, range(len(batch)), strict=True))
            groups = _by_key(batch, places)
            held = store.get_all(groups)
            totals = {
                key: add_all(fold.init() if held[key] is None else held[key], values) for key, values in groups.items()
            }
            store.put_all(totals)
            if not self.is_last:
                emit(_with_results(batch, places, {key: fold.result(total) for key, total in totals.items()}))

        return [receive]

    def combined(self, batch: Batch) -> Batch:
        """The total of each key's messages, as bytes that are no JSON."""
        fold, places = self.fold, dict(zip(batch.keys, range(len(batch)), strict=True))
        if type(fold) is folds.Count:
            parts: Mapping[Any, Any] = Counter(batch.keys)
        else:
            parts = {key: fold.add_all(fold.init(), values) for key, values in _by_key(batch, places).items()}
        return _with_results(batch, places, {key: TOTAL + JsonSerde.to_bytes(part) for key, part in parts.items()})

    def _merge_all(self, accumulated: Any, totals: Sequence[bytes]) -> Any:
        return reduce(self.fold.merge, [JsonSerde.from_bytes(total[1:]) for total in totals], accumulated)


def _by_key(batch: Batch, places: Mapping[Any, int]) -> Mapping[Any, Sequence[Any]]:
    if len(places) == len(batch):
        return dict(zip(batch.keys, zip(batch.messages), strict=True))
    return grouped(zip(batch.keys, batch.messages, strict=True))


def _with_results(batch: Batch, places: Mapping[Any, int], results: Mapping[Any, Any]) -> Batch:
    """The last message of each key, at these places, with the key's result."""
    last = picked(batch, sorted(places.values()))
    return with_columns(last, messages=[results[key] for key in last.keys])
