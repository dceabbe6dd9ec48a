"""``corewise plan``: output, JSON, figures, messages for bad input, and the keys in docs/planning.md."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.studies.plan import CapacityPlan
from corewise.studies.responses import Point

pytestmark = pytest.mark.slow

DOCS = (Path(__file__).parents[2] / "docs" / "planning.md").read_text(encoding="utf-8")

STRAIGHT = """cores = 5
[[class]]
name = "a"
arrival_rate = 2.0
size_rate = 1.0
speedup = { family = "amdahl", p = 1.0 }
[[class]]
name = "b"
arrival_rate = 1.0
size_rate = 1.0
speedup = { family = "power", p = 1.0 }
"""


@pytest.fixture
def straight(tmp_path: Path) -> Path:
    """M/M/1 in two classes: T = 1/(c − 3)."""
    file = tmp_path / "straight.toml"
    file.write_text(STRAIGHT)
    return file


def run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["plan", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def refuse_constant(text: str) -> None:
    raise AssertionError(f"{text} is not JSON")


def test_json(straight: Path) -> None:
    code, out, _ = run(straight, "--target", "0.3", "--json")
    found = json.loads(out, parse_constant=refuse_constant)
    assert code == 0
    assert found["cores"] == found["least_cores"] == 7
    assert found["mean_response_time"] == pytest.approx(0.25, rel=1e-8)
    assert found["interval"] == [found["mean_response_time"]] * 2
    assert found["one_more_core"]["time_saved"] == pytest.approx(0.05, rel=1e-6)
    assert found["one_more_core"]["jobs_saved"] == pytest.approx(0.15, rel=1e-6)
    assert found["target"] == 0.3
    assert found["limit"] == 0.0
    assert found["policy"] == "optimal"
    assert found["exact"] is True
    assert found["seed"] is None
    assert {row["cores"] for row in found["curve"]} >= {6, 7, 8}
    for row in found["curve"]:
        assert row["mean_jobs"] == pytest.approx(3 / (row["cores"] - 3), rel=1e-6)


def test_table_and_figure(straight: Path, tmp_path: Path) -> None:
    picture = tmp_path / "cores.png"
    code, out, _ = run(straight, "--target", "0.3", "--policy", "equi", "--plot", picture)
    assert code == 0
    assert re.search(r"fewest cores +7, under policy equi", out)
    assert re.search(r"one more core +saves 0.05 of the response time, and 0.15 jobs", out)
    assert re.search(r"^ +6 +0.333333 +1 +50.0% +no$", out, flags=re.MULTILINE)
    assert re.search(r"^ +7 +0.25 +0.75 +42.9% +yes$", out, flags=re.MULTILINE)
    assert out.rstrip().endswith(f"Wrote the plot to {picture}.")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_simulated_plans_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.studies.responses._FIRST_EVENTS", 50_000)
    monkeypatch.setattr("corewise.studies.plan._SHOWN_SIMULATED", 2)
    file = tmp_path / "many.toml"
    one = STRAIGHT.split("[[class]]")[1].replace("2.0", "0.5").replace("p = 1.0", "p = 0.9")
    file.write_text("cores = 1\n" + "".join("[[class]]" + one.replace('"a"', f'"c{i}"') for i in range(4)))
    code, out, _ = run(file, "--target", "0.7", "--policy", "whittle", "--seed", "3")
    assert code == 0
    assert re.search(r"fewest cores +\d+, under policy whittle", out)
    assert re.search(r"mean response time +0\.\d+ ± [\d.e-]+ with them", out)
    assert "seed                 3 (the same command with --seed 3 gives the same numbers)" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("paper:1", "--target", "0.1"),
            "error: no number of cores meets a mean response time of 0.1: with all ",
        ),
        (("paper:1", "--target", "0.1"), "jobs take 0.15\n"),
        (("paper:1", "--target", "soon"), "error: --target must be a finite number, got 'soon'"),
        (("paper:1", "--target", "-1"), "error: target must be positive, got -1.0"),
        (("paper:1", "--target", "1", "--max-cores", "0.5"), "error: --max-cores must be a whole number"),
        (("paper:1", "--target", "0.2", "--max-cores", "4"), "is not met with 4 cores"),
        (("paper:1", "--target", "0.2", "--policy", "best.npz"), "best.npz"),
        (("paper:1", "--target", "0.2", "--seed", "x"), "error: --seed must be a whole number, got 'x'"),
        (("paper:1", "--target", "0.2", "--plot", "cores.gif"), "error: cores.gif: a figure must end in"),
        (("paper:9", "--target", "0.2"), "error: "),
    ],
)
def test_errors_are_one_line(arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert out == ""
    assert message in err
    assert err.count("\n") == 1


def test_a_target_is_needed() -> None:
    code, _, err = run("paper:1")
    assert code == 2
    assert "--target" in err


# --- docs/planning.md -----------------------------------------------------------------------------


def test_the_keys_are_those_that_are_documented(straight: Path) -> None:
    found = json.loads(run(straight, "--target", "0.3", "--json")[1])
    text = DOCS[DOCS.index("The keys of `--json`") :].split("\n\n")[0]
    named = set(re.findall(r"`(\w+)`", text))
    assert named == {*found, *found["one_more_core"], *found["curve"][0]}


def test_the_old_spelling_of_max_cores_is_read(straight: Path) -> None:
    code, out, err = run(straight, "--target", "0.3", "--seed", "1", "--most-cores", "40", "--json")
    assert code == 0
    assert err.startswith("warning: --most-cores is deprecated: use --max-cores")
    new = json.loads(run(straight, "--target", "0.3", "--seed", "1", "--max-cores", "40", "--json")[1])
    old = json.loads(out)
    assert {**old, "seconds": 0.0} == {**new, "seconds": 0.0}


def test_what_is_left_undecided_is_said() -> None:
    system = cw.System(9, [cw.JobClass("a", 3.0, 1.0, cw.Amdahl(1.0))])
    curve = tuple(
        Point(cores, 3.0 * time, time, (time - 0.01, time + 0.01), exact=False)
        for cores, time in ((7, 0.4), (8, 0.3), (9, 0.2), (10, 0.1))
    )
    found = CapacityPlan(system, 0.3, "whittle", 9, 5, (8,), 0.0, curve, 3)
    text = str(found)
    flat = " ".join(text.split())
    assert "undecided 8 cores may be enough as well: the target lies within the interval of" in flat
    assert re.search(r"^ +7 .* no$", text, flags=re.MULTILINE)
    assert re.search(r"^ +8 .* undecided$", text, flags=re.MULTILINE)
    assert re.search(r"^ +9 .* yes$", text, flags=re.MULTILINE)


def test_targets_by_class_and_percentile(straight: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    path = cw.simulate(cw.load_system(straight), "equi", departures=2000, rng=1, record=True).path
    assert path is not None
    cw.save_events(path, log)
    asked = ("--target", "p95:a=1.5", "--target", "mean=0.4", "--policy", "equi", "--seed", "3")
    code, out, _ = run(straight, *asked, "--cores", "5,6,8", "--price", "2", "--log", log, "--json")
    found = json.loads(out, parse_constant=refuse_constant)
    assert code == 0
    assert found["cores"] == 6
    assert [row["price"] for row in found["curve"]] == [10.0, 12.0, 16.0]
    assert [row["statistic"] for row in found["log"]] == ["p95:a", "mean"]
    low, high = found["log"][1]["interval"]
    assert low <= 0.5 <= high  # M/M/1 on five cores; seeded
    code, out, _ = run(straight, *asked, "--cores", "5,6,8")
    assert code == 0
    assert "p95:a" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--target", "p95:c=1"], "unknown class 'c'"),
        (["--target", "p95"], "--target must be a finite number"),
        (["--target", "p95:a=x"], "a target is a number, mean:NAME=T or p95:NAME=T"),
        (["--target", "mean=1", "--cores", "4.5"], "--cores must be a whole number, got '4.5'"),
        (["--target", "1", "--price", "-1"], "price must be positive"),
        (["--target", "p95=1", "--plot", "x.png"], "one mean response time only"),
    ],
)
def test_bad_targets_are_one_line(straight: Path, arguments: list[str], said: str) -> None:
    code, out, err = run(straight, *arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1
