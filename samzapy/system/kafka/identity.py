"""Who a client is to its cluster: the principal that rights are granted to, and the certificate that proves it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

_CERTIFICATE = "ssl.certificate.location"


def principal(properties: Mapping[str, str]) -> str:
    """The principal for people, as far as the properties tell it: `User:bob`, or the subject of a client certificate."""
    if properties.get("security.protocol", "").lower().startswith("sasl"):
        name = properties.get("sasl.username") or properties.get("sasl.kerberos.principal", "")
    else:
        subject = _certificate(properties).get("subject", ())
        name = ",".join(f"{_SHORT.get(kind, kind)}={value}" for part in reversed(subject) for kind, value in part)
    return f"User:{name}" if name else "this client"


def expired_certificate(properties: Mapping[str, str], wall_ms: int) -> str:
    """The file of the client's certificate and when it expired; empty if it is valid, unknown or not needed."""
    until = _certificate(properties).get("notAfter")
    if until is None or (expiry_s := ssl.cert_time_to_seconds(until)) * 1000 > wall_ms:
        return ""
    when = datetime.fromtimestamp(expiry_s, timezone.utc).isoformat(timespec="seconds")
    return f"the certificate of the client expired at {when} ({_CERTIFICATE}={properties[_CERTIFICATE]})"


_SHORT = {
    "commonName": "CN",
    "countryName": "C",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
}


def _certificate(properties: Mapping[str, str]) -> dict[str, Any]:
    """The first certificate of the client's file, decoded; empty if there is none, or it cannot be read."""
    path = properties.get(_CERTIFICATE)
    try:
        return {} if path is None else dict(_decoded(path))
    except (AttributeError, OSError, ValueError):
        return {}


def _decoded(path: str) -> Any:
    # The standard library decodes a certificate of a file only here.
    return ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]  # noqa: SLF001
