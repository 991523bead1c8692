"""Decides which values are secret, and masks them."""

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
    """Whether the value of `key` is secret.

    The name of the key decides, Samza's prefix `sensitive.`, or the name of a variable or key that the value as written
    refers to.
    """
    if key.startswith("sensitive.") or _SECRET_NAME.search(key):
        return True
    return any(
        reference.startswith("sensitive.") or _SECRET_NAME.search(reference)
        for reference in _REFERENCE.findall(raw_value)
    )


def without_password(text: str) -> str:
    """`text` with the passwords of its URLs masked."""
    if "://" not in text:
        return text
    return _URL_PARAMETER.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1{MASK}@", text))


class Masked(dict[str, str]):
    """A flat configuration with a `repr` that hides secrets; access by key gives the values in clear.

    `secret` are further keys to hide, which took their value from a secret one.
    """

    def __init__(self, values: Mapping[str, str], secret: frozenset[str] = frozenset()) -> None:
        super().__init__(values)
        self.secret = secret

    def shown(self) -> dict[str, str]:
        """All pairs, with secrets replaced by `********`."""
        return {
            key: MASK if key in self.secret or is_secret(key, value) else without_password(value)
            for key, value in self.items()
        }

    def __repr__(self) -> str:
        return repr(self.shown())

    def __reduce__(self) -> tuple[type[Masked], tuple[dict[str, str], frozenset[str]]]:
        return type(self), (dict(self), self.secret)
