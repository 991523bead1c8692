"""From a text to its terms."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod

_WORD = re.compile(r"\w+")


class Tokenizer(ABC):
    """Named by `stores.NAME.index.tokenizer`; made without arguments. Texts and queries go through the same one, so a
    changed tokenizer needs a new index."""

    @abstractmethod
    def terms(self, text: str) -> list[str]:
        """The terms of a text in their order; the place of a term in the list is its position. None is empty."""


class WordTokenizer(Tokenizer):
    """Runs of letters, digits and underscores, without regard to case. No stemming, no stop words."""

    def terms(self, text: str) -> list[str]:
        """The words of the text."""
        return _WORD.findall(text.casefold())
