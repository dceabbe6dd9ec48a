"""Every figure of a study fits its page and can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.figures import assert_fits_page, assert_written
from tests.helpers.gallery import RESEARCH, cases

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("name", "count"), cases(RESEARCH))
def test_no_text_leaves_the_figure_or_meets_another_panel(name: str, count: int, tmp_path: Path) -> None:
    figure = RESEARCH[name][0](count)
    assert_fits_page(figure)
    if count == 2:
        assert_written(figure, tmp_path / "figure.pdf")
