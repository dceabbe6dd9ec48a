"""What is in ``deploy/`` loads where there is a tool for it, and speaks of metrics and options there are."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("starlette")

from typer.testing import CliRunner

from corewise.cli.main import app
from tests.helpers.serving import service

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The names of all metrics of a service."""
    with service(tmp_path_factory.mktemp("deploy")) as running:
        text = running.ask("GET", "/metrics")[2].decode()
    names = {row.split(" ")[2] for row in text.splitlines() if row.startswith("# TYPE")}
    return names | {f"{name}_{end}" for name in names for end in ("sum", "count")}


def named(text: str) -> set[str]:
    return set(re.findall(r"\bcorewise_\w+", text))


def test_the_dashboard_shows_metrics_that_there_are(metrics: set[str]) -> None:
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    found = named(" ".join(queries))
    assert found <= metrics
    assert len(found) > 8


def test_the_alerts_watch_metrics_that_there_are(metrics: set[str]) -> None:
    text = (DEPLOY / "prometheus-alerts.yaml").read_text()
    (group,) = pytest.importorskip("yaml").safe_load(text)["groups"]
    assert len(group["rules"]) == text.count("- alert:") >= 5
    for rule in group["rules"]:
        assert named(rule["expr"]) <= metrics, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]
    if promtool := shutil.which("promtool"):
        subprocess.run([promtool, "check", "rules", str(DEPLOY / "prometheus-alerts.yaml")], check=True)


def command_in(text: str, start: str) -> list[str]:
    line = next(row for row in text.splitlines() if row.startswith(start))
    return shlex.split(line[len(start) :])


@pytest.mark.parametrize("file", ["corewise.service", "Containerfile"])
def test_the_commands_are_those_of_the_command_line(file: str, tmp_path: Path) -> None:
    text = (DEPLOY / file).read_text()
    if file == "Containerfile":
        command = json.loads(next(row for row in text.splitlines() if row.startswith("ENTRYPOINT"))[10:])
    else:
        command = command_in(text, "ExecStart=")
    assert Path(command[0]).name == "corewise"
    missing = [str(tmp_path / "nowhere.toml") if word.endswith("pool.toml") else word for word in command[1:]]
    done = CliRunner().invoke(app, missing)
    assert (done.exit_code, "nowhere.toml" in done.stderr) == (
        2,
        True,
    )  # the options are right, the file is not there


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="no systemd-analyze to check the unit with"
)
def test_the_unit_is_one(tmp_path: Path) -> None:
    text = (DEPLOY / "corewise.service").read_text().replace("/opt/corewise/bin/corewise", "/bin/true")
    unit = tmp_path / "corewise.service"
    unit.write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "corewise.service" in line]
    assert complaints == [], done.stderr
