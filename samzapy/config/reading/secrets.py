"""Decides which values are secret, and masks them.

One rule for all keys, ours and those that are passed on to libraries:

1. A name with the word password, passphrase, secret, token, credentials or the like is secret; so is a key that opens
   something (`access.key`, `account_key`, `ssl.key.pem`), a connection string, and a DSN.
2. Everything below `backup.options.` is secret: file systems call their secrets as they like (`key`, `sas`, `anon`).
3. A value that refers to a variable or key with a secret name is secret, over any number of steps.
4. Of any other value, the passwords in it are masked: those of URLs, also with `@` in them, and `password=...` in a connection
   string.

Rather too much is masked than too little; `sensitive.` in front, as in Samza, masks what the rule does not see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "********"
_BETWEEN = r"[._\-]?"
#: Parts of names, as they are written in keys and in variables of the environment.
_SECRET_NAME = re.compile(
    r"password|passphrase|passwd|secret|token(?!iz)|credential|jaas|oauthbearer"
    rf"|connection{_BETWEEN}str|key{_BETWEEN}pem|private{_BETWEEN}key"
    rf"|(?:access|account|api|shared|sas|storage|encryption|master|signing){_BETWEEN}key"
    r"|(?<![a-z])(?:pwd|pass|dsn|sas|auth)(?![a-z])"
    r"|(?:^|\.)backup\.options\.",
    re.IGNORECASE,
)
#: Up to the last `@` of a word: a password may have some, and there is no harm in hiding a host.
_URL_PASSWORD = re.compile(r"(://[^\s:/?#@]*:)\S*@")
_PARAMETER = re.compile(
    r"((?:password|passwd|pwd|passphrase|secret|token|credential|sig|[a-z_]*key)\s*=\s*)(?:'[^']*'|\"[^\"]*\"|[^&;\s]+)",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


def is_secret(key: str, raw_value: str = "") -> bool:
    """Whether the value of `key` is secret, by its name or by the names that the value as written refers to."""
    return any(
        name.startswith("sensitive.") or _SECRET_NAME.search(name) for name in (key, *_REFERENCE.findall(raw_value))
    )


def without_password(text: str) -> str:
    """`text` with the passwords of its URLs and connection strings masked."""
    if "://" not in text and "=" not in text:
        return text
    return _PARAMETER.sub(rf"\1{MASK}", _URL_PASSWORD.sub(rf"\1{MASK}@", text))


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
