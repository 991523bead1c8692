"""Takes the class of a `msgspec.Struct` apart into values, and makes it again from them in another process.

A Struct keeps its fields, defaults and options in C, where a pickler that takes a class apart does not find them. The
class is made in two steps, because its own name may be in the types of its fields and in its functions:

1. `struct_again`: the class with the names of its fields, their defaults and the options.
2. `complete`: the types of the fields, which msgspec reads when it first decodes to the class; functions and
   attributes.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec.structs import FieldInfo

_META: type = type(msgspec.Struct)
#: The options of a Struct that its configuration names as its definition does.
_OPTIONS = (
    "frozen",
    "eq",
    "order",
    "array_like",
    "gc",
    "repr_omit_defaults",
    "omit_defaults",
    "forbid_unknown_fields",
    "weakref",
    "dict",
    "cache_hash",
)
#: The attributes that the first step copies from the class. msgspec looks for the function when the class is made, and
#: never again.
_FIRST = ("__module__", "__doc__", "__post_init__")
#: Attributes that the making of a class adds, or that describe its source.
_MADE = frozenset(
    {
        *_FIRST,
        "__annotate__",
        "__annotate_func__",
        "__annotations__",
        "__annotations_cache__",
        "__dict__",
        "__firstlineno__",
        "__orig_bases__",
        "__slots__",
        "__static_attributes__",
        "__weakref__",
    }
)


@dataclass(frozen=True, kw_only=True)
class StructDefinition:
    """The first step of a class. `bases`: as in the source, generics with their parameters. `fields`: its own, in
    order. `defaults`, `factories`: by field. `options`: for the metaclass. `attributes`: for the class's body."""

    meta: type
    name: str
    bases: tuple[Any, ...]
    fields: tuple[str, ...]
    defaults: Mapping[str, Any]
    factories: Mapping[str, Any]
    options: Mapping[str, Any]
    attributes: Mapping[str, Any]


def is_struct(found: object) -> bool:
    """Whether it is a class of msgspec's Structs."""
    return isinstance(found, _META)


def definition_of(kind: Any) -> StructDefinition:
    """The first step. Raises NameError for the type of a field that is not there."""
    fields = msgspec.structs.fields(kind)
    own = _own(kind, fields)
    known = vars(kind)
    return StructDefinition(
        meta=type(kind),
        name=kind.__name__,
        bases=known.get("__orig_bases__", kind.__bases__),
        fields=tuple(field.name for field in own),
        defaults={field.name: field.default for field in own if field.default is not msgspec.NODEFAULT},
        factories={f.name: f.default_factory for f in own if f.default_factory is not msgspec.NODEFAULT},
        options=_options(kind, fields, own),
        attributes={"__qualname__": kind.__qualname__, **{name: known[name] for name in _FIRST if name in known}},
    )


def completion_of(kind: Any) -> dict[str, Any]:
    """The attributes of the second step. Raises as `definition_of`."""
    own = {field.name: field.type for field in _own(kind, msgspec.structs.fields(kind))}
    rest = {name: value for name, value in vars(kind).items() if name not in _MADE and name not in own}
    return {**rest, "__annotations__": own}


def struct_again(made: StructDefinition) -> Any:
    """The class of a definition; its fields have no types yet."""

    def fill(body: dict[str, Any]) -> None:
        body.update(made.attributes)
        body["__annotations__"] = dict.fromkeys(made.fields, Any)
        body.update({name: msgspec.field(default=value) for name, value in made.defaults.items()})
        body.update({name: msgspec.field(default_factory=call) for name, call in made.factories.items()})

    return types.new_class(made.name, made.bases, {"metaclass": made.meta, **made.options}, fill)


def complete(kind: type, attributes: Mapping[str, Any]) -> None:
    """The second step."""
    for name, value in attributes.items():
        setattr(kind, name, value)


def _own(kind: Any, fields: Sequence[FieldInfo]) -> list[FieldInfo]:
    """The fields that the class itself names, in its order. The others belong to its bases."""
    by_name = {field.name: field for field in fields}
    return [by_name[name] for name in inspect.get_annotations(kind) if name in by_name]


def _options(kind: Any, fields: Sequence[FieldInfo], own: Sequence[FieldInfo]) -> dict[str, Any]:
    """The effective options, including options of the bases."""
    found = kind.__struct_config__
    return {
        **{name: getattr(found, name) for name in _OPTIONS},
        # Without a tag of its own a class takes that of its base.
        "tag": False if found.tag is None else found.tag,
        "tag_field": found.tag_field,
        # For its own fields only; a base decides about its fields.
        "kw_only": any(field.name not in kind.__match_args__ for field in own),
        "rename": {field.name: field.encode_name for field in fields},
    }


def is_constraint(found: object) -> bool:
    """Whether it is a `msgspec.Meta`, which pickle does not know."""
    return isinstance(found, msgspec.Meta)


def arguments_of(constraint: Any) -> dict[str, Any]:
    """The arguments from which `constraint_again` makes the constraint."""
    return dict(constraint.__rich_repr__())


def constraint_again(arguments: Mapping[str, Any]) -> msgspec.Meta:
    """The constraint with these arguments."""
    return msgspec.Meta(**arguments)
