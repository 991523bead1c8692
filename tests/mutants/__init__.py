"""Mistakes that the quick tests must notice: `make mutants`, or `python -m tests.mutants [TEXT ...]` for those whose
file or change contains one of the texts.

Each of `kept.MUTANTS` is one change of the product, with the tests that must fail for it. It is made in a copy of the
tree, never in place. The run fails if a change is not noticed, if the text that it replaces is not there exactly once,
or if the tests fail without it.
"""
