"""Text as UTF-8."""

from __future__ import annotations

from typing import Any

from samzapy.api.serde import Serde
from samzapy.serializers.explain import as_refusal


class StringSerde(Serde):
    """`str` as UTF-8. Anything but a str is a TypeError; a lone surrogate and bytes that are not UTF-8 a ValueError."""

    keeps_prefixes = True
    allocates_exactly = True
    to_bytes = staticmethod(str.encode)  # type: ignore[assignment]
    from_bytes = staticmethod(bytes.decode)  # type: ignore[assignment]

    def refusal(self, value: Any, cause: Exception) -> str:
        """See `Serde.refusal`."""
        return as_refusal("string serde takes a str", value, cause, fits=isinstance(value, str))
