"""The inverted index: finds the documents that match a query, and scores them.

    posting    p <term> <document>   [terms in the document, positions of this term...]
    frequency  t <term>              the number of documents with the term
    document   d <document>          its terms in order
    totals     n                     [documents, terms in all of them]

1. A commit sends only the postings of the changed documents, also for common terms.
2. The ranking is Okapi BM25, as Lucene computes it: k1 = 1.2, b = 0.75, and an idf that is never negative.

Queries:

    query    = both { [ "OR" ] both }         words without an operator between them are alternatives
    both     = single { "AND" single }
    single   = word | "phrase" | ( query )

AND binds more tightly than OR; both are written in capitals.
"""

from __future__ import annotations

import heapq
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import filterfalse
from typing import Any, NamedTuple

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores.engines import IndexKeys, read_engine
from samzapy.errors import StoreRefused
from samzapy.plugins import PluginError, load_class
from samzapy.storage.views import check_lengths, is_name, key, names

_TOKEN = re.compile(r'\s*(?:(?P<mark>[()])|"(?P<phrase>[^"]*)"|(?P<word>[^\s()"]+)|(?P<bad>"))')
_WORD = re.compile(r"\w+")
#: Parentheses within one another: each takes some of the interpreter's stack.
_DEEPEST = 100
_TOTALS = b"n"
_K1, _B = 1.2, 0.75
#: A term with more than this multiple of the candidate documents is read document by document instead of by a scan.
_SCAN_FACTOR = 4

Scores = dict[str, float]
#: A document's key, and its terms before and after; None: it is not there.
Change = tuple[bytes, "list[str] | None", "list[str] | None"]


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
    parser = _Parser(text, tokenizer)
    query = parser.alternatives()
    if parser.rest:
        raise StoreRefused(f"query {text!r:.100}: {parser.rest[0][1]!r} has no counterpart")
    return query


class _Parser:
    """Parses `rest`, a list of (kind, text), from its front."""

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
            place = f"before {self.rest[0][1]!r}" if self.rest else "at the end"
            raise StoreRefused(f"query {self._text!r:.100}: a word, a phrase or a parenthesis is missing {place}")
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
        found = self.rest[:1] == [("word", operator)]
        if found:
            self.rest.pop(0)
        return found


def _joined(kind: type[AllOf | AnyOf], parts: list[Query | None]) -> Query | None:
    queries = tuple(part for part in parts if part is not None)
    return kind(queries) if len(queries) > 1 else next(iter(queries), None)


class Hit(NamedTuple):
    """A document that matches, and its score."""

    document: str
    score: float


class InvertedIndex:
    """Documents by their terms. A document's id is a str without a zero character; its text is not kept.

    A search finds a document right after its `add`, before the commit. Letters that Unicode writes in several ways are
    not made equal: bring texts and queries into one form, such as `unicodedata.normalize("NFC", text)`.
    """

    def __init__(self, store: KeyValueStore[bytes, Any], name: str, tokenizer: Tokenizer) -> None:
        self._store = store
        self._postings = Postings(store)
        self._name = name
        self._tokenizer = tokenizer

    def add(self, document: str, text: str) -> None:
        """Put in a document, in the place of an earlier one with this id. Adding the same text again writes nothing.

        Raises StoreRefused for an id or a term that cannot be kept; nothing has changed then.
        """
        self._postings.change({key(b"d", document): self._terms(document, text)})

    def add_all(self, documents: Sequence[str], texts: Sequence[str]) -> None:
        """Like `add` of each document with its text, in order: if an id comes twice, the last text counts. Each entry
        of the store is read and written once.

        Raises StoreRefused as `add`, ValueError for columns of different lengths; nothing has changed then.
        """
        check_lengths(documents, texts)
        terms = {document: self._terms(document, text) for document, text in zip(documents, texts, strict=True)}
        self._postings.change({key(b"d", document): new for document, new in terms.items()})

    def _terms(self, document: str, text: str) -> list[str]:
        """The terms of a text. Raises StoreRefused."""
        self._check_text("text", text)
        terms = list(self._tokenizer.terms(text))
        named = [document, *terms]
        if set(map(type, named)) != {str} or not is_name("".join(named)):
            wrong = next(name for name in named if type(name) is not str or not is_name(name))
            raise StoreRefused(
                f"store '{self._name}': document ids and terms are str without zero characters, got {wrong!r:.100}"
            )
        return terms

    def _check_text(self, what: str, text: object) -> None:
        if not isinstance(text, str):
            raise StoreRefused(f"store '{self._name}': a {what} is a str, got {type(text).__name__} {text!r:.100}")

    def delete(self, document: str) -> bool:
        """Take a document out; returns whether it was there."""
        there = document in self
        if there:
            self._postings.change({key(b"d", document): None})
        return there

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
        scores = _Matching(self._postings, parsed).scores(parsed)
        best = heapq.nsmallest(limit, ((-score, document) for document, score in scores.items()))
        return [Hit(document, -score) for score, document in best]

    def __contains__(self, document: str) -> bool:
        """Whether the document is there."""
        return self._store.get(key(b"d", document)) is not None

    def __len__(self) -> int:
        """The number of documents."""
        return self._postings.totals()[0]


class InvertedIndexFactory(StoreViewFactory):
    """Makes an InvertedIndex."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> InvertedIndex:
        return InvertedIndex(store, settings.store, _tokenizer(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        problems = read_engine(IndexKeys, settings)[1]
        if not problems:
            try:
                _tokenizer(settings)
            except PluginError as cause:
                problems.append(("index.tokenizer", settings.properties["index.tokenizer"], str(cause)))
        return problems


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


@lru_cache(10_000)
def _term_keys(term: str) -> tuple[bytes, bytes]:
    """The key of a term's frequency, and the prefix of its postings' keys."""
    return key(b"t", term), key(b"p", term)


class Postings:
    """The entries of one index."""

    def __init__(self, store: KeyValueStore[bytes, Any]) -> None:
        self._store = store

    def totals(self) -> tuple[int, int]:
        """Documents, and the terms in all of them."""
        documents, terms = self._store.get(_TOTALS) or (0, 0)
        return documents, terms

    def change(self, documents: Mapping[bytes, list[str] | None]) -> None:
        """Change the terms of documents, by their keys; None for a document that goes. Unchanged entries are not
        written; others are read and written once."""
        result = self._store.get_all(documents).items()
        if changes := [(place, old, documents[place]) for place, old in result if old != documents[place]]:
            self._replace(changes)

    def _replace(self, changes: Sequence[Change]) -> None:
        puts: dict[bytes, Any] = {}
        gone: list[bytes] = []
        steps: dict[bytes, int] = {}
        documents, terms = self.totals()
        for place, old, new in changes:
            before, after, suffix = _postings(old or ()), _postings(new or ()), place[1:]
            for term, posting in after.items():
                frequency, postings = _term_keys(term)
                if term not in before:
                    steps[frequency] = steps.get(frequency, 0) + 1
                elif before[term] == posting:
                    continue
                puts[postings + suffix] = posting
            for term in filterfalse(after.__contains__, before):
                frequency, postings = _term_keys(term)
                steps[frequency] = steps.get(frequency, 0) - 1
                gone.append(postings + suffix)
            if new is None:
                gone.append(place)
            else:
                puts[place] = new
            documents += (new is not None) - (old is not None)
            terms += len(new or ()) - len(old or ())
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

    def frequencies(self, terms: Iterable[str]) -> dict[str, int]:
        """The number of documents of each term."""
        keys = {term: _term_keys(term)[0] for term in terms}
        result = self._store.get_all(keys.values())
        return {term: result[data] or 0 for term, data in keys.items()}

    def of(self, term: str) -> dict[str, list[int]]:
        """The postings of a term by document."""
        with self._store.prefix(key(b"p", term)) as entries:
            return {names(data)[1]: posting for data, posting in entries}

    def of_documents(self, term: str, documents: Collection[str]) -> dict[str, list[int]]:
        """The postings of a term in `documents`."""
        keys = {document: key(b"p", term, document) for document in documents}
        result = self._store.get_all(keys.values())
        return {document: posting for document, data in keys.items() if (posting := result[data]) is not None}


def _postings(terms: Sequence[str]) -> dict[str, list[int]]:
    postings: dict[str, list[int]] = {}
    for position, term in enumerate(terms):
        postings.setdefault(term, [len(terms)]).append(position)
    return postings


class _Matching:
    """Evaluates one query. A document's score is the sum of the scores of its matching phrases."""

    def __init__(self, postings: Postings, query: Query) -> None:
        self._postings = postings
        self._frequencies = postings.frequencies(dict.fromkeys(_terms(query)))
        self._documents, terms = postings.totals()
        self._mean_length = terms / self._documents if terms else 1.0

    def scores(self, query: Query, among: Collection[str] | None = None) -> Scores:
        """The scores of the matching documents; only of the documents in `among`, unless it is None."""
        if isinstance(query, Phrase):
            return self._phrase(query, among)
        if isinstance(query, AllOf):
            return self._all(query, among)
        scores: Scores = {}
        for part in query.parts:
            for document, score in self.scores(part, among).items():
                scores[document] = scores.get(document, 0.0) + score
        return scores

    def _all(self, query: AllOf, among: Collection[str] | None) -> Scores:
        """The rarest part comes first; the others are read for its documents."""
        first, *others = sorted(query.parts, key=self._at_most)
        scores = self.scores(first, among)
        for part in others:
            further = self.scores(part, scores.keys())
            scores = {document: scores[document] + score for document, score in further.items()}
        return scores

    def _phrase(self, phrase: Phrase, among: Collection[str] | None) -> Scores:
        weight = sum(map(self._idf, phrase.terms))
        by_term: dict[str, dict[str, list[int]]] = {}
        for term in sorted(set(phrase.terms), key=self._frequencies.__getitem__):
            by_term[term] = self._read(term, among)
            among = by_term[term].keys()
        scores: Scores = {}
        for document in among or ():
            postings = [by_term[term][document] for term in phrase.terms]
            if occurrences := _occurrences(postings):
                dampened = occurrences + _K1 * (1.0 - _B + _B * postings[0][0] / self._mean_length)
                scores[document] = weight * occurrences / dampened
        return scores

    def _idf(self, term: str) -> float:
        """The inverse document frequency."""
        frequency = self._frequencies[term]
        return math.log(1.0 + (self._documents - frequency + 0.5) / (frequency + 0.5))

    def _read(self, term: str, among: Collection[str] | None) -> dict[str, list[int]]:
        if among is not None and len(among) * _SCAN_FACTOR < self._frequencies[term]:
            return self._postings.of_documents(term, among)
        postings = self._postings.of(term)
        return postings if among is None else {item: postings[item] for item in among if item in postings}

    def _at_most(self, query: Query) -> int:
        """The largest possible number of matching documents."""
        if isinstance(query, Phrase):
            return min(self._frequencies[term] for term in query.terms)
        numbers = map(self._at_most, query.parts)
        return min(numbers) if isinstance(query, AllOf) else sum(numbers)


def _terms(query: Query) -> Iterator[str]:
    if isinstance(query, Phrase):
        yield from query.terms
    else:
        for part in query.parts:
            yield from _terms(part)


def _occurrences(postings: list[list[int]]) -> int:
    """The number of places where the terms of these postings follow one another; the first number of a posting is the
    document's length."""
    if len(postings) == 1:
        return len(postings[0]) - 1
    starts = set(postings[0][1:])
    for place, posting in enumerate(postings[1:], 1):
        starts &= {position - place for position in posting[1:]}
    return len(starts)
