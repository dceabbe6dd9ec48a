"""Check a built site: every link within it leads somewhere, and its pages load nothing from elsewhere.

``python docs/check_links.py build/docs``; what is wrong is printed, one line each, and the exit code is 1.
Links to other sites are not followed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}
"""What a browser fetches with a page; the rest is for the reader to follow."""

_NOT_FETCHED = {"canonical", "next", "prev", "search", "index", "author", "license", "copyright"}


@dataclass
class Page(HTMLParser):
    """The anchors of a page, the links in it, and what it loads."""

    anchors: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take down what a tag names and where it leads."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        address = given.get(_LOADS.get(tag, ""), "")
        if address and not (tag == "link" and given.get("rel") in _NOT_FETCHED):
            self.loads.append(address)


def pages_of(site: Path) -> dict[Path, Page]:
    """Return the pages of a site by their files."""
    pages = {}
    for file in sorted(site.rglob("*.html")):
        if "_static" in file.parts:  # a template that the theme leaves behind
            continue
        pages[file] = page = Page()
        page.feed(file.read_text(encoding="utf-8"))
    return pages


def faults_of(site: Path, pages: Mapping[Path, Page]) -> list[str]:
    """Return what is wrong with the pages of a site, one after the other."""
    faults = []
    for file, page in pages.items():
        here = file.relative_to(site)
        for address in page.loads:
            if urlsplit(address).netloc:
                faults.append(f"{here}: loads {address} from elsewhere")
        for address in [*page.links, *page.loads]:
            to = urlsplit(address)
            if to.scheme or to.netloc:
                continue
            target = (file.parent / unquote(to.path)).resolve() if to.path else file
            if not target.is_file():
                faults.append(f"{here}: {address}: there is no such file")
            elif to.fragment and target in pages and unquote(to.fragment) not in pages[target].anchors:
                faults.append(f"{here}: {address}: there is no such anchor")
    return faults


def main() -> int:
    """Check the site that the command line names."""
    site = Path(sys.argv[1]).resolve()
    pages = pages_of(site)
    faults = faults_of(site, pages) if pages else [f"{site}: there are no pages"]
    for fault in faults:
        print(fault)
    print(f"{len(pages)} pages, {len(faults)} faults in their links.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
