"""Writes the error messages of serdes: place, part, serde and reason."""

from __future__ import annotations

from samzapy.errors import SerdeError


def decode_failure(serde_name: str, where: str, part: str, cause: Exception) -> SerdeError:
    """The error for bytes at `where` (`system.stream[partition]@offset`) whose `part` (key or message) did not
    decode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    return SerdeError(f"{where}: {part}: {serde_name} serde: {_reason(cause)}")


def encode_failure(serde_name: str, where: str, part: str, value: object, cause: Exception) -> SerdeError:
    """The error for an object on its way to `where` (a stream or store) whose `part` did not encode."""
    if isinstance(cause, SerdeError):
        return SerdeError(f"{where}: {part}: {cause}")
    return SerdeError(f"{where}: {part}: {serde_name} serde does not take {_shown(value)} ({_reason(cause)})")


def as_refusal(takes: str, value: object, cause: Exception, *, fits: bool) -> str:
    """The text for `Serde.refusal`: the accepted type and the given one. If the type `fits`, the value itself is wrong,
    so the text has the cause as well."""
    kind = type(value).__name__
    return f"{takes}, got {kind} ({_reason(cause)})" if fits else f"{takes}, got {kind}"


def _reason(cause: Exception) -> str:
    text = " ".join(str(cause).split())
    return text or type(cause).__name__


def _shown(value: object) -> str:
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 100 else text[:97] + '...'}"
