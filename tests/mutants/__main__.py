"""`python -m tests.mutants`."""

import sys
from pathlib import Path

from tests.mutants.kept import MUTANTS
from tests.mutants.report import run

if __name__ == "__main__":
    texts = sys.argv[1:] or [""]
    wanted = [each for each in MUTANTS if any(text in f"{each.file} {each.old} {each.new}" for text in texts)]
    sys.exit(run(Path(__file__).parents[2], wanted))
