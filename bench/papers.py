"""The papers' headline figures, theirs beside those that were recorded on this machine.

python bench/papers.py --records DIR       one table; DIR as for bench/figures.py

A record that is not there is named with the command that writes it. A record of bench/targets.py counts as those of its
questions: --json DIR/targets.json.
"""

from __future__ import annotations

import sys
from pathlib import Path

from common import table
from common.words import Parser
from paper_figures import headlines
from paper_figures.records import Records


def main() -> int:
    parser = Parser(description=__doc__)
    parser.add_argument("--records", type=Path, default=Path("paper-records"), metavar="DIR",
                        help="default: %(default)s")  # fmt: skip
    records = Records(parser.parse_args().records)
    head = ["paper", "what", "theirs", "here", "command"]
    print(table.lines(head, [headlines.line(each, records) for each in headlines.HEADLINES], left=len(head)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
