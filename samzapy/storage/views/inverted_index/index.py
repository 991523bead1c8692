"""The inverted index for tasks, and its factory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores.engines import IndexKeys, read_engine
from samzapy.errors import StoreRefused
from samzapy.plugins import PluginError, load_class
from samzapy.storage.views.entries import check_lengths
from samzapy.storage.views.inverted_index.matching import Hit, Matching, Postings, best
from samzapy.storage.views.inverted_index.query import Tokenizer, WordTokenizer, parse


class InvertedIndex:
    """Documents by their terms. A document's id is a str without a zero character; its text is not kept.

    A search finds a document right after its `add`, before the commit. Letters that Unicode writes in several ways are not
    made equal: bring texts and queries into one form, such as `unicodedata.normalize("NFC", text)`.
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
        """Like `add` of each document with its text, in order: if an id comes twice, the last text counts. Each entry of
        the store is read and written once.

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
        """See `StoreViewFactory.view`."""
        return InvertedIndex(store, settings.store, _tokenizer(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str | None, str]]:
        """The problem of a tokenizer that cannot be made."""
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
