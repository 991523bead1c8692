"""`python -m tests.mutants`."""

import sys
from pathlib import Path

from tests.mutants.kept import MUTANTS
from tests.mutants.trial import run

if __name__ == "__main__":
    texts = sys.argv[1:] or [""]
    chosen = [mutant for mutant in MUTANTS if any(text in f"{mutant.file} {mutant.old} {mutant.new}" for text in texts)]
    sys.exit(run(Path(__file__).parents[2], chosen, print))
