"""Splits a text into its terms, and parses a query.

    query    = both { [ "OR" ] both }         words without an operator between them are alternatives
    both     = single { "AND" single }
    single   = word | "phrase" | ( query )

AND binds more tightly than OR; both are written in capitals.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

from samzapy.errors import StoreRefused

_TOKEN = re.compile(r'\s*(?:(?P<mark>[()])|"(?P<phrase>[^"]*)"|(?P<word>[^\s()"]+)|(?P<bad>"))')

_WORD = re.compile(r"\w+")

#: Parentheses within one another: each takes some of the interpreter's stack.
_DEEPEST = 100


class Tokenizer(ABC):
    """Named by `stores.NAME.index.tokenizer`; made without arguments. Texts and queries go through the same one, so a
    changed tokenizer needs a new index."""

    @abstractmethod
    def terms(self, text: str) -> list[str]:
        """The terms of a text in their order; the place of a term in the list is its position. None is empty."""


class WordTokenizer(Tokenizer):
    """Runs of letters, digits and underscores, without regard to case. No stemming, no stop words, no normalization."""

    def terms(self, text: str) -> list[str]:
        """The words of the text."""
        return _WORD.findall(text.casefold())


@dataclass(frozen=True)
class Phrase:
    """Terms that follow one another; a single word is a phrase of one term."""

    terms: tuple[str, ...]


@dataclass(frozen=True)
class AllOf:
    """Documents that match every part."""

    parts: tuple[Query, ...]


@dataclass(frozen=True)
class AnyOf:
    """Documents that match at least one part."""

    parts: tuple[Query, ...]


Query = Phrase | AllOf | AnyOf


def parse(text: str, tokenizer: Tokenizer) -> Query | None:
    """The query of `text`, None if it has no term. Raises StoreRefused for a malformed query."""
    reader = _Reader(text, tokenizer)
    found = reader.alternatives()
    if reader.rest:
        raise StoreRefused(f"query {text!r:.100}: {reader.rest[0][1]!r} has no counterpart")
    return found


def phrases(query: Query) -> Iterator[Phrase]:
    """Every phrase of a query, in order."""
    if isinstance(query, Phrase):
        yield query
    else:
        for part in query.parts:
            yield from phrases(part)


class _Reader:
    """Reads `rest`, a list of (kind, text), from its front."""

    def __init__(self, text: str, tokenizer: Tokenizer) -> None:
        self._text = text
        self._tokenizer = tokenizer
        self._depth = 0
        self.rest = [(str(match.lastgroup), match[str(match.lastgroup)]) for match in _TOKEN.finditer(text)]
        if ("bad", '"') in self.rest:
            raise StoreRefused(f"query {text!r:.100}: a phrase is not closed with a quotation mark")

    def alternatives(self) -> Query | None:
        parts: list[Query | None] = []
        while self.rest and self.rest[0] != ("mark", ")"):
            if parts:
                self._skip("OR")
            parts.append(self._both())
        return _joined(AnyOf, parts)

    def _both(self) -> Query | None:
        parts = [self._single()]
        while self._skip("AND"):
            parts.append(self._single())
        # A word without a term (punctuation) is ignored; it excludes no documents.
        return _joined(AllOf, parts)

    def _single(self) -> Query | None:
        if not self.rest or self.rest[0] in {("word", "AND"), ("word", "OR"), ("mark", ")")}:
            found = f"before {self.rest[0][1]!r}" if self.rest else "at the end"
            raise StoreRefused(f"query {self._text!r:.100}: a word, a phrase or a parenthesis is missing {found}")
        kind, text = self.rest.pop(0)
        if kind != "mark":
            terms = tuple(self._tokenizer.terms(text))
            return Phrase(terms) if terms else None
        self._depth += 1
        if self._depth > _DEEPEST:
            raise StoreRefused(f"query {self._text!r:.100}: more than {_DEEPEST} parentheses are within one another")
        inner = self.alternatives()
        self._depth -= 1
        if not self.rest:
            raise StoreRefused(f"query {self._text!r:.100}: a parenthesis is not closed")
        self.rest.pop(0)
        return inner

    def _skip(self, operator: str) -> bool:
        if self.rest and self.rest[0] == ("word", operator):
            self.rest.pop(0)
            return True
        return False


def _joined(kind: type[AllOf | AnyOf], parts: list[Query | None]) -> Query | None:
    found = tuple(part for part in parts if part is not None)
    return kind(found) if len(found) > 1 else next(iter(found), None)
