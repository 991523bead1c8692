"""Okapi BM25, as Lucene computes it: k1 = 1.2, b = 0.75, and an idf that is never negative."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_K1 = 1.2
_B = 0.75


class Hit(NamedTuple):
    """A document that matches, and how well."""

    document: str
    score: float


class Bm25:
    """Scores against one state of the index."""

    __slots__ = ("_documents", "_frequencies", "_mean_length")

    def __init__(self, documents: int, terms: int, frequencies: Mapping[str, int]) -> None:
        """`documents` in the index, `terms` in all of them, `frequencies`: documents by term."""
        self._documents = documents
        self._mean_length = terms / documents if documents else 1.0
        self._frequencies = frequencies

    def weight(self, terms: Iterable[str]) -> float:
        """What an occurrence of the phrase is worth: the sum of its terms' inverse document frequencies."""
        return sum(self._idf(self._frequencies.get(term, 0)) for term in terms)

    def score(self, weight: float, occurrences: int, length: int) -> float:
        """The score of a phrase of this weight in a document of `length` terms."""
        dampened = occurrences + _K1 * (1.0 - _B + _B * length / (self._mean_length or 1.0))
        return weight * occurrences / dampened

    def _idf(self, frequency: int) -> float:
        return math.log(1.0 + (self._documents - frequency + 0.5) / (frequency + 0.5))


def best(scores: Mapping[str, float], limit: int) -> list[Hit]:
    """The `limit` documents with the highest scores, in the order of their ids where scores are equal."""
    chosen = heapq.nsmallest(limit, ((-score, document) for document, score in scores.items()))
    return [Hit(document, -score) for score, document in chosen]
