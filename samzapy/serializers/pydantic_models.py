"""Encodes and decodes the models of pydantic, by the functions of its core."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from pydantic import TypeAdapter, ValidationError

from samzapy.serializers.typed import Codec, Format


def pydantic_codec(name: Format, kind: Any, *, sort_keys: bool) -> Codec:
    """The codec of a model, or of a container of models. The models' own settings say how strict they are.

    MessagePack, and JSON with sorted keys, need another step, since pydantic reads and writes plain JSON only.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    validate, dump = adapter.validator.validate_python, adapter.serializer.to_python

    if name == "msgpack":
        pack, unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
        return Codec(lambda value: pack(dump(value, mode="json")), lambda data: validate(unpack(data)), _reason)

    def sorted_json(value: Any) -> bytes:
        return orjson.dumps(dump(value, mode="json"), None, orjson.OPT_SORT_KEYS)

    encode = sorted_json if sort_keys else adapter.serializer.to_json
    return Codec(encode, adapter.validator.validate_json, _reason, exact=not sort_keys)


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
