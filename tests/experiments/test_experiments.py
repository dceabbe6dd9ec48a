"""The paper's experiments: settings as printed, results as files, one report with everything in it."""

from __future__ import annotations

import csv
import json
import math
import re
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import corewise as cw
from corewise.experiments import examples, paper, tracking
from corewise.experiments import reproduce as module
from corewise.experiments.examples import ALGORITHM_2, example_result, run_example
from corewise.experiments.paper import DRIFT, EXAMPLES, Drift, Example, Switch, tracking_algorithms
from corewise.experiments.report import (
    Heading,
    Picture,
    Result,
    ResultTable,
    Section,
    Setting,
    html_report,
    html_section,
)
from corewise.experiments.reproduce import EXPERIMENTS, reproduce
from corewise.experiments.studies.learning import learning_study, tracking_errors
from corewise.experiments.studies.tracking import oracle, windows_until
from corewise.experiments.tracking import positions, run_table_2, spread
from corewise.kit.jsonable import to_json
from tests.helpers.commands import on_a_terminal

pytestmark = pytest.mark.slow

SMALL = Example(9, "1b", 4, 1.0, 1.5, 0.5, 0.3, 0.8, first=40, power=0.0, steps=3)
"""An example that takes no time."""


@pytest.fixture(scope="module", autouse=True)
def few_runs() -> Iterator[None]:
    """Run everything less often."""
    with pytest.MonkeyPatch.context() as patch:
        for name, count in {
            "_RUNS": (4, 4),
            "_OTHER_RUNS": 3,
            "_VARIANT_RUNS": 2,
            "_VARIANT_STEPS": 2,
        }.items():
            patch.setattr(examples, name, count)
        yield


def _small(setting: Setting) -> Result:
    return example_result(run_example(SMALL, setting))


# --- what is printed ------------------------------------------------------------------------------


@pytest.mark.parametrize("example", EXAMPLES)
def test_packaged_systems_are_those_of_table_1(example: Example) -> None:
    assert example.system == cw.load_system(f"paper:{example.number}")


def test_windows_of_table_1() -> None:
    sizes = [example.learning().schedule.window(16) for example in EXAMPLES]
    assert sizes == [800, 1600, 100, 100]  # 16^0.75 = 8
    assert [example.learning().steps for example in EXAMPLES] == [400, 400, 100, 100]
    assert [example.learning().name for example in EXAMPLES] == ["1a", "1a", "1b", "1b"]


def test_the_packaged_drift_is_that_of_table_2() -> None:
    system = DRIFT.system
    assert (system.cores, system.arrival_rates.sum(), system.classes[0].size_rate) == (10, 2.0, 1.5)
    assert system.classes[0].arrival_rate == pytest.approx(0.7 * 2.0)
    for switch in DRIFT.switches:
        now = system.at(switch.time)
        assert [known.speedup for known in now.classes] == [cw.Amdahl(switch.p1), cw.Amdahl(switch.p2)]
        before = system.at(math.nextafter(switch.time, 0.0))
        assert now.classes != before.classes


def test_printed_positions_are_likely_under_the_poisson_law() -> None:
    """Each printed position is a draw with the spread claimed; |z| > 4 has probability 6e-5 in each."""
    windows = np.array([math.ceil(200 * k**0.75 - 1e-9) for k in range(1, 600)])
    upto = np.concatenate([[0], np.cumsum(windows)])
    for switch in DRIFT.switches:
        departures = upto[switch.iteration - 1] + switch.fraction * windows[switch.iteration - 1]
        z = (departures - 2.0 * switch.time) / math.sqrt(2.0 * switch.time)
        assert abs(z) < 4.0
        assert spread(switch) == pytest.approx(
            math.sqrt(2.0 * switch.time) / windows[switch.iteration - 1], rel=1e-12
        )


# --- tracking -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def drifting() -> cw.System:
    classes = [cw.JobClass(name, 1.0, 1.5, cw.Amdahl(p)) for name, p in (("one", 0.3), ("two", 0.8))]
    return cw.System(6, classes, [cw.Change(100.0, "two", cw.Amdahl(0.5))])


def test_positions_and_tracking_errors_by_hand(drifting: cw.System) -> None:
    algorithm = cw.algorithm_1a(drifting, departures=60, steps=6)
    study = learning_study(drifting, algorithm, n=2, rng=3)
    for run, (ends, at) in enumerate(zip(study.times, positions(study, 100.0), strict=True)):
        k = int(at)
        assert ends[k - 1] <= 100.0 < ends[k]
        assert at - k == pytest.approx((100.0 - ends[k - 1]) / (ends[k] - ends[k - 1]))
        # A sum over very short steps in place of the exact integral.
        grid = np.linspace(ends[0], ends[-1], 200_001)[:-1]
        in_force = np.array([study.estimates[run, 1, np.flatnonzero(ends <= t)[-1]] for t in grid[::50]])
        truth = np.where(grid[::50] < 100.0, 0.8, 0.5)
        assert tracking_errors(study, drifting)[run, 1] == pytest.approx(
            np.mean((in_force - truth) ** 2), rel=5e-3
        )


@dataclass(frozen=True)
class Brief(Drift):
    """As in Table 2, but soon over, and with changes that nobody could miss."""

    @property
    def system(self) -> cw.System:
        classes = [cw.JobClass(name, 1.0, 1.5, cw.Amdahl(p)) for name, p in (("one", 0.1), ("two", 0.9))]
        return cw.System(
            10, classes, [cw.Change(2e3, "one", cw.Amdahl(0.9)), cw.Change(4e3, "two", cw.Amdahl(0.2))]
        )


BRIEF = Brief((Switch(2e3, 0.9, 0.9, 14, 0.5), Switch(4e3, 0.9, 0.2, 21, 0.5)), 100, 0.75, 6e3)


@pytest.fixture(scope="module")
def brief_table() -> Iterator[Result]:
    """Table 2 at a small scale."""
    with pytest.MonkeyPatch.context() as patch:
        for where in (paper, tracking):
            patch.setattr(where, "DRIFT", BRIEF)
        patch.setattr(tracking, "_RUNS", {"1a": 2, "1b": 1, "adaptive": 1, "oracle": 1})
        patch.setattr(tracking, "_AROUND", (200.0, 1500.0))
        yield run_table_2(Setting((5, 5)))


def test_all_algorithms_run_to_the_same_end() -> None:
    """6e6 departures are in 498 windows of the paper, or in 30 000 checks of 200."""
    algorithms = tracking_algorithms()
    assert {name: found.steps for name, found in algorithms.items()} == {
        "1a": 498,
        "1b": 498,
        "adaptive": 30_000,
        "oracle": 30_000,
    }
    assert {found.schedule.window(16) for name, found in algorithms.items() if name[0] == "1"} == {1600}


def test_numbers_of_table_2_are_those_of_its_runs(brief_table: Result) -> None:
    """The first run of the oracle and of 1a again, from the streams that they are said to have."""
    numbers, system = brief_table.numbers, BRIEF.system
    assert numbers["runs"] == {"1a": 2, "1b": 1, "adaptive": 1, "oracle": 1}
    rows = {block.name: block for block in brief_table.blocks if isinstance(block, ResultTable)}
    checks = list(csv.DictReader(rows["checks"].as_csv().splitlines()))
    assert [int(row["k"]) for row in checks[:3]] == [10, 20, 30]
    assert {row["algorithm"] for row in checks} == {"adaptive", "oracle"}
    (stream,) = np.random.default_rng([5, 5, 3]).spawn(1)
    epochs = list(cw.learn(cw.SimulatedPlant(system, rng=stream), oracle(system, departures=100, steps=120)))
    told = [row for row in checks if row["algorithm"] == "oracle"]
    for row, epoch in zip(told, epochs[9::10], strict=True):
        assert float(row["p:two"]) == epoch.estimates["two"].value
    algorithm = cw.algorithm_1a(system, departures=100, steps=windows_until(cw.schedules.Growing(100), 12e3))
    study = learning_study(system, algorithm, n=2, rng=np.random.default_rng([5, 5, 0]), average_until=6e3)
    errors = tracking_errors(study, system).mean(axis=0)
    assert list(numbers["mean_squared_error"]["1a"].values()) == errors.tolist()
    assert numbers["mean_jobs"]["1a"] == study.averages.mean()


def test_table_2_has_the_exact_mean_jobs_of_the_algorithms(brief_table: Result) -> None:
    """The oracle's errors are the least; changes that nobody could miss are found soon."""
    numbers = brief_table.numbers
    errors = {name: np.array(list(row.values())) for name, row in numbers["mean_squared_error"].items()}
    assert np.all(errors["oracle"] < errors["1a"])
    assert np.all(errors["adaptive"] < errors["1b"])
    system = BRIEF.system
    parts = [cw.evaluate(system.regime(at), cw.Equi()).mean_jobs for at in (0.0, 2e3, 4e3)]
    assert numbers["mean_jobs"]["EQUI"] == pytest.approx(np.mean(parts), rel=1e-9)
    assert min(numbers["mean_jobs"].values()) == numbers["mean_jobs"]["optimum"]
    assert all(0.0 < delay < 1500.0 for row in numbers["delays"] for delay in row)
    assert {alarm["name"] for run in numbers["alarms"] for alarm in run} == {"one", "two"}
    assert [block.name for block in brief_table.blocks if isinstance(block, Picture)] == [
        "tracking",
        "changes",
    ]
    rows = {block.name: block for block in brief_table.blocks if isinstance(block, ResultTable)}
    assert set(rows) == {"switches", "followed", "alarms", "epochs", "checks"}
    assert [row[0] for row in rows["followed"].rows] == [
        "Algorithm 1a",
        "Algorithm 1b",
        "adaptive",
        "oracle",
        "EQUI",
        "optimum",
    ]
    assert all(len(row) == len(block.columns) for block in rows.values() for row in block.rows)
    assert json.loads(to_json(numbers))["delays"] == numbers["delays"]


# --- results --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def result() -> Result:
    return _small(Setting((5, 0)))


def test_numbers_of_an_example_are_what_they_say(result: Result) -> None:
    numbers = result.numbers
    best = cw.solve(SMALL.system)
    assert numbers["mean_jobs"] == pytest.approx(best.mean_jobs, rel=1e-12)
    equi = cw.evaluate(SMALL.system, cw.Equi()).mean_jobs
    assert numbers["gap"]["EQUI"] == pytest.approx(equi / best.mean_jobs - 1.0, rel=1e-6)
    assert 0.0 <= numbers["gap"]["Whittle"] <= numbers["gap"]["EQUI"]
    assert [row["truth"] for row in numbers["classes"]] == [0.3, 0.8]
    assert {row["load"] for row in numbers["variants"]} == {0.5, 0.8}
    for variant in numbers["variants"]:
        assert variant["gap"]["learned"] < variant["gap"]["EQUI"]
        assert variant["departures"] == 3_000
        assert variant["gap"][ALGORITHM_2] >= 0.0


def test_epochs_table_has_every_epoch_of_every_run(result: Result) -> None:
    table = next(
        block for block in result.blocks if isinstance(block, ResultTable) and block.name == "epochs"
    )
    rows = list(csv.DictReader(table.as_csv().splitlines()))
    assert len(rows) == (4 + 3) * SMALL.steps
    first = rows[0]
    assert (first["algorithm"], first["k"], first["departures"], first["window"]) == ("1b", "1", "40", "40")
    plant = cw.SimulatedPlant(SMALL.system, rng=np.random.default_rng([5, 0, 0]).spawn(4)[0])
    epoch = next(cw.learn(plant, SMALL.learning()))
    assert float(first["p:two"]) == epoch.estimates["two"].value
    assert float(first["gap"]) == epoch.gap


# --- files ----------------------------------------------------------------------------------------


@pytest.fixture
def only_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EXPERIMENTS", {"example-9": _small})
    monkeypatch.setattr(module, "_EFFORT", {"example-9": 1})


def _contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.usefixtures("only_small")
def test_same_seed_same_files_whatever_the_workers(tmp_path: Path) -> None:
    shares: list[float] = []
    for workers in (1, 2):
        folder = tmp_path / str(workers)
        (found,) = reproduce("all", folder, seed=5, workers=workers, progress=shares.append)
        assert found.name == "example-9"
    one, two = (_contents(tmp_path / str(workers)) for workers in (1, 2))
    assert set(one) == {
        "report.html",
        *(f"example-9/{name}.png" for name in ("estimates", "policies", "errors", "gap", "worth")),
        *(f"example-9/{name}.csv" for name in ("classes", "worth", "epochs")),
        "example-9/results.json",
        "example-9/section.html",
    }
    assert one == two
    json.loads(one["example-9/results.json"])
    assert max(shares) == 1.0
    assert min(shares) > 0.0
    (tmp_path / "other").mkdir()
    list(reproduce("example-9", tmp_path / "other", seed=6, workers=1))
    assert _contents(tmp_path / "other")["example-9/results.json"] != one["example-9/results.json"]


def test_figure_1_is_written(tmp_path: Path) -> None:
    (found,) = reproduce("figure-1", tmp_path / "made" / "here", seed=1, workers=1)
    rows = list(csv.DictReader((tmp_path / "made/here/figure-1/curves.csv").read_text().splitlines()))
    for row in rows:
        z, p = float(row["cores per job"]), float(row["p"])
        expected = z if z < 1.0 else 1.0 / (1.0 - p + p / z) if row["family"] == "amdahl" else z**p
        assert float(row["speed-up"]) == pytest.approx(expected, rel=1e-12)
    assert found.name == "figure-1"


def test_experiments_of_the_design() -> None:
    assert set(EXPERIMENTS) == {"figure-1", "table-2", *(f"example-{i}" for i in range(1, 5))}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda out: reproduce("example-7", out, seed=1), "unknown experiment 'example-7'"),
        (lambda out: reproduce("figure-1", out, seed=-1), "seed must be at least 0, got -1"),
        (lambda out: reproduce("figure-1", out, seed=1, workers=0), "workers must be at least 1, got 0"),
        (
            lambda _: reproduce("figure-1", 3, seed=1),  # type: ignore[arg-type]
            "expected the path of a directory, got 3",
        ),
        (lambda out: reproduce("figure-1", out / "file" / "x", seed=1), "cannot be made a directory"),
    ],
)
def test_bad_input_is_refused_before_any_work(
    call: Callable[[Path], object], words: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(cw.errors.InvalidInput, match=re.escape(words)):
        call(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_an_experiment_that_fails_leaves_those_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Setting) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "EXPERIMENTS", {"figure-1": EXPERIMENTS["figure-1"], "other": interrupted})
    monkeypatch.setattr(module, "_EFFORT", {"figure-1": 1, "other": 1})
    with pytest.raises(KeyboardInterrupt):
        list(reproduce("all", tmp_path, seed=1, workers=1))
    assert {path.name for path in tmp_path.iterdir()} == {"figure-1", "report.html"}


# --- the report -----------------------------------------------------------------------------------


class _Page(HTMLParser):
    """Checks that tags nest, and keeps what is referred to."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.links += [found[key] or "" for key in ("href", "src") if key in found]
        self.ids += [found["id"] or ""] if "id" in found else []
        if tag == "img":
            assert found["alt"]
        if tag not in {"meta", "img"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_the_report_has_everything_in_it(result: Result) -> None:
    odd = Result(
        "odd",
        'a < b & "c"',
        "",
        {},
        [
            Heading("<i>"),
            "x < y\n   & z",
            ResultTable("t", ("<b>",), [[math.inf], [-0.5], ["a&b"]], "caption & all"),
            ResultTable("hidden", ("secret",), [[1]]),
            Picture("p", 'shows "it"', b"\x89PNG"),
        ],
    )
    page = _Page()
    sections = [Section(found.name, found.title, html_section(found)) for found in (result, odd)]
    page.feed(html_report(sections, 11, "1.2.3"))
    assert not page.open
    assert page.ids == ["example-9", "odd"]
    for link in page.links:
        assert link.startswith(("data:image/png;base64,", "#")), link
        assert not link.startswith("#") or link[1:] in page.ids
    text = " ".join(page.text)
    for words in ("x < y & z", 'a < b & "c"', "unstable", "−0.5", "a&b", "caption & all", "seed 11", "1.2.3"):
        assert words in text, words
    assert "secret" not in text
    assert "nan" not in text.lower().replace("dynamic", "")


def test_a_table_as_csv_leaves_out_what_is_not_known() -> None:
    table = ResultTable("t", ("a", "b"), [[1, math.nan], [0.1 + 0.2, None], ["x,y", math.inf]])
    assert table.as_csv() == 'a,b\n1,\n0.30000000000000004,\n"x,y",inf\n'


def test_parts_of_the_progress() -> None:
    told: list[float] = []
    part = Setting((1,), None, told.append).part(0.5, 0.75)
    assert part is not None
    part(0.0)
    part(1.0)
    assert told == [0.5, 0.75]
    assert Setting((1,)).part(0.0, 1.0) is None
    assert partial(Setting((1, 2)).stream, 3)().random() == np.random.default_rng([1, 2, 3]).random()


# --- reports grow, and interrupts end ---------------------------------------------------------------


def _named(name: str) -> Callable[[Setting], Result]:
    return lambda _: Result(name, f"title of {name}", "", {"x": 1}, [f"story of {name}"])


def test_a_report_keeps_what_was_made_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("first", "second", "third")
    monkeypatch.setattr(module, "EXPERIMENTS", {name: _named(name) for name in names})
    monkeypatch.setattr(module, "_EFFORT", dict.fromkeys(names, 1))
    (tmp_path / "third").mkdir()
    (tmp_path / "third" / "results.json").write_text("not ours")
    (tmp_path / "third" / "section.html").write_text("not ours")
    list(reproduce("second", tmp_path, seed=1, workers=1))
    list(reproduce("first", tmp_path, seed=1, workers=1))
    page = (tmp_path / "report.html").read_text()
    assert page.index("story of first") < page.index("story of second")
    assert "not ours" not in page
    list(reproduce("third", tmp_path, seed=2, workers=1))
    page = (tmp_path / "report.html").read_text()
    assert "story of third" in page
    assert "story of first" not in page


def test_further_interrupts_do_not_keep_it_from_ending(tmp_path: Path) -> None:
    """Ctrl-C again and again ends the command and its workers, who would else keep its output open."""
    command = ["reproduce", "example-1", "--out", str(tmp_path), "--workers", "2"]
    shown, _, status = on_a_terminal(command, until=rb" [1-9]\d*%", again=True)
    # Shells report 130 for both: an exit with that code, or an end by a further signal on the way out.
    assert status in {130, -signal.SIGINT}
    assert b"Traceback" not in shown
    assert b"Exception" not in shown
