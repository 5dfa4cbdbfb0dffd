"""A program that plays schedules: one JSON line in, one out. Run plain, or under the launcher."""

from __future__ import annotations

import json
import sys

from ..helpers.certificates import issued
from .kills import Killer
from .playing import Player


def main() -> None:
    issued()  # both ends trust the same authority
    player, killer = Player(), Killer()
    answers = {"play": player.play, "kill": killer.play, "holding": player.holding}
    for line in sys.stdin:
        request = json.loads(line)
        print(json.dumps(answers[request["do"]](*request["arguments"])), flush=True)
    player.close()
    killer.close()


if __name__ == "__main__":
    main()
