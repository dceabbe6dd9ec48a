"""When a solver gives up: only if its bounds no longer close."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import corewise as cw
from corewise.analysis.chain import Chain
from corewise.control import _kernels
from corewise.control.solvers import EliminatingPolicyIteration, ModifiedPolicyIteration, _Stall


def seen(span: float, gap: float = 0.0) -> Any:
    return SimpleNamespace(span=span, gap=gap)


def test_slow_but_steady_is_not_a_stall() -> None:
    """Bounds that close by a ten-thousandth a round never let patience run out."""
    watch = _Stall("patient", max_steps=60)
    for k in range(5000):
        watch(seen(0.9999**k))


@pytest.mark.parametrize("spans", [[1.0] * 61, [1.0, 2.0] * 31], ids=["constant", "cycle"])
def test_bounds_that_do_not_close_are_a_stall(spans: list[float]) -> None:
    watch = _Stall("stuck", max_steps=60)
    for span in spans[:60]:
        watch(seen(span))
    with pytest.raises(cw.errors.NotConverged, match=r"stuck ended after 61 rounds with bounds 1 apart"):
        watch(seen(spans[60]))


def test_what_no_iteration_can_mend_ends_at_once() -> None:
    with pytest.raises(cw.errors.NotConverged, match="slope_above"):
        _Stall("any")(seen(1.0, gap=0.5))
    with pytest.raises(cw.errors.NotConverged):
        _Stall("any")(seen(float("nan")))


def test_long_sweeps_let_go_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code does not see Ctrl-C: no call sweeps over more states than fit, and bits stay the same."""
    system, sizes = cw.load_system("paper:1"), []
    sweeping = ModifiedPolicyIteration()
    whole = cw.solve(system, capacity=20, solver=sweeping)
    plain: Any = _kernels.sweep_values

    def watched(values: Any, *rest: Any) -> None:
        sizes.append(values.size * rest[-1])
        plain(values, *rest)

    monkeypatch.setattr("corewise.control.bellman._AT_A_TIME", 3 * 21 * 21)
    monkeypatch.setattr(_kernels, "sweep_values", watched)
    cut = cw.solve(system, capacity=20, solver=sweeping)
    assert max(sizes) == 3 * 21 * 21
    assert cut.bounds == whole.bounds
    assert np.array_equal(cut.values, whole.values)


@pytest.mark.parametrize("spoilt", ["never settles", "not finite"])
def test_where_elimination_does_not_settle_sweeps_take_over(
    monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    """What is found is then what sweeps find from the same start, to the bit."""
    system = cw.load_system("paper:2")
    swept = cw.solve(system, capacity=20, solver=ModifiedPolicyIteration())
    if spoilt == "never settles":
        monkeypatch.setattr("corewise.control.solvers._MOST_ELIMINATIONS", 2)
    else:
        monkeypatch.setattr(Chain, "correction", lambda _, drift: np.full(drift.size, np.nan))
    found = cw.solve(system, capacity=20, solver=EliminatingPolicyIteration())
    assert found.bounds == swept.bounds
    assert found.solver == swept.solver != EliminatingPolicyIteration().name
    assert np.array_equal(found.values, swept.values)


def test_a_factorisation_serves_policies_that_differ_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer are made than policies are improved; if none may serve again, there is one for each."""
    system, made = cw.load_system("paper:2").at_load(0.5), []
    held: Any = vars(Chain)["_elimination"]
    plain = held.func

    def counted(chain: Chain) -> Any:
        made.append(chain)
        return plain(chain)

    monkeypatch.setattr(held, "func", counted)
    found = cw.solve(system, capacity=(40, 40), solver=EliminatingPolicyIteration())
    few, improvements = len(made), found.iterations
    made.clear()
    monkeypatch.setattr("corewise.control.solvers._CLOSING", 1e-300)
    newton = cw.solve(system, capacity=(40, 40), solver=EliminatingPolicyIteration())
    assert few < improvements
    assert len(made) == newton.iterations - 1  # none for the last, and the first policy's serves twice
    assert newton.mean_cost == pytest.approx(found.mean_cost, rel=1e-12)
