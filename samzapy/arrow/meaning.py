"""What an annotation means behind its names: NewType, aliases, Annotated, type variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, get_args, get_origin

#: `Required` and `NotRequired` are of Python 3.11, so they go by name.
_WRAPPERS = ("Annotated", "Required", "NotRequired")


def plain_annotation(hint: Any) -> Any:
    """The annotation itself, for another name of it (NewType, `type`) or one with more about it (Annotated)."""
    while True:
        origin = get_origin(hint)
        if hasattr(origin, "__value__"):  # an alias with brackets
            hint = substituted(origin.__value__, dict(zip(origin.__type_params__, get_args(hint), strict=False)))
        elif hasattr(hint, "__value__"):
            hint = hint.__value__
        elif hasattr(hint, "__supertype__"):
            hint = hint.__supertype__
        elif getattr(origin, "_name", getattr(origin, "__name__", "")) in _WRAPPERS:
            hint = get_args(hint)[0]
        else:
            return hint


def substituted(kind: Any, known: Mapping[Any, Any]) -> Any:
    """`kind` with the type variables that are known replaced, and Any for the others."""
    if isinstance(kind, TypeVar):
        return known.get(kind, Any)
    free = getattr(kind, "__parameters__", ())
    return kind[tuple(known.get(each, Any) for each in free)] if free else kind
