"""What Sphinx lacks: links from code in prose to the reference, and figures that are made without pyplot."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from matplotlib.figure import Figure
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.domains.python import PythonDomain
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode
from sphinx_gallery.scrapers import figure_rst

_ORDER = ("tables", "path", "estimates", "policy", "learning", "change", "plan", "sizes", "many_classes")
_BACK = re.compile(r'(class="viewcode-back" href="[^"#]*)#[^"]*"')
_NAME = re.compile(r"(?:cw\.)?([A-Za-z_][\w.]*)(?:\(.*\))?", re.DOTALL)


class CodeLinks(SphinxPostTransform):
    """Make `solve(system)`, `cw.Equi()` and `corewise.model.system.System.cores` links where they are known.

    A name is looked up at the top, among the results and, if it has a dot, without its last part: a field of
    a class is described where the class is.
    """

    default_priority = 400
    formats = ("html",)

    def run(self, **_: Any) -> None:
        """Go through the inline code of a page."""
        domain = self.env.domains.python_domain
        for literal in list(self.document.findall(nodes.literal)):
            if isinstance(literal.parent, nodes.reference | nodes.title):
                continue
            target = _target(domain, literal.astext())
            if target is None or target[0] == self.env.current_document.docname:
                continue
            link = make_refnode(
                self.app.builder, self.env.current_document.docname, *target, literal.deepcopy()
            )
            literal.replace_self(link)


def _target(domain: PythonDomain, text: str) -> tuple[str, str] | None:
    """Return the page and the anchor of what inline code names, if it is in the reference."""
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    name = match[1].removeprefix("corewise.")
    for candidate, whole in ((name, True), (name.rpartition(".")[0], False)):
        for full in (f"corewise.{candidate}", f"corewise.results.{candidate}"):
            entry = domain.objects.get(full)
            if entry is not None and (whole or entry.objtype in {"class", "exception"}):
                return entry.docname, entry.node_id
    return None


class InOrder:
    """The order of the pages of the gallery: round the ring, then further."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, file: str) -> int:
        """Return the place of an example."""
        return _ORDER.index(file.removeprefix("plot_").removesuffix(".py"))


def figures(block: tuple[Any, ...], block_vars: dict[str, Any], gallery_conf: dict[str, Any]) -> str:
    """Save the figures that a block of an example has made, and return the text that shows them."""
    del block
    shown = block_vars.setdefault("shown", set())
    made = [value for value in block_vars["example_globals"].values() if isinstance(value, Figure)]
    paths = []
    for figure in made:
        if id(figure) not in shown:
            shown.add(id(figure))
            path = next(block_vars["image_path_iterator"])
            figure.savefig(path, dpi=160)
            paths.append(path)
    return str(figure_rst(paths, gallery_conf["src_dir"]))


def mend_ways_back(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Let links from source to reference lead to the page of an object, not to an anchor on it.

    Where names of one module are public under two others, Sphinx makes the anchors with one of them only.
    """
    del app, template, doctree
    if page.startswith("_modules/"):
        context["body"] = _BACK.sub(r'\1"', context["body"])


def setup(app: Sphinx) -> dict[str, bool]:
    """Add these to a build, and tables as text without colours, for which Pygments has no lexer."""
    app.add_lexer("csv", TextLexer)
    app.add_post_transform(CodeLinks)
    app.connect("html-page-context", mend_ways_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
