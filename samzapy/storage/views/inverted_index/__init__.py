"""Text search: documents by the words, phrases and combinations they contain, the most relevant first."""

from samzapy.storage.views.inverted_index.index import InvertedIndex, InvertedIndexFactory
from samzapy.storage.views.inverted_index.matching import Hit
from samzapy.storage.views.inverted_index.query import Tokenizer, WordTokenizer

__all__ = ["Hit", "InvertedIndex", "InvertedIndexFactory", "Tokenizer", "WordTokenizer"]
