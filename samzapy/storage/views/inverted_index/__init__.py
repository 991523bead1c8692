"""Text search: finds documents by words, phrases and combinations, the most relevant first."""

from samzapy.storage.views.inverted_index.index import Hit, InvertedIndex, InvertedIndexFactory
from samzapy.storage.views.inverted_index.query import Tokenizer, WordTokenizer

__all__ = ["Hit", "InvertedIndex", "InvertedIndexFactory", "Tokenizer", "WordTokenizer"]
