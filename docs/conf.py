"""How the site is built: ``make docs``, or ``sphinx-build -W --keep-going docs build/docs``."""

from __future__ import annotations

import sys
from pathlib import Path

from corewise.kit.version import __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "corewise"
author = "The corewise developers"
project_copyright = author
release = __version__
version = ".".join(release.split(".")[:2])

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "code_links",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_ext", "gallery/*.ipynb", "gallery/*.py", "gallery/*.md5"]
templates_path = ["_templates"]
nitpicky = True
needs_sphinx = "8.1"

# --- prose ------------------------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["config.cache"]  # the gallery's settings hold a function

# --- the reference ----------------------------------------------------------------------------------

autosummary_generate = True
autosummary_imported_members = True
autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings name the types, in words
autodoc_default_options = {"members": True}
default_role = "code"  # `solve` in a docstring is code, and code is linked
numpydoc_show_class_members = False  # the template lists them
numpydoc_class_members_toctree = False
maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"
modindex_common_prefix = ["corewise."]

# --- the gallery ------------------------------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # every example is run
    "image_scrapers": ("code_links.figures",),
    "capture_repr": ("_repr_html_", "__repr__"),
    "reset_modules": (),
    "within_subsection_order": "code_links.InOrder",
    "default_thumb_file": str(Path(__file__).parent / "_static" / "table.svg"),
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 1,
    "write_computation_times": False,
}

# --- looks ------------------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "corewise"
html_static_path = ["_static"]
html_css_files = ["corewise.css"]
html_favicon = "_static/corewise.svg"
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": []}
html_theme_options = {
    "logo": {"text": "corewise", "image_light": "_static/corewise.svg", "image_dark": "_static/corewise.svg"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_nav_level": 1,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
    "footer_start": ["copyright"],
    "footer_end": ["sphinx-version"],
    "secondary_sidebar_items": ["page-toc"],
    "back_to_top_button": False,
}
copybutton_prompt_text = "$ "  # of a console only the commands are copied
