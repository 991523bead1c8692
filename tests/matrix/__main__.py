"""`python -m tests.matrix [--only TEXT] [--table FILE] [--keep FOLDER]`."""

import argparse
import sys
from pathlib import Path

from tests.matrix.cells import CELLS
from tests.matrix.report import run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.matrix", description="Try the versions side by side.")
    parser.add_argument(
        "--only", action="append", metavar="TEXT", help="only cells with this text in their name; repeatable"
    )
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="make the environments there, and keep them")
    given = parser.parse_args()
    wanted = [cell for cell in CELLS if any(text in cell.name for text in given.only or [""])]
    if not wanted:
        parser.error(f"--only: expected a part of {', '.join(cell.name for cell in CELLS)}")
    sys.exit(run(Path(__file__).parents[2], wanted, given.table, given.keep))
