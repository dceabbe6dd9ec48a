"""Size laws: their formulas against quadrature and draws, and what they refuse."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

import corewise as cw
from corewise import sizes
from corewise.model.files import system_from_mapping, system_to_mapping

SMOOTH = [
    sizes.Exponential(),
    sizes.Erlang(1),
    sizes.Erlang(4),
    sizes.Erlang(300),
    sizes.Hyperexponential(4.0),
    sizes.Hyperexponential(16.0),
    sizes.Lognormal(0.1),
    sizes.Lognormal(4.0),
    sizes.Weibull(0.5),
    sizes.Weibull(3.0),
    sizes.Pareto(3.0),
    sizes.Pareto(1.5, 1000.0),
    sizes.Pareto(1.0, 100.0),
    sizes.PiecewiseExponential([0.0, 0.5, 2.0], [2.0, 0.0, 0.1]),
]
STEPPED = [sizes.Deterministic(), sizes.Empirical([1.0, 2.0, 3.0, 10.0])]
LAWS = [*SMOOTH, *STEPPED]


def beyond(law: sizes.SizeLaw, x: float, moment: int = 0) -> float:
    """Return the integral of (y − x)^moment P(X > y) over y > x, by quadrature."""

    def integrand(log_y: float) -> float:
        y = math.exp(log_y)
        return y * y**moment * float(law.survival(x + y))

    kinks = [float(k) for k in np.linspace(-35.0, 35.0, 141)]
    return math.fsum(quad(integrand, a, b)[0] for a, b in pairwise(kinks))


@pytest.mark.parametrize("law", SMOOTH, ids=str)
def test_mean_residual_and_variation_are_integrals_of_the_survival_function(law: sizes.SizeLaw) -> None:
    assert beyond(law, 0.0) == pytest.approx(1.0, rel=1e-6)
    assert 2.0 * beyond(law, 0.0, 1) - 1.0 == pytest.approx(law.cv2, rel=1e-4, abs=1e-6)
    for x in (0.0, 0.3, 1.0, 2.5):
        if (there := float(law.survival(x))) > 1e-12:
            assert float(law.mean_residual(x)) == pytest.approx(beyond(law, x) / there, rel=1e-5)


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_draws_follow_the_law(law: sizes.SizeLaw) -> None:
    """Kolmogorov's distance of 20 000 draws; false alarm 1e-6 a law. Steps only make it smaller."""
    draws = np.sort(law.draw(np.random.default_rng(5), 20_000))
    step = np.arange(1, draws.size + 1) / draws.size
    distance = np.max(np.abs(step - (1.0 - law.survival(draws))))
    if law in STEPPED:  # at a step, only the right-hand limit
        values = np.unique(draws)
        shares = np.searchsorted(draws, values, side="right") / draws.size
        distance = np.max(np.abs(shares - (1.0 - law.survival(values))))
    critical = math.sqrt(math.log(2.0 / 1e-6) / 2.0 / draws.size)
    assert distance < critical
    other = sizes.Exponential() if law.cv2 != 1.0 else sizes.Weibull(1.2)
    assert np.max(np.abs(step - (1.0 - other.survival(draws)))) > critical


@pytest.mark.parametrize("law", STEPPED, ids=str)
def test_laws_with_steps_by_hand(law: sizes.SizeLaw) -> None:
    values = np.array([1.0]) if isinstance(law, sizes.Deterministic) else np.array([1, 2, 3, 10]) / 4.0
    assert law.cv2 == pytest.approx(values.var())
    for x in (0.0, 0.3, 0.5, 0.9, 1.0, 2.4, 2.5, 9.0):
        above = values[values > x]
        assert float(law.survival(x)) == above.size / values.size
        assert float(law.mean_residual(x)) == pytest.approx(above.mean() - x if above.size else 0.0)


def test_an_infinite_variance_is_infinite() -> None:
    assert sizes.Pareto(1.5).cv2 == math.inf
    assert float(sizes.Pareto(1.5).mean_residual(3.0)) == pytest.approx(6.0)
    # Its integral far out, which quadrature does not reach: ∫ (least/y)^1.5 dy = 2 least^1.5 / √x.
    assert float(sizes.Pareto(1.5).survival(1e6)) == pytest.approx((1.0 / 3.0 / 1e6) ** 1.5)


def test_far_out_nothing_overflows() -> None:
    far = np.array([1e3, 1e6, 1e12])
    for law in LAWS:
        with np.errstate(all="raise", under="ignore"):
            assert np.all(np.isfinite(law.mean_residual(far)))
            assert np.all(np.isfinite(law.survival(far)))
    assert sizes.Weibull(2.0).mean_residual(1e3) == pytest.approx(
        1.0 / (2e3 * math.gamma(1.5) ** 2), rel=1e-3
    )


# --- in a system ------------------------------------------------------------------------------


def with_laws(size: sizes.SizeLaw, arrival: sizes.SizeLaw | None = None) -> cw.System:
    known = cw.JobClass("one", 1.0, 2.0, cw.Amdahl(0.5), sizes=size, arrivals=arrival or sizes.Exponential())
    return cw.System(4, [known])


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_a_written_law_comes_back_equal(law: sizes.SizeLaw, tmp_path: Path) -> None:
    system = with_laws(law, sizes.Erlang(2))
    assert system_from_mapping(system_to_mapping(system)) == system
    cw.save_system(system, tmp_path / "s.toml")
    assert cw.load_system(tmp_path / "s.toml") == system


def test_what_has_no_memory_is_known() -> None:
    plain = with_laws(sizes.Exponential())
    assert plain.memoryless
    assert plain.as_memoryless() is plain
    plain.require_memoryless("solve")
    for other in (with_laws(sizes.Lognormal(4.0)), with_laws(sizes.Exponential(), sizes.Deterministic())):
        assert not other.memoryless
        assert other.as_memoryless() == plain
    with pytest.raises(
        cw.errors.InvalidSystem, match=r"'one': solve is exact .* sizes are lognormal \(cv2 4"
    ):
        with_laws(sizes.Lognormal(4.0)).require_memoryless("solve")
    with pytest.raises(cw.errors.InvalidSystem, match="its arrivals are deterministic; simulate and compare"):
        with_laws(sizes.Exponential(), sizes.Deterministic()).require_memoryless("solve")
    assert "lognormal (cv2 4.0) sizes" in str(with_laws(sizes.Lognormal(4.0)))


def test_a_rate_that_is_not_known() -> None:
    system = cw.System(4, [cw.JobClass("one", speedup=cw.Amdahl(0.5))])
    assert np.isnan(system.size_rates).all()
    assert math.isnan(system.load)
    assert "λ = not known, μ = not known" in str(system)
    for ask in (system.require_size_rates, system.require_rates, system.require_stable, system.require_scale):
        with pytest.raises(cw.errors.InvalidSystem, match=r"'one': its (size|arrival)_rate is not known"):
            ask()


SYSTEM = """\
cores = 4
[[class]]
name = "one"
arrival_rate = 1.0
size_rate = 2.0
speedup = { family = "amdahl", p = 0.5 }
"""


def loaded(tmp_path: Path, line: str) -> cw.System:
    (tmp_path / "s.toml").write_text(SYSTEM + line + "\n", encoding="utf-8")
    return cw.load_system(tmp_path / "s.toml")


def test_sizes_from_a_file_beside_the_system(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("job,size\na,2\nb,6\n", encoding="utf-8")
    line = 'sizes = { law = "empirical", file = "sizes.csv", column = "size" }'
    assert loaded(tmp_path, line).classes[0].sizes == sizes.Empirical([2.0, 6.0])
    (tmp_path / "plain.csv").write_text("2\n6\n", encoding="utf-8")
    line = 'sizes = { law = "empirical", file = "plain.csv" }'
    assert loaded(tmp_path, line).classes[0].sizes == sizes.Empirical([2.0, 6.0])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("sizes = 4", "sizes must be like"),
        ("sizes = { cv2 = 4 }", "sizes: law is missing"),
        ('sizes = { law = "lognorml", cv2 = 4 }', "unknown law 'lognorml'; did you mean 'lognormal'"),
        ('sizes = { law = "lognormal" }', "lognormal: cv2 is missing"),
        ('sizes = { law = "lognormal", cv = 4 }', "unknown key 'cv'"),
        ('sizes = { law = "lognormal", cv2 = 0 }', "cv2 must be positive, got 0"),
        ('sizes = { law = "lognormal", cv2 = nan }', "cv2 must be finite, got nan"),
        ('sizes = { law = "hyperexponential", cv2 = 0.5 }', "cv2 must lie in .1, 1e.12., got 0.5"),
        ('sizes = { law = "erlang", stages = 2.5 }', "stages must be a whole number, got 2.5"),
        ('sizes = { law = "weibull", shape = -1 }', "shape must lie in .*, got -1"),
        ('sizes = { law = "pareto", shape = 0.9 }', "no finite mean, got 0.9"),
        ('sizes = { law = "pareto", shape = 0.9, cut = 1 }', "cut must lie in .*, got 1"),
        ('sizes = { law = "empirical", values = [] }', "at least one size is needed"),
        ('sizes = { law = "empirical", values = [1.0, -2.0] }', "positive and finite, got -2"),
        ('sizes = { law = "empirical", values = [1.0, nan] }', "positive and finite, got nan"),
        ('sizes = { law = "empirical", values = ["a"] }', "values must be numbers"),
        ('sizes = { law = "empirical", file = "none.csv" }', "none.csv: cannot be read"),
        ('sizes = { law = "empirical", file = "empty.csv" }', "empty.csv: an empty file"),
        ('sizes = { law = "empirical", file = "two.csv" }', "two.csv: which of the columns job, size"),
        (
            'sizes = { law = "empirical", file = "two.csv", column = "sise" }',
            "no column 'sise'; did you mean 'size'",
        ),
        ('sizes = { law = "empirical", file = "two.csv", column = "job" }', "row 2 has 'a' where a number"),
        ('sizes = { law = "empirical", file = "two.csv", column = 3 }', "file and column must be text"),
        (
            'sizes = { law = "piecewise-exponential", edges = [0.0, 1.0], hazards = [1.0, 0.0] }',
            "the last must be positive",
        ),
        (
            'sizes = { law = "piecewise-exponential", edges = [0.5, 1.0], hazards = [1.0, 1.0] }',
            "edges must increase from zero",
        ),
        ('sizes = { law = "piecewise-exponential", edges = [0.0], hazards = [] }', "one hazard an edge"),
        (
            'arrivals = { law = "lognormal", cv2 = -1 }',
            "arrivals: lognormal sizes: cv2 must be positive, got -1",
        ),
    ],
)
def test_a_law_that_cannot_be(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "two.csv").write_text("job,size\na,2\n", encoding="utf-8")
    (tmp_path / "empty.csv").write_text("", encoding="utf-8")
    with pytest.raises(cw.errors.InvalidFile, match=message) as caught:
        loaded(tmp_path, line)
    assert "s.toml" in str(caught.value)
    assert "'one'" in str(caught.value)


def test_only_laws_are_laws() -> None:
    with pytest.raises(cw.errors.InvalidSystem, match=r"sizes must be a distribution such as .*, got 4"):
        cw.JobClass("one", 1.0, 1.0, cw.Amdahl(0.5), sizes=4)  # type: ignore[arg-type]
