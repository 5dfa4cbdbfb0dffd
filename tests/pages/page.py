"""What a page shows: its blocks of code, and what comments of the page say of running them.

Markdown is read by markdown-it-py, as the site reads it: fenced blocks, and indented ones, are those of CommonMark. A
fence that begins with a brace is a directive of the site. A comment above a block has one of these forms. It is not
shown, but whoever edits the page sees it.

    <!-- not run: REASON -->            the block is not run. What it names must be there all the same
    <!-- not run where WORD|WORD: REASON --> its lines with one of these words are not run
    <!-- file: NAME -->                 the block is this file. Of Python, a first line `# NAME.py` says so too
    <!-- run: COMMAND -->               the block is run so, not by `python NAME`
    <!-- before: CODE -->               what stands before a Python block
    <!-- serves: NAME -->               the block does not end. It is ready when it listens at this name, or port
    <!-- beside: NAME -->               this file runs meanwhile
    <!-- together: PORT -->             each line is a process. The first one listens at the port, the last one ends
    <!-- alone: REASON -->              it sees no other program's names and ports, where the system can keep them apart
    <!-- prints: TEXT -->               what is found in its output

For the whole page:

    <!-- file: NAME [serves NAME]       a file that the page does not show
    TEXT -->
    <!-- means: WORD VALUE -->          what stands for a word
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

NAMED = re.compile(r"# ([\w/]+\.py)\n")
COMMENT = re.compile(r"<!--\s*(.*?)\s*-->", re.DOTALL)
NOTE = re.compile(
    r"(?P<key>not run|file|run|before|serves|beside|together|alone|prints|means)"
    r"(?: where (?P<word>\S+))?:\s*(?P<value>.*)",
    re.DOTALL,
)
SHELLS = ("", "sh", "bash", "shell", "console")


class PageError(ValueError):
    """A page says something of its blocks that cannot be."""


@dataclass
class Source:
    """A file of the page. serves: the name or port that it listens at, where it does not end."""

    text: str
    serves: str | None = None


@dataclass
class Block:
    """A block of code, and what is said of it. line: its first one in the page."""

    page: str
    line: int
    text: str
    is_shell: bool = False
    file: str = ""
    before: str = ""
    run: str | None = None
    serves: str | None = None
    together: str | None = None
    alone: str = ""
    beside: list[str] = field(default_factory=list)
    prints: list[str] = field(default_factory=list)
    not_run: str | None = None
    lines_not_run: dict[str, str] = field(default_factory=dict)

    def commands(self) -> list[str]:
        """Of a block for a shell: its lines that are run. A line that ends in a backslash goes on."""
        lines = self.text.replace("\\\n", "").splitlines()
        words = [word for each in self.lines_not_run for word in each.split("|")]
        for word in words:
            if not any(word in line for line in lines):
                raise PageError(f"{self.page}:{self.line}: no line has {word!r}, which is not to be run")
        return [line for line in lines if line.strip() and not any(word in line for word in words)]


@dataclass
class Page:
    """A page with its blocks, and the files that they make."""

    name: str
    blocks: list[Block] = field(default_factory=list)
    files: dict[str, Source] = field(default_factory=dict)
    meanings: dict[str, str] = field(default_factory=dict)

    def served(self) -> set[str]:
        """The names and ports at which its programs listen."""
        of_blocks = {name for block in self.blocks for name in (block.serves, block.together) if name}
        return of_blocks | {source.serves for source in self.files.values() if source.serves}


def read(path: Path, name: str = "") -> Page:
    """Raises PageError where a comment above a block says nothing that is known."""
    page = Page(name or path.name)
    notes: list[tuple[str, str, str]] = []
    for token in MarkdownIt("commonmark").parse(path.read_text()):
        line = token.map[0] + 1 if token.map else 0
        if token.type == "html_block":
            notes += [_note(page, line, text) for text in COMMENT.findall(token.content)]
            notes = [note for note in notes if not _is_of_the_page(page, *note)]
        elif token.type in ("fence", "code_block"):
            if token.info.startswith("{"):  # no code: a directive of the site
                continue
            page.blocks.append(_block(page, line, token.info.strip(), token.content, notes))
            notes = []
        elif notes:
            raise PageError(f"{page.name}:{line}: no block of code is below the comment {notes[0]}")
    return page


def _note(page: Page, line: int, text: str) -> tuple[str, str, str]:
    found = NOTE.fullmatch(text)
    if found is None or (found["word"] and found["key"] != "not run"):
        raise PageError(f"{page.name}:{line}: tests/pages/page.py knows no comment {text!r}")
    return found["key"], found["word"] or "", found["value"]


def _is_of_the_page(page: Page, key: str, _: str, value: str) -> bool:
    first, newline, text = value.partition("\n")
    if key == "file" and newline:
        name, _, serves = first.partition(" serves ")
        page.files[name.strip()] = Source(text + "\n", serves.strip() or None)
        return True
    if key == "means":
        word, _, meaning = value.partition(" ")
        page.meanings[word] = meaning
        return True
    return False


def _block(page: Page, line: int, language: str, text: str, notes: list[tuple[str, str, str]]) -> Block:
    block = Block(page.name, line, text)
    for key, word, value in notes:
        if key == "not run" and word:
            block.lines_not_run[word] = value
        elif key in ("beside", "prints"):
            getattr(block, key).append(value)
        else:
            setattr(block, key.replace(" ", "_"), value)
    if language == "python":
        named = NAMED.match(text)
        block.file = block.file or (named[1] if named else f"at_line_{line}.py")
    elif not block.file:
        block.is_shell = language in SHELLS
        if not block.is_shell and block.not_run is None:
            raise PageError(f"{page.name}:{line}: how is {language!r} to be run? Say it, or why it is not run")
    if block.file:
        start = block.before + "\n" if block.before else ""
        page.files[block.file] = Source(start + text, block.serves)
    return block
