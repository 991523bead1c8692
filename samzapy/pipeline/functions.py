"""The functions of a pipeline's steps, as functions of whole batches.

A function of one parameter gets a message's content; a function of two gets the key and the content. `field("page")`
is a function of the content that a batch evaluates without a call per message.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

from samzapy.api.envelope import MessageBatch
from samzapy.api.task import takes
from samzapy.serializers.typed import PlainForm, json_form

Batch = MessageBatch[Any, Any]
#: From a batch to one value per message.
OfBatch = Callable[[Batch], Sequence[Any]]


def _comparing(compare: Callable[[Any, Any], Any], sign: str) -> Callable[[Any, object], Any]:
    def compared(one: Expression, other: object) -> Expression:
        if not isinstance(other, Expression):
            constant = Expression(lambda messages: [other] * len(messages), lambda _: other, repr(other))
            return compared(one, constant)
        return Expression(
            lambda messages: list(map(compare, one.of_all(messages), other.of_all(messages))),
            lambda message: compare(one(message), other(message)),
            f"({one.text} {sign} {other.text})",
        )

    return compared


class Expression:
    """A value of each message: a field, or a comparison of fields with constants."""

    def __init__(
        self, of_all: Callable[[Sequence[Any]], Sequence[Any]], of_one: Callable[[Any], Any], text: str
    ) -> None:
        #: The values of several messages, without a call for each.
        self.of_all = of_all
        self._of_one = of_one
        self.text = text

    def __call__(self, message: Any) -> Any:
        """The value of one message."""
        return self._of_one(message)

    def __repr__(self) -> str:
        return self.text

    __eq__ = _comparing(operator.eq, "==")  # an expression, as in SQL libraries
    __ne__ = _comparing(operator.ne, "!=")
    __lt__, __le__ = _comparing(operator.lt, "<"), _comparing(operator.le, "<=")
    __gt__, __ge__ = _comparing(operator.gt, ">"), _comparing(operator.ge, ">=")
    __and__, __or__ = _comparing(lambda one, two: one and two, "and"), _comparing(lambda one, two: one or two, "or")
    __hash__ = object.__hash__
    __signature__ = inspect.signature(lambda message: message)  # inspect would compare it with types

    def __bool__(self) -> bool:
        raise TypeError(f"{self.text} is true or false of a message only: join conditions with & and |, in parentheses")


def field(name: str) -> Expression:
    """The field `name` of each message: a key of dicts, an attribute of other objects."""
    item, attribute = operator.itemgetter(name), operator.attrgetter(name)

    def of_one(message: Any) -> Any:
        return item(message) if isinstance(message, dict) else attribute(message)

    def of_all(messages: Sequence[Any]) -> Sequence[Any]:
        kinds = set(map(type, messages))
        if len(kinds) > 1:
            return list(map(of_one, messages))
        return list(map(item if kinds <= {dict} else attribute, messages))

    return Expression(of_all, of_one, name)


#: The arguments of the functions that a step is given, by the name of its field.
ARGUMENTS = {"function": (1, 2), "time": (1, 2), "key": (1, 2), "on": (1, 2), "joiner": (2,), "on_timer": (1,)}


def checked(function: Any, *counts: int, awaited: bool = False) -> Any:
    """The function. Raises TypeError for anything that takes none of these numbers of arguments, and for a coroutine
    function that nobody awaits."""
    if not awaited and inspect.iscoroutinefunction(function):
        raise TypeError(f"only map_async awaits a coroutine function, got {function!r:.100}")
    if callable(function) and any(takes(function, count) for count in counts):
        return function
    hint = f"; the field of that name is field({function!r})" if isinstance(function, str) else ""
    raise TypeError(f"expected a function (arguments: {' or '.join(map(str, counts))}), got {function!r:.100}{hint}")


def of_batch(function: Callable[..., Any]) -> OfBatch:
    """A user's function as a function of batches."""
    if isinstance(function, Expression):
        return lambda batch: function.of_all(batch.messages)
    if wants_key(function):
        # Not `map`: a StopIteration of the user's function would end it silently.
        return lambda batch: [function(key, item) for key, item in zip(batch.keys, batch.messages, strict=True)]
    return lambda batch: [function(item) for item in batch.messages]


def wants_key(function: Callable[..., Any]) -> bool:
    """Whether a function gets the key and the content, and not the content alone."""
    return not takes(function, 1) and takes(function, 2)


def of_pair(function: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """A user's function as a function of key and content. Raises TypeError."""
    return function if wants_key(checked(function, 1, 2)) else lambda _, item: function(item)


def returned_by(function: Callable[..., Any]) -> Any:
    """The class that a function's annotation names; None for none, and for builtins."""
    try:
        result = inspect.get_annotations(function, eval_str=True).get("return")
    except Exception:  # noqa: BLE001  # a name that does not exist here
        return None
    return result if isinstance(result, type) and result.__module__ != "builtins" else None


def name_of(function: Callable[..., Any]) -> str:
    """The one field that a function reads, for names of steps: `page` of `lambda view: view.page`; else `key`."""
    if isinstance(function, Expression):
        return function.text if function.text.isidentifier() else "key"
    code = getattr(function, "__code__", None)
    if code is None or function.__name__ != "<lambda>":
        name = getattr(function, "__name__", "key")
        return name if name.isidentifier() else "key"
    texts = [item for item in code.co_consts if isinstance(item, str)]
    names = [*code.co_names, *texts]
    return names[0].replace("_", "-") if len(names) == 1 and names[0].isidentifier() else "key"


def picked(batch: Batch, places: Sequence[int]) -> Batch:
    """The messages at these places, in order; a place may occur several times."""
    columns: list[Sequence[Any]] = [batch.offsets, batch.keys, batch.messages, batch.timestamps]
    columns += [batch.headers] if any(batch.headers) else []
    return MessageBatch(batch.ssp, *([column[place] for place in places] for column in columns))


def selected(batch: Batch, wanted: Sequence[Any]) -> Batch:
    """The messages for which `wanted` is true; the batch itself if that is all of them."""
    places = [place for place, value in enumerate(wanted) if value]
    return batch if len(places) == len(batch) else picked(batch, places)


def made_of(batch: Batch, rows: Sequence[tuple[int, Any, Any]]) -> Batch:
    """Other messages in place of a batch's. A row: the place of the message that it comes from, key, content."""
    built = picked(batch, [place for place, _, _ in rows])
    return with_columns(built, keys=[key for _, key, _ in rows], messages=[message for _, _, message in rows])


def of_rows(function: Callable[..., Any]) -> OfBatch:
    """A user's function as a function of changes of a table: a deletion stays one."""
    of_all = of_batch(function)

    def of_changes(batch: Batch) -> Sequence[Any]:
        places = [place for place, row in enumerate(batch.messages) if row is not None]
        results: list[Any] = [None] * len(batch)
        for place, result in zip(places, of_all(picked(batch, places)) if places else (), strict=True):
            results[place] = result
        return results

    return of_changes


def form_of(kind: Any) -> PlainForm:
    """How objects of a class travel inside of others; None: plain values do as they are."""
    return _AS_IT_IS if kind is None else json_form(kind)


_AS_IT_IS = PlainForm(lambda item: item, lambda item: item, str, None)


def refuse_unnamed(batch: Batch) -> None:
    """Raises TypeError for objects of a class that nobody has named: they would come back as dicts."""
    if kind := unnamed(batch.messages):
        place, name = list(map(type, batch.messages)).index(kind), kind.__name__
        raise TypeError(
            f"{batch[place].position}: an object of {name} would come back as a dict: name the class in the step "
            f"that makes it, with value_type={name} or as the annotation of its function"
        )


def unnamed(values: Sequence[Any]) -> type | None:
    """A class of the values whose objects come back as dicts from a store of plain values; None for none."""
    kinds = set(map(type, values)) - _PLAIN
    return next((kind for kind in kinds if any(hasattr(kind, mark) for mark in _CLASSES)), None)


def refuse_null_keys(batch: Batch, keys: Sequence[Any], who: str) -> None:
    """Raises ValueError for the first message without a key."""
    if None in keys:
        raise ValueError(f"{batch[keys.index(None)].position}: {who} needs a key")


_PLAIN = frozenset({dict, list, tuple, str, int, float, bool, type(None)})
#: What the classes that have a serde of their own are known by.
_CLASSES = ("__dataclass_fields__", "__struct_fields__", "__pydantic_validator__", "__attrs_attrs__")


def without_nulls(batch: Batch) -> Batch:
    """The messages that are not null."""
    # Four times as fast as a search by type, and not fooled by an `==` of the messages.
    if not [item for item in batch.messages if item is None]:
        return batch
    return selected(batch, [item is not None for item in batch.messages])


def with_columns(batch: Batch, *, keys: Sequence[Any] | None = None, messages: Sequence[Any] | None = None) -> Batch:
    """The batch with other keys or contents, as many as it has messages."""
    keys, messages = batch.keys if keys is None else keys, batch.messages if messages is None else messages
    return MessageBatch(batch.ssp, batch.offsets, keys, messages, batch.timestamps, batch.headers)
