"""Where terms occur, in one entry a term and document.

    posting    p <term> <document>   [terms in the document, positions of this term...]
    frequency  t <term>              in how many documents the term occurs
    document   d <document>          its terms in order
    totals     n                     [documents, terms in all of them]

So a commit sends the postings of the documents that changed, and nothing else of a term, however common it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from samzapy.api.kv import KeyValueStore
from samzapy.storage.views.entry_keys import key, names

#: Positions by term.
Positions = Mapping[str, list[int]]
_TOTALS = b"n"


class Postings:
    """The entries of one index."""

    __slots__ = ("_store",)

    def __init__(self, store: KeyValueStore[bytes, Any]) -> None:
        self._store = store

    def totals(self) -> tuple[int, int]:
        """Documents, and the terms in all of them."""
        documents, terms = self._store.get(_TOTALS) or (0, 0)
        return documents, terms

    def terms_of(self, document: str) -> list[str] | None:
        """The terms of a document in order, None if it is not there."""
        found: list[str] | None = self._store.get(key(b"d", document))
        return found

    def replace(self, document: str, old: Sequence[str] | None, new: Sequence[str] | None) -> None:
        """Change a document's terms; None for a document that is not there. What stays the same is not written."""
        before, after = _positions(old or ()), _positions(new or ())
        length = len(new or ())
        same_length = length == len(old or ())
        puts: dict[bytes, Any] = {
            key(b"p", term, document): [length, *positions]
            for term, positions in after.items()
            if not same_length or before.get(term) != positions
        }
        steps = {term: (term in after) - (term in before) for term in before.keys() ^ after.keys()}
        counted = {term: number + steps[term] for term, number in self.frequencies(list(steps)).items()}
        puts |= {key(b"t", term): number for term, number in counted.items() if number}
        gone = [key(b"p", term, document) for term in before.keys() - after.keys()]
        gone += [key(b"t", term) for term, number in counted.items() if not number]
        if new is None:
            gone.append(key(b"d", document))
        else:
            puts[key(b"d", document)] = list(new)
        documents, terms = self.totals()
        puts[_TOTALS] = [documents + (new is not None) - (old is not None), terms + length - len(old or ())]
        self._store.put_all(puts)
        self._store.delete_all(gone)

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """In how many documents each term occurs."""
        keys = {term: key(b"t", term) for term in terms}
        found = self._store.get_all(keys.values())
        return {term: found[data] or 0 for term, data in keys.items()}

    def of(self, term: str) -> dict[str, list[int]]:
        """The postings of a term by document."""
        with self._store.prefix(key(b"p", term)) as entries:
            return {names(data)[1]: posting for data, posting in entries}

    def of_documents(self, term: str, documents: Sequence[str]) -> dict[str, list[int]]:
        """The postings of a term in `documents`."""
        keys = {document: key(b"p", term, document) for document in documents}
        found = self._store.get_all(keys.values())
        return {document: posting for document, data in keys.items() if (posting := found[data]) is not None}


def _positions(terms: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for position, term in enumerate(terms):
        found.setdefault(term, []).append(position)
    return found
