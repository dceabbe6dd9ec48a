"""The last part of a record: statistics of the two parts add up to those of the whole."""

from __future__ import annotations

import numpy as np
import pytest

import corewise as cw
from corewise.errors import InvalidInput
from corewise.observation.sample_path import NO_JOB, EventKind, SamplePath

SYSTEM = cw.System(
    6, [cw.JobClass("a", 1.0, 0.5, cw.Amdahl(0.9)), cw.JobClass("b", 1.5, 0.8, cw.Amdahl(0.5))]
)


def record(per_job: bool) -> SamplePath:
    path = cw.simulate(SYSTEM, "whittle", departures=400, rng=3, record=True).path
    assert path is not None
    return path.split() if per_job else path


@pytest.mark.parametrize("per_job", [False, True])
@pytest.mark.parametrize("jobs", [1, 37, 200])
def test_the_first_part_and_the_last_make_the_whole(per_job: bool, jobs: int) -> None:
    whole = record(per_job)
    last = whole.recent(jobs)
    assert np.count_nonzero(last.event == EventKind.ARRIVAL) == jobs
    assert last.end == whole.end
    first_rows = int(np.count_nonzero(whole.time <= last.start))
    k = slice(first_rows)
    first = SamplePath(
        whole.names,
        whole.pool,
        whole.time[k],
        whole.event[k],
        whole.job_class[k],
        whole.job[k],
        whole.cores[k],
    )
    summed = cw.Statistics.of(first) + cw.Statistics.of(last)
    for part, total in zip(summed.classes, cw.Statistics.of(whole).classes, strict=True):
        assert part.left == total.left
        assert part.arrivals == total.arrivals
        assert part.job_time.sum() == pytest.approx(total.job_time.sum(), rel=1e-9)
        assert float(part.job_time @ part.widths) == pytest.approx(
            float(total.job_time @ total.widths), rel=1e-9
        )


def test_a_record_with_no_more_jobs_stays_as_it_is() -> None:
    whole = record(per_job=False)
    assert whole.recent(10**6) is whole
    nameless = SamplePath(
        whole.names,
        whole.pool,
        whole.time,
        whole.event,
        whole.job_class,
        np.full(whole.job.size, NO_JOB),
        whole.cores,
    )
    with pytest.raises(InvalidInput, match="needs the number"):
        nameless.recent(3)
