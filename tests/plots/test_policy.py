"""Heat maps show what policies do."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import corewise as cw
from corewise.plots.policy import policy_heatmap, policy_heatmaps
from tests.helpers.figures import legend

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def system() -> cw.System:
    return cw.load_system("paper:2")


def test_the_image_is_the_share_of_the_first_class(system: cw.System) -> None:
    axes = policy_heatmap(cw.Equi(), system, capacity=(7, 4)).axes[0]
    (image,) = axes.images
    shown = image.get_array()
    assert isinstance(shown, np.ma.MaskedArray)
    assert shown.shape == (5, 8)  # rows are n2, columns n1
    assert image.get_clim() == (0.0, 1.0)
    n2, n1 = np.indices((5, 8))
    np.testing.assert_allclose(shown.filled(-1.0)[1:, 1:], (n1 / (n1 + n2 + (n1 + n2 == 0)))[1:, 1:])
    mask = np.ma.getmaskarray(shown)
    assert mask[0, 0]
    assert mask.sum() == 1
    assert tuple(image.get_extent()) == (-0.5, 7.5, -0.5, 4.5)


def test_axes_and_colour_bar_say_what_they_show(system: cw.System) -> None:
    figure = policy_heatmap(cw.Whittle(), system, title="Whittle")
    axes, bar = figure.axes
    assert axes.get_xlabel() == "jobs of class one, $n_1$"
    assert axes.get_ylabel() == "jobs of class two, $n_2$"
    assert bar.get_ylabel() == "fraction of cores held by class one"
    assert figure.get_suptitle() == "Whittle"


@pytest.mark.parametrize(("cores", "most"), [(2, 10), (20, 24), (1000, 50)])
def test_the_range_follows_the_cores_within_reason(cores: float, most: int) -> None:
    jobs = [cw.JobClass(name, 0.1, 1.0, cw.Amdahl(0.5)) for name in ("a", "b")]
    (image,) = policy_heatmap(cw.Equi(), cw.System(cores, jobs)).axes[0].images
    assert tuple(image.get_extent()) == (-0.5, most + 0.5, -0.5, most + 0.5)


def test_a_solved_policy_is_shown_within_its_box(system: cw.System) -> None:
    solution = cw.solve(system, capacity=(6, 9))
    (image,) = policy_heatmap(solution.policy, system).axes[0].images
    assert tuple(image.get_extent()) == (-0.5, 6.5, -0.5, 9.5)


@pytest.mark.parametrize("classes", [1, 3])
def test_other_numbers_of_classes_are_refused(classes: int) -> None:
    jobs = [cw.JobClass(f"c{i}", 0.1, 1.0, cw.Amdahl(0.5)) for i in range(classes)]
    with pytest.raises(cw.errors.InvalidInput, match=f"two classes, the system has {classes}: c0"):
        policy_heatmap(cw.Equi(), cw.System(4, jobs))


def test_bad_calls_raise_our_own_errors(system: cw.System) -> None:
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy"):
        policy_heatmap(5, system)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="'paper:2'"):
        policy_heatmap(cw.Equi(), "paper:2")  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidInput, match="capacity"):
        policy_heatmap(cw.Equi(), system, capacity=0)


def test_heat_maps_share_states_colours_and_one_bar() -> None:
    system = cw.load_system("paper:2")
    policies: dict[str, cw.Policy] = {"start": cw.Equi(), "end": cw.Whittle()}
    figure = policy_heatmaps(policies, system, capacity=(7, 5), title="Example 2")
    first, second, bar = figure.axes
    for axes, (name, policy) in zip((first, second), policies.items(), strict=True):
        (image,) = axes.images
        (alone,) = policy_heatmap(policy, system, capacity=(7, 5)).axes[0].images
        shown, expected = image.get_array(), alone.get_array()
        assert isinstance(shown, np.ma.MaskedArray)
        assert isinstance(expected, np.ma.MaskedArray)
        np.testing.assert_array_equal(shown.filled(-1.0), expected.filled(-1.0))
        assert image.get_clim() == (0.0, 1.0)
        assert image.get_cmap() == first.images[0].get_cmap()
        assert axes.get_title() == name
        assert axes.get_xlabel() == "jobs of class one, $n_1$"
    assert first.get_ylabel() == "jobs of class two, $n_2$"
    assert bar.get_ylabel().replace("\n", " ") == "fraction of cores held by class one"
    assert bar.get_ylim() == (0.0, 1.0)
    assert figure.get_suptitle() == "Example 2"
    assert legend(figure) == ["no jobs", "as many jobs as cores, $n_1 + n_2 = 10$"]
    (white,) = figure.legends[0].get_patches()
    assert (
        to_rgb(white.get_facecolor())
        == to_rgb(tuple(first.images[0].get_cmap().get_bad()))
        == (1.0, 1.0, 1.0)
    )
    beyond = policy_heatmaps(policies, system, capacity=3)
    assert legend(beyond) == ["no jobs"]


def test_heat_maps_stay_within_the_boxes_of_all_policies() -> None:
    system = cw.load_system("paper:2")
    solved = {str(box): cw.solve(system, capacity=box).policy for box in ((6, 9), (8, 4))}
    figure = policy_heatmaps({"start": cw.Equi(), **solved}, system)
    assert {tuple(axes.images[0].get_extent()) for axes in figure.axes[:3]} == {(-0.5, 6.5, -0.5, 4.5)}


@pytest.mark.parametrize("capacity", [(12, 12), (20, 12), (40, 4)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_bar_is_as_high_as_the_panels_beside_it(count: int, capacity: tuple[int, int]) -> None:
    policies = {f"policy {i}": cw.Equi() for i in range(count)}
    figure = policy_heatmaps(policies, cw.load_system("paper:2"), capacity=capacity, title="A title")
    figure.draw_without_rendering()
    *panels, bar = [axes.get_window_extent() for axes in figure.axes]
    assert bar.y0 == pytest.approx(min(panel.y0 for panel in panels), abs=0.05 * bar.height)
    assert bar.y1 == pytest.approx(max(panel.y1 for panel in panels), abs=0.05 * bar.height)


def test_heat_maps_of_nothing_are_refused() -> None:
    system = cw.load_system("paper:2")
    with pytest.raises(cw.errors.InvalidInput, match=r"at least one, got \{\}"):
        policy_heatmaps({}, system)
    with pytest.raises(cw.errors.InvalidInput, match="policies by their names"):
        policy_heatmaps([cw.Equi()], system)  # type: ignore[arg-type]
    with pytest.raises(cw.errors.InvalidPolicy, match="expected a policy"):
        policy_heatmaps({"start": 5}, system)  # type: ignore[dict-item]
    one = cw.System(4, system.classes[:1])
    with pytest.raises(cw.errors.InvalidInput, match="two classes, the system has 1"):
        policy_heatmaps({"start": cw.Equi()}, one)
