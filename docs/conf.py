"""The site of the documentation: `bash .ci/site` builds it. Nothing here asks the network."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

from docutils import nodes
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

_DOCS = Path(__file__).resolve().parent
sys.path.insert(0, str(_DOCS.parent))

import fastsock  # noqa: E402

logger = logging.getLogger(__name__)

project = "fastsock"
author = "the authors of fastsock"
version = release = fastsock.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "index"
exclude_patterns = ["pictures"]
nitpicky = False
# The headings of a page are its anchors, as on the forges that show Markdown.
myst_heading_anchors = 4
# Types of signatures by their short names: several modules have a Future and a Refused.
suppress_warnings = ["ref.python"]
default_role = "literal"

html_theme = "furo"
html_title = "fastsock"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_copyright = False
html_copy_source = False

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

PUBLIC = [
    "fastsock",
    "fastsock.active",
    "fastsock.buffers",
    "fastsock.mpj",
    "fastsock.mpj.util.dtlib",
    "fastsock.mpj.util.pool",
    "fastsock.mpj.util.sync",
    "fastsock.rmi",
    "fastsock.xxdev",
]

_TABLE = re.compile(r"^\S.*\S {2,}\S", re.MULTILINE)


def _as_rst(app: object, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """A docstring of this project is plain text: paragraphs, indented examples, lists with dashes.

    The list of a package's files, which its docstring has too, is for who changes the package: it is left out.
    """
    text = "\n".join(lines).strip("\n")
    if what == "module":
        text = "\n\n".join(part for part in text.split("\n\n") if not _TABLE.search(part) and "Tests: " not in part)
    shown: list[str] = []
    was_code = False
    for line in text.splitlines():
        is_code = line.startswith("    ") if line.strip() else was_code
        if is_code != was_code:
            shown += ["", "::", ""] if is_code else [""]
        shown.append(line if is_code else _escaped(line))
        was_code = is_code
    lines[:] = [*shown, ""]


def _escaped(line: str) -> str:
    pieces = re.split(r"(``[^`]+``|`[^`]+`)", line)
    for index in range(0, len(pieces), 2):
        pieces[index] = re.sub(r"([*|\\])|(?<=\w)(_)(?!\w)", r"\\\1\2", pieces[index])
    return re.sub(r"docs/([\w/-]+)\.md", r":doc:`/\1`", "".join(pieces))


def _without_comments(app: object, tree: nodes.document) -> None:
    """What comments of a page say of its blocks is for the tests (tests/pages/page.py)."""
    for node in list(tree.findall(nodes.raw)):
        node.rawsource = ""
        left = re.sub(r"<!--.*?-->", "", node.astext(), flags=re.DOTALL)
        if left.strip():
            node.children = [nodes.Text(left)]
        else:
            node.parent.remove(node)


def _without_links_out(app: object, name: str, source: list[str]) -> None:
    """Files of the checkout that are no pages are named here, and are links where the checkout is read."""
    folder = (_DOCS / name).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link["path"]).resolve()
        if target.is_relative_to(_DOCS):
            return link[0]
        if not target.exists():
            logger.warning("nothing is at %s", link["path"], location=name)
        return f"{link['text']} (`{target.relative_to(_DOCS.parent)}`)"

    source[0] = re.sub(r"\[(?P<text>[^]]+)\]\((?P<path>\.\.?/[^)#]+)(?:#[^)]*)?\)", named, source[0])


def _all_names_are_there(app: object, env: BuildEnvironment) -> None:
    """Each public name has a place in the reference."""
    there = env.domains.python_domain.objects
    for module in PUBLIC:
        for name in importlib.import_module(module).__all__:
            if f"{module}.{name}" not in there and not isinstance(getattr(sys.modules[module], name), ModuleType):
                logger.warning("%s.%s has no place in docs/reference/api", module, name)


def setup(app: object) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _as_rst)
    app.connect("source-read", _without_links_out)
    app.connect("env-check-consistency", _all_names_are_there)
    app.connect("doctree-read", _without_comments)
    return {"parallel_read_safe": True}
