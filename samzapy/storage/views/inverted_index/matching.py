"""Which documents match a query, each with its score."""

from __future__ import annotations

from collections.abc import Collection

from samzapy.storage.views.inverted_index.postings import Postings
from samzapy.storage.views.inverted_index.query import AllOf, AnyOf, Phrase, Query, phrases
from samzapy.storage.views.inverted_index.ranking import Bm25

#: From how many documents on the postings of a term are read one by one rather than in a scan of them all.
_SCAN_FACTOR = 4

Scores = dict[str, float]


class Matching:
    """Evaluates one query. A document's score is the sum of those of the phrases it matches."""

    __slots__ = ("_frequencies", "_postings", "_ranking")

    def __init__(self, postings: Postings, query: Query) -> None:
        terms = dict.fromkeys(term for phrase in phrases(query) for term in phrase.terms)
        self._postings = postings
        self._frequencies = postings.frequencies(list(terms))
        self._ranking = Bm25(*postings.totals(), self._frequencies)

    def scores(self, query: Query, among: Collection[str] | None = None) -> Scores:
        """The scores of the matching documents; only those `among` these, if it is given."""
        if isinstance(query, Phrase):
            return self._phrase(query, among)
        if isinstance(query, AllOf):
            return self._all(query, among)
        return self._any(query, among)

    def _any(self, query: AnyOf, among: Collection[str] | None) -> Scores:
        found: Scores = {}
        for part in query.parts:
            for document, score in self.scores(part, among).items():
                found[document] = found.get(document, 0.0) + score
        return found

    def _all(self, query: AllOf, among: Collection[str] | None) -> Scores:
        """The rarest part first: the others are looked up in what it leaves."""
        found: Scores | None = None
        for part in sorted(query.parts, key=self._at_most):
            scores = self.scores(part, among if found is None else found.keys())
            found = scores if found is None else {d: found[d] + score for d, score in scores.items()}
        return found or {}

    def _phrase(self, phrase: Phrase, among: Collection[str] | None) -> Scores:
        weight = self._ranking.weight(phrase.terms)
        by_term: dict[str, dict[str, list[int]]] = {}
        for term in sorted(set(phrase.terms), key=self._frequencies.__getitem__):
            by_term[term] = self._read(term, among)
            among = by_term[term].keys()
        found: Scores = {}
        first = phrase.terms[0]
        for document in among or ():
            occurrences = _occurrences([by_term[term][document] for term in phrase.terms])
            if occurrences:
                found[document] = self._ranking.score(weight, occurrences, by_term[first][document][0])
        return found

    def _read(self, term: str, among: Collection[str] | None) -> dict[str, list[int]]:
        if among is not None and len(among) * _SCAN_FACTOR < self._frequencies[term]:
            return self._postings.of_documents(term, list(among))
        found = self._postings.of(term)
        if among is None:
            return found
        return {document: found[document] for document in among if document in found}

    def _at_most(self, query: Query) -> int:
        """How many documents can match."""
        if isinstance(query, Phrase):
            return min(self._frequencies[term] for term in query.terms)
        each = [self._at_most(part) for part in query.parts]
        return min(each) if isinstance(query, AllOf) else sum(each)


def _occurrences(postings: list[list[int]]) -> int:
    """How often the terms of these postings follow one another; the first number of a posting is no position."""
    if len(postings) == 1:
        return len(postings[0]) - 1
    starts = set(postings[0][1:])
    for place, posting in enumerate(postings[1:], 1):
        starts &= {position - place for position in posting[1:]}
    return len(starts)
