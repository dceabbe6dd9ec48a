"""`corewise learn`: the loop on the command line, stopped and resumed, and what it refuses."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.learn.changes import changes_table
from corewise.cli.learn.options import LearnOptions
from corewise.cli.learn.session import LearnSession
from corewise.cli.main import app
from corewise.kit.report import Report, as_text
from corewise.learning.checkpoint import saved_note
from corewise.learning.evaluator import ExactEvaluator
from corewise.learning.plant import SimulatedPlant
from tests.cli.test_cli import GOOD, HARD, ONE, TWO, as_json, succeed, write
from tests.cli.test_data import one_line
from tests.cli.test_start_up import _imported
from tests.helpers.commands import on_a_terminal

pytestmark = pytest.mark.slow

SHORT = ("--departures", "50", "--steps", "6")
RUN = ("learn", "paper:1", "--algorithm", "1b", *SHORT, "--seed", "7")
SAVED = ("--save", "run.npz")
RESUMED = ("learn", "paper:1", "--resume", "run.npz")

DRIFT = f"""\
{GOOD}
[[change]]
time = 60.0
class = "two"
speedup = {{ family = "amdahl", p = 0.2 }}
"""


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def plain(epochs: list[cw.results.Epoch]) -> list[dict[str, Any]]:
    """Return epochs as JSON has them: null for what is not a finite number."""

    def finite(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: finite(item) for key, item in value.items()}
        if isinstance(value, list):
            return [finite(item) for item in value]
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [finite(epoch.as_mapping()) for epoch in epochs]


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in result.items() if key not in {"seconds", "parts"}}


def half_done(*arguments: str) -> tuple[str, str]:
    """Run a command that tells its results and then fails with one line; return both."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    return result.stdout, result.stderr


def interrupted(*arguments: str) -> str:
    """Run a command that is interrupted, and return what it prints."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 130, result.output
    assert result.stderr == ""
    return result.stdout


def fails_from(call: int, error: type[BaseException], real: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that does as the real one until it is called so many times."""
    calls = 0

    def called(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls >= call:
            raise error("no more")
        return real(*args, **kwargs)

    return called


# --- what it says -------------------------------------------------------------------------------


def test_learn_says_what_the_library_says() -> None:
    system = cw.load_system("paper:1")
    algorithm = cw.algorithm_1b(system, departures=50, steps=6)
    result = as_json(*RUN)
    assert result["epochs"] == plain(list(cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)))
    assert [row["k"] for row in result["epochs"]] == [1, 2, 3, 4, 5, 6]
    assert [row["departures"] for row in result["epochs"]] == [50, 100, 150, 200, 250, 300]
    assert set(result["epochs"][0]["estimates"]) == {"one", "two"}
    assert 0.0 <= result["epochs"][0]["estimates"]["one"]["p"] <= 1.0
    about = [result[key] for key in ("algorithm", "policy", "power", "steps", "seed", "interrupted")]
    assert about == ["1b", "optimal", 0.0, 6, 7, False]
    assert (result["first_window"], result["events"]) == (50, None)
    assert result["truth"] == {"one": {"p": 0.3}, "two": {"p": 0.8}}
    assert set(result["parts"]) == {"run", "estimate", "solve", "evaluate"}
    assert all(seconds > 0.0 for seconds in result["parts"].values())
    assert sum(result["parts"].values()) <= result["seconds"]


def test_what_learning_is_worth_is_exact() -> None:
    result = as_json(*RUN)
    system = cw.load_system("paper:1")
    equi, best = cw.evaluate(system, cw.Equi()), cw.solve(system)
    assert result["baselines"]["equi"]["mean_jobs"] == pytest.approx(equi.mean_jobs, rel=1e-9)
    assert result["baselines"]["equi"]["gap"] == pytest.approx(equi.mean_jobs / best.mean_jobs - 1, rel=1e-6)
    assert result["baselines"]["optimal"]["mean_jobs"] == pytest.approx(best.mean_jobs, rel=1e-9)
    last = result["epochs"][-1]
    assert last["mean_jobs"] == pytest.approx(best.mean_jobs * (1 + last["gap"]), rel=1e-8)


def test_windows_grow_as_asked_for() -> None:
    def windows(*options: str) -> list[int]:
        result = as_json("learn", "paper:1", *SHORT, "--seed", "7", "--no-gap", *options)
        return [row["window"] for row in result["epochs"]]

    grown = [math.ceil(round(50 * k**0.75, 9)) for k in range(1, 7)]
    assert windows("--algorithm", "1a") == grown
    assert windows("--algorithm", "1b", "--power", "0.75") == grown
    assert windows("--algorithm", "1b") == windows("--algorithm", "1a", "--power", "0") == [50] * 6
    assert windows("--algorithm", "1a", "--power", "1") == [50, 100, 150, 200, 250, 300]


def test_a_power_of_minus_zero_is_zero() -> None:
    run = ("learn", "paper:1", "--algorithm", "1a", *SHORT, "--no-gap", "--power=-0.0")
    assert math.copysign(1.0, as_json(*run)["power"]) == 1.0
    assert "k^0⌉" in succeed(*run)


def test_a_run_can_be_repeated_by_the_seed_it_reports() -> None:
    start = RUN[: RUN.index("--seed")]
    first, other = as_json(*start), as_json(*start)
    again = as_json(*start, "--seed", str(first["seed"]))
    assert without_seconds(again) == without_seconds(first)
    assert other["seed"] != first["seed"]
    assert other["epochs"] != first["epochs"]


@pytest.mark.parametrize(
    ("policy", "rule"),
    [
        ("whittle", cw.Whittle()),
        ("greedy", cw.Greedy()),
        ("equi", cw.Equi()),
        ("fixed:0.3,0.7", cw.Fixed([0.3, 0.7])),
        ("priority:two,one", cw.Priority(["two", "one"])),
    ],
)
def test_the_policy_is_made_for_the_estimates(policy: str, rule: cw.Policy) -> None:
    system = cw.load_system("paper:1")
    result = as_json(*RUN, "--policy", policy)
    algorithm = cw.algorithm_1b(system, departures=50, steps=6, policy=rule)
    assert result["epochs"] == plain(list(cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)))
    assert result["policy"] == policy
    assert policy in succeed(*RUN, "--policy", policy)


def test_the_default_policy_is_the_optimum() -> None:
    assert without_seconds(as_json(*RUN, "--policy", "optimal")) == without_seconds(as_json(*RUN))


def test_without_the_gap_the_rest_is_the_same() -> None:
    full, bare = as_json(*RUN), as_json(*RUN, "--no-gap")
    assert bare["baselines"] is None
    nothing = dict.fromkeys(("stable", "mean_jobs", "mean_cost", "gap"))
    assert bare["epochs"] == [{**row, **nothing} for row in full["epochs"]]
    assert bare["parts"]["evaluate"] == 0.0
    text = succeed(*RUN, "--no-gap")
    assert "judging" not in text
    assert "optimum\n" not in text
    assert "EQUI, where" not in text


def test_curves_that_change_do_so_and_the_truth_is_what_they_are_in_the_end() -> None:
    system = cw.load_system(write(DRIFT))
    run = ("learn", "system.toml", "--algorithm", "1a", *SHORT, "--seed", "7")
    result = as_json(*run)
    algorithm = cw.algorithm_1a(system, departures=50, steps=6)
    assert result["epochs"] == plain(list(cw.learn(cw.SimulatedPlant(system, rng=7), algorithm)))
    assert result["epochs"][0]["time"] < 60.0 < result["epochs"][-1]["time"]
    assert result["truth"]["two"] == {"p": 0.2}
    late = cw.System(system.cores, system.at(60.0).classes)
    assert result["baselines"]["optimal"]["mean_jobs"] == pytest.approx(cw.solve(late).mean_jobs, rel=1e-9)
    assert "two at time 60" in succeed(*run)
    early = as_json("learn", "system.toml", "--algorithm", "1a", "--departures", "50", "--steps", "1")
    assert early["truth"]["two"] == {"p": 0.8}


# --- changes that are found -----------------------------------------------------------------------

JUMP = """\
cores = 10

[[class]]
name = "one"
arrival_rate = 1.4
size_rate = 1.5
speedup = { family = "amdahl", p = 0.6 }

[[class]]
name = "two"
arrival_rate = 0.6
size_rate = 1.5
speedup = { family = "amdahl", p = 0.85 }

[[change]]
time = 1500.0
class = "two"
speedup = { family = "amdahl", p = 0.4 }
"""
"""A jump of many standard errors after about 3000 departures."""

WATCH = ("--algorithm", "adaptive", "--departures", "100")
ADAPTIVE = ("learn", "system.toml", *WATCH, "--between-alarms", "1e5", "--no-gap", "--seed")
"""The seed and --steps follow; a false alarm in 60 windows has a probability of 0.06."""


def adapted(seed: int, steps: int = 60) -> list[cw.results.Epoch]:
    system = cw.load_system(write(JUMP))
    algorithm = cw.adaptive(system, departures=100, steps=steps, between_alarms=1e5)
    return list(cw.learn(cw.SimulatedPlant(system, rng=seed), algorithm, diagnose=False))


@cache
def named_later() -> tuple[int, cw.results.Epoch, cw.results.Epoch]:
    """Return a seed, the epoch that finds a change of speed, and the later one that names it."""
    for seed in range(1, 9):
        kinds = {alarm.kind: epoch for epoch in adapted(seed) for alarm in epoch.alarms}
        if set(kinds) == {"speed", "curve"} and kinds["curve"].k > kinds["speed"].k + 1:
            return seed, kinds["speed"], kinds["curve"]
    raise AssertionError("every change is named at once")


def test_a_change_is_told_once_as_it_is_known_in_the_end() -> None:
    write(JUMP)
    seed, found, named = named_later()
    result = as_json(*ADAPTIVE, str(seed), "--steps", "60")
    assert result["epochs"] == plain(adapted(seed))
    assert [row["k"] for row in result["epochs"] if row["alarms"]] == [found.k, named.k]
    (change,) = result["changes"]
    (last,) = named.alarms
    assert change == {**last.as_mapping(), "raised": found.departures, "named": named.departures}
    assert (change["name"], change["kind"]) == ("two", "curve")
    assert change["before"]["p"] == pytest.approx(0.85, abs=0.05)
    assert change["after"]["p"] == pytest.approx(0.4, abs=0.3)
    assert change["time_interval"][0] <= change["time"] <= change["time_interval"][1]
    assert change["time"] == pytest.approx(1500.0, abs=150.0)
    assert change["between"] > 1e5
    assert [result[key] for key in ("algorithm", "power", "between_alarms")] == ["adaptive", 0.0, 1e5]
    assert without_seconds(as_json(*ADAPTIVE, str(seed), "--steps", "60")) == without_seconds(result)


def test_a_change_that_is_not_named_yet_is_told_as_one_of_speed() -> None:
    write(JUMP)
    seed, found, _ = named_later()
    run = (*ADAPTIVE, str(seed), "--steps", str(found.k + 1))
    (change,) = as_json(*run)["changes"]
    (alarm,) = found.alarms
    assert change == {**alarm.as_mapping(), "named": None}
    assert change["kind"] == "speed"
    assert re.search(r"\n +two +speed: curve or size +", succeed(*run))


def test_the_table_of_changes_has_the_essentials() -> None:
    write(JUMP)
    seed, *_ = named_later()
    run = (*ADAPTIVE, str(seed), "--steps", "60")
    (change,) = as_json(*run)["changes"]
    text = succeed(*run)
    flat = " ".join(text.split())
    assert "1 change was found (by chance one is found every 100,000 departures)." in flat
    low, high = change["interval"]
    first = rf"two +curve +{change['departures']:,.0f} +{change['time']:,.0f} +{change['raised']:,}"
    step = rf"p {change['before']['p']:.4g} → {change['after']['p']:.4g}"
    second = rf"{step} +{low:,.0f}–{high:,.0f} +\(1,500\) +{re.escape(format(change['between'], '.1e'))}"
    assert re.search(rf"\n +{first}\n +{second}\n", text)
    assert re.search(r"true changes +two at time 1,500\n", text)
    assert max(map(len, text.splitlines())) <= 80


def test_that_nothing_was_found_is_told_by_those_who_look() -> None:
    run = ("learn", "paper:1", *WATCH, "--steps", "5", "--seed", "7", "--no-gap")
    assert as_json(*run)["changes"] == []
    default = signature(cw.adaptive).parameters["between_alarms"].default
    assert as_json(*run)["between_alarms"] == default
    told = f"No change was found (by chance one is found every {default:,.8g} departures)."
    assert told in " ".join(succeed(*run).split())
    result = as_json(*RUN)
    assert (result["changes"], result["between_alarms"]) == ([], None)
    assert "change" not in succeed(*RUN)


def test_a_run_that_was_stopped_while_a_change_had_no_name_goes_on_as_if_it_had_not_been() -> None:
    write(JUMP)
    seed, found, named = named_later()
    begin = (*ADAPTIVE, str(seed), "--steps")
    whole = as_json(*begin, "60")
    for stop in range(found.k - 1, named.k + 1):
        first = as_json(*begin, str(stop), *SAVED)
        assert first["epochs"] == whole["epochs"][:stop]
        rest = as_json("learn", "system.toml", "--resume", "run.npz", "--steps", "60", "--no-gap")
        assert without_seconds(rest) == without_seconds(whole)


def test_a_resumed_run_keeps_to_its_false_alarms() -> None:
    write(JUMP)
    whole = as_json(*ADAPTIVE, "1", "--steps", "3", *SAVED)
    resumed = ("learn", "system.toml", "--resume", "run.npz", "--no-gap")
    assert as_json(*resumed, "--between-alarms", "100000.0")["epochs"] == whole["epochs"]
    error = one_line(*resumed, "--between-alarms", "2e5")
    assert "run.npz: is a run with --between-alarms 100000.0, got 200000.0" in error
    assert "is a run with --algorithm adaptive, got 1b" in one_line(*resumed, "--algorithm", "1b")
    succeed(*RUN, "--save", "other.npz")
    error = one_line("learn", "paper:1", "--resume", "other.npz", "--between-alarms", "1e7")
    assert "--between-alarms is for --algorithm adaptive" in error
    # What the library chooses is written down as well: the choice may be another one some day.
    default = signature(cw.adaptive).parameters["between_alarms"].default
    succeed("learn", "paper:1", *WATCH, "--steps", "2", "--no-gap", "--save", "default.npz")
    assert saved_note("default.npz")["between_alarms"] == default
    again = ("learn", "paper:1", "--resume", "default.npz", "--no-gap", "--between-alarms")
    assert len(as_json(*again, f"{default:.0e}")["epochs"]) == 2
    assert f"--between-alarms {default}, got 50000.0" in one_line(*again, "5e4")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "1b", "--between-alarms", "1e6"], r"is for --algorithm adaptive: 1b .*got 1e\+06"),
        (["--algorithm", "1a", "--between-alarms", "1e6"], r"is for --algorithm adaptive: 1a .*got 1e\+06"),
        ([*WATCH, "--between-alarms", "often"], "--between-alarms must be a finite number, got 'often'"),
        ([*WATCH, "--between-alarms", "inf"], "--between-alarms must be a finite number, got 'inf'"),
        ([*WATCH, "--between-alarms", "nan"], "--between-alarms must be a finite number, got 'nan'"),
        ([*WATCH, "--between-alarms", "0"], "between_alarms must be positive, got 0"),
        ([*WATCH, "--between-alarms", "-1e6"], "between_alarms must be positive, got -1"),
        ([*WATCH, "--between-alarms", "9999"], "at least 100 windows of 100 departures, got 9999"),
        ([*WATCH, "--power", "-1"], "power must not be negative: .*got -1"),
        ([*WATCH, "--algorithm", "adaptative"], "--algorithm must be 1a, 1b or adaptive, got 'adaptative'"),
    ],
)
def test_false_alarms_that_cannot_be_are_refused(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedPlant, "run", fails_from(1, AssertionError, SimulatedPlant.run))
    assert re.search(message, one_line(*RUN, *options))
    assert list(Path().iterdir()) == []


def test_what_is_assumed_of_sizes_can_be_said_and_stays_with_a_run() -> None:
    """Errors of exponential sizes are too large for sizes of a quarter of their variance."""
    law = 'sizes = { law = "erlang", stages = 4 }'
    write(re.sub(r"(size_rate = .*)", rf"\1\n{law}", GOOD))
    run = ("learn", "system.toml", "--steps", "4", "--departures", "300", "--seed", "5", "--no-gap")
    by_job, taken = (as_json(*run, "--sizes", law)["epochs"][-1]["stderr"] for law in ("any", "exponential"))
    assert as_json(*run)["epochs"][-1]["stderr"] == by_job
    assert all(by_job[name]["p"] < 0.8 * taken[name]["p"] for name in taken)
    whole = as_json(*run, "--sizes", "exponential", "--algorithm", "adaptive", "--save", "run.npz")
    again = ("learn", "system.toml", "--resume", "run.npz", "--no-gap")
    assert as_json(*again)["epochs"] == whole["epochs"]
    assert "run.npz: is a run with --sizes exponential, got any" in one_line(*again, "--sizes", "any")
    assert "--sizes must be any or exponential, got 'gamma'" in one_line(*RUN, "--sizes", "gamma")


def found_change(**changed: Any) -> dict[str, Any]:
    """Return a change as `changes_found` has it."""
    place = {"departures": 4000.0, "interval": [3000.0, 5000.0], "time": 40.0, "time_interval": [30.0, 50.0]}
    sides = {"before": {"p": 0.25}, "after": {"p": 0.75}, "statistic": 20.0, "threshold": 15.0}
    about = {"name": "one", "kind": "curve", "raised": 6000, "named": 7000, "between": 2.5e8}
    return {**about, **place, **sides, **changed}


def changes_text(*changes: dict[str, Any], truth: cw.System | None = None) -> str:
    return as_text(Report("", tables=[changes_table(changes, 1e6, truth)]), 80)


def test_of_many_changes_the_last_are_shown() -> None:
    text = changes_text(*(found_change(raised=1000 + i) for i in range(300)))
    shown = [int(raised.replace(",", "")) for raised in re.findall(r"4,000 +40 +([\d,]+)\n", text)]
    assert shown == list(range(1290, 1300))
    flat = " ".join(text.split())
    assert "300 changes were found; these are the last 10 (by chance one is found every 1,000,000" in flat
    text = changes_text(*(found_change(raised=1000 + i) for i in range(10)))
    assert "10 changes were found (by" in " ".join(text.split())


def test_changes_of_rates_and_of_several_parameters() -> None:
    sides = {"before": {"arrival_rate": 1.25}, "after": {"arrival_rate": 2.5}}
    text = changes_text(found_change(kind="arrival rate", **sides))
    assert re.search(
        r"\n +one +arrival rate +4,000 +40 +6,000\n +1\.25 → 2\.5 +3,000–5,000 +2\.5e\+08\n", text
    )
    assert "true" not in text
    sides = {"before": {"arrival_rate": 1.25}, "after": {"arrival_rate": 0.0}}
    text = changes_text(found_change(kind="arrival rate", **sides))
    assert re.search(r" 1\.25 → 0 \(none since\) ", text)
    sides = {"before": {"sigma": 0.1, "kappa": 0.01}, "after": {"sigma": 0.2, "kappa": 0.02}}
    text = changes_text(found_change(**sides))
    assert re.search(r" sigma 0\.1 → 0\.2 .*\n +kappa 0\.01 → 0\.02\n", text)


@pytest.mark.parametrize(
    ("kind", "times", "told"),
    [
        ("curve", [41.0], "(41)"),
        ("curve", [9.0], None),  # the interval is from 30 to 50
        ("curve", [11.0], "(11)"),
        ("speed", [71.0], None),
        ("speed", [69.0], "(69)"),
        ("size rate", [29.0, 43.0, 44.0], "(43)"),
        ("arrival rate", [41.0], None),  # curves change, and nothing else
    ],
)
def test_the_true_time_is_told_if_it_is_near(kind: str, times: list[float], told: str | None) -> None:
    system = cw.load_system("paper:1")
    other = [cw.Change(40.0, "two", cw.Amdahl(0.5))]
    own = [cw.Change(time, "one", cw.Amdahl(0.5)) for time in times]
    truth = cw.System(system.cores, system.classes, sorted([*other, *own], key=lambda change: change.time))
    text = changes_text(found_change(kind=kind), truth=truth)
    assert re.findall(r"\(\d+\)", text) == ([] if told is None else [told])
    assert "(true)" in text


# --- a log ---------------------------------------------------------------------------------------


def logged(departures: int = 300) -> str:
    run = ("simulate", "paper:1", "--policy", "equi", "--seed", "3", "--events", "log.csv")
    succeed(*run, "--departures", str(departures))
    return "log.csv"


REPLAY = ("learn", "paper:1", "--algorithm", "1b", "--departures", "50", "--events", "log.csv")


def test_a_replayed_log_gives_the_estimates_of_the_library() -> None:
    logged()
    system = cw.load_system("paper:1")
    path = cw.load_events("log.csv", system).path
    result = as_json(*REPLAY)
    algorithm = cw.algorithm_1b(system, departures=50, steps=6)
    assert result["epochs"] == plain(list(cw.learn(cw.ReplayPlant(path), algorithm)))
    assert (result["seed"], result["truth"], result["baselines"]) == (None, None, None)
    assert result["events"] == str(Path("log.csv").resolve())
    assert all(row["mean_jobs"] is row["gap"] is None for row in result["epochs"])
    # Algorithm 1b has seen all of the log in the end, as `corewise estimate` does at once.
    for row in as_json("estimate", "paper:1", "log.csv")["classes"]:
        found = result["epochs"][-1]["estimates"][row["name"]]["p"]
        assert found == pytest.approx(row["parameters"]["p"], abs=0.05 * row["stderr"]["p"])  # a spline


def test_a_log_may_end_before_the_windows_do() -> None:
    logged(departures=299)
    result = as_json(*REPLAY, "--steps", "9")
    assert [row["departures"] for row in result["epochs"]] == [50, 100, 150, 200, 250]
    assert result["interrupted"] is False
    text = succeed(*REPLAY, "--steps", "9", *SAVED)
    assert re.search(r"windows +5 of 9: the log ended", text)
    flat = " ".join(text.split())
    assert re.search(r"250 of the 299 in the log, in \S+ units of time; the last 49 fill no window", flat)
    assert "policy what would have been adopted: the optimum for the estimates" in flat
    assert "EQUI" not in flat  # what was in force is the log's affair
    assert "truth" not in text
    assert "To go on" not in text  # there is no more of the log
    assert len(as_json(*REPLAY, "--steps", "2")["epochs"]) == 2


def test_what_is_left_of_a_log_is_told_only_if_it_ended() -> None:
    logged(departures=251)
    assert "the last one fills no window" in " ".join(succeed(*REPLAY).split())
    text = succeed(*REPLAY, "--steps", "2", *SAVED)
    assert "100 of the 251 in the log" in text
    assert "To go on" in text
    for phrase in ("no window", "the log ended"):
        assert phrase not in text
    assert "no window" not in succeed(*REPLAY[:5], "251", *REPLAY[6:])


def test_a_log_too_short_for_a_window_is_refused() -> None:
    logged(departures=49)
    assert "the log has 49 departures, and the first window has 50" in one_line(*REPLAY, *SAVED)
    assert {path.name for path in Path().iterdir()} == {"log.csv"}


# --- stopped and resumed -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        ["paper:1", "--algorithm", "1b", "--seed", "7"],
        ["paper:1", "--algorithm", "1a", "--power", "0.5", "--seed", "7", "--policy", "fixed:0.25,0.75"],
        ["paper:2", "--algorithm", "1b", "--seed", "7", "--policy", "whittle"],
        ["system.toml", "--algorithm", "1a", "--seed", "7"],
        ["paper:1", "--algorithm", "1a", "--power", "0", "--events", "log.csv"],
        ["system.toml", "--algorithm", "adaptive", "--seed", "7"],
        ["paper:1", "--algorithm", "adaptive", "--between-alarms", "5e3", "--events", "log.csv"],
    ],
    ids=["1b", "1a fixed", "whittle", "drift", "log", "adaptive", "adaptive log"],
)
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(options: list[str]) -> None:
    logged()
    write(DRIFT)
    begin = ("learn", *options, "--departures", "50", "--steps")
    whole = as_json(*begin, "6", "--save", "whole.npz")
    first = as_json(*begin, "2", *SAVED)
    assert first["epochs"] == whole["epochs"][:2]
    go_on = ("learn", options[0], "--resume", "run.npz")
    early = as_json(*go_on, "--steps", "3", "--save", "three.npz")
    assert early["epochs"] == whole["epochs"][:3]
    assert as_json(*go_on)["epochs"] == first["epochs"]  # which --save left alone
    rest = as_json("learn", options[0], "--resume", "three.npz", "--steps", "6")
    assert without_seconds(rest) == without_seconds(whole)
    again = as_json("learn", options[0], "--resume", "three.npz")
    assert without_seconds(again) == without_seconds(whole)


@pytest.mark.parametrize(
    ("where", "done"),
    [
        ("corewise.learning.plant.SimulatedPlant.run", 3),
        ("corewise.learning.learner.estimate", 3),
        ("corewise.learning.evaluator.ExactEvaluator.evaluate", 3),
        ("corewise.learning.loop.plant_snapshot", 3),  # when the epoch is over but for its record
    ],
)
def test_an_interrupt_anywhere_leaves_what_was_done(
    where: str, done: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = as_json(*RUN)
    module, _, name = where.rpartition(".")
    owners: dict[str, Any] = {"SimulatedPlant": SimulatedPlant, "ExactEvaluator": ExactEvaluator}
    owner = owners.get(module.rpartition(".")[2]) or __import__(module, fromlist=[name])
    with monkeypatch.context() as patch:
        patch.setattr(where, fails_from(done + 1, KeyboardInterrupt, getattr(owner, name)))
        result = json.loads(interrupted(*RUN, *SAVED, "--json"))
    assert result["interrupted"] is True
    assert result["epochs"] == whole["epochs"][:done]
    assert without_seconds(as_json(*RESUMED)) == without_seconds(whole)


def test_an_interrupted_run_is_shown_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedPlant, "run", fails_from(4, KeyboardInterrupt, SimulatedPlant.run))
    text = interrupted(*RUN, *SAVED, "--plot", "run.png")
    assert "interrupted after 3 of 6" in text
    assert "Wrote the run to run.npz.\n" in text
    assert "corewise learn paper:1 --resume run.npz\n" in text
    assert re.search(r"seed +7\n", text)
    assert "gives the same numbers" not in text  # nobody interrupts at the same moment again
    assert re.search(r"\n +3 +150 ", text)
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_an_interrupt_before_the_first_epoch_leaves_nothing(
    form: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SimulatedPlant, "run", fails_from(1, KeyboardInterrupt, SimulatedPlant.run))
    text = interrupted(*RUN, *SAVED, "--plot", "run.png", *form)
    assert list(Path().iterdir()) == []
    if form:
        result = json.loads(text)
        assert (result["epochs"], result["interrupted"]) == ([], True)
    else:
        assert "interrupted after 0 of 6" in text
        assert "Nothing was saved: the first window was not over." in text
        assert "Nothing was drawn: the first window was not over." in text
        assert "gives the same numbers" not in text
        assert "Wrote" not in text


def test_an_interrupted_run_without_a_file_is_said_not_to_be_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Nothing was saved" not in succeed(*RUN)
    monkeypatch.setattr(SimulatedPlant, "run", fails_from(4, KeyboardInterrupt, SimulatedPlant.run))
    assert "Nothing was saved: there is no --save FILE to go on from." in interrupted(*RUN)


def test_the_command_to_go_on_leaves_out_the_gap_as_well() -> None:
    assert "--resume run.npz --no-gap --steps MORE\n" in succeed(*RUN, *SAVED, "--no-gap")


def test_an_interrupt_right_after_a_resumption_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = as_json(*RUN[:-4], "--steps", "2", "--seed", "7", *SAVED)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedPlant, "run", fails_from(1, KeyboardInterrupt, SimulatedPlant.run))
        result = json.loads(interrupted(*RESUMED, "--steps", "6", "--save", "other.npz", "--json"))
    assert result["epochs"] == first["epochs"]
    whole = as_json(*RUN)
    assert without_seconds(as_json("learn", "paper:1", "--resume", "other.npz")) == without_seconds(whole)


def test_a_run_is_saved_while_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    from corewise.learning.checkpoint import Checkpoint

    seen: list[int] = []
    real = Checkpoint.write

    def write_and_tell(saved: Checkpoint, file: str | Path, note: Mapping[str, Any]) -> None:
        real(saved, file, note)
        seen.append(saved.state.k)

    monkeypatch.setattr(Checkpoint, "write", write_and_tell)
    as_json(*RUN, *SAVED)
    assert seen[-1] == 6
    seen.clear()
    monkeypatch.setattr("corewise.cli.learn.session._BETWEEN", -1.0)
    monkeypatch.setattr("corewise.cli.learn.session._SHARE", math.inf)
    as_json(*RUN, *SAVED)
    assert seen == [1, 2, 3, 4, 5, 6, 6]


@pytest.mark.parametrize("between", [1e9, -1.0], ids=["at the end", "and on the way"])
def test_a_run_that_cannot_be_saved_is_told_all_the_same(
    between: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = as_json(*RUN)
    monkeypatch.setattr("corewise.cli.learn.session._BETWEEN", between)
    monkeypatch.setattr("corewise.cli.learn.session._SHARE", math.inf)
    out, error = half_done(*RUN, "--save", "/dev/full", "--json")
    assert without_seconds(json.loads(out)) == without_seconds(whole)
    assert "/dev/full: cannot be written: no space left" in error
    out, error = half_done(*RUN, "--save", "/dev/full", "--plot", "run.png")
    assert re.search(r"\n +6 +300 ", out)
    assert "/dev/full" not in out  # neither as written, nor as something to go on from
    assert Path("run.png").read_bytes().startswith(b"\x89PNG")


def test_a_run_that_could_not_be_saved_for_a_while_is_saved_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from corewise.learning.checkpoint import Checkpoint

    real, tried = Checkpoint.write, []

    def write_later(saved: Checkpoint, file: str | Path, note: Mapping[str, Any]) -> None:
        tried.append(saved.state.k)
        if len(tried) == 2:
            raise MemoryError
        if len(tried) < 5:
            raise cw.errors.InvalidFile("not yet")
        real(saved, file, note)

    monkeypatch.setattr(Checkpoint, "write", write_later)
    monkeypatch.setattr("corewise.cli.learn.session._BETWEEN", -1.0)
    monkeypatch.setattr("corewise.cli.learn.session._SHARE", math.inf)
    whole = as_json(*RUN, *SAVED)
    assert tried == [1, 2, 3, 4, 5, 6, 6]
    assert without_seconds(as_json(*RESUMED)) == without_seconds(whole)


def test_an_interrupted_run_that_cannot_be_saved_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedPlant, "run", fails_from(4, KeyboardInterrupt, SimulatedPlant.run))
    out, error = half_done(*RUN, "--save", "/dev/full")
    assert "interrupted after 3 of 6" in out
    assert "To go on" not in out
    assert "cannot be written" in error


def test_a_run_that_cannot_be_drawn_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object) -> NoReturn:
        raise cw.errors.InvalidFile("run.png: cannot be written: no space left")

    whole = as_json(*RUN)
    monkeypatch.setattr("corewise.plots.style.save_figure", refuse)
    out, error = half_done(*RUN, *SAVED, "--plot", "run.png", "--json")
    assert without_seconds(json.loads(out)) == without_seconds(whole)
    assert "run.png: cannot be written" in error
    assert "Wrote the plot" not in half_done(*RUN, "--plot", "run.png")[0]
    _, both = half_done(*RUN, "--save", "/dev/full", "--plot", "run.png")
    assert re.search("/dev/full: cannot be written.*; run.png: cannot be written", both)


def test_an_error_in_a_run_leaves_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = as_json(*RUN)
    with monkeypatch.context() as patch:
        patch.setattr(SimulatedPlant, "run", fails_from(4, cw.errors.BoxTooLarge, SimulatedPlant.run))
        assert "no more" in one_line(*RUN, *SAVED)
    assert without_seconds(as_json(*RESUMED)) == without_seconds(whole)


def test_a_resumed_run_may_repeat_its_options_but_not_change_them() -> None:
    whole = as_json(*RUN, "--policy", "fixed:0.5,0.5", *SAVED)
    same = ("--algorithm", "1b", "--departures", "5e1", "--power", "0.0", "--seed", "7")
    assert as_json(*RESUMED, *same, "--policy", "fixed:.5,.5")["epochs"] == whole["epochs"]
    before = Path("run.npz").read_bytes()
    for option, value, there in [
        ("algorithm", "1a", "1b"),
        ("departures", "60", "50"),
        ("power", "0.5", "0.0"),
        ("seed", "8", "7"),
        ("policy", "whittle", "fixed:0.5,0.5"),
    ]:
        error = one_line(*RESUMED, f"--{option}", value)
        assert f"run.npz: is a run with --{option} {there}, got {value}" in error
    assert "run.npz: has 6 windows already, got --steps 5" in one_line(*RESUMED, "--steps", "5")
    assert "is a run of a simulation" in one_line(*RESUMED, "--events", "log.csv")
    assert Path("run.npz").read_bytes() == before


def test_a_run_saved_from_python_goes_on_with_the_options_given() -> None:
    system = cw.load_system("paper:1")
    loop = cw.learn(cw.SimulatedPlant(system, rng=7), cw.algorithm_1b(system, departures=50, steps=2))
    list(loop)
    loop.save("run.npz")
    assert "the saved run is another one: windows 1 is 50 there, and 200 here" in one_line(*RESUMED)
    assert "its own random numbers" in one_line(*RESUMED, *RUN[2:])
    result = as_json(*RESUMED, "--algorithm", "1b", *SHORT)
    assert result["epochs"] == as_json(*RUN)["epochs"]
    assert result["seed"] is None
    assert as_json(*RESUMED)["epochs"] == result["epochs"]


# --- what is wrong with a saved run --------------------------------------------------------------


def saved_with(**changes: Any) -> None:
    """Save a run, and change what its file says about it."""
    succeed(*RUN, *SAVED)
    with np.load("run.npz") as file:
        arrays = {name: file[name] for name in file.files}
    about = {**json.loads(str(arrays.pop("about"))), **changes}
    np.savez_compressed("run.npz", allow_pickle=False, **arrays, about=np.array(json.dumps(about)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "corewise learning 0"}, "the format 'corewise learning 0', not 'corewise learning 1'"),
        ({"format": "corewise policy 1"}, "the format 'corewise policy 1', not"),
        ({"k": "six"}, "not a usable run"),
        ({"memory": None}, "not a usable run"),
        ({"plant": {}}, "not a usable run"),
        ({"note": 5}, "not a usable run"),
        ({"note": {"algorithm": "1c"}}, "not a usable run: --algorithm must be 1a, 1b or adaptive, got '1c'"),
        ({"note": {"algorithm": "1b", "departures": [], "steps": "6"}}, "not a usable run: --departures"),
    ],
)
def test_a_saved_run_that_makes_no_sense_is_refused(changes: dict[str, Any], message: str) -> None:
    saved_with(**changes)
    before = Path("run.npz").read_bytes()
    error = one_line(*RESUMED, "--steps", "7")
    assert error.startswith("error: run.npz")
    assert message in error
    assert Path("run.npz").read_bytes() == before
    assert {path.name for path in Path().iterdir()} == {"run.npz"}


def test_the_saved_runs_that_are_spoilt_above_are_good() -> None:
    saved_with()
    assert len(as_json(*RESUMED, "--steps", "7")["epochs"]) == 7


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_saved_run_that_is_cut_short_is_refused(share: float) -> None:
    succeed(*RUN, *SAVED)
    content = Path("run.npz").read_bytes()
    Path("run.npz").write_bytes(content[: int(share * len(content))])
    assert re.search("run.npz is not a (usable|saved) run", one_line(*RESUMED, "--steps", "7"))


def test_the_saved_run_of_another_system_is_refused() -> None:
    succeed(*RUN, *SAVED)
    before = Path("run.npz").read_bytes()
    error = one_line("learn", "paper:2", "--resume", "run.npz", "--steps", "7")
    assert re.search(
        r"run.npz: the saved run is another one: .*cores is 30(\.0)? there, and 10(\.0)? here", error
    )
    logged()
    succeed(*REPLAY, "--save", "log.npz")
    logged(departures=200)
    error = one_line("learn", "paper:1", "--resume", "log.npz")
    assert re.search("log.npz .*another log", error)
    assert Path("run.npz").read_bytes() == before


def test_a_saved_run_that_is_not_there_is_refused() -> None:
    assert "run.npz: cannot be read: no such file" in one_line(*RESUMED)
    assert "cannot be read: is a directory" in one_line("learn", "paper:1", "--resume", ".")
    assert "policy.npz has the format" in (
        succeed("solve", "paper:1", "--save", "policy.npz")
        and one_line("learn", "paper:1", "--resume", "policy.npz")
    )


# --- what is wrong with the question -------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--algorithm", "1c"], "--algorithm must be 1a, 1b or adaptive, got '1c'"),
        (["--algorithm", ""], "--algorithm must be 1a, 1b or adaptive, got ''"),
        (["--departures", "0"], "--departures must be at least 1, got '0'"),
        (["--departures", "-5"], "--departures must be at least 1, got '-5'"),
        (["--departures", "abc"], "--departures must be a whole number, got 'abc'"),
        (["--departures", "2.5"], "--departures must be a whole number, got '2.5'"),
        (["--departures", "9e18"], r"window must .*9000000000000000000"),
        (["--power", "-1"], "power must not be negative: .*got -1"),
        (["--power", "nan"], "--power must be a finite number, got 'nan'"),
        (["--power", "inf"], "--power must be a finite number, got 'inf'"),
        (["--power", "much"], "--power must be a finite number, got 'much'"),
        (["--power", "1e6"], "window 6 would need inf departures"),
        (["--steps", "0"], "--steps must be at least 1, got '0'"),
        (["--steps", "-1"], "--steps must be at least 1, got '-1'"),
        (["--steps", "some"], "--steps must be a whole number, got 'some'"),
        (["--steps", "1e9"], "--steps must be at most 1000000, got '1e9'"),
        (["--seed", "-1"], "--seed must be at least 0, got '-1'"),
        (["--seed", "lucky"], "--seed must be a whole number, got 'lucky'"),
        (["--policy", ""], "unknown policy ''"),
        (["--policy", "whitle"], "unknown policy 'whitle', nor is it a file; did you mean 'whittle'"),
        (["--policy", "fixed:1"], "1 shares.*one, two"),
        (["--policy", "priority:one,tow"], "'tow'.*did you mean 'two'"),
        (["--policy", "missing.npz"], "missing.npz: cannot be read"),
        (["--events", "log.csv"], "--seed is for a simulation, .* got 7"),
        (["--save", "missing/run.npz"], "missing/run.npz: cannot be written: there is no directory"),
        (["--save", "."], "cannot be written: is a directory"),
        (["--plot", "x.gif"], "x.gif: a figure must end in"),
        (["--plot", "missing/x.png"], "missing/x.png: cannot be written"),
        (["--save", "x.png", "--plot", "x.png"], "x.png: is written by this command as well"),
        (["--save", "x.png", "--plot", "../{here}/x.png"], "x.png: is written by this command as well"),
    ],
)
def test_a_bad_question_is_refused_before_anything_is_run(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("worked before the question was checked")

    monkeypatch.setattr(SimulatedPlant, "run", refuse)
    here = Path().resolve().name
    assert re.search(message, one_line(*RUN, *(option.format(here=here) for option in options)))
    assert list(Path().iterdir()) == []


def test_nothing_but_a_system_is_needed() -> None:
    """Without options it is Algorithm 1b, with the library's windows, a hundred times."""
    system = cw.load_system("paper:1")
    result = as_json("learn", "paper:1", "--no-gap")
    about = [result[key] for key in ("algorithm", "power", "steps", "policy", "between_alarms")]
    assert about == ["1b", 0.0, 100, "optimal", None]
    algorithm = cw.algorithm_1b(system, steps=100)
    assert result["first_window"] == algorithm.schedule.window(1)
    plant = cw.SimulatedPlant(system, rng=result["seed"])
    assert result["epochs"] == plain(list(cw.learn(plant, algorithm, diagnose=False)))


def test_of_a_log_all_windows_are_the_default() -> None:
    logged(departures=650)
    result = as_json("learn", "paper:1", "--events", "log.csv")
    assert (result["algorithm"], result["steps"], result["seed"]) == ("1b", None, None)
    assert [row["departures"] for row in result["epochs"]] == [200, 400, 600]


@pytest.mark.parametrize("algorithm", ["1a", "1b", "adaptive"])
def test_defaults_are_those_of_the_library(algorithm: str) -> None:
    from corewise.learning.algorithms import ALGORITHMS

    library = signature(ALGORITHMS[algorithm]).parameters
    options = LearnOptions.new({"algorithm": algorithm})
    assert options.departures == library["departures"].default
    assert options.power == library["power"].default
    between = library["between_alarms"].default if "between_alarms" in library else None
    assert options.between_alarms == between


def test_a_saved_policy_is_refused() -> None:
    succeed("solve", "paper:1", "--save", "policy.npz")
    assert "'policy.npz' is a saved one" in one_line(*RUN, "--policy", "policy.npz")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("1.4", "14", 1), "the load is .*, and it must be below 1"),
        (re.sub("arrival_rate = .*\n", "", GOOD), "class 'one': its arrival_rate is not known, but needed"),
        (GOOD.replace("amdahl", "amdhal", 1), "'amdhal'; did you mean 'amdahl'"),
    ],
)
def test_a_system_that_cannot_be_learned_about_is_refused(text: str, message: str) -> None:
    assert re.search(message, one_line("learn", write(text), *RUN[2:], *SAVED))
    assert {path.name for path in Path().iterdir()} == {"system.toml"}


def test_rates_may_be_unknown() -> None:
    """They are estimated, said for people and machines, and part of what a run must agree on to go on."""
    found = as_json(*RUN, *SAVED, "--unknown-rates")
    last = found["epochs"][-1]
    assert found["unknown_rates"] is True
    assert set(last["arrival_rates"]) == set(last["size_rates"]) == {"one", "two"}
    assert last["arrival_rates"]["one"] == pytest.approx(1.4, rel=0.5)
    text = succeed(*RUN, "--unknown-rates")
    assert "size rate" in text
    assert "arrival rate" in text
    succeed(*RUN, *SAVED)
    assert "is a run with --unknown-rates False" in one_line(*RESUMED, "--unknown-rates")


def test_a_log_can_be_learned_from_without_rates() -> None:
    log = logged()
    bare = re.sub("(arrival|size)_rate = .*\n", "", GOOD).replace("cores = 4", "cores = 30")
    found = as_json("learn", write(bare), "--events", log, "--departures", "50")
    assert found["unknown_rates"] is True
    assert found["epochs"][-1]["size_rates"]["two"] > 0.0
    assert "rates not known" in succeed("learn", write(bare), "--events", log, "--departures", "50")


def test_what_is_read_is_not_overwritten() -> None:
    logged()
    system = write(GOOD)
    for option in ("--save", "--plot"):
        assert "is read by this command" in one_line("learn", system, *RUN[2:], option, system)
        assert "is read by this command" in one_line(*REPLAY, option, "log.csv")
    succeed(*RUN, *SAVED)
    assert "is read by this command" in one_line(*RESUMED, "--plot", "run.npz")


def test_a_log_that_cannot_be_read_is_refused() -> None:
    assert "log.csv: cannot be read: no such file" in one_line(*REPLAY, *SAVED)
    write("time,event\n", "log.csv")
    assert "log.csv" in one_line(*REPLAY, *SAVED)
    assert not Path("run.npz").exists()


def test_what_cannot_be_solved_exactly_is_said_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.model.space.available_memory", lambda: 1000)
    assert "try --policy whittle --no-gap" in one_line(*RUN)


def many(count: int) -> str:
    """Write a system of so many classes, and return its file."""
    rows = [ONE.replace('"one"', f'"c{i}"').replace("1.4", "0.2") for i in range(count)]
    return write(f"cores = 4\n{''.join(rows)}")


@pytest.mark.parametrize("count", [4, 9])
def test_what_is_out_of_reach_is_not_computed_and_said_so(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("corewise.learning.evaluator.solve", fails_from(1, AssertionError, cw.solve))
    monkeypatch.setattr("corewise.learning.evaluator.evaluate", fails_from(1, AssertionError, cw.evaluate))
    run = ("learn", many(count), *SHORT, "--seed", "7", "--policy", "whittle")
    why = f"was not computed: exact numbers for {count} classes are out of reach"
    result = as_json(*run)
    assert len(result["epochs"]) == 6
    assert all(row[key] is None for row in result["epochs"] for key in ("mean_jobs", "mean_cost", "gap"))
    assert result["baselines"] is None
    assert result["not_computed"] == f"what the policies are worth {why}"
    text = " ".join(succeed(*run).split())
    assert f"What the policies are worth {why}; corewise compare simulates policies instead." in text
    assert "was not asked for" not in text


def test_the_optimum_under_the_truth_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    solved: list[cw.System] = []

    def counted(system: cw.System) -> cw.results.Solution:
        solved.append(system)
        return cw.solve(system)

    monkeypatch.setattr("corewise.learning.evaluator.solve", counted)
    result = as_json(*RUN)
    assert solved == [cw.load_system("paper:1")]
    assert result["not_computed"] is None


def test_that_nobody_asked_is_said_to_machines_too() -> None:
    assert as_json(*RUN, "--no-gap")["not_computed"] == "what the policies are worth was not asked for"


def test_curves_without_parameters_leave_nothing_to_draw() -> None:
    points = 'speedup = { family = "tabulated", points = [[1, 1], [2, 1.8], [4, 3]] }'
    system = write(re.sub("speedup = .*", points, GOOD))
    run = ("learn", system, *RUN[2:])
    assert re.search("run.png: there is nothing to draw", one_line(*run, "--plot", "run.png"))
    result = as_json(*run)
    assert result["epochs"][-1]["estimates"] == {"one": {}, "two": {}}
    assert result["epochs"][-1]["gap"] == pytest.approx(0.0, abs=1e-9)
    assert re.search(r"one +tabulated +known", succeed(*run))


# --- for people ----------------------------------------------------------------------------------


def told_worth(text: str) -> list[float]:
    """Return the means under the last policy, EQUI and the best; the percentages must follow from them."""
    told = re.search(
        r"is ([\d.]+): ([\d.]+)% (less|more) than under EQUI, where it is ([\d.]+), "
        r"and ([\d.]+)% more than the least possible, ([\d.]+)\.$",
        " ".join(text.partition("Under the policy adopted last")[2].partition("Wrote")[0].split()),
    )
    assert told, text
    found, equi, best = (float(told[i]) for i in (1, 4, 6))
    for percent, exact in ((told[2], abs(found / equi - 1.0)), (told[5], found / best - 1.0)):
        decimals = len(percent.partition(".")[2])
        assert percent == f"{100.0 * exact:.{decimals}f}"
        assert float(percent) > 0.0
    assert told[3] == ("less" if found < equi else "more")
    return [found, equi, best]


def test_means_have_the_digits_to_tell_small_differences() -> None:
    """So many departures leave a gap of a few in a million."""
    run = ("learn", "paper:1", "--algorithm", "1b", "--departures", "20000", "--steps", "2", "--seed", "7")
    last = as_json(*run)["epochs"][-1]
    assert 1e-8 < last["gap"] < 5e-6  # what six digits cannot show
    found, _, best = told_worth(succeed(*run))
    assert found / best - 1.0 == pytest.approx(last["gap"], rel=0.1)


def test_what_is_the_same_is_said_to_be_the_same() -> None:
    flat = " ".join(succeed(*RUN, "--policy", "equi").split())
    assert re.search(r"is 0\.\d+: the same as under EQUI, and 0\.72% more than the least possible", flat)
    alone = write(f"cores = 4\n{ONE}")
    flat = " ".join(succeed("learn", alone, *RUN[2:]).split())
    assert re.search(r"is 0\.\d+: the same as under EQUI, and the least possible\.", flat)


def test_a_policy_that_cannot_keep_up_is_said_to_be_unstable() -> None:
    run = ("learn", write(HARD), *RUN[2:], "--policy", "priority:serial,wide")
    for row in as_json(*run)["epochs"]:
        assert [row[key] for key in ("stable", "mean_jobs", "mean_cost", "gap")] == [False, None, None, None]
    text = succeed(*run)
    assert "unstable" in text
    assert "cannot keep up" in text
    assert all(row["stable"] is True for row in as_json(*RUN)["epochs"])


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (6.17e-6, "under 0.001 s"),
        (0.00123456, "0.00123 s"),
        (12.345, "12.3 s"),
        (123.4, "123 s"),
        (12345.6, "12,346 s"),
    ],
)
def test_times_are_told_without_exponents(seconds: float, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stopped(LearnSession):
        def run(self, progress: Callable[[float], None] | None) -> None:
            super().run(progress)
            self.seconds = self.parts["solve"] = seconds

    monkeypatch.setattr("corewise.cli.learn.command.LearnSession", Stopped)
    flat = " ".join(succeed(*RUN).split())
    assert f" time {text}: running " in flat
    assert f", solving {text}, judging exactly " in flat


def test_a_run_that_is_only_shown_again_spent_no_time_on_its_parts() -> None:
    succeed(*RUN, *SAVED)
    assert re.search(r"\n  time +[^:,]+ s since then\n", succeed(*RESUMED))


def test_the_table_has_the_essentials() -> None:
    run = ("learn", "paper:1", "--algorithm", "1b", "--departures", "50", "--steps", "47", "--seed", "7")
    result = as_json(*run)
    text = succeed(*run, *SAVED, "--plot", "run.png")
    rows = {row["k"]: row for row in result["epochs"]}
    shown = [int(k) for k in re.findall(r"^ +(\d+)(?: +[\d,]+)+ +0\.\d+ ± ", text, flags=re.MULTILINE)]
    assert shown[:3] == [1, 2, 3]
    assert shown[-1] == 47
    assert 10 <= len(shown) <= 14
    for k in shown:
        assert f"{rows[k]['mean_jobs']:#.5g}" in text
    last = rows[47]
    for name, true in (("one", 0.3), ("two", 0.8)):
        low, high = last["interval"][name]["p"]
        estimate = re.escape(f"{last['estimates'][name]['p']:.6g}")
        assert re.search(rf"{name} +amdahl p +{estimate} +0\.\d+ +{low:.4g}–{high:.4g} +{true}\n", text)
    flat = " ".join(text.split())
    equi, best = (result["baselines"][policy]["mean_jobs"] for policy in ("equi", "optimal"))
    assert told_worth(text) == pytest.approx([last["mean_jobs"], equi, best], rel=1e-6)
    assert re.search("running .* s, estimating .* s, solving .* s, judging exactly .* s", flat)
    for word in ("--seed 7", "N_k = 50", "47 of 47", "2,350", "run.png", "corewise learn paper:1 --resume"):
        assert word in flat
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"nan|inf\b|[ \t]$", text, flags=re.MULTILINE)


def test_with_more_room_the_windows_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "72")
    assert " window " not in succeed(*RUN)
    monkeypatch.setenv("COLUMNS", "120")
    assert " window " in succeed(*RUN)


def test_more_classes_are_folded_into_more_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    names = ["one", "two", "a class that has rather a long name"]
    classes = [ONE.replace('"one"', f'"{name}"').replace("1.4", "0.7") for name in names]
    system = write(f"cores = 4\n{''.join(classes)}")
    text = succeed("learn", system, *RUN[2:], "--policy", "whittle", "--no-gap")
    assert max(map(len, text.splitlines())) <= 60
    assert "a class that has…" in text
    assert text.count("\n  6 ") == 2  # the epochs, and then the estimates in them
    assert all(re.search(rf"\n  {name} ", text) for name in ("one", "two", "a class"))  # and in the end


def test_many_classes_are_shown_in_the_end_only() -> None:
    names = [f"c{i}" for i in range(14)]
    rows = [ONE.replace('"one"', f'"{name}"').replace("1.4", "0.1") for name in names]
    lines = ["time,event,class,job,cores"]
    for i, name in enumerate(names):
        lines += [f"{i},arrival,{name},{i},3", f"{i}.5,departure,{name},{i},"]
    write("\n".join(lines), "log.csv")
    run = ("learn", write(f"cores = 4\n{''.join(rows)}"), "--algorithm", "1b", "--departures", "7")
    text = succeed(*run, "--events", "log.csv", "--policy", "whittle")
    assert max(map(len, text.splitlines())) <= 80
    for name in names:
        assert len(re.findall(rf"\b{name}\b", text)) >= 1
    assert "±\n" in text
    assert "0. ±" not in text


def test_a_class_without_information_is_said_to_have_none() -> None:
    write(
        "time,event,class,job,cores:one,cores:two\n0,arrival,one,a,4,0\n0.5,departure,one,a,0,0\n", "log.csv"
    )
    write(GOOD)
    run = ("learn", "system.toml", "--algorithm", "1b", "--departures", "1", "--events", "log.csv")
    row = as_json(*run)["epochs"][0]
    assert row["informative"] == {"one": True, "two": False}
    assert row["estimates"]["two"] == {"p": 0.5}  # the first guess stays
    assert row["stderr"]["two"] == {"p": None}
    assert re.search(r"two +amdahl p +0\.5 +- +no information", succeed(*run))


def test_weights_make_it_a_matter_of_cost() -> None:
    system = write(f"cores = 4\n{ONE}{TWO}weight = 3.0\n")
    run = ("learn", system, *RUN[2:])
    result = as_json(*run)
    problem = cw.load_system(system)
    best = cw.solve(problem)
    equi = cw.evaluate(problem, cw.Equi())
    assert result["baselines"]["equi"]["gap"] == pytest.approx(equi.mean_cost / best.mean_cost - 1, rel=1e-6)
    text = succeed(*run)
    assert max(map(len, text.splitlines())) <= 80
    flat = " ".join(text.split())
    for row in result["epochs"]:
        assert row["mean_cost"] == pytest.approx(best.mean_cost * (1 + row["gap"]), rel=1e-8)
        assert row["mean_cost"] != pytest.approx(row["mean_jobs"], rel=0.1)
        assert f" {row['mean_jobs']:#.5g} {row['mean_cost']:#.5g} " in flat
    assert "the mean cost is" in flat
    costs = [result["epochs"][-1]["mean_cost"], equi.mean_cost, best.mean_cost]
    assert told_worth(text) == pytest.approx(costs, rel=1e-6)
    assert "cost" not in succeed(*RUN)


@pytest.mark.parametrize("file", ["run.png", "run.pdf", "run.svg"])
def test_a_run_can_be_drawn(file: str) -> None:
    assert f"Wrote the plot to {file}." in succeed(*RUN, "--plot", file)
    assert Path(file).stat().st_size > 1000


def test_a_resumed_run_is_drawn_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    from corewise.plots import epochs

    drawn: list[int] = []
    real = epochs.learn_figure

    def draw_and_tell(rows: list[dict[str, Any]], *args: Any, **kwargs: Any) -> Any:
        drawn.extend(row["k"] for row in rows)
        return real(rows, *args, **kwargs)

    monkeypatch.setattr(epochs, "learn_figure", draw_and_tell)
    succeed(*RUN, *SAVED)
    succeed(*RESUMED, "--steps", "8", "--plot", "run.png")
    assert drawn == [1, 2, 3, 4, 5, 6, 7, 8]


def test_help_imports_nothing_slow() -> None:
    assert _imported("['learn', '--help']") == []
    flat = " ".join(succeed("learn", "--help").split())
    told = dict(re.findall(r"--([a-z-]+) \S+ (?:(?! --).)*\[default: ([^\]]+)\]", flat))
    library = signature(cw.adaptive).parameters
    assert float(told["between-alarms"]) == library["between_alarms"].default
    assert int(told["departures"]) == library["departures"].default
    assert told["algorithm"] == "1b"
    assert told["steps"].startswith("100;")
    growing, equal = (
        signature(made).parameters["power"].default for made in (cw.algorithm_1a, cw.algorithm_1b)
    )
    assert told["power"].startswith(f"{growing:g} for 1a, {equal:g} ")
    assert equal == library["power"].default
    assert "learn" in succeed("--help")


def test_a_long_run_shows_its_progress_on_a_terminal_and_can_be_interrupted() -> None:
    run = ["learn", "paper:1", "--algorithm", "1b", "--departures", "100", "--seed", "7"]
    shown, out, status = on_a_terminal(
        [*run, "--steps", "1e6", *SAVED], until=rb"%.* [\d,]+ departures/s .*\d+:\d\d:\d\d"
    )
    assert b"Learning, algorithm 1b" in shown
    assert status == 130
    told = re.search(r"interrupted after ([\d,]+) of 1,000,000", out.decode())
    assert told
    steps = ("--steps", str(int(told[1].replace(",", "")) + 1))
    assert without_seconds(as_json(*RESUMED, *steps)) == without_seconds(as_json(*run, *steps))
