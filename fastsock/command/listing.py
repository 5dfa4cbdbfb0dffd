"""`fastsock list`: the daemons, ranks and other processes of this user that run fastsock."""

from __future__ import annotations

import json
import os

from .words import parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence
    from typing import Any


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    made = parser(
        "list",
        "Lists what this user runs on this host: remote objects and who is connected to them, ranks by job, other "
        "processes that have fastsock, and the names that the name server of FASTSOCK_RMI_NAMES knows.",
        "Exit status 1: a daemon or the name server did not answer.",
    )
    made.add_argument("--json", action="store_true", help="print JSON")
    return made


def main(words: Sequence[str]) -> int:
    wants_json = _parser().parse_args(words).json
    found = everything()
    if wants_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    return 1 if found["problems"] else 0


def everything() -> dict[str, Any]:
    """daemons, ranks, processes, names, problems: what there is, as plain values."""
    from ..top import processes

    daemons, names, problems = _remote_objects()
    seen = processes.of_this_user()
    listed = {daemon["process"] for daemon in daemons}
    ranks = [each.as_values() for each in seen if each.rank is not None]
    others = [each.as_values() for each in seen if each.rank is None and each.pid not in listed]
    return {
        "daemons": daemons,
        "ranks": sorted(ranks, key=lambda rank: (rank["job"], rank["rank"])),
        "processes": [each for each in others if each["pid"] != os.getpid()],
        "names": names,
        "problems": problems,
    }


def _remote_objects() -> tuple[list[dict[str, Any]], dict[str, str], list[str]]:
    """The daemons, the names at the name server, and problems. One is that the native core is not there."""
    try:
        from ..rmi.client import listing
    except ImportError as error:
        return [], {}, [str(error)]
    daemons, problems = listing.daemons()
    names, trouble = listing.names_at_server()
    return daemons, names, problems + trouble


def _show(found: dict[str, Any]) -> None:
    print("daemons of remote objects" if found["daemons"] else "no daemon of this user has registered an object here")
    for daemon in found["daemons"]:
        from ..rmi.client import listing

        for line in listing.lines(daemon):
            print(f"  {line}")
    jobs: dict[str, list[dict[str, Any]]] = {}
    for rank in found["ranks"]:
        jobs.setdefault(rank["job"], []).append(rank)
    for job, ranks in jobs.items():
        print(f"job {job}, {ranks[0]['size']} ranks")
        for rank in ranks:
            print(f"  rank {rank['rank']}  process {rank['pid']}  {rank['command']}")
    if found["processes"]:
        print("other processes with fastsock")
        for each in found["processes"]:
            print(f"  process {each['pid']}  {each['command']}")
    if found["names"]:
        print("names at the name server")
        for name, address in found["names"].items():
            print(f"  {name}  {address}")
    for problem in found["problems"]:
        print(f"problem: {problem}")
