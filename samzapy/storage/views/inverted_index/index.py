"""The inverted index: finds the documents that match a query, and scores them.

    posting    p <term> <document>   [terms in the document, positions of this term...]
    frequency  t <term>              in how many documents the term occurs
    document   d <document>          its terms in order
    totals     n                     [documents, terms in all of them]

1. A commit sends only the postings of the changed documents, also for common terms.
2. The ranking is Okapi BM25, as Lucene computes it: k1 = 1.2, b = 0.75, and an idf that is never negative.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores.engines import IndexKeys, read_engine
from samzapy.errors import StoreRefused
from samzapy.plugins import PluginError, load_class
from samzapy.storage.views.entries import check_lengths, is_name, key, names
from samzapy.storage.views.inverted_index.query import (
    AllOf,
    AnyOf,
    Phrase,
    Query,
    Tokenizer,
    WordTokenizer,
    parse,
    phrases,
)


class InvertedIndex:
    """Documents by their terms. A document's id is a str without a zero character; its text is not kept.

    A search finds a document right after its `add`, before the commit. Letters that Unicode writes in several ways are
    not made equal: bring texts and queries into one form, such as `unicodedata.normalize("NFC", text)`.
    """

    __slots__ = ("_name", "_postings", "_tokenizer")

    def __init__(self, store: KeyValueStore[bytes, Any], name: str, tokenizer: Tokenizer) -> None:
        self._postings = Postings(store)
        self._name = name
        self._tokenizer = tokenizer

    def add(self, document: str, text: str) -> None:
        """Put in a document, in the place of an earlier one with this id. Adding the same text again writes nothing.

        Raises StoreRefused for an id or a term that cannot be kept; nothing has changed then.
        """
        self._postings.change(document, self._terms(document, text))

    def add_all(self, documents: Sequence[str], texts: Sequence[str]) -> None:
        """Like `add` of each document with its text, in order: if an id comes twice, the last text counts. Each entry
        of the store is read and written once.

        Raises StoreRefused as `add`, ValueError for columns of different lengths; nothing has changed then.
        """
        check_lengths(documents, texts)
        self._postings.change_all(
            {document: self._terms(document, text) for document, text in zip(documents, texts, strict=True)}
        )

    def _terms(self, document: str, text: str) -> list[str]:
        """The terms of a text. Raises StoreRefused."""
        self._check_text("text", text)
        terms = list(self._tokenizer.terms(text))
        takes = self._postings.takes
        for name in (document, *terms):
            if type(name) is not str or not takes(name):
                raise StoreRefused(
                    f"store '{self._name}': document ids and terms are str without zero characters, got {name!r:.100}"
                )
        return terms

    def _check_text(self, what: str, text: object) -> None:
        if not isinstance(text, str):
            raise StoreRefused(f"store '{self._name}': a {what} is a str, got {type(text).__name__} {text!r:.100}")

    def delete(self, document: str) -> bool:
        """Take a document out; returns whether it was there."""
        return self._postings.change(document, None)

    def search(self, query: str, limit: int = 10) -> list[Hit]:
        """The `limit` best documents for a query, the best first, by BM25.

        `boeing airbus` and `boeing OR airbus` find either, `boeing AND 737` both, `"new york"` the words in this order;
        parentheses group (to a depth of 100), AND binds more tightly than OR. A query without a term finds nothing.
        Raises StoreRefused for a query that cannot be read.
        """
        self._check_text("query", query)
        parsed = parse(query, self._tokenizer)
        if parsed is None or limit < 1:
            return []
        return best(Matching(self._postings, parsed).scores(parsed), limit)

    def __contains__(self, document: str) -> bool:
        """Whether the document is there."""
        return self._postings.terms_of(document) is not None

    def __len__(self) -> int:
        """The number of documents."""
        return self._postings.totals()[0]


class InvertedIndexFactory(StoreViewFactory):
    """Makes an InvertedIndex."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> InvertedIndex:
        return InvertedIndex(store, settings.store, _tokenizer(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        found = read_engine(IndexKeys, settings)[1]
        if not found:
            try:
                _tokenizer(settings)
            except PluginError as cause:
                key = "index.tokenizer"
                found.append((key, settings.properties[key], str(cause)))
        return found


def _tokenizer(settings: EngineSettings) -> Tokenizer:
    path = read_engine(IndexKeys, settings)[0].tokenizer
    if path is None:
        return WordTokenizer()
    kind = load_class(path)
    if not issubclass(kind, Tokenizer):
        raise PluginError("must be a Tokenizer")
    try:
        return kind()
    except Exception as cause:
        raise PluginError(f"cannot be made ({type(cause).__name__}: {cause})") from cause


_K1 = 1.2

_B = 0.75

#: If a term has more than this multiple of the documents at hand, their postings are read one by one instead of by a
#: scan.
_SCAN_FACTOR = 4

Scores = dict[str, float]

#: Positions by term.
Positions = Mapping[str, list[int]]
_TOTALS = b"n"

#: The key of a document, and its terms before and after; None: it was not there, or goes.
Change = tuple[bytes, "list[str] | None", "list[str] | None"]

#: Terms that have their keys at hand; then all are forgotten.
_REMEMBERED = 10_000


class Postings:
    """The entries of one index."""

    __slots__ = ("_keys", "_store")

    def __init__(self, store: KeyValueStore[bytes, Any]) -> None:
        self._store = store
        #: For recent terms: the key of the frequency, and the prefix of the postings' keys.
        self._keys: dict[str, tuple[bytes, bytes]] = {}

    def totals(self) -> tuple[int, int]:
        """Documents, and the terms in all of them."""
        documents, terms = self._store.get(_TOTALS) or (0, 0)
        return documents, terms

    def terms_of(self, document: str) -> list[str] | None:
        """The terms of a document in order, None if it is not there."""
        found: list[str] | None = self._store.get(key(b"d", document))
        return found

    def takes(self, term: str) -> bool:
        """Whether `term` can be kept."""
        return term in self._keys or is_name(term)

    def change(self, document: str, new: list[str] | None) -> bool:
        """Change a document's terms; None for a document that is not there. Unchanged entries are not written. Returns
        whether the document was there."""
        place = key(b"d", document)
        old: list[str] | None = self._store.get(place)
        if old != new:
            self._replace([(place, old, new)])
        return old is not None

    def change_all(self, terms: Mapping[str, list[str]]) -> None:
        """Change the terms of documents. Each entry is read and written once."""
        places = {key(b"d", document): new for document, new in terms.items()}
        found = self._store.get_all(places).items()
        if changed := [(place, old, places[place]) for place, old in found if old != places[place]]:
            self._replace(changed)

    def _replace(self, changes: Sequence[Change]) -> None:
        known = self._keys
        puts: dict[bytes, Any] = {}
        gone: list[bytes] = []
        steps: dict[bytes, int] = {}
        documents, terms = self.totals()
        for place, old, new in changes:
            before, after, suffix = _positions(old or ()), _positions(new or ()), place[1:]
            length, old_length = len(new or ()), len(old or ())
            for term, positions in after.items():
                frequency, postings = known.get(term) or self._keys_of(term)
                if term not in before:
                    steps[frequency] = steps.get(frequency, 0) + 1
                elif length == old_length and before[term] == positions:
                    continue
                puts[postings + suffix] = [length, *positions]
            for term in before:
                if term not in after:
                    frequency, postings = known.get(term) or self._keys_of(term)
                    steps[frequency] = steps.get(frequency, 0) - 1
                    gone.append(postings + suffix)
            if new is None:
                gone.append(place)
            else:
                puts[place] = new
            documents += (new is not None) - (old is not None)
            terms += length - old_length
        for frequency, held in self._store.get_all(steps).items():
            number = (held or 0) + steps[frequency]
            if number:
                puts[frequency] = number
            else:
                gone.append(frequency)
        puts[_TOTALS] = [documents, terms]
        self._store.put_all(puts)
        if gone:
            self._store.delete_all(gone)

    def _keys_of(self, term: str) -> tuple[bytes, bytes]:
        if len(self._keys) >= _REMEMBERED:
            self._keys.clear()
        found = self._keys[term] = key(b"t", term), key(b"p", term)
        return found

    def frequencies(self, terms: Sequence[str]) -> dict[str, int]:
        """The number of documents of each term."""
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
        """The weight of an occurrence of the phrase: the sum of its terms' inverse document frequencies."""
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


class Matching:
    """Evaluates one query. A document's score is the sum of the scores of its matching phrases."""

    __slots__ = ("_frequencies", "_postings", "_ranking")

    def __init__(self, postings: Postings, query: Query) -> None:
        terms = dict.fromkeys(term for phrase in phrases(query) for term in phrase.terms)
        self._postings = postings
        self._frequencies = postings.frequencies(list(terms))
        self._ranking = Bm25(*postings.totals(), self._frequencies)

    def scores(self, query: Query, among: Collection[str] | None = None) -> Scores:
        """The scores of the matching documents; only of the documents in `among`, if it is given."""
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
        """The rarest part comes first; the others are looked up in its documents."""
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
        """The largest possible number of matching documents."""
        if isinstance(query, Phrase):
            return min(self._frequencies[term] for term in query.terms)
        each = [self._at_most(part) for part in query.parts]
        return min(each) if isinstance(query, AllOf) else sum(each)


def _occurrences(postings: list[list[int]]) -> int:
    """The number of places where the terms of these postings follow one another; the first number of a posting is not a
    position."""
    if len(postings) == 1:
        return len(postings[0]) - 1
    starts = set(postings[0][1:])
    for place, posting in enumerate(postings[1:], 1):
        starts &= {position - place for position in posting[1:]}
    return len(starts)
