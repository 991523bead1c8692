"""Objects of a class as plain values, dicts of numbers, text, bytes, times and decimals, and back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from samzapy.serializers.typed import for_classes, holds_models, if_whole, typed_serde

#: Values that stay unchanged.
_PLAIN = (bytes, bytearray, datetime, date, time, Decimal, UUID)


class PlainForm(NamedTuple):
    """`to_plain` raises SerdeError for an object of another class, `from_plain` ValueError for a value that does not
    fit; `reason` explains the latter. `classes` are the exact classes of the objects, None for any."""

    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    reason: Callable[[Exception], str]
    classes: frozenset[type] | None


def json_form(kind: Any) -> PlainForm:
    """The form of the objects of the class, generic or union `kind` inside of a document of JSON (or MessagePack):
    times, bytes and the like are text, and so are all keys. Raises SerdeError for a class without one."""
    known = typed_serde("json", kind)
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    if holds_models(kind):
        from samzapy.serializers.pydantic_models import json_functions  # noqa: PLC0415  # pydantic is an extra

        to_plain, from_plain = json_functions(kind)
    else:
        to_plain = if_whole(kind, partial(msgspec.to_builtins, str_keys=True))
        from_plain = partial(msgspec.convert, type=kind, str_keys=True)
    return PlainForm(for_classes(kind, known.classes, to_plain), from_plain, known.misfit, known.classes)


def plain_form(kind: Any) -> PlainForm:
    """The plain form of the objects of the class, generic or union `kind`. Raises SerdeError for a class without
    one."""
    known = typed_serde("msgpack", kind)
    to_plain: Callable[[Any], Any]
    from_plain: Callable[[Any], Any]
    if holds_models(kind):
        from samzapy.serializers.pydantic_models import plain_functions  # noqa: PLC0415  # pydantic is an extra

        to_plain, from_plain = plain_functions(kind, _PLAIN)
    else:
        to_plain = if_whole(kind, partial(msgspec.to_builtins, builtin_types=_PLAIN))
        from_plain = partial(msgspec.convert, type=kind, builtin_types=_PLAIN)
    return PlainForm(for_classes(kind, known.classes, to_plain), from_plain, known.misfit, known.classes)
