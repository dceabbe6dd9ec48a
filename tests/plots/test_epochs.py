"""The figure of a run of the loop shows what every epoch found."""

from __future__ import annotations

import math

import numpy as np
import pytest

import corewise as cw
from corewise.learning.algorithms import algorithm_1b
from corewise.learning.loop import learn
from corewise.learning.plant import SimulatedPlant
from corewise.plots.epochs import learn_figure
from corewise.plots.style import class_colour
from tests.helpers.epochs import alarm, alarming, row, two
from tests.helpers.figures import TRUTH, assert_truth_of, bands, legend, line


def test_a_run_is_shown_with_its_intervals_and_its_gaps() -> None:
    system = cw.load_system("paper:1")
    epochs = list(learn(SimulatedPlant(system, rng=3), algorithm_1b(system, departures=50, steps=4)))
    for given in (epochs, [epoch.as_mapping() for epoch in epochs]):
        figure = learn_figure(given, system, truth=system)
        parameters, gaps = figure.axes
        for i, (name, true) in enumerate({"one": 0.3, "two": 0.8}.items()):
            x, values = line(parameters, 2 * i)
            assert x.tolist() == [50.0, 100.0, 150.0, 200.0]
            assert values.tolist() == [epoch.estimates[name].value for epoch in epochs]
            intervals = np.array([epoch.estimates[name].interval for epoch in epochs])
            np.testing.assert_array_equal(np.transpose(bands(parameters)[i][1:]), intervals)
            assert [part.tolist() for part in line(parameters, 2 * i + 1)] == [[0.0, 200.0], [true, true]]
            assert_truth_of(i, parameters, 2 * i + 1)
        exact = [100.0 * epoch.gap for epoch in epochs if epoch.gap is not None]
        np.testing.assert_allclose(line(gaps)[1], np.maximum(exact, 1e-8))
        assert gaps.get_yscale() == "log"
        assert gaps.get_xscale() == "linear"
        assert parameters.get_ylabel() == "estimate of $p$"
        assert gaps.get_ylabel() == "gap to the optimum\n(%)"
        assert legend(figure)[:4] == [
            "estimate, class one",
            "estimate, class two",
            "95 % interval",
            TRUTH,
        ]
        assert "gap to the optimum" not in legend(figure)  # its panel says so


def test_a_long_run_is_on_a_log_scale_and_without_truth_has_one_panel() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 10 * 3**k, two(0.3, 0.7)) for k in range(1, 7)]
    figure = learn_figure(rows, system, title="A replayed log")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert len(axes.lines) == 2
    assert TRUTH not in legend(figure)
    assert figure.get_suptitle() == "A replayed log"
    assert learn_figure(rows[:5], system).axes[0].get_xscale() == "linear"


def test_parameters_of_one_name_share_a_panel() -> None:
    jobs = [
        cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
        cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2)])),
        cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
    ]
    system = cw.System(16, jobs)
    rows = [
        row(
            k,
            100 * k,
            {
                "batch": {"sigma": (0.04, 0.0, 0.1), "kappa": (0.003, 0.0, math.inf if k < 3 else 0.01)},
                "web": {},
                "legacy": {"p": (math.nan if k == 1 else 0.5, 0.0, 1.0)},
            },
        )
        for k in (1, 2, 3, 4)
    ]
    figure = learn_figure(rows, system, truth=system)
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["estimate of sigma", "estimate of kappa", "estimate of $p$"]
    sigma, kappa, p = figure.axes
    assert [line(axes, 1)[1][0] for axes in figure.axes] == [0.05, 0.002, 0.4]
    assert sigma.lines[0].get_color() == kappa.lines[0].get_color() == class_colour(0)
    assert p.lines[0].get_color() == class_colour(2)
    assert np.isnan(line(p)[1]).tolist() == [True, False, False, False]
    assert 0.01 < kappa.get_ylim()[1] < 0.011
    assert legend(figure)[:2] == ["estimate, class batch", "estimate, class legacy"]


def changing(*changes: cw.Change) -> cw.System:
    system = cw.load_system("paper:1")
    return cw.System(system.cores, system.classes, changes)


def test_changes_of_the_truth_are_drawn_where_they_happen() -> None:
    """Epochs end at 10, 20, 30 and 40, after 100, 300, 400 and 1000 departures."""
    changes = [
        cw.Change(2.5, "one", cw.Amdahl(0.9)),
        cw.Change(11.0, "one", cw.Amdahl(0.1)),
        cw.Change(17.5, "one", cw.PowerLaw(0.6)),
        cw.Change(31.0, "two", cw.Amdahl(0.2)),
        cw.Change(40.0, "one", cw.Amdahl(0.5)),
        cw.Change(40.5, "one", cw.Amdahl(0.0)),
    ]
    rows = [row(k, at, two(0.3, 0.7)) for k, at in enumerate((100, 300, 400, 1000), start=1)]
    truth = changing(*changes)
    (axes,) = learn_figure(rows, truth, truth=truth).axes
    first, second = line(axes, 1), line(axes, 3)
    np.testing.assert_allclose(first[0], [0.0, 25.0, 120.0, 250.0, 1000.0, 1000.0])
    assert first[1].tolist() == [0.3, 0.9, 0.1, 0.6, 0.5, 0.5]
    np.testing.assert_allclose(second[0], [0.0, 460.0, 1000.0])
    assert second[1].tolist() == [0.8, 0.2, 0.2]
    assert {axes.lines[which].get_drawstyle() for which in (1, 3)} == {"steps-post"}
    assert axes.get_xlim()[0] == 0.0
    assert axes.get_ylim()[0] < 0.1


@pytest.mark.parametrize(("time", "at", "start"), [(1.0, 10.0, 5.0), (15.0, 10_050.0, 100.0)])
def test_on_a_log_scale_the_truth_begins_before_its_first_change(
    time: float, at: float, start: float
) -> None:
    truth = changing(cw.Change(time, "one", cw.Amdahl(0.9)))
    rows = [row(k, departures, two(0.3, 0.7)) for k, departures in ((1, 100), (2, 20_000))]
    (axes,) = learn_figure(rows, truth, truth=truth).axes
    assert axes.get_xscale() == "log"
    np.testing.assert_allclose(line(axes, 1)[0], [start, at, 20_000.0])
    assert line(axes, 1)[1].tolist() == [0.3, 0.9, 0.9]
    assert 0.0 < axes.get_xlim()[0] <= start


@pytest.mark.parametrize("epochs", [1, 5, 40, 99])
def test_all_estimates_and_nine_tenths_of_the_intervals_are_inside(epochs: int) -> None:
    system = cw.load_system("paper:1")
    rng = np.random.default_rng(epochs)
    middle, half = rng.uniform(0.45, 0.55, (2, epochs)), 0.4 * rng.random((2, epochs)) ** 8
    found = np.stack([middle, middle - half, middle + half], axis=-1)
    rows = [
        row(k + 1, 100 * (k + 1), {name: {"p": found[i, k]} for i, name in enumerate(system.names)})
        for k in range(epochs)
    ]
    (axes,) = learn_figure(rows, system).axes
    bottom, top = axes.get_ylim()
    assert bottom < middle.min()
    assert middle.max() < top
    inside = (bottom <= middle - half) & (middle + half <= top)
    assert (inside.mean(axis=1) >= 0.9).all()
    assert epochs < 40 or not inside.all()  # a few wide ones do not squeeze the rest


def test_epochs_without_information_are_hollow_and_have_no_interval() -> None:
    system = cw.load_system("paper:1")
    silent = {2, 3, 5}
    rows = [row(k, 100 * k, two(0.3, 0.7), silent=["one"] if k in silent else []) for k in range(1, 9)]
    figure = learn_figure(rows, system)
    (axes,) = figure.axes
    at, values = line(axes)
    assert at[np.isnan(values)].tolist() == [200.0, 300.0, 500.0]
    hollow = axes.lines[1]
    assert [np.asarray(part).tolist() for part in hollow.get_data()] == [[200.0, 300.0, 500.0], [0.3] * 3]
    assert hollow.get_markerfacecolor() == "white"
    assert hollow.get_linestyle() == "None"
    assert hollow.get_color() == class_colour(0)
    assert bands(axes)[0][0].tolist() == [600.0, 700.0, 800.0]
    (alone,) = (part for part in axes.collections if type(part).__name__ == "LineCollection")
    upright = np.array(alone.get_segments())  # type: ignore[attr-defined]
    np.testing.assert_allclose(upright, [[[at, 0.2], [at, 0.5]] for at in (100.0, 400.0)])
    assert not np.isnan(line(axes, 2)[1]).any()
    assert legend(figure).count("no information: the last estimate stays") == 1
    assert "no information: the last estimate stays" not in legend(learn_figure(rows[5:], system))


def test_single_estimates_between_silent_epochs_of_a_long_run_are_seen() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 100 * k, two(0.3, 0.7), silent=["one"] if k in (6, 8) else []) for k in range(1, 61)]
    (axes,) = learn_figure(rows, system).axes
    assert axes.lines[0].get_marker() == "o"
    assert axes.lines[0].get_markevery() == [6]
    assert axes.lines[2].get_markevery() == []


def test_the_gap_of_a_run_is_shown_beside_those_of_other_policies() -> None:
    system = cw.load_system("paper:1")
    rows = [row(k, 100 * k, two(0.3, 0.7), gap=0.01 / k) for k in (1, 2, 3)]
    figure = learn_figure(rows, system, baseline={"EQUI": 0.0036, "Greedy": 0.5})
    _, gaps = figure.axes
    np.testing.assert_allclose(line(gaps)[1], [1.0, 0.5, 1.0 / 3.0])
    assert [line(gaps, which)[1].tolist() for which in (1, 2)] == [
        pytest.approx([v, v]) for v in (0.36, 50.0)
    ]
    assert gaps.get_ylim()[1] > 50.0
    assert legend(figure)[-2:] == ["EQUI: 0.36 %", "Greedy: 50 %"]
    with pytest.raises(cw.errors.InvalidInput, match=r"gaps of other policies by their names, got 0\.0036"):
        learn_figure(rows, system, baseline=0.0036)  # type: ignore[arg-type]
    unjudged = [row(1, 100, two(0.3, 0.7))]
    with pytest.raises(cw.errors.InvalidInput, match="nothing to compare a baseline with: no epoch"):
        learn_figure(unjudged, system, baseline={"EQUI": 0.0036})


def test_changes_that_were_found_are_marked() -> None:
    system = cw.load_system("paper:1")
    found = [alarm("two", "speed", 250.0, 500), alarm("two", "curve", 250.0, 700)]
    rows = alarming(*found, alarm("one", "arrival rate", 9000.0, 20_000))
    assert rows[-1]["departures"] > 100 * rows[0]["departures"]
    figure = learn_figure(rows, system)
    (axes,) = figure.axes
    assert axes.get_xscale() == "linear"  # although two decades are spanned: changes come at any time
    across = axes.get_xaxis_transform()
    marked = [part for part in axes.lines if part.get_transform() == across]
    looks = [(part.get_color(), part.get_marker(), part.is_dashed()) for part in marked]
    assert looks == [
        (class_colour(0), "None", True),
        (class_colour(0), "v", False),
        (class_colour(1), "None", False),
        (class_colour(1), "v", False),
    ]
    places = [np.unique(np.asarray(part.get_xdata(), dtype=float)).tolist() for part in marked]
    assert places == [[9000.0], [20_000.0], [250.0], [500.0]]
    spans = [(patch.get_x(), patch.get_width()) for patch in axes.patches]  # type: ignore[attr-defined]
    assert spans == [(8970.0, 50.0), (220.0, 50.0)]
    assert legend(figure)[-3:] == [
        "change, with 95 % interval",
        "when it was found",
        "change of the arrival rate",
    ]
    plain = learn_figure([{**at, "alarms": []} for at in rows], system)
    assert plain.axes[0].get_ylim() == axes.get_ylim()
    assert plain.axes[0].get_xscale() == "log"
    assert not any("change" in text for text in legend(plain))
    assert legend(learn_figure(alarming(*found), system))[-1] == "when it was found"


def test_changes_are_marked_where_their_class_is() -> None:
    jobs = [
        cw.JobClass("batch", 3.0, 1.0, cw.Usl(0.05, 0.002)),
        cw.JobClass("web", 6.0, 2.0, cw.Tabulated([(1, 1), (4, 3.2)])),
        cw.JobClass("legacy", 2.0, 1.0, cw.Amdahl(0.4)),
    ]
    estimates = {"batch": {"sigma": (0.1, 0.0, 0.2), "kappa": (0.1, 0.0, 0.2)}, "web": {}}
    epochs = [row(k, 100 * k, {**estimates, "legacy": {"p": (0.5, 0.4, 0.6)}}) for k in (1, 2, 3)]
    found = [alarm(name, "speed", 150.0, 200) for name in ("batch", "web", "legacy")]
    figure = learn_figure([epochs[0], {**epochs[1], "alarms": found}, epochs[2]], cw.System(16, jobs))
    for axes, i in zip(figure.axes, (0, 0, 2), strict=True):
        marks = [part for part in axes.lines if part.get_marker() == "v"]
        assert [part.get_color() for part in marks] == [class_colour(i)]
    assert legend(figure).count("when it was found") == 1


def test_very_many_changes_are_a_fringe() -> None:
    system = cw.load_system("paper:1")
    found = [alarm(("one", "two")[k % 2], "speed", 100.0 * k - 50.0, 100 * k) for k in range(1, 301)]
    few, many = (learn_figure(alarming(*part), system) for part in (found[:30], found))
    assert len(few.axes[0].patches) == 30
    (axes,) = many.axes
    assert len(axes.patches) == 0
    assert not any(part.get_marker() == "v" for part in axes.lines)
    fringes = [part for part in axes.collections if type(part).__name__ == "LineCollection"]
    for i, fringe in enumerate(fringes):
        ends = np.array(fringe.get_segments())  # type: ignore[attr-defined]
        own = [one["departures"] for one in found if one["name"] == system.names[i]]
        assert ends[:, 0, 0].tolist() == own
        assert (ends[:, :, 1].min(), ends[:, :, 1].max()) == (0.93, 1.0)
    assert len(fringes) == 2
    assert legend(many)[-1] == "change found"


@pytest.mark.slow
@pytest.mark.parametrize("growth", [1.0, 1.0005], ids=["linear", "log"])
def test_of_very_many_epochs_those_are_drawn_that_stand_out(growth: float) -> None:
    system = cw.load_system("paper:1")
    rng = np.random.default_rng(3)
    values = rng.normal(0.5, 0.01, (2, 20_000))
    values[:, 12_345], values[:, 17_001] = 0.9, 0.1
    at = 1000 + np.cumsum(np.ceil(growth ** np.arange(20_000)).astype(int))
    gaps = rng.uniform(0.01, 0.02, 20_000)
    gaps[777] = 0.5
    rows = [
        row(k + 1, int(at[k]), two(*values[:, k]), gap=gaps[k] if k % 7 == 0 else None) for k in range(20_000)
    ]
    figure = learn_figure(rows, system)
    parameters, judged = figure.axes
    assert parameters.get_xscale() == ("linear" if growth == 1.0 else "log")
    for i in (0, 1):
        x, y = line(parameters, i)
        assert 1000 < x.size <= 1600
        known = dict(zip(at.tolist(), values[i].tolist(), strict=True))
        assert [known[departures] for departures in x] == y.tolist()
        assert (x[0], x[-1]) == (at[0], at[-1])
        assert {at[12_345], at[17_001]} <= set(x.tolist())
        assert bands(parameters)[i][0].tolist() == x.tolist()
        place = np.log(x) if growth > 1.0 else x
        assert np.diff(place).max() < 0.01 * (place[-1] - place[0])
    x, y = line(judged)
    assert x.size <= 1600
    assert y[x == at[777]] == 50.0


def test_epochs_that_are_none_are_refused() -> None:
    system = cw.load_system("paper:1")
    rows = [row(1, 100, two(0.3, 0.7))]
    with pytest.raises(cw.errors.InvalidInput, match="no epoch is over"):
        learn_figure([], system)
    with pytest.raises(cw.errors.InvalidInput, match="expected epochs that learn yields, got 3"):
        learn_figure([3], system)  # type: ignore[list-item]
    other = cw.System(4, [cw.JobClass("a", 1.0, 1.0, cw.Amdahl(0.5))])
    with pytest.raises(cw.errors.InvalidInput, match="epoch 1 is of classes one, two; the system has a"):
        learn_figure(rows, other)
    with pytest.raises(cw.errors.InvalidInput, match="the truth is of classes a; the system has one, two"):
        learn_figure(rows, system, truth=other)
    with pytest.raises(cw.errors.InvalidInput, match="no curve has a parameter"):
        learn_figure([row(1, 100, {"one": {}, "two": {}})], system)
    many = cw.System(4, [cw.JobClass(f"c{i}", 0.01, 1.0, cw.Amdahl(0.5)) for i in range(25)])
    with pytest.raises(cw.errors.InvalidInput, match="at most 24 classes, got 25"):
        learn_figure(rows, many)
