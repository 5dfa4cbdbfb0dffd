"""`fastsock completion`: what a shell completes after `fastsock`. The options are those that each help shows."""

from __future__ import annotations

import importlib
import re

from .table import COMMANDS
from .words import parser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import ArgumentParser
    from collections.abc import Sequence

_OPTION = re.compile(r"(?:^ {2,4}|(?<=, ))(--?[a-z][\w-]*)(?=[ ,=\[\n]|$)", re.MULTILINE)
_MORE = """\
bash:  fastsock completion bash > ~/.local/share/bash-completion/completions/fastsock
zsh:   fastsock completion zsh > a folder of $fpath/_fastsock
fish:  fastsock completion fish > ~/.config/fish/completions/fastsock.fish
"""


def usage() -> str:
    return _parser().format_help()


def _parser() -> ArgumentParser:
    from argparse import RawDescriptionHelpFormatter

    made = parser("completion", "Prints the completion of a shell.", _MORE)
    made.formatter_class = RawDescriptionHelpFormatter
    made.add_argument("shell", choices=sorted(_SHELLS))
    return made


def main(words: Sequence[str]) -> int:
    print(_SHELLS[_parser().parse_args(words).shell](), end="")
    return 0


def _options(name: str) -> list[str]:
    """As the help of a subcommand shows them."""
    text = importlib.import_module(f"{__package__}.{COMMANDS[name].module}").usage()
    return sorted({*_OPTION.findall(text), "--help", "--version"})


def _bash() -> str:
    cases = "\n".join(
        f'        {name}) words="{" ".join(_options(name))}" ;;' for name in COMMANDS if name != "completion"
    )
    with_program = "|".join(name for name, command in COMMANDS.items() if command.takes_program)
    return f"""\
# bash completion of fastsock
_fastsock() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} words=""
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        COMPREPLY=($(compgen -W "{" ".join(COMMANDS)} --help --version" -- "$current"))
        return
    fi
    case $command in
{cases}
        completion) words="{" ".join(sorted(_SHELLS))}" ;;
    esac
    if [[ $current == -* || $command == completion ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
    else
        case $command in
            {with_program}) COMPREPLY=($(compgen -c -- "$current") $(compgen -f -- "$current")) ;;
        esac
    fi
}}
complete -o bashdefault -o default -F _fastsock fastsock
"""


def _zsh() -> str:
    commands = "\n".join(f"        '{name}:{command.does}'" for name, command in COMMANDS.items())
    cases = "\n".join(
        f"        {name}) words=({' '.join(_options(name))}) ;;" for name in COMMANDS if name != "completion"
    )
    with_program = "|".join(name for name, command in COMMANDS.items() if command.takes_program)
    return f"""\
#compdef fastsock
_fastsock() {{
    local -a commands words
    commands=(
{commands}
    )
    if ((CURRENT == 2)); then
        _describe command commands
        return
    fi
    case $words[2] in
        completion) _values shell {" ".join(sorted(_SHELLS))}; return ;;
    esac
    local command=${{words[2]}}
    case $command in
{cases}
    esac
    if [[ $PREFIX == -* ]]; then
        compadd -- $words
        return
    fi
    case $command in
        {with_program}) _command_names -e; _files ;;
        *) _files ;;
    esac
}}
if [[ $funcstack[1] == _fastsock ]]; then _fastsock "$@"; else compdef _fastsock fastsock; fi
"""


def _fish() -> str:
    lines = ["# fish completion of fastsock", "complete -c fastsock -f"]
    for name, command in COMMANDS.items():
        lines.append(f"complete -c fastsock -n __fish_use_subcommand -a {name} -d '{command.does}'")
    for option in ("help", "version"):
        lines.append(f"complete -c fastsock -n __fish_use_subcommand -l {option}")
    for name, command in COMMANDS.items():
        within = f"'__fish_seen_subcommand_from {name}'"
        for option in _options(name):
            kind = "l" if option.startswith("--") else "s" if len(option) == 2 else "o"
            lines.append(f"complete -c fastsock -n {within} -{kind} {option.lstrip('-')}")
        if command.takes_program:
            lines.append(f"complete -c fastsock -n {within} -F -a '(__fish_complete_command)'")
    lines.append(f"complete -c fastsock -n '__fish_seen_subcommand_from completion' -a '{' '.join(sorted(_SHELLS))}'")
    return "\n".join([*lines, ""])


_SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish}
