"""The dispersion of scores: it is that of single jobs, and keeps false alarms as rare as promised."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import corewise as cw
from corewise.estimation.changes.buckets import SCORES, columns_of, row_length, scores_of
from corewise.estimation.changes.detector import ChangeDetector
from corewise.estimation.changes.dispersion import Dispersion, job_scores, skewness_factors
from corewise.estimation.changes.fits import ratio_of_rates
from corewise.estimation.likelihood import Likelihood
from corewise.estimation.robust.clusters import JobRecords
from corewise.kit.arrays import Floats
from corewise.model.sizes import Hyperexponential, Lognormal, SizeLaw, Weibull
from corewise.observation.histories import job_histories
from tests.helpers.sized_jobs import LAWS, sized_path, tables

SYSTEM = cw.load_system("paper:2").at_load(0.5)


def replayed(law: str, departures: int, seed: int = 5) -> cw.ReplayPlant:
    path = sized_path(SYSTEM, LAWS[law], departures, np.random.default_rng(seed), tables(SYSTEM, cw.Equi()))
    plant = cw.ReplayPlant(path)
    plant.attend(SYSTEM)
    return plant


@pytest.mark.parametrize("p", [0.4, 0.9])
def test_it_is_the_ratio_of_variances_by_job_and_by_the_model(p: float) -> None:
    """Between nodes sums are interpolated: 2 %."""
    plant = replayed("h2_4", 1000)
    seen = plant.run(cw.Equi(), 1000)
    jobs, (first, *_) = job_histories(plant.path)[0], SYSTEM.classes
    assert jobs is not None
    assert seen.strata is not None
    strata, curve, rate = seen.strata[0], cw.Amdahl(p), first.known_size_rate
    assert strata is not None
    found = Dispersion.unknown().observe(seen.classes[0], job_scores(strata, curve, rate), curve, rate)
    likelihood = Likelihood(seen.classes[0], curve, rate)
    expected = JobRecords(jobs).dispersions(likelihood, np.array([p]))[0]
    assert found.of_curve == pytest.approx(expected, rel=0.02)
    surplus = jobs.departed - rate * jobs.sums(curve.rate(jobs.widths))
    assert found.of_size_rate == pytest.approx(float(surplus @ surplus) / jobs.departed.sum(), rel=0.02)


def test_sizes_that_vary_less_leave_thresholds_as_they_are() -> None:
    seen = replayed("erl4", 1000).run(cw.Equi(), 1000)
    assert seen.strata is not None
    assert seen.strata[0] is not None
    scores, curve = job_scores(seen.strata[0], cw.Amdahl(0.4), 1.5), cw.Amdahl(0.4)
    found = Dispersion.unknown().observe(seen.classes[0], scores, curve, 1.5)
    assert (found.of_curve, found.of_size_rate) == (1.0, 1.0)


@pytest.mark.statistical
def test_false_alarms_are_as_rare_as_promised_though_sizes_are_not_exponential() -> None:
    """20 000 departures of sizes with CV² = 4, an alarm promised in as many.

    More than 6 happen with probability 0.0001. The negative control does not look at jobs: it raises some
    hundred times as many as promised in the long run (SIZES 3.3).
    """
    found = {}
    for dispersion in ("estimated", "exponential"):
        plant, detector = replayed("h2_4", 20_000), ChangeDetector(SYSTEM, 2e4, dispersion=dispersion)
        count = 0
        for _ in range(100):
            detector, alarms = detector.observe(plant.run(cw.Equi(), 200))
            count += len(alarms)
        found[dispersion] = count
    assert found["estimated"] <= 6
    assert found["exponential"] > 10


def roots(law: SizeLaw, jobs: int, samples: int) -> tuple[Floats, Floats]:
    """Return signed roots of likelihood ratios over the dispersion, and the same with the skewness taken out.

    Of samples of jobs with one core each, beside so many that their rate is known to be one.
    """
    rng, nodes, known = np.random.default_rng(33), np.array([1.0, 2.0]), 1e9
    sizes = law.draw(rng, jobs * samples).reshape(samples, jobs)
    sides = np.zeros((2, samples, row_length(nodes)))
    for side, (count, work, squares) in zip(
        sides, ((known, known, (1.0 + law.cv2) * known), (jobs, sizes.sum(1), (sizes**2).sum(1))), strict=True
    ):
        departed, spent = columns_of(side, nodes)
        departed[:, 0], spent[:, 0] = count, work
        scores_of(side)[:, 3:] = np.stack(np.broadcast_arrays(count, work, squares), axis=-1)
    ratios = np.array(
        [ratio_of_rates(early, late, np.ones(2), nodes) for early, late in zip(*sides, strict=True)]
    )
    signs = np.sign(jobs - sizes.sum(axis=1))
    dispersions = np.array([1.0, law.cv2])
    factors = skewness_factors(sides, dispersions, nodes, np.ones(2), np.zeros(2), 1.0)
    assert np.all(factors[:, 0] == 1.0)
    plain = signs * np.sqrt(2.0 * np.maximum(ratios, 0.0) / law.cv2)
    return plain, plain / np.sqrt(factors[:, 1])


@pytest.mark.statistical
@pytest.mark.parametrize("law", [Lognormal(4.0), Hyperexponential(4.0), Weibull(0.5)], ids=str)
def test_skewness_is_taken_out(law: SizeLaw) -> None:
    """To the order of 1/√n, whatever the law; and the roots are about normal, as the threshold wants them.

    Of 10 000 samples of 1000 jobs; the standard error of a skewness is √(6/10⁴) = 0.024, so that the bound is
    exceeded by chance once in a million seeds. Without it the skewness is −(γ − 2c)/√n: for lognormal sizes
    −0.32, the negative control; for the others it is small, and must not be made larger.
    """
    plain, corrected = roots(law, 1000, 10_000)
    assert abs(float(stats.skew(corrected))) < 0.12
    assert np.std(corrected) == pytest.approx(1.0, abs=0.05)
    if isinstance(law, Lognormal):
        assert float(stats.skew(plain)) < -0.2


def tentative() -> tuple[cw.ReplayPlant, ChangeDetector]:
    """Return a plant whose sizes vary, and a detector with a tentative false alarm."""
    plant, detector = replayed("h2_4", 40_000), ChangeDetector(SYSTEM, 2e4)
    while True:
        detector, _ = detector.observe(plant.run(cw.Equi(), 200))
        if any(each.pending is not None and not each.pending.confirmed for each in detector._detectors):
            return plant, detector


def test_strata_are_kept_when_a_change_is_retracted() -> None:
    plant, detector = tentative()
    again = ChangeDetector(SYSTEM, 2e4).of_state(detector.state)
    kinds = list[str]()
    while "none" not in kinds:
        strata = detector.statistics().strata
        assert strata is not None
        assert all(kept is not None for kept in strata)
        window = plant.run(cw.Equi(), 200)
        detector, alarms = detector.observe(window)
        again, same = again.observe(window)
        assert alarms == same
        kinds += [alarm.kind for alarm in alarms]
    seen = detector.statistics()
    assert seen.strata is not None
    for table, kept in zip(seen.classes, seen.strata, strict=True):
        assert kept is not None
        assert kept.departures == table.left
    for name, array in detector.state.items():
        assert np.array_equal(again.state[name], array), name


@pytest.mark.parametrize("pending", [True, False])
@pytest.mark.parametrize("attributed", [True, False])
def test_checkpoints_of_earlier_versions_are_read(pending: bool, attributed: bool) -> None:
    """Their rows have no sums over single jobs; that from before a tentative change has another name.

    It is kept, whether the change was attributed or not.
    """
    plant, detector = tentative()
    old = {
        name: array[..., :-SCORES] if name in ("0.rows", "1.rows", "0.row", "1.row") else array
        for name, array in detector.state.items()
        if not name.endswith(".doubt") and ".earlier." not in name
    }
    for i, each in enumerate(detector._detectors):
        if each.pending is not None and pending:
            old |= {f"{i}.pending": old[f"{i}.row"], f"{i}.look again": np.array(1)}
        if attributed:
            old.pop(f"{i}.suspect", None)
    again = ChangeDetector(SYSTEM, 2e4).of_state(old)
    for mine, other in zip(again._detectors, detector._detectors, strict=True):
        assert (mine.pending is None) == (other.pending is None or attributed)
        assert mine.pending is None or mine.pending.confirmed != pending
    kept = [found.statistics().classes[i].left for found in (detector, again) for i in range(2)]
    assert (kept[:2] == kept[2:]) == pending
    for _ in range(5):
        again, _ = again.observe(plant.run(cw.Equi(), 200))
    assert again.departures == detector.departures + 1000


def test_it_is_saved_with_the_detector() -> None:
    plant, detector = replayed("h2_4", 600), ChangeDetector(SYSTEM, 1e6)
    for _ in range(3):
        detector, _ = detector.observe(plant.run(cw.Equi(), 200))
    again = ChangeDetector(SYSTEM, 1e6).of_state(detector.state)
    assert {name for name in again.state if name.endswith("dispersion")} == {"0.dispersion", "1.dispersion"}
    for name, array in detector.state.items():
        assert np.array_equal(again.state[name], array), name


def test_a_dispersion_is_estimated_or_that_of_exponential_sizes() -> None:
    with pytest.raises(cw.errors.InvalidInput, match="'estimated' or 'exponential', got 'four'"):
        ChangeDetector(SYSTEM, 1e6, dispersion="four")
