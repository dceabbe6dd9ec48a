"""The command line: its JSON, its tables, and one clear line for everything that is wrong."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock
from typer.main import get_command
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.cli.output import print_json
from corewise.cli.waiting import progress_bar, say_how_long, say_if_long, waiting
from corewise.model.speedup import FAMILIES
from tests.helpers.commands import PATIENCE, finish, start

ONE = """\
[[class]]
name = "one"
arrival_rate = 1.4
size_rate = 2.5
speedup = { family = "amdahl", p = 0.3 }
"""
TWO = ONE.replace('"one"', '"two"').replace("0.3", "0.8")
GOOD = f"cores = 4\n{ONE}{TWO}"

# The policy priority:serial,wide cannot keep up though the load is 0.6; see test_compare.
HARD = """\
cores = 8
[[class]]
name = "serial"
arrival_rate = 1.5
size_rate = 1.0
speedup = { family = "amdahl", p = 0.0 }
[[class]]
name = "wide"
arrival_rate = 3.3
size_rate = 1.0
speedup = { family = "amdahl", p = 1.0 }
"""


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def succeed(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def fail(*arguments: str) -> str:
    """Run a command that must fail as every bad input does, and return its message."""
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.stderr


def as_json(*arguments: str) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise AssertionError(f"{constant} is not JSON")

    value = json.loads(succeed(*arguments, "--json"), parse_constant=refuse)
    assert isinstance(value, dict)
    return value


def write(text: str, name: str = "system.toml") -> str:
    Path(name).write_text(text)
    return name


# --- what works -------------------------------------------------------------------------------


def test_solve_json() -> None:
    result = as_json("solve", "paper:2")
    solution = cw.solve(cw.load_system("paper:2"))
    assert result["mean_jobs"] == pytest.approx(solution.mean_jobs, rel=1e-9)
    assert result["mean_response_time"] == pytest.approx(solution.mean_jobs / 2.0, rel=1e-9)
    low, high = result["bounds"]
    assert low <= high <= low + 1e-9 * (1 + high)
    assert result["capacity"] == list(solution.capacity)
    assert 0 <= result["beyond"] < 1e-6
    assert result["seconds"] > 0
    assert [c["name"] for c in result["classes"]] == ["one", "two"]


def test_solve_takes_a_capacity_for_all_or_for_each_class() -> None:
    assert as_json("solve", "paper:2", "--capacity", "7")["capacity"] == [7, 7]
    assert as_json("solve", "paper:2", "--capacity", "7,9")["capacity"] == [7, 9]


def test_whole_cores_cost_a_little_more() -> None:
    free = as_json("solve", "paper:2", "--capacity", "20")
    whole = as_json("solve", "paper:2", "--capacity", "20", "--whole-cores")
    assert whole["mean_jobs"] > free["mean_jobs"]


def test_evaluate_json() -> None:
    result = as_json("evaluate", "paper:2", "--policy", "equi")
    exact = cw.evaluate(cw.load_system("paper:2"), cw.Equi())
    assert result["mean_jobs"] == pytest.approx(exact.mean_jobs, rel=1e-12)
    assert result["mean_response_time"] == pytest.approx(exact.mean_response_time, rel=1e-12)
    assert not result["blocking"]
    assert [set(c) >= {"name", "mean_jobs", "mean_response_time"} for c in result["classes"]] == [True, True]
    assert sum(c["mean_jobs"] for c in result["classes"]) == pytest.approx(result["mean_jobs"])


@pytest.mark.parametrize(
    "policy",
    ["equi", "greedy", "whittle", "optimal", "fixed:0.3,0.7", "priority:two,one", "priority: one, two"],
)
def test_every_policy_of_the_syntax_can_be_evaluated(policy: str) -> None:
    assert as_json("evaluate", "paper:2", "--policy", policy, "--capacity", "15")["blocking"]


def test_optimal_is_what_solve_finds() -> None:
    solved = as_json("solve", "paper:2")
    evaluated = as_json("evaluate", "paper:2", "--policy", "optimal")
    assert evaluated["mean_jobs"] == pytest.approx(solved["mean_jobs"], rel=1e-8)


def test_compare_json() -> None:
    result = as_json("compare", write(HARD))
    assert all(set(row) >= {"name", "mean_jobs", "gap", "stable"} for row in result["policies"])
    rows = {row["name"]: row for row in result["policies"]}
    assert rows["optimal"]["gap"] == 0.0
    assert rows["priority:serial,wide"]["mean_jobs"] is None
    assert rows["priority:serial,wide"]["gap"] is None
    assert rows["priority:serial,wide"]["stable"] is False
    assert 0 < result["lower_bound"] <= rows["optimal"]["mean_jobs"]


def test_a_saved_policy_can_be_evaluated_and_drawn() -> None:
    text = succeed("solve", "paper:2", "--save", "best.policy", "--plot", "best.png")
    assert "best.policy" in text
    assert "best.png" in text
    assert Path("best.png").read_bytes().startswith(b"\x89PNG")
    solved = as_json("solve", "paper:2")
    evaluated = as_json("evaluate", "paper:2", "--policy", "best.policy")
    assert evaluated["mean_jobs"] == pytest.approx(solved["mean_jobs"], rel=1e-8)
    assert sorted(path.name for path in Path().iterdir()) == ["best.png", "best.policy"]


def test_init_writes_a_file_that_works() -> None:
    assert "system.toml" in succeed("init")
    system = cw.load_system("system.toml")
    assert 0.5 < system.load < 0.9
    assert "unstable" not in succeed("compare", "system.toml").partition("priority")[0]
    assert as_json("init", "other.toml") == {"file": "other.toml"}


def test_every_curve_in_the_comments_of_init_can_be_used() -> None:
    succeed("init")
    lines = re.findall(r"^#\s+(\{ family .*?\})\s", Path("system.toml").read_text() + " ", flags=re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        write(GOOD.replace('{ family = "amdahl", p = 0.3 }', line))
        assert (
            cw.load_system("system.toml")["one"].speedup.family == tomllib.loads(f"x = {line}")["x"]["family"]
        )


def test_families_that_can_be_estimated_are_named_by_init_and_by_the_help_of_family() -> None:
    estimated = {name for name, family in FAMILIES.items() if family.bounds}
    succeed("init")
    assert estimated <= set(re.findall(r'family = "([\w-]+)"', Path("system.toml").read_text()))
    for verb in ("estimate", "fit"):
        command = get_command(app).get_command(None, verb)  # type: ignore[attr-defined]
        (text,) = (option.help for option in command.params if option.name == "family")
        assert estimated <= set(re.findall(r"[\w-]+", text)), verb


def test_init_overwrites_only_when_told() -> None:
    write("mine")
    assert "--force" in fail("init", "system.toml")
    assert Path("system.toml").read_text() == "mine"
    succeed("init", "system.toml", "--force")
    assert cw.load_system("system.toml").names == ["etl", "training"]


@pytest.mark.parametrize(
    "arguments",
    [["solve", "paper:1"], ["evaluate", "paper:1", "--policy", "equi"], ["compare", "paper:1"]],
)
def test_tables_say_their_units_and_fit_eighty_columns(arguments: list[str]) -> None:
    text = succeed(*arguments)
    assert "mean number of jobs" in text
    assert "response time" in text
    assert not re.search(r"[ \t]$", text, flags=re.MULTILINE)
    assert max(len(line) for line in text.splitlines()) <= 80
    if arguments[0] != "compare":
        assert "one" in text
        assert "two" in text


def test_cost_is_shown_with_weights() -> None:
    system = write(GOOD.replace("size_rate", "weight = 3.0\nsize_rate", 1))
    for arguments in (["solve", system], ["evaluate", system, "--policy", "equi"], ["compare", system]):
        assert "mean cost" in succeed(*arguments)


def test_names_are_not_markup() -> None:
    system = write(GOOD.replace('"one"', '"[bold]red[/bold]"'))
    assert "[bold]red[/bold]" in succeed("evaluate", system, "--policy", "equi")


def test_an_optimum_that_takes_long_is_said_so(capsys: pytest.CaptureFixture[str]) -> None:
    """From four classes on, before the wait begins, and what does without it."""
    classes = [cw.JobClass(f"c{i}", 0.1, 1.0, cw.Amdahl(0.5)) for i in range(4)]
    say_if_long(cw.System(4, classes[:3]), "ask for less")
    assert capsys.readouterr().err == ""
    say_if_long(cw.System(4, classes), "ask for less")
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == "note: the exact optimum of 4 classes may take very long; ask for less\n"
    unlike = cw.System(16, [classes[0], cw.JobClass("unlike", 0.1, 1.0, cw.Amdahl(0.9))]).at_load(0.999)
    say_if_long(unlike, "ask for less")
    assert re.fullmatch(
        r"note: the exact optimum of some [\d,]+ states takes about \d+ seconds; ask for less\n",
        capsys.readouterr().err,
    )
    for windows, told in (
        (None, "in every window, takes about 60"),
        (9, "in each of 9 windows, takes about 5"),
    ):
        say_if_long(unlike, "ask for less", windows)
        assert told in capsys.readouterr().err
    say_if_long(cw.System(16, classes[:2]).at_load(0.999), "ask for less")  # alike: both queues are long
    assert re.search(r"takes about \d+ minutes", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("seconds", "told"),
    [(9.0, ""), (44.0, "40 seconds"), (119.0, "120 seconds"), (300.0, "5 minutes"), (1e6, "12 days")],
)
def test_how_long_it_takes_is_said_in_words(
    seconds: float, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    say_how_long("this", seconds, "or not")
    assert capsys.readouterr().err == (f"note: this takes about {told}; or not\n" if told else "")


@pytest.mark.parametrize(
    ("verb", "text"),
    [
        ("compare", "--seed S Seed of the simulation's random numbers"),
        ("simulate", "--seed S Seed of the simulation's random numbers"),
        ("plan", "--seed S Seed of the simulation's random numbers"),
        ("learn", "mean number of departures between false alarms"),
        ("evaluate", "further arrivals are lost"),
    ],
)
def test_help_uses_the_nouns_of_the_field(verb: str, text: str) -> None:
    assert text in " ".join(succeed(verb, "--help").split())


def test_version_and_help() -> None:
    assert re.fullmatch(r"corewise \S+\n", succeed("--version")) or "not installed" in succeed("--version")
    text = succeed("--help")
    for verb in ("init", "solve", "evaluate", "compare"):
        assert verb in text
        assert "--json" in succeed(verb, "--help")


def test_what_is_not_finite_becomes_null(capsys: pytest.CaptureFixture[str]) -> None:
    print_json(
        {"a": [float("nan"), float("inf"), 1.0], "b": {"c": -float("inf"), "d": True, "e": None, "f": 3}}
    )
    assert json.loads(capsys.readouterr().out) == {
        "a": [None, None, 1.0],
        "b": {"c": None, "d": True, "e": None, "f": 3},
    }


# --- what is wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [["solve"], ["evaluate", "--policy", "equi"], ["compare"]])
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("1.4", "-1.4", r"'one'.*arrival_rate.*-1\.4"),
        ("1.4", "0", r"'one'.*arrival_rate.*0"),
        ("1.4", "nan", r"'one'.*arrival_rate.*nan"),
        ("1.4", "inf", r"'one'.*arrival_rate.*inf"),
        ("2.5", "true", r"'one'.*size_rate.*True"),
        ("2.5", '"2.5"', r"'one'.*size_rate.*'2\.5'"),
        ("p = 0.3", "p = 1.3", r"'one'.*p.*1\.3"),
        ("p = 0.3", "p = true", r"'one'.*p.*True"),
        ('"amdahl", p = 0.3', '"tabulated", points = [[0.5, 0.9]]', r"'one'.*0\.5.*0\.9"),
        ('"two"', '"one"', r"'one'.*twice"),
        ('"one"', '""', r"class number 1.*''"),
        ('"amdahl"', '"amdhal"', r"'one'.*'amdhal'.*'amdahl'"),
        ("size_rate", "sizerate", r"'one'.*'sizerate'.*'size_rate'"),
        ("1.4", "140", r"load is 14\.\d*.*below 1"),
        (GOOD, "cores = 4", r"at least one class"),
        (GOOD, "cores = = 4", r"TOML.*line 1"),
        (GOOD, "\0\1\2", r"binary"),
    ],
)
def test_a_bad_system_is_refused(verb: list[str], old: str, new: str, message: str) -> None:
    write(GOOD.replace(old, new, 1))
    error = fail(verb[0], "system.toml", *verb[1:])
    assert re.search(message, error)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    if "load" not in message:
        assert "system.toml" in error


@pytest.mark.parametrize(
    ("source", "message"),
    [("missing.toml", "missing.toml.*no such file"), (".", "directory"), ("paper:5", "'paper:5'.*paper:4")],
)
def test_a_system_that_is_not_there_is_refused(source: str, message: str) -> None:
    assert re.search(message, fail("solve", source))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_system_is_refused() -> None:
    Path(write(GOOD)).chmod(0)
    assert "permission denied" in fail("solve", "system.toml")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("equii", "'equii'.*did you mean 'equi'"),
        ("WHITTLE", "'WHITTLE'.*did you mean 'whittle'"),
        ("zzz", "'zzz'.*known: equi, greedy"),
        ("fixed", "'fixed'.*fixed:0.5,0.5"),
        ("fixd:0.5,0.5", "'fixd:0.5,0.5'.*did you mean 'fixed'"),
        ("fixed:0.5,0.6", r"sum to one.*0\.5, 0\.6.*1\.1"),
        ("fixed:0.5", "sum to one.*0.5"),
        ("fixed:0.2,0.3,0.5", "3 shares.*one, two"),
        ("fixed:-0.5,1.5", "-0.5"),
        ("fixed:nan,1", "nan"),
        ("fixed:a,b", "number.*'a'"),
        ("fixed:", "number.*''"),
        ("priority", "'priority'.*priority:one,two"),
        ("priority:one,tow", "'tow'.*did you mean 'two'"),
        ("priority:two", "'one' is missing"),
        ("priority:two,two,one", "'two' twice"),
        ("optimal:3", "'optimal:3'.*colon"),
        ("./missing.policy", "missing.policy.*no such file"),
        ("missing.policy", "missing.policy.*no such file"),
        (".", "directory"),
        ("system.toml", "system.toml"),
        ("", "''"),
    ],
)
def test_a_bad_policy_is_refused(policy: str, message: str) -> None:
    system = write(GOOD)
    error = fail("evaluate", system, "--policy", policy)
    assert re.search(message, error)
    assert error.startswith("error: ")


def test_a_policy_saved_for_another_system_is_refused() -> None:
    succeed("solve", "paper:2", "--capacity", "8", "--save", "best.policy")
    assert re.search(r"best\.policy: .*10 cores.*30", fail("evaluate", "paper:1", "--policy", "best.policy"))
    other = write(GOOD.replace("cores = 4", "cores = 10").replace('"two"', '"three"'))
    assert re.search("one, two.*one, three", fail("evaluate", other, "--policy", "best.policy"))


@pytest.mark.parametrize("kind", ["text", "array", "archive", "cut", "numbers"])
def test_what_is_not_a_saved_policy_is_refused(kind: str) -> None:
    match kind:
        case "text":
            write(GOOD, "other.npz")
        case "array":
            np.save("other.npy", np.zeros(3))
            Path("other.npy").rename("other.npz")
        case "archive":
            np.savez("other.npz", x=np.zeros(3))
        case "cut":
            succeed("solve", "paper:2", "--capacity", "8", "--save", "other.npz")
            Path("other.npz").write_bytes(Path("other.npz").read_bytes()[:200])
        case "numbers":
            succeed("solve", "paper:2", "--capacity", "8", "--save", "other.npz")
            with np.load("other.npz") as file:
                about = file["about"]
            np.savez("other.npz", about=about, cores=np.array(["many", "few"]))
    error = fail("evaluate", "paper:2", "--policy", "other.npz")
    assert error.startswith("error: other.npz")
    assert "pickle" not in error


def test_a_policy_saved_for_other_rates_and_curves_fits() -> None:
    succeed("solve", "paper:2", "--capacity", "8", "--save", "best.policy")
    other = write(GOOD.replace("cores = 4", "cores = 10"))
    assert as_json("evaluate", other, "--policy", "best.policy")["mean_jobs"] > 0


def test_an_unstable_policy_is_refused_with_its_name() -> None:
    error = fail("evaluate", write(HARD), "--policy", "priority:serial,wide")
    assert "priority:serial,wide" in error


@pytest.mark.parametrize("capacity", ["0", "-3", "x", "3.5", "", "3,", "3,4,5"])
@pytest.mark.parametrize("verb", [["solve"], ["evaluate", "--policy", "equi"], ["compare"]])
def test_a_bad_capacity_is_refused(verb: list[str], capacity: str) -> None:
    assert "capacity" in fail(verb[0], "paper:2", *verb[1:], "--capacity", capacity)


def test_a_box_too_large_says_how_many_states_and_what_to_do() -> None:
    error = fail("solve", "paper:1", "--capacity", "10000000")
    assert "100,000,020,000,001 states" in error
    assert "smaller capacity" in error


@pytest.mark.parametrize("tolerance", ["0", "-1", "nan", "inf", "tight"])
def test_a_bad_tolerance_is_refused(tolerance: str) -> None:
    assert "tolerance" in fail("solve", "paper:2", "--tolerance", tolerance)


def test_whole_cores_need_a_whole_number() -> None:
    assert "4.5" in fail("solve", write(GOOD.replace("cores = 4", "cores = 4.5")), "--whole-cores")


@pytest.mark.parametrize(
    "arguments", [["slove"], ["solve"], ["solve", "paper:1", "--tolerence", "1"], ["evaluate", "paper:1"]]
)
def test_bad_usage_exits_with_two(arguments: list[str]) -> None:
    assert fail(*arguments)


@pytest.mark.parametrize("option", ["--save", "--plot"])
def test_a_target_that_cannot_be_written_is_found_before_solving(
    option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("solved before the target was checked")

    monkeypatch.setattr("corewise.control.solution.solve", refuse)
    assert re.search(r"missing/x\.png.*cannot be written", fail("solve", "paper:2", option, "missing/x.png"))
    Path("here.png").mkdir()
    assert re.search(r"here\.png.*directory", fail("solve", "paper:2", option, "here.png"))
    assert [path.name for path in Path().iterdir()] == ["here.png"]


def test_a_heat_map_needs_two_classes_and_a_known_ending() -> None:
    assert re.search("two classes.*1: one", fail("solve", write(f"cores = 4\n{ONE}"), "--plot", "x.png"))
    assert re.search(r"x\.pgn.*'png'", fail("solve", "paper:2", "--plot", "x.pgn"))
    assert not list(Path().glob("x.*"))


def test_a_missing_matplotlib_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert "corewise[plot]" in fail("solve", "paper:2", "--plot", "x.png")


def test_an_init_file_that_cannot_be_written_is_refused() -> None:
    assert "missing" in fail("init", "missing/system.toml")


# --- how it ends ------------------------------------------------------------------------------


def test_control_c_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("corewise.control.solution.solve", interrupt)
    result = CliRunner().invoke(app, ["solve", "paper:2"])
    assert result.exit_code == 130
    assert result.output == ""


def test_control_c_from_outside_is_quiet_too() -> None:
    """A signal while a pipe is read, where Python itself is waiting."""
    os.mkfifo("pipe.toml")
    command = ("-m", "corewise", "solve", "pipe.toml")
    with (
        start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
        Path("pipe.toml").open("wb"),  # returns once the command has opened the other end
    ):
        process.send_signal(signal.SIGINT)
        out, err = finish(process)
    assert (process.returncode, out, err) == (130, b"", b"")


LOST = """
import signal
import time
from corewise.cli import main as command

class Callback:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

def app():
    Callback()
    time.sleep(600)

command.app = app
command.main()
"""
"""Ctrl-C at a moment when Python can raise nothing, only say that it ignores it."""


def test_control_c_in_a_callback_is_not_lost() -> None:
    with start("-c", LOST, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = finish(process)
    assert (process.returncode, out, err) == (130, b"", b"")


COMPILED = """
import ctypes
import signal
from corewise.cli import main as command
from corewise.kit.interruption import interruptible

def stuck():
    signal.raise_signal(signal.SIGINT)
    ctypes.CDLL(None).sleep(600)

def app():
    print("said before")
    interruptible(stuck)

command.app = app
command.main()
"""
"""Ctrl-C while compiled code runs in a thread that Python would wait for, or stumble over, at its end."""


def test_control_c_does_not_wait_for_compiled_code() -> None:
    with start("-c", COMPILED, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = finish(process)
    assert (process.returncode, out, err) == (130, b"said before\n", b"")


@pytest.mark.parametrize("error", [cw.errors.NotConverged("no certificate"), MemoryError()])
def test_failures_of_the_solver_are_reported(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(*args: object, **kwargs: object) -> NoReturn:
        raise error

    monkeypatch.setattr("corewise.control.solution.solve", give_up)
    assert re.search("no certificate|not enough memory", fail("solve", "paper:2"))


@pytest.mark.slow
def test_the_installed_command_copes_with_a_narrow_encoding() -> None:
    write(GOOD.replace('"one"', '"café"'))
    result = subprocess.run(
        [
            sys.executable,
            "-c",
            "from corewise.cli.main import main; main()",
            "evaluate",
            "system.toml",
            "--policy",
            "equi",
        ],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert r"caf\xe9" in result.stdout


def test_a_curve_that_is_bent_is_a_line_on_stderr() -> None:
    """Once, however often the curve is built; the output itself stays what it was."""
    write(
        'cores = 8\n[[class]]\nname = "one"\narrival_rate = 1\nsize_rate = 1\n'
        'speedup = { family = "tabulated", points = [[1, 1], [2, 1.1], [4, 3]] }\n'
    )
    result = CliRunner().invoke(app, ["evaluate", "system.toml", "--policy", "equi", "--json"])
    assert result.exit_code == 0, result.output
    assert result.stderr == (
        "warning: tabulated speed-up moved to its least concave majorant: at 2 cores 1.1 → 1.667 (+51.52%)\n"
    )
    assert json.loads(result.stdout)["policy"] == "equi"


# --- where output goes, and how wide it is ----------------------------------------------------


@pytest.mark.parametrize("columns", ["0", "1", "40", "abc"])
def test_numbers_stay_whole_however_wide_the_terminal_says_it_is(columns: str) -> None:
    wide = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["compare", "paper:2"])
    found = CliRunner(env={"COLUMNS": columns}).invoke(app, ["compare", "paper:2"])
    assert found.exit_code == 0
    numbers = re.findall(r"\d+\.\d+%?", wide.stdout)
    assert len(numbers) > 10
    assert re.findall(r"\d+\.\d+%?", found.stdout) == numbers


@pytest.mark.parametrize("arguments", [["--help"], ["solve", "--help"], ["--version"]])
def test_output_that_cannot_be_written(arguments: list[str]) -> None:
    """To a full disk: one line, and an exit code that says so."""
    with (
        Path("/dev/full").open("wb") as full,
        start("-m", "corewise", *arguments, stdout=full, stderr=subprocess.PIPE) as process,
    ):
        _, said = finish(process)
    assert process.returncode == 2
    assert said.decode().splitlines()[-1].lower().endswith("no space left on device")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("arguments", [["--version"], ["evaluate", "paper:1", "--policy", "equi"]])
def test_output_that_is_closed(arguments: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "corewise", *arguments]
    done = subprocess.run(command, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_takes_long_says_so_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """In plain lines: how long it has taken, and the rest if that is known."""
    monkeypatch.setattr("corewise.cli.waiting._COMPILING", 0.0)
    monkeypatch.setattr("corewise.cli.waiting._PAUSES", (0.01, 1e9))
    said = io.StringIO()
    monkeypatch.setattr(sys, "stderr", said)

    def wait_for_lines(number: int) -> None:
        began = time.monotonic()
        while said.getvalue().count("\n") < number and time.monotonic() - began < PATIENCE:
            time.sleep(0.01)

    with waiting("Working ..."):
        wait_for_lines(1)
    with progress_bar("Walking\x1b", 5.0, "steps") as report:
        report(0.25)
        wait_for_lines(2)
    first, second = said.getvalue().splitlines()
    assert re.fullmatch(r"Working: \d+ s so far", first)
    assert re.fullmatch(r"Walking\\x1b: \d+ s so far, 25% done, about \d+ s left", second)


def test_compilation_is_told_from_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a first run: the thread that works holds the compiler's lock, and the one that speaks sees it."""
    monkeypatch.setattr("corewise.cli.waiting._COMPILING", 0.01)
    said = io.StringIO()  # capsys loses what another thread says while it is read
    monkeypatch.setattr(sys, "stderr", said)
    with global_compiler_lock, waiting("Working ..."):
        while not said.getvalue().endswith("\n"):
            time.sleep(0.001)
    assert said.getvalue() == "Working: compiling, once\n"
    with waiting("Working ..."):
        time.sleep(0.05)
    assert said.getvalue() == "Working: compiling, once\n"


def test_names_do_not_reach_the_terminal_as_commands() -> None:
    """Control characters are spelt out in tables, facts and errors; JSON has its own way to do so."""
    system = write(GOOD.replace('"one"', '"a\\u001b[31m\\u202eb"'))
    for arguments in (
        ("simulate", system, "--policy", "equi", "--departures", "50", "--plot", "path.png"),
        ("solve", system, "--save", "x\x1b.policy", "--plot", "policy.png"),
    ):
        said = succeed(*arguments)
        assert not re.search("[\x1b\u202e]", said)
    assert r"a\x1b[31m\u202eb" in said
    assert r"x\x1b.policy" in said
    assert "\x1b" not in fail("solve", "no\x1bfile")
    assert "\x1b" not in fail("evaluate", system, "--policy", "priority:\x1b,two")
