"""Estimates from whatever was seen: statistics, a path, a run, replications or a log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import corewise as cw

SYSTEM = cw.load_system("paper:1")


@pytest.fixture(scope="module")
def run() -> cw.results.Run:
    return cw.simulate(SYSTEM, cw.Equi(), departures=200, rng=1, record=True)


def test_estimates_are_the_same_from_whatever_has_the_record(run: cw.results.Run, tmp_path: Path) -> None:
    assert run.path is not None
    cw.save_events(run.path, tmp_path / "log.csv")
    expected = cw.estimate(run.path, SYSTEM)["two"]
    assert cw.estimate(cw.load_events(tmp_path / "log.csv", SYSTEM), SYSTEM)["two"] == expected
    of_run = cw.estimate(run, SYSTEM)["two"]
    assert of_run.value == pytest.approx(expected.value, rel=1e-9)
    assert of_run.stderr == pytest.approx(expected.stderr, rel=1e-9)


def test_estimates_of_replications() -> None:
    runs = cw.replicate(SYSTEM, cw.Equi(), n=2, departures=100, rng=1)
    assert cw.estimate(runs, SYSTEM)["one"] == cw.estimate(runs.statistics, SYSTEM)["one"]


def test_a_fit_is_judged_by_whatever_has_a_path(run: cw.results.Run, tmp_path: Path) -> None:
    assert run.path is not None
    cw.save_events(run.path, tmp_path / "log.csv")
    expected = cw.goodness_of_fit(run.path, SYSTEM)["two"].p_value
    for seen in (run, cw.load_events(tmp_path / "log.csv", SYSTEM)):
        assert cw.goodness_of_fit(seen, SYSTEM)["two"].p_value == expected


def test_a_run_that_was_not_recorded_has_no_path() -> None:
    run = cw.simulate(SYSTEM, cw.Equi(), departures=20, rng=1)
    with pytest.raises(cw.errors.InvalidInput, match=r"got Run\(.*; simulate\(…, record=True\) keeps it"):
        cw.goodness_of_fit(run, SYSTEM)


@pytest.mark.parametrize(
    "seen", [None, "log.csv", 5, {}, SYSTEM, cw.Statistics, cw.SamplePath, Path("log.csv")]
)
def test_what_was_not_seen_is_refused(seen: Any) -> None:
    with pytest.raises(
        cw.errors.InvalidInput, match=r"expected Statistics, a SamplePath, a run or an event log, got"
    ):
        cw.estimate(seen, SYSTEM)
    with pytest.raises(
        cw.errors.InvalidInput, match="expected a SamplePath, or a run or log that has one, got"
    ):
        cw.goodness_of_fit(seen, SYSTEM)


def test_statistics_have_no_path(run: cw.results.Run) -> None:
    with pytest.raises(cw.errors.InvalidInput, match=r"expected a SamplePath.*got Statistics\("):
        cw.goodness_of_fit(run.statistics, SYSTEM)  # type: ignore[arg-type]
