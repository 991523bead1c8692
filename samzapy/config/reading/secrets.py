"""Decides which values are secret, and masks them.

One rule for all keys, ours and the keys passed on to libraries:

1. A name with the word password, passphrase, secret, token, credentials or the like is secret; so is a key that opens
   something (`access.key`, `account_key`, `ssl.key.pem`), a connection string, and a DSN.
2. Everything below `backup.options.` is secret: file systems call their secrets as they like (`key`, `sas`, `anon`).
3. A value that refers to a variable or key with a secret name is secret, over any number of steps.
4. Of any other value, the passwords in it are masked: passwords of URLs, also with `@` in them, and `password=...` in a
   connection string.

Rather too much is masked than too little; `sensitive.` in front, as in Samza, masks values that the rule does not see.

`literal_secrets` finds fewer keys: a job with them is refused if its containers are on other machines, so a path, a
flag or the address of a server may be written in clear.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "********"
_BETWEEN = r"[._\-]?"
#: Parts of names, as in keys and in variables of the environment.
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
#: Names with a secret word in them that say where a secret is, or how it is used.
_ABOUT_A_SECRET = re.compile(
    r"[._](?:location|file|path|type|url|uri|host|endpoint|method|mechanism|algorithm|scope|audience|enabled|ttl|ms|seconds|class)$",
    re.IGNORECASE,
)
#: Passwords that are part of a value, fewer than are masked: here a mistake refuses a job.
_URL_SECRET = re.compile(r"://[^\s:/?#@]*:(\S*)@")
_PARAMETER_SECRET = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|(?:access|account|api|shared)_?key)\s*=\s*('[^']*'|\"[^\"]*\"|[^&;\s]+)",
    re.IGNORECASE,
)
_PLAIN = re.compile(r"true|false|none|null|", re.IGNORECASE)
_OPTIONS = re.compile(r"(?:^|.*\.)backup\.options\.(.+)")


def is_secret(key: str, raw_value: str = "") -> bool:
    """Whether the value of `key` is secret, by its name or by the names that the value as written refers to."""
    return any(
        name.startswith("sensitive.") or _SECRET_NAME.search(name) for name in (key, *_REFERENCE.findall(raw_value))
    )


def literal_secrets(raw: Mapping[str, str]) -> list[str]:
    """The keys of a configuration as written that hold a secret themselves, over any number of references, and do not
    refer to a variable of the environment that has it."""
    return [key for key, value in raw.items() if _has_password(value) or (_names_a_secret(key) and _is_text(raw, key))]


def _has_password(value: str) -> bool:
    bare = _REFERENCE.sub("", value)
    return any(match[1].strip("'\"") for match in (*_URL_SECRET.finditer(bare), *_PARAMETER_SECRET.finditer(bare)))


def _names_a_secret(key: str) -> bool:
    if _ABOUT_A_SECRET.search(key):
        return False
    option = _OPTIONS.fullmatch(key)
    name = key if option is None else option[1]
    return key.startswith("sensitive.") or name == "key" or _SECRET_NAME.search(name) is not None


def _is_text(raw: Mapping[str, str], key: str, path: frozenset[str] = frozenset()) -> bool:
    """Whether no variable is part of the value, and it is not empty, a flag, or broken."""
    value = raw.get(key, "").replace("$${", "")
    references = _REFERENCE.findall(value)
    if key in path or any(name.startswith("env:") for name in references):
        return False
    if references:
        return all(_is_text(raw, name, path | {key}) for name in references)
    return not _PLAIN.fullmatch(value.strip())


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
