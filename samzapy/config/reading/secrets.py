"""Which values must never be shown, and how they are shown instead."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "********"
_SECRET_NAME = re.compile(
    r"password|passphrase|secret|token|key\.pem|jaas|sasl\.oauthbearer|credentials", re.IGNORECASE
)
_URL_PASSWORD = re.compile(r"(://[^\s:/?#@]*:)[^\s@]*@")
_URL_PARAMETER = re.compile(r"([?&;](?:password|passwd|pwd|sslpassword|token|secret)=)[^&;\s]*", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


def is_secret(key: str, raw_value: str = "") -> bool:
    """Whether the value of `key` is secret: by its name, by Samza's prefix `sensitive.`, or because the value as
    written refers to a variable or key whose name says so."""
    if key.startswith("sensitive.") or _SECRET_NAME.search(key):
        return True
    return any(
        reference.startswith("sensitive.") or _SECRET_NAME.search(reference)
        for reference in _REFERENCE.findall(raw_value)
    )


def without_password(text: str) -> str:
    """`text` as it is, but for the passwords of URLs in it."""
    if "://" not in text:
        return text
    return _URL_PARAMETER.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1{MASK}@", text))


class Masked(dict[str, str]):
    """A flat configuration whose `repr` hides secrets. The values are in clear for those who ask for them by key.

    `secret` are further keys to hide: those whose secrecy shows only in how their value was written.
    """

    def __init__(self, values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> None:
        super().__init__(values)
        self.secret = secret

    def shown(self) -> dict[str, str]:
        """Everything, secrets replaced by `********`."""
        return {
            key: MASK if key in self.secret or is_secret(key, value) else without_password(value)
            for key, value in self.items()
        }

    def __repr__(self) -> str:
        return repr(self.shown())

    def __reduce__(self) -> tuple[type[Masked], tuple[dict[str, str], frozenset[str]]]:
        return type(self), (dict(self), self.secret)
