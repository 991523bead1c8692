"""`stores.NAME.factory = inverted-index`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from samzapy.api.engine import EngineSettings, StoreViewFactory
from samzapy.api.kv import KeyValueStore
from samzapy.config.stores import engines
from samzapy.plugins import PluginError, load_class
from samzapy.storage.views.inverted_index.store import InvertedIndex
from samzapy.storage.views.inverted_index.tokenizer import Tokenizer, WordTokenizer
from samzapy.storage.views.properties import leaf, problems_of, value_of


class InvertedIndexFactory(StoreViewFactory):
    """Gives an InvertedIndex."""

    def view(self, store: KeyValueStore[Any, Any], settings: EngineSettings) -> InvertedIndex:
        """See `StoreViewFactory.view`."""
        return InvertedIndex(store, settings.store, _tokenizer(settings))

    def check(self, settings: EngineSettings) -> Iterable[tuple[str, str, str]]:
        """A tokenizer that cannot be made."""
        found = list(problems_of(settings, [engines.INDEX_TOKENIZER]))
        if not found:
            try:
                _tokenizer(settings)
            except PluginError as cause:
                key = leaf(engines.INDEX_TOKENIZER)
                found.append((key, settings.properties[key], str(cause)))
        return found


def _tokenizer(settings: EngineSettings) -> Tokenizer:
    path = value_of(settings, engines.INDEX_TOKENIZER)
    if path is None:
        return WordTokenizer()
    kind = load_class(path)
    if not issubclass(kind, Tokenizer):
        raise PluginError("must be a Tokenizer")
    try:
        return kind()
    except Exception as cause:
        raise PluginError(f"cannot be made ({type(cause).__name__}: {cause})") from cause
