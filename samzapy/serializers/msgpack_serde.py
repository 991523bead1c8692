"""MessagePack."""

from __future__ import annotations

from typing import Any

import msgpack

from samzapy.api.serde import Serde
from samzapy.serializers.explain import as_refusal

_unpackb = msgpack.unpackb
#: Of values that are refused for what is in them, or for their size.
_TYPES = (dict, list, tuple, str, int)


class MsgpackSerde(Serde):
    """MessagePack with its str and bytes types apart; keys of maps may be of any kind.

    A tuple comes back as a list. A datetime, a set and an int beyond 64 bits are errors, not guesses.
    """

    def __init__(self) -> None:
        # One packer for good: making one costs more than packing a small message. It is safe to go on after an error.
        self.to_bytes = msgpack.Packer(use_bin_type=True).pack  # type: ignore[method-assign]

    def to_bytes(self, value: Any) -> bytes:
        """Raises TypeError for what MessagePack cannot say, ValueError or OverflowError for what is too deep or large."""
        packed: bytes = msgpack.packb(value, use_bin_type=True)
        return packed

    def from_bytes(self, data: bytes) -> Any:
        """Raises ValueError for bytes that are not one message, TypeError for a map with a list as key."""
        return _unpackb(data, strict_map_key=False)

    def refusal(self, value: Any, cause: Exception) -> str:
        """See `Serde.refusal`."""
        return as_refusal("msgpack serde takes a value of MessagePack", value, cause, fits=isinstance(value, _TYPES))
