"""Encodes and decodes the models of pydantic, by the functions of its core.

pydantic writes a field by its name, unless the model has `serialize_by_alias`, and reads it by its alias. Here a field
with an alias is read by its name, too: what was written comes back. pydantic before 2.11 cannot do so; there a model
has to say `populate_by_name`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import orjson
import pydantic
from pydantic import ConfigDict, TypeAdapter, ValidationError

from samzapy.errors import SerdeError
from samzapy.serializers.refusals import check_numbers
from samzapy.serializers.typed import Codec, Format

_CAN_READ_BY_BOTH = tuple(map(int, pydantic.VERSION.split(".")[:2])) >= (2, 11)
#: NaN and the infinities stay what they are.
_ANY: TypeAdapter[Any] = TypeAdapter(Any, config=ConfigDict(ser_json_inf_nan="constants"))


def pydantic_codec(name: Format, kind: Any, *, sort_keys: bool) -> Codec:
    """The codec of a model, or of a container of models. The models' own settings say how strict they are.

    MessagePack, and JSON with sorted keys, need another step, since pydantic reads and writes plain JSON only.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    dump, from_json = adapter.serializer.to_python, _by_both(adapter.validator.validate_json)

    if name == "msgpack":
        pack, from_python = msgspec.msgpack.Encoder().encode, _by_both(adapter.validator.validate_python)
        return Codec(lambda value: pack(dump(value, mode="json")), _unpacking(from_python, from_json), _reason)

    def sorted_json(value: Any) -> bytes:
        return orjson.dumps(dump(value, mode="json"), option=orjson.OPT_SORT_KEYS)

    encode = sorted_json if sort_keys else adapter.serializer.to_json
    return Codec(encode, from_json, _reason, exact=not sort_keys)


def _unpacking(from_python: Callable[[Any], Any], from_json: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    unpack = msgspec.msgpack.Decoder().decode

    def decode(data: bytes) -> Any:
        value = unpack(data)
        try:
            return from_python(value)
        except ValidationError as refused:
            return from_json(_as_written(value, refused, _json_of_msgpack))

    return decode


def _as_written(value: Any, refused: ValidationError, as_json: Callable[[Any], bytes]) -> bytes:
    """A strict model takes a text as an enum, or a list as a tuple, from JSON only. It was written in these forms."""
    try:
        return as_json(value)
    except (SerdeError, TypeError, ValueError):
        raise refused from None


def _json_of_msgpack(value: Any) -> bytes:
    check_numbers(value)
    return orjson.dumps(value)


def plain_functions(kind: Any, unchanged: tuple[type, ...]) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The functions that make plain values of models, and models of plain values. Values of the types `unchanged` stay;
    enums, URLs, paths and sets become what they are in JSON."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    dump, validator = adapter.serializer.to_python, adapter.validator
    plain = partial(msgspec.to_builtins, builtin_types=unchanged, enc_hook=_as_in_json)
    from_python, from_json = _by_both(validator.validate_python), _by_both(validator.validate_json)

    def from_plain(value: Any) -> Any:
        try:
            return from_python(value)
        except ValidationError as refused:
            # A time is no text, although it is one in JSON.
            if any(isinstance(item["input"], unchanged) for item in refused.errors(include_url=False)):
                raise
            return from_json(_as_written(value, refused, _ANY.dump_json))

    return lambda value: plain(dump(value)), from_plain


def json_functions(kind: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """The functions that make values of JSON of models, and models of these."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    from_json = _by_both(adapter.validator.validate_json)
    return partial(adapter.serializer.to_python, mode="json"), lambda value: from_json(orjson.dumps(value))


def _as_in_json(value: Any) -> Any:
    if hasattr(value, "get_secret_value"):
        raise TypeError(f"Encoding objects of type {type(value).__name__} is unsupported")  # JSON has asterisks
    return _ANY.dump_python(value, mode="json")


def _by_both(validate: Callable[..., Any]) -> Callable[[Any], Any]:
    return partial(validate, by_name=True) if _CAN_READ_BY_BOTH else validate


def _reason(cause: Exception) -> str:
    """`$.user: Input should be a valid string, got int (and 1 more)`."""
    if not isinstance(cause, ValidationError):
        return str(cause) or type(cause).__name__
    first, *others = cause.errors(include_url=False)
    if first["type"] == "json_invalid":
        return first["msg"]
    path = "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    got = "" if first["type"] == "missing" else f", got {type(first['input']).__name__}"
    more = f" (and {len(others)} more)" if others else ""
    return f"{path}: {first['msg']}{got}{more}"
