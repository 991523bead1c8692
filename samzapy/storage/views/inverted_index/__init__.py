"""Text search: documents by the words, phrases and combinations they contain, the most relevant first."""

from samzapy.storage.views.inverted_index.factory import InvertedIndexFactory
from samzapy.storage.views.inverted_index.ranking import Hit
from samzapy.storage.views.inverted_index.store import InvertedIndex
from samzapy.storage.views.inverted_index.tokenizer import Tokenizer, WordTokenizer

__all__ = ["Hit", "InvertedIndex", "InvertedIndexFactory", "Tokenizer", "WordTokenizer"]
