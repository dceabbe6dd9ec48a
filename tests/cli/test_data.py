"""The verbs that make data and learn from it: `corewise simulate` and `corewise estimate`."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from typer.testing import CliRunner

import corewise as cw
from corewise.cli.main import app
from corewise.estimation.units import pace, unit_question
from corewise.observation import log_reader, sample_path
from corewise.observation.event_logs import load_events
from corewise.observation.rows import find_faults
from tests.cli.test_cli import GOOD, as_json, fail, succeed, write
from tests.cli.test_start_up import _imported
from tests.helpers.commands import on_a_terminal

RUN = ("simulate", "paper:1", "--policy", "equi")

# One class on four of its cores: D = 2 jobs left in W = 1 of job-time, so that s(4) = D/(μ W) = 2, and with
# Amdahl's 1/s(z) = 1 - p + p/z the maximum of the likelihood is at p = (1 - 1/2)/(1 - 1/4) = 2/3.
SINGLE = """\
cores = 8
[[class]]
name = "one"
size_rate = 1.0
speedup = { family = "amdahl", p = 0.1 }
"""
TOTALS = """\
time,event,class,job,cores:one
0,arrival,one,a,4
0.5,departure,one,a,0
0.5,arrival,one,b,4
1,departure,one,b,0
"""
PER_JOB = """\
time,event,class,job,cores
0,start,,,
0,arrival,one,a,4
0.5,departure,one,a,
0.5,arrival,one,b,4
1,departure,one,b,
1,end,,,
"""

PAIR = """\
time,event,class,job,cores:one,cores:two
0,start,,,0,0
1,arrival,one,a,30,0
2,arrival,two,b,10,20
3,departure,one,a,0,30
4,departure,two,b,0,0
5,end,,,0,0
"""
PAIR_BY_JOB = """\
time,event,class,job,cores
0,start,,,
1,arrival,one,a,30
2,resize,one,a,10
2,arrival,two,b,20
3,departure,one,a,
4,departure,two,b,
"""


@pytest.fixture(autouse=True)
def _in_an_empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def one_line(*arguments: str) -> str:
    """Run a command that must fail with one line, and return it."""
    error = fail(*arguments)
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    return error


def rows_by_name(result: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in result["classes"]}


# --- the ring from a run to its estimate --------------------------------------------------------


@pytest.mark.parametrize("form", [[], ["--per-job"]], ids=["class totals", "per job"])
@pytest.mark.parametrize("file", ["log.csv", "log.csv.gz"])
def test_a_log_gives_the_estimate_of_the_run_that_wrote_it(form: list[str], file: str) -> None:
    system = cw.load_system("paper:1")
    succeed(*RUN, "--departures", "20000", "--seed", "7", "--events", file, *form)
    rows = rows_by_name(as_json("estimate", "paper:1", file))
    run = cw.simulate(system, cw.Equi(), departures=20_000, rng=7, record=True)
    expected = cw.estimate(run, system)
    for name, found in expected.items():
        row = rows[name]
        assert row["parameters"]["p"] == pytest.approx(found.value, rel=1e-9)
        assert row["stderr"]["p"] == pytest.approx(found.stderr, rel=1e-9)
        assert row["interval"]["p"] == pytest.approx(found.interval, rel=1e-9)
        assert row["departures"] == found.departures
        assert row["arrival_rate"]["value"] == pytest.approx(found.arrival_rate.value, rel=1e-9)


@pytest.mark.parametrize("log", [TOTALS, PER_JOB], ids=["class totals", "per job"])
def test_estimate_finds_the_maximum_known_in_closed_form(log: str) -> None:
    write(log, "log.csv")
    result = as_json("estimate", write(SINGLE), "log.csv")
    (row,) = result["classes"]
    assert row["parameters"]["p"] == pytest.approx(2 / 3, rel=1e-9)
    assert row["log_likelihood"] == pytest.approx(2 * np.log(2) - 2, rel=1e-9)  # D log s - μ W s
    assert row["arrival_rate"]["value"] == pytest.approx(2.0)
    assert row["share"]["value"] == 1.0
    assert row["departures"] == result["departures"] == result["arrivals"] == 2
    assert result["time"] == 1.0
    assert result["skipped"] == 0
    assert result["skipped_reasons"] == []


# --- simulate -----------------------------------------------------------------------------------


def test_simulate_says_what_the_library_says() -> None:
    result = as_json(*RUN, "--departures", "1e3", "--seed", "7")
    run = cw.simulate(cw.load_system("paper:1"), cw.Equi(), departures=1000, rng=7)
    assert result["mean_jobs"] == run.mean_jobs
    assert result["interval"] == list(run.interval)
    assert result["mean_response_time"] == run.mean_response_time
    assert result["settled"] is True
    assert (result["events"], result["departures"], result["time"]) == (run.events, 1000, run.time)
    assert (result["policy"], result["seed"], result["replications"]) == ("equi", 7, 1)
    assert result["state"] == list(run.state.counts)
    assert result["seconds"] > 0
    for name, row in rows_by_name(result).items():
        seen = run.classes[name]
        assert (row["arrivals"], row["departures"]) == (seen.arrivals, seen.departures)
        assert row["mean_jobs"] == seen.mean_jobs
        assert row["interval"] == list(seen.interval)
        assert row["mean_response_time"] == seen.mean_response_time
        assert row["percentiles"] == []


def test_a_run_that_has_not_settled_says_so() -> None:
    """The mean response time is one that a job can have had; a longer run says nothing of the kind."""
    Path("large.toml").write_text(
        'cores = 64\n[[class]]\nname = "one"\narrival_rate = 60\nsize_rate = 1\n'
        'speedup = { family = "amdahl", p = 0.9 }\n',
        encoding="utf-8",
    )
    short = ("simulate", "large.toml", "--policy", "equi", "--departures", "20", "--seed", "3")
    result = as_json(*short)
    assert not result["settled"]
    assert 0.0 < result["mean_response_time"] < result["time"]
    flat = " ".join(succeed(*short).split())
    assert f"not settled: 20 have left and {sum(result['state'])} jobs are left over, so these" in flat
    flat = " ".join(succeed(*short, "--replications", "2").split())
    assert "not settled: 40 have left and many jobs are left over" in flat
    assert "settled" not in succeed(*RUN, "--departures", "1e3", "--seed", "7")
    flat = " ".join(succeed(*short[:3], "equi", "--time", "1", "--seed", "1").split())
    assert "not settled" in flat


def test_a_run_can_be_repeated_by_the_seed_it_reports() -> None:
    first = as_json(*RUN, "--departures", "300")
    again = as_json(*RUN, "--departures", "300", "--seed", str(first["seed"]))
    other = as_json(*RUN, "--departures", "300")
    assert again["mean_jobs"] == first["mean_jobs"]
    assert other["seed"] != first["seed"]
    assert other["mean_jobs"] != first["mean_jobs"]


def test_a_window_of_time() -> None:
    result = as_json(*RUN, "--time", "100", "--seed", "1")
    assert result["time"] == pytest.approx(100.0)
    assert result["departures"] == sum(row["departures"] for row in result["classes"]) > 0


def test_a_run_starts_with_the_jobs_given() -> None:
    succeed(*RUN, "--departures", "10", "--start", "3,2", "--seed", "1", "--events", "log.csv")
    path = load_events("log.csv", cw.load_system("paper:1")).path
    assert path.event[:6].tolist() == [cw.results.EventKind.START, *[cw.results.EventKind.PRESENT] * 5]
    assert path.counts[5].tolist() == [3, 2]
    assert path.departures == 10


def test_percentiles_of_one_run_are_those_of_its_path() -> None:
    result = as_json(
        *RUN, "--departures", "500", "--seed", "3", "--percentiles", "50,99.5", "--events", "log.csv"
    )
    times = load_events("log.csv", cw.load_system("paper:1")).path.response_times
    for name, row in rows_by_name(result).items():
        assert [entry["percent"] for entry in row["percentiles"]] == [50.0, 99.5]
        values = [entry["value"] for entry in row["percentiles"]]
        assert values == pytest.approx(np.percentile(times[name], [50.0, 99.5]).tolist(), rel=1e-9)
        assert all(entry["interval"] == [None, None] for entry in row["percentiles"])


def test_replications_say_what_the_library_says() -> None:
    result = as_json(
        *RUN, "--departures", "200", "--seed", "5", "--replications", "6", "--percentiles", "50,90"
    )
    found = cw.replicate(
        cw.load_system("paper:1"), cw.Equi(), n=6, departures=200, rng=5, percentiles=(50.0, 90.0)
    )
    assert result["mean_jobs"] == found.mean_jobs
    assert result["interval"] == list(found.interval)
    assert result["replications"] == 6
    assert result["departures"] == 1200
    assert result["time"] == pytest.approx(sum(run.time for run in found.runs))
    assert result["state"] is None
    for name, row in rows_by_name(result).items():
        assert row["arrivals"] == sum(run.classes[name].arrivals for run in found.runs)
        assert row["departures"] == sum(run.classes[name].departures for run in found.runs)
        assert [entry["value"] for entry in row["percentiles"]] == [
            entry.value for entry in found.classes[name].percentiles
        ]


def test_many_percentiles_are_shown_in_several_tables() -> None:
    percents = "1,5,10,20,50,80,90,99"
    command = (*RUN, "--departures", "500", "--seed", "3", "--percentiles", percents)
    text = succeed(*command)
    for row in as_json(*command)["classes"]:
        for entry in row["percentiles"]:
            assert f"{entry['percent']:g} %" in text
            assert f"{entry['value']:.4g}" in text


def test_what_a_short_run_cannot_say_is_null() -> None:
    result = as_json(*RUN, "--time", "1e-9", "--seed", "1", "--percentiles", "50")
    assert result["interval"] == [None, None]
    assert result["mean_response_time"] is None
    assert rows_by_name(result)["one"]["percentiles"][0]["value"] is None
    assert "too short" in succeed(*RUN, "--time", "1e-9", "--seed", "1")


def test_curves_that_change_do_so_in_a_run() -> None:
    start = ("simulate", "paper:drift", "--policy", "equi", "--seed", "1")
    first = cw.load_system("paper:drift").changes[0]
    assert f"curve of {first.name} changed" in succeed(*start, "--time", str(1.01 * first.time))
    assert "changed" not in succeed(*start, "--time", "1000")


def test_a_run_without_end_is_said_to_be_one() -> None:
    busy = write(GOOD.replace("1.4", "14", 1))
    assert "keeps growing" in succeed("simulate", busy, "--policy", "equi", "--time", "10")
    assert "keeps growing" not in succeed("simulate", write(GOOD), "--policy", "equi", "--time", "10")


def test_a_path_can_be_drawn() -> None:
    assert "path.png" in succeed(*RUN, "--departures", "30", "--plot", "path.png")
    assert Path("path.png").read_bytes().startswith(b"\x89PNG")


# --- estimate -----------------------------------------------------------------------------------


def logged(*options: str, departures: str = "3000") -> str:
    succeed(*RUN, "--departures", departures, "--seed", "7", "--events", "log.csv", *options)
    return "log.csv"


def test_estimate_says_what_the_library_says() -> None:
    system = cw.load_system("paper:1")
    result = as_json("estimate", "paper:1", logged(), "--level", "0.9")
    log = load_events("log.csv", system)
    found = cw.estimate(log, system, level=0.9)
    verdicts = cw.goodness_of_fit(log.path, system, found)
    assert (result["level"], result["rows"], result["time"]) == (0.9, log.rows, log.path.duration)
    assert result["seconds"] > 0
    for name, row in rows_by_name(result).items():
        expected, verdict = found[name], verdicts[name]
        assert row["family"] == "amdahl"
        assert row["parameters"] == dict(expected.parameters)
        assert row["stderr"] == dict(expected.stderrs)
        assert row["interval"] == {"p": list(expected.interval)}
        assert row["informative"] is True
        assert row["at_boundary"] is False
        assert row["certified"] is expected.certified
        assert row["sizes"] == expected.sizes
        assert expected.dispersion is not None
        assert row["dispersion"]["value"] == expected.dispersion.value
        assert row["share"]["interval"] == list(expected.share.interval)
        assert row["arrival_rate"]["interval"] == list(expected.arrival_rate.interval)
        assert row["size_rate"] is None
        assert row["candidates"] == []
        assert row["goodness_of_fit"] == {
            "p_value": verdict.p_value,
            "doubtful": False,
            "tests": dict(verdict.p_values),
            "residuals": expected.departures,
        }


def test_the_rows_of_a_log_are_checked_once_and_tallied_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: a path made from columns anew, and a test of fit without statistics, do it once more each."""
    calls: Counter[str] = Counter()
    check, tally = find_faults, cw.Statistics.of

    def checked(*args: Any, **options: Any) -> Any:
        calls["checks"] += 1
        return check(*args, **options)

    def tallied(path: cw.SamplePath) -> cw.Statistics:
        calls["tallies"] += 1
        return tally(path)

    log = logged(departures="300")
    for module in (log_reader, sample_path):
        monkeypatch.setattr(module, "find_faults", checked)
    monkeypatch.setattr(cw.Statistics, "of", tallied)
    succeed("estimate", "paper:1", log)
    assert calls == {"checks": 1, "tallies": 1}
    path = load_events(log, cw.load_system("paper:1")).path
    again = cw.SamplePath(path.names, path.pool, path.time, path.event, path.job_class, path.job, path.cores)
    cw.goodness_of_fit(again, cw.load_system("paper:1"))
    assert calls == {"checks": 3, "tallies": 2}


def test_the_data_choose_a_family_and_the_evidence_is_shown() -> None:
    log = logged()
    rows = rows_by_name(as_json("estimate", "paper:1", log, "--family", "auto"))
    for row in rows.values():
        families = [candidate["family"] for candidate in row["candidates"]]
        assert sorted(families) == ["amdahl", "free", "power", "usl"]
        assert row["family"] == families[0]
        likeliest = row["candidates"][0]["parameters"]
        assert all(abs(row["parameters"][key] - at) < row["stderr"][key] for key, at in likeliest.items())
        assert sum(candidate["weight"] for candidate in row["candidates"]) == pytest.approx(1.0)
    text = succeed("estimate", "paper:1", log, "--family", "auto")
    for word in ("BIC", "weight", "usl", "kappa"):
        assert word in text
    assert "BIC" not in succeed("estimate", "paper:1", log)
    usl = as_json("estimate", "paper:1", log, "--family", "usl")["classes"][0]
    assert set(usl["parameters"]) == set(usl["stderr"]) == set(usl["interval"]) == {"sigma", "kappa"}


def test_a_free_curve_of_repeated_measurements_has_a_band() -> None:
    rows = ["cores,throughput", "1,10", "1,10.2", "2,19", "2,19.5", "4,31", "4,32", "8,40", "8,39"]
    Path("measured.csv").write_text("\n".join(rows))
    band = as_json("fit", "measured.csv", "--family", "free", "--level", "0.9", "--plot", "measured.png")[
        "band"
    ]
    assert (band["level"], band["cores"]) == (0.9, [2.0, 4.0, 8.0])
    assert all(low < high for low, high in zip(band["low"], band["high"], strict=True))
    assert "all of it with 0.95 probability" in " ".join(
        succeed("fit", "measured.csv", "--family", "free").split()
    )
    assert as_json("fit", "measured.csv")["band"] is None
    assert "--level must lie between 0.5 and 1" in one_line("fit", "measured.csv", "--level", "2")


def test_a_free_curve_is_given_by_its_points_and_a_band() -> None:
    log = logged()
    row = rows_by_name(as_json("estimate", "paper:1", log, "--family", "free", "--save", "free.toml"))["two"]
    assert (row["family"], row["parameters"], row["curve"][0]) == ("free", {}, [1.0, 1.0])
    assert len(row["band"]["cores"]) == len(row["band"]["low"]) == len(row["band"]["high"]) > 3
    assert cw.load_system("free.toml")["two"].speedup.rate(30.0) == pytest.approx(row["curve"][-1][1])
    assert rows_by_name(as_json("estimate", "paper:1", log))["two"]["curve"] is None
    text = succeed("estimate", "paper:1", log, "--family", "free")
    assert "s(30)" in text
    assert "flat beyond 30 cores" in text


def test_a_free_curve_of_measured_throughputs() -> None:
    Path("kinked.csv").write_text("cores,throughput\n1,100\n2,190\n4,390\n8,420\n16,430\n")
    found = as_json("fit", "kinked.csv", "--family", "free")
    assert (found["family"], found["parameters"], found["curve"][0]) == ("free", {}, [1.0, 1.0])
    text = succeed("fit", "kinked.csv", "--family", "free", "--plot", "kinked.png")
    assert 'family = "tabulated", points = [[1.0, 1.0], [' in text
    assert as_json("fit", "kinked.csv")["curve"] is None


def test_size_rates_are_estimated_for_the_classes_named() -> None:
    log = logged()
    for names, free in ((["two"], {"two"}), (["one", "two"], {"one", "two"}), (["all"], {"one", "two"})):
        options = [word for name in names for word in ("--unknown-size-rate", name)]
        rows = rows_by_name(as_json("estimate", "paper:1", log, *options))
        assert {name for name, row in rows.items() if row["size_rate"] is not None} == free
        low, high = rows["two"]["size_rate"]["interval"]
        assert low < rows["two"]["size_rate"]["value"] < high
    assert "size rate" in succeed("estimate", "paper:1", log, "--unknown-size-rate", "two")


def test_a_class_that_is_called_all_is_meant_itself() -> None:
    system = write(GOOD.replace('"one"', '"all"'))
    succeed(
        "simulate", system, "--policy", "equi", "--departures", "500", "--seed", "1", "--events", "log.csv"
    )
    rows = rows_by_name(as_json("estimate", system, "log.csv", "--unknown-size-rate", "all"))
    assert rows["all"]["size_rate"] is not None
    assert rows["two"]["size_rate"] is None


@pytest.mark.statistical
def test_a_log_that_does_not_follow_the_model_is_said_not_to() -> None:
    """A true class is doubted with probability 0.01; with size rates four times too high it must be."""
    log = logged(departures="2000")
    true = succeed("estimate", "paper:1", log)
    assert "no sign against it" in true
    assert "warning" not in true
    wrong = cw.load_system("paper:1")
    cw.save_system(
        cw.System(
            wrong.cores,
            [cw.JobClass(c.name, c.arrival_rate, 4 * c.known_size_rate, c.speedup) for c in wrong.classes],
        ),
        "wrong.toml",
    )
    text = succeed("estimate", "wrong.toml", log)
    assert re.search(r"one +warning: it does not \(p = ", text)
    row = rows_by_name(as_json("estimate", "wrong.toml", log))["one"]
    assert row["goodness_of_fit"]["doubtful"] is True
    assert row["goodness_of_fit"]["p_value"] < 0.01
    assert row["at_boundary"] is True


@pytest.mark.parametrize(
    ("log", "why"),
    [
        (TOTALS.partition("0.5,dep")[0] + "1,end,,,4\n", "no departures"),
        (TOTALS.replace(",4\n", ",1\n"), "never held more than one core"),
    ],
)
def test_without_information_no_number_is_made_up(log: str, why: str) -> None:
    write(log, "log.csv")
    (row,) = as_json("estimate", write(SINGLE), "log.csv")["classes"]
    assert row["informative"] is False
    assert row["parameters"] == row["stderr"] == {"p": None}
    assert row["log_likelihood"] is None
    assert row["goodness_of_fit"] is None
    assert why in row["note"]
    text = " ".join(succeed("estimate", "system.toml", "log.csv").split())
    assert re.search(f"no information on its amdahl curve: [a-z ]*{why}", text)


def test_what_was_estimated_can_be_solved() -> None:
    log = logged()
    assert "corewise solve fitted.toml" in succeed("estimate", "paper:1", log, "--save", "fitted.toml")
    fitted, true = cw.load_system("fitted.toml"), cw.load_system("paper:1")
    rows = rows_by_name(as_json("estimate", "paper:1", log))
    for job_class in fitted.classes:
        assert job_class.speedup == cw.Amdahl(rows[job_class.name]["parameters"]["p"])
        assert job_class.arrival_rate == rows[job_class.name]["arrival_rate"]["value"]
        assert job_class.size_rate == true[job_class.name].size_rate
    assert as_json("solve", "fitted.toml")["mean_jobs"] > 0


def test_what_was_kept_for_want_of_information_is_said() -> None:
    write(
        PAIR.replace("two,b,10,20", "one,b,30,0").replace("two,b,", "one,b,").replace("a,0,30", "a,30,0"),
        "log.csv",
    )
    text = succeed("estimate", "paper:1", "log.csv", "--save", "fitted.toml")
    assert re.search(r"two +no information: kept its amdahl curve, p = 0\.8", text)
    assert re.search(r"two +no job arrived: kept its arrival rate, 2\.6", text)
    assert "one  no information" not in text
    assert cw.load_system("fitted.toml")["two"] == cw.load_system("paper:1")["two"]
    rateless = write(re.sub("arrival_rate = .*\n", "", GOOD.replace("cores = 4", "cores = 30")))
    text = succeed("estimate", rateless, "log.csv", "--save", "fitted.toml")
    assert re.search(r"two +no job arrived: add its arrival rate", text)
    assert "arrival_rate" in one_line("solve", "fitted.toml")


def test_changes_are_left_out_of_what_is_saved_and_that_is_said() -> None:
    log = logged()
    assert "changes" not in succeed("estimate", "paper:1", log, "--save", "fitted.toml")
    drifting = write(GOOD.replace("cores = 4", "cores = 30"), "drifting.toml")
    with Path(drifting).open("a") as file:
        file.write('[[change]]\ntime = 9.0\nclass = "one"\nspeedup = { family = "amdahl", p = 0.5 }\n')
    assert "changes" in succeed("estimate", drifting, log, "--save", "fitted.toml")
    assert cw.load_system("fitted.toml").changes == ()


def test_arrival_rates_are_needed_to_simulate_but_not_to_estimate() -> None:
    system = write(re.sub("arrival_rate = .*\n", "", GOOD.replace("cores = 4", "cores = 30")))
    error = one_line("simulate", system, "--policy", "equi", "--time", "1")
    assert re.search(r"system\.toml: class 'one': arrival_rate is missing", error)
    rows = rows_by_name(as_json("estimate", system, logged()))
    assert rows["one"]["arrival_rate"]["value"] > 0


def test_curves_and_residuals_can_be_drawn() -> None:
    text = succeed("estimate", "paper:1", logged(), "--plot", "curves.png", "--residuals", "residuals.pdf")
    assert "curves.png" in text
    assert "residuals.pdf" in text
    assert Path("curves.png").read_bytes().startswith(b"\x89PNG")
    assert Path("residuals.pdf").read_bytes().startswith(b"%PDF")


def test_residuals_are_not_drawn_if_there_are_none() -> None:
    write(TOTALS.replace(",4\n", ",1\n"), "log.csv")
    command = ["estimate", write(SINGLE), "log.csv", "--residuals", "residuals.png", "--plot", "curves.png"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0
    assert result.stderr == "note: residuals.png is not written: no class has information\n"
    assert "residuals.png" not in result.stdout
    assert not Path("residuals.png").exists()
    assert Path("curves.png").exists()


# --- tables -------------------------------------------------------------------------------------


def test_tables_fit_eighty_columns() -> None:
    texts = [
        succeed(*RUN, "--departures", "3000", "--percentiles", "50,95,99", "--events", "log.csv"),
        succeed(*RUN, "--departures", "300", "--replications", "4", "--percentiles", "50,95,99"),
        succeed("estimate", "paper:1", "log.csv"),
        succeed("estimate", "paper:1", "log.csv", "--family", "auto", "--unknown-size-rate", "all"),
        succeed("estimate", "paper:1", "log.csv", "--family", "usl", "--save", "x.toml"),
    ]
    for text in texts:
        assert max(len(line) for line in text.splitlines()) <= 80
        assert not re.search(r"[ \t]$", text, flags=re.MULTILINE)
        assert not re.search(r"nan|inf\b", text)
        for name in ("one", "two"):
            assert name in text
    assert re.search(r"mean number of jobs +\d\.\d+ ± 0\.\d+ \(95 % confidence, by batch means\)", texts[0])
    assert "over 4 replications" in texts[1]
    assert re.search(r"response\n +time +50 % +95 % +99 %\n", texts[1])
    assert re.search(r"amdahl p +0\.\d+ +0\.\d+ +0\.\d+–0\.\d+ +[\d,]+\n", texts[2])


def test_long_names_are_folded_and_numbers_are_not() -> None:
    system = write(GOOD.replace('"one"', '"jobs of the first class which has a long name"'))
    run = ("simulate", system, "--policy", "equi", "--departures", "500", "--seed", "1")
    succeed(*run, "--events", "log.csv")
    (row, *_) = as_json("estimate", system, "log.csv")["classes"]
    text = succeed("estimate", system, "log.csv")
    assert "{:.4g}–{:.4g}".format(*row["interval"]["p"]) in text
    assert "departures\n" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_help_imports_nothing_slow() -> None:
    for verb in ("simulate", "estimate", "fit"):
        assert _imported(f"['{verb}', '--help']") == []
        assert "--json" in succeed(verb, "--help")
        assert verb in succeed("--help")


# --- what is wrong with the question --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "either --departures or --time, got neither"),
        (["--departures", "5", "--time", "5"], "either --departures or --time, got both"),
        (["--departures", "0"], "--departures must be at least 1, got '0'"),
        (["--departures", "-5"], "--departures must be at least 1, got '-5'"),
        (["--departures", "many"], "--departures must be a whole number, got 'many'"),
        (["--departures", "2.5"], "--departures must be a whole number, got '2.5'"),
        (["--departures", "nan"], "--departures must be a whole number, got 'nan'"),
        (["--departures", "1e30"], "--departures must be at most .*, got '1e30'"),
        (["--time", "0"], "--time must be positive, got '0'"),
        (["--time", "-1"], "--time must be positive, got '-1'"),
        (["--time", "inf"], "--time must be a finite number, got 'inf'"),
        (["--time", "soon"], "--time must be a finite number, got 'soon'"),
        (["--time", "1", "--seed", "-1"], "--seed must be at least 0, got '-1'"),
        (["--time", "1", "--seed", "lucky"], "--seed must be a whole number, got 'lucky'"),
        (["--time", "1", "--start", "3"], "--start needs a number for each class .one, two., got '3'"),
        (["--time", "1", "--start", "3,2,1"], "--start needs .* got '3,2,1'"),
        (["--time", "1", "--start", "3,x"], "--start for class 'two' must be a whole number, got 'x'"),
        (["--time", "1", "--start=-3,1"], "--start for class 'one' must be at least 0, got '-3'"),
        (["--time", "1", "--percentiles", "50,101"], "--percentiles must lie between 0 and 100, got 101"),
        (["--time", "1", "--percentiles", "50,"], "--percentiles must be finite numbers .* got '50,'"),
        (["--time", "1", "--percentiles", "most"], "--percentiles must be finite numbers .* got 'most'"),
        (["--time", "1", "--replications", "0"], "--replications must be at least 1, got '0'"),
        (["--time", "1", "--replications", "two"], "--replications must be a whole number, got 'two'"),
        (["--time", "1", "--replications", "2", "--events", "x.csv"], "one run, got --replications 2"),
        (["--time", "1", "--replications", "2", "--plot", "x.png"], "one run, got --replications 2"),
        (["--time", "1", "--per-job"], "--per-job .* --events"),
        (["--time", "1", "--events", "missing/x.csv"], "missing/x.csv: cannot be written"),
        (["--time", "1", "--events", "."], r"\.: cannot be written: is a directory"),
        (["--time", "1", "--plot", "x.pgn"], "x.pgn: .* did you mean 'png'"),
        (["--departures", "1e15", "--events", "x.csv"], "keep every event in memory: about 2e.15 .* GiB"),
        (["--time", "1e15", "--percentiles", "50"], "keep every event in memory: about 8e.15 .* GiB"),
    ],
)
def test_a_bad_question_to_simulate_is_refused(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("worked before the question was checked")

    monkeypatch.setattr("corewise.policies.base.policy_named", refuse)
    monkeypatch.setattr("corewise.simulation.simulator.simulate", refuse)
    assert re.search(message, one_line(*RUN, *options))
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("eqiu", "'eqiu'.*did you mean 'equi'"),
        ("priority:one,tow", "'tow'.*did you mean 'two'"),
        ("fixed:1", "1 shares.*one, two"),
    ],
)
def test_a_bad_policy_is_refused(policy: str, message: str) -> None:
    assert re.search(message, one_line("simulate", "paper:1", "--policy", policy, "--time", "1"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--family", "amdhal"], "unknown family 'amdhal'; did you mean 'amdahl'"),
        (["--family", "linear"], "unknown family 'linear'; known: amdahl, power, gustafson, usl, free, auto"),
        (["--unknown-size-rate", "oen"], "unknown class 'oen'; did you mean 'one'"),
        (["--level", "95"], "--level must lie between 0.5 and 1, such as 0.95, got '95'"),
        (["--level", "1"], "--level must lie between 0.5 and 1, such as 0.95, got '1'"),
        (["--level", "high"], "--level must be a finite number, got 'high'"),
        (["--save", "missing/x.toml"], "missing/x.toml: cannot be written"),
        (["--plot", "."], "cannot be written: is a directory"),
        (["--plot", "x.gif"], "x.gif: a figure must end in"),
        (["--residuals", "missing/x.png"], "missing/x.png: cannot be written"),
        (["--residuals", "x.gif"], "x.gif: a figure must end in"),
    ],
)
def test_a_bad_question_to_estimate_is_refused_before_the_log_is_read(
    options: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> NoReturn:
        raise AssertionError("read before the question was checked")

    monkeypatch.setattr("corewise.observation.event_logs.load_events", refuse)
    assert re.search(message, one_line("estimate", "paper:1", "log.csv", *options))
    assert list(Path().iterdir()) == []


# --- what is wrong with the log -------------------------------------------------------------------


@pytest.mark.parametrize("log", [PAIR, PAIR_BY_JOB])
def test_the_logs_that_are_spoilt_below_are_good(log: str) -> None:
    write(log, "log.csv")
    assert as_json("estimate", "paper:1", "log.csv")["departures"] == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("log", "message"),
    [
        (PAIR.replace("3,dep", "1.5,dep"), r"line 5: departure of job 'a' .*time is before"),
        (PAIR.replace("2,arrival", "2,departure"), r"line 4: departure of job 'b' .*no job of the class"),
        (PAIR.replace("arrival,two", "arrival,tow"), r"line 4: unknown class 'tow'; did you mean 'two'"),
        (PAIR.replace("2,arrival", "2,arival"), r"line 4: unknown event 'arival'; did you mean 'arrival'"),
        (PAIR.replace("time,", "when,"), r"line 1: .*has no time"),
        (PAIR.replace(",cores:two", ""), r"line 1: .*has no cores:two"),
        (PAIR.replace("cores:two", "cores:gpu"), r"line 1: .*unknown class 'gpu'; known: one, two"),
        (PAIR.replace("10,20", "ten,20"), r"line 4: cores:one 'ten' is not a number"),
        (PAIR.replace("10,20", "10,nan"), r"line 4: cores:two 'nan' is not finite"),
        (PAIR.replace("2,arrival", "nan,arrival"), r"line 4: time 'nan' is not finite"),
        (PAIR.replace("10,20", "15,20"), r"line 4: .*more than the pool of 30"),
        (PAIR.replace("10,20", "-1,20"), r"line 4: .*not negative, got -1 for 'one'"),
        (PAIR.replace("a,0,30", "a,5,25"), r"line 5: .*held by a job that has left"),
        (PAIR.replace("two,b,10", "two,a,10"), r"line 4: .*present already"),
        (PAIR[:-4], r"line 7: 5 fields, and the header has 6"),
        (PAIR.replace("two,b,10", 'two,"b,10'), r"line 4: not a line of CSV"),
        ("", r"empty"),
        (PAIR.partition("\n")[0] + "\n", r"no events"),
        (PAIR_BY_JOB.replace("2,arrival,two", "2,arrival,gpu"), r"line 5: unknown class 'gpu'"),
        (PAIR_BY_JOB + "4,resize,one,a,3\n", r"line 8: resize of job 'a' .*has left before"),
        (PAIR_BY_JOB.replace("two,b,20", "two,,20"), r"line 5: arrival of class 'two' .*needs a job"),
    ],
)
def test_a_bad_log_is_refused_with_its_line(log: str, message: str) -> None:
    write(log, "log.csv")
    error = one_line("estimate", "paper:1", "log.csv")
    assert error.startswith("error: log.csv")
    assert re.search(message, error)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x89PNG\r\n\0\0\0", "line 2: a binary file"),
        (PAIR.replace("two,b", "two,\xe9").encode("latin-1"), "line 4: not UTF-8 text, byte 0xe9"),
    ],
)
def test_what_is_not_text_is_refused(content: bytes, message: str) -> None:
    Path("log.csv").write_bytes(content)
    assert message in one_line("estimate", "paper:1", "log.csv")


def test_a_log_that_is_not_there_is_refused() -> None:
    assert "nowhere.csv: cannot be read: no such file" in one_line("estimate", "paper:1", "nowhere.csv")
    assert "cannot be read: is a directory" in one_line("estimate", "paper:1", ".")


def test_a_log_of_another_pool_is_refused() -> None:
    write(PAIR, "log.csv")
    error = one_line("estimate", write(GOOD), "log.csv")
    assert re.search("line 3: .*more than the pool of 4, got 30 for 'one'", error)


def test_lenient_skips_and_counts() -> None:
    write(PAIR.replace("2,arrival,two,b,10", "2,arrival,tow,b,10").replace("5,end", "4.5,resize"), "log.csv")
    one_line("estimate", "paper:1", "log.csv")
    result = as_json("estimate", "paper:1", "log.csv", "--lenient")
    assert result["rows"] == 6
    # Without its arrival, no job of class two can hold the cores of line 5, nor leave in line 6.
    assert result["skipped"] == len(result["skipped_reasons"]) == 3
    assert [reason.partition(":")[0] for reason in result["skipped_reasons"]] == [
        "line 4",
        "line 5",
        "line 6",
    ]
    assert result["departures"] == 0
    assert result["time"] == 4.5
    text = succeed("estimate", "paper:1", "log.csv", "--lenient")
    assert "3 of the rows could not be used" in text
    assert "line 4: unknown class 'tow'" in text


def test_of_many_rows_skipped_the_first_reasons_are_told() -> None:
    write(PAIR + "6,arrival,tow,c,0,0\n" * 50, "log.csv")
    result = as_json("estimate", "paper:1", "log.csv", "--lenient")
    assert (result["rows"], result["skipped"]) == (56, 50)
    told = len(result["skipped_reasons"])
    assert 0 < told < 50
    assert f"and {50 - told} more" in succeed("estimate", "paper:1", "log.csv", "--lenient")


# --- while it works, and how it ends --------------------------------------------------------------


def test_control_c_is_quiet_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*args: object, **kwargs: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr("pathlib.Path.replace", interrupt)  # the very last step of writing
    result = CliRunner().invoke(app, [*RUN, "--departures", "10", "--events", "log.csv"])
    assert (result.exit_code, result.output) == (130, "")
    assert list(Path().iterdir()) == []


@pytest.mark.slow
def test_a_long_run_shows_its_progress_on_a_terminal_and_can_be_interrupted() -> None:
    shown, out, status = on_a_terminal(
        [*RUN, "--departures", "1e15"], until=rb"%.* [\d,]+ departures/s .*\d+:\d\d:\d\d"
    )
    assert b"Simulating equi" in shown
    assert (status, out) == (130, b"")
    assert list(Path().iterdir()) == []


def test_without_a_terminal_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("corewise.cli.waiting._PATIENCE", -1.0)
    assert "departures/s" not in succeed(*RUN, "--departures", "1e5")  # which sees that stderr is empty


# --- the unit of time -----------------------------------------------------------------------------


def in_other_units(factor: float, rates: bool = True) -> tuple[str, str]:
    """Write a system and a log of it in which times are so many times as long; return both files."""
    system = Path("unit.toml")
    text = GOOD if rates else re.sub(r"arrival_rate = .*", "", GOOD)
    system.write_text(text, encoding="utf-8")
    full = Path("full.toml")
    full.write_text(GOOD, encoding="utf-8")
    run = cw.simulate(cw.load_system(full), "equi", departures=300, rng=3, record=True)
    assert run.path is not None
    cw.save_events(replace(run.path, time=factor * run.path.time), "unit.csv")
    return str(system), "unit.csv"


@pytest.mark.parametrize(
    ("factor", "rates", "told"),
    [
        (
            3600.0,
            True,
            r"1/3\d\d\d of the rates of the file: are its times in seconds, and the rates per hour",
        ),
        (
            60.0,
            True,
            r"1/[56]\d\.\d+ of the rates of the file: are its times in seconds, and the rates per min",
        ),
        (
            1e-3,
            True,
            r"(9\d\d(\.\d)?|1\d\d\d) times .* are its times in seconds, and the rates per millisecond",
        ),
        (3e5, True, r"1/\d\.?\d*e\+05 of the rates of the file: are both in the same unit of time"),
        (3600.0, False, r"1/\d+ of the rates of the file: are both in the same unit of time"),
        (1e-3, False, r"\d+(\.\d+)? times the rates of the file: are both in the same unit of time"),
    ],
)
def test_a_log_in_another_unit_is_asked_about(factor: float, rates: bool, told: str) -> None:
    result = as_json("estimate", *in_other_units(factor, rates))
    assert re.match(told, result["unit"])
    flat = " ".join(succeed("estimate", *in_other_units(factor, rates)).split())
    assert f"warning events come at {result['unit']} If so, the estimates are far off" in flat


@pytest.mark.parametrize("rates", [True, False])
@pytest.mark.parametrize("factor", [1.0, 0.3, 4.0])
def test_a_log_that_is_a_little_slower_or_faster_is_not(factor: float, rates: bool) -> None:
    assert as_json("estimate", *in_other_units(factor, rates))["unit"] is None


def test_a_log_of_hardly_any_events_has_no_unit() -> None:
    """Three arrivals in a thousandth of the time that they should take may be chance, or a quick look."""
    system = cw.System(4.0, [cw.JobClass("one", 1.0, 1.0, cw.Amdahl(0.5))])
    few = cw.Statistics.empty(("one",))
    assert pace(few, system) == 1.0
    run = cw.simulate(system, "equi", departures=3, rng=1)
    assert pace(replace(run.statistics, time=1e-3), system) == 1.0
    assert pace(replace(run.statistics, time=1e3), system) < 0.1
    assert unit_question(1.0) is None


def test_a_family_that_is_asked_for_needs_no_curve_in_the_system() -> None:
    log = logged()
    Path("names.toml").write_text('cores = 30\n[[class]]\nname = "one"\n[[class]]\nname = "two"\n')
    found = rows_by_name(as_json("estimate", "names.toml", log, "--family", "amdahl"))
    known = cw.load_system("paper:1").without_rates()
    expected = cw.estimate(load_events(log, known), known, family="amdahl")
    assert found["two"]["parameters"]["p"] == expected["two"].value
    assert found["two"]["size_rate"]["value"] > 0.0
    assert "speedup is missing; corewise estimate --family auto finds it" in one_line(
        "estimate", "names.toml", log
    )
