"""Serdes of documents of one class: JSON and MessagePack that are decoded, and checked, in one call of a C function.

1. `msgspec` reads its Structs, dataclasses, attrs classes, TypedDicts, NamedTuples (as arrays), and containers and
   tagged unions of them. `pydantic` reads its models, and containers of them.
2. A document that does not fit is refused with the path: `$.user: Expected str, got int`. Fields that the class does
   not have are ignored, unless it forbids them.
3. An object to encode must be of the class itself; one of a subclass would come back as another. Fields are not
   checked: a type checker has done that, or the class when the object was made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time
from decimal import Decimal
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar
from uuid import UUID

import msgspec
from msgspec import inspect

from samzapy.api.serde import FunctionSerde
from samzapy.errors import SerdeError
from samzapy.serializers.refusals import NULL, check_numbers

Format = Literal["json", "msgpack"]
Converted = TypeVar("Converted")


class Codec(NamedTuple):
    """The functions that encode and decode objects of a class, and find the reason in an exception of `decode`."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]
    reason: Callable[[Exception], str]
    #: As `Serde.allocates_exactly`. msgspec's encoded bytes take up to four tenths more memory than their length, and a
    #: copy takes as long as the encoding.
    exact: bool = True


class TypedSerde(FunctionSerde):
    """Documents of the class `kind`. `classes` are the exact classes of its objects, None if any object may be
    encoded: others are a SerdeError."""

    def __init__(self, name: Format, kind: Any, classes: frozenset[type] | None, codec: Codec) -> None:
        super().__init__(for_classes(kind, classes, codec.encode), codec.decode)
        self.object_type = kind
        self.classes = classes
        self._name = name
        self._reason = codec.reason
        self.allocates_exactly = codec.exact
        self.doubt = NULL if name == "json" else None

    def refusal(self, value: Any, cause: Exception) -> str:
        return f"{self._name} serde of {shown(self.object_type)}: {cause}"

    def check(self, value: Any) -> None:
        check_numbers(value)

    def misfit(self, cause: Exception) -> str:
        return self._reason(cause)


def for_classes(
    kind: Any, classes: frozenset[type] | None, convert: Callable[[Any], Converted]
) -> Callable[[Any], Converted]:
    """`convert` after a check of an object's exact class against `classes`, the classes of `kind`; None: any class."""
    if classes is None:
        return convert

    def checked(value: Any) -> Converted:
        if type(value) in classes:
            return convert(value)
        raise SerdeError(f"expected {shown(kind)}, got {type(value).__name__} {value!r:.100}")

    return checked


def typed_serde(name: Format, kind: Any, *, sort_keys: bool = False) -> TypedSerde:
    """The serde of documents of the class, generic or union `kind`. `sort_keys`: JSON objects have their keys in order.

    Raises SerdeError for a class that cannot be decoded to.
    """
    try:
        info = inspect.type_info(kind)
        unknown = [part.cls for part in _parts(info) if isinstance(part, inspect.CustomType)]
        if holds_models(kind):
            from samzapy.serializers.pydantic_models import pydantic_codec  # noqa: PLC0415  # pydantic is an extra

            return TypedSerde(name, kind, _classes(info), pydantic_codec(name, kind, sort_keys=sort_keys))
        codec = _codec(name, kind, sort_keys=sort_keys)
        built = TypedSerde(name, kind, _classes(info), codec)
    except Exception as cause:
        text = " ".join(str(cause).split())
        raise SerdeError(f"{name} cannot be decoded to {shown(kind)} ({type(cause).__name__}: {text})") from cause
    if unknown:
        raise SerdeError(f"{shown(unknown[0])} is none of the classes that {name} is decoded to: {_DECODABLE}")
    return built


_DECODABLE = "a msgspec.Struct, a dataclass, an attrs class, a TypedDict, a NamedTuple or a pydantic model"


def holds_models(kind: Any) -> bool:
    """Whether a class, or one of its fields or elements, is a model or a dataclass of pydantic."""
    held = (getattr(part, "cls", None) for part in _parts(inspect.type_info(kind)))
    return any(hasattr(item, "__pydantic_validator__") for item in (kind, *held))


def shown(kind: Any) -> str:
    """The name of a class, or a generic with its parameters."""
    return kind.__qualname__ if isinstance(kind, type) and not hasattr(kind, "__args__") else str(kind)


def _codec(name: Format, kind: Any, *, sort_keys: bool) -> Codec:
    if name == "msgpack":
        return Codec(msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(kind).decode, reason_of)
    order: Literal["sorted"] | None = "sorted" if sort_keys else None
    return Codec(msgspec.json.Encoder(order=order).encode, msgspec.json.Decoder(kind).decode, reason_of)


def reason_of(cause: Exception) -> str:
    """`$.user: Expected str, got int`, of "Expected `str`, got `int` - at `$.user`"."""
    text = str(cause)
    if not isinstance(cause, msgspec.ValidationError):
        return text or type(cause).__name__
    result, at, path = text.rpartition(" - at ")
    return (f"{path}: {result}" if at else f"$: {text}").replace("`", "")


def _parts(info: inspect.Type) -> Iterator[Any]:
    """A type in msgspec's form, and the types of its fields and elements."""
    waiting: list[Any] = [info]
    seen: set[int] = set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        yield part
        for name in part.__struct_fields__:
            held = getattr(part, name)
            held = held if isinstance(held, tuple) else (held,)
            waiting += [item for item in held if isinstance(item, (inspect.Type, inspect.Field))]


def holds_sets(kind: Any) -> bool:
    """Whether objects of a class, or their fields, are sets. Equal sets may have other bytes in each process."""
    return any(isinstance(part, (inspect.SetType, inspect.FrozenSetType)) for part in _parts(inspect.type_info(kind)))


#: The types of plain values in msgspec's form, and their containers.
_OF_JSON = (
    inspect.AnyType,
    inspect.NoneType,
    inspect.BoolType,
    inspect.IntType,
    inspect.FloatType,
    inspect.StrType,
    inspect.LiteralType,
    inspect.UnionType,
    inspect.ListType,
    inspect.DictType,
    inspect.TypedDictType,
    inspect.Field,
)
_KEYS_OF_JSON = (inspect.StrType, inspect.AnyType, type(None))


def is_plain(kind: Any) -> bool:
    """Whether objects of a class are values of JSON, like those of a TypedDict of numbers."""
    return all(
        isinstance(part, _OF_JSON) and isinstance(getattr(part, "key_type", None), _KEYS_OF_JSON)
        for part in _parts(inspect.type_info(kind))
    )


_PLAIN: dict[type, tuple[type, ...]] = {
    inspect.BoolType: (bool,),
    inspect.IntType: (int,),
    inspect.FloatType: (float, int),
    inspect.StrType: (str,),
    inspect.BytesType: (bytes,),
    inspect.DictType: (dict,),
    inspect.TypedDictType: (dict,),
    inspect.ListType: (list,),
    inspect.VarTupleType: (tuple,),
    inspect.TupleType: (tuple,),
    inspect.NoneType: (),
}


def _classes(info: inspect.Type) -> frozenset[type] | None:
    """The exact classes of the objects of a type, None for any class."""
    if isinstance(info, inspect.UnionType):
        item = list(map(_classes, info.types))
        return None if None in item else frozenset().union(*filter(None, item))
    if isinstance(info, inspect.LiteralType):
        return frozenset(map(type, info.values))
    if isinstance(info, inspect.Metadata):
        return _classes(info.type)
    result = _PLAIN.get(type(info))
    if result is not None:
        return frozenset(result)
    kind = getattr(info, "cls", None)
    kind = getattr(kind, "__origin__", kind)
    return frozenset({kind}) if isinstance(kind, type) else None


#: Values that stay unchanged.
_UNCHANGED = (bytes, bytearray, datetime, date, time, Decimal, UUID)


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
    return _form("json", kind, str_keys=True)


def plain_form(kind: Any) -> PlainForm:
    """The plain form of the objects of the class, generic or union `kind`. Raises SerdeError for a class without
    one."""
    return _form("msgpack", kind, builtin_types=_UNCHANGED)


def _form(name: Format, kind: Any, **options: Any) -> PlainForm:
    known = typed_serde(name, kind)
    to_plain: Callable[[Any], Any] = partial(msgspec.to_builtins, **options)
    from_plain: Callable[[Any], Any] = partial(msgspec.convert, type=kind, **options)
    if holds_models(kind):
        from samzapy.serializers import pydantic_models  # noqa: PLC0415  # pydantic is an extra

        of_plain, of_json = pydantic_models.plain_functions, pydantic_models.json_functions
        to_plain, from_plain = of_json(kind) if name == "json" else of_plain(kind, _UNCHANGED)
    return PlainForm(for_classes(kind, known.classes, to_plain), from_plain, known.misfit, known.classes)
