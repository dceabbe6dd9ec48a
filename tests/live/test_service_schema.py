"""Schemathesis over the description of the service: whatever is sent, nothing breaks or is undescribed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")

from tests.helpers.serving import service

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


@pytest.mark.slow
def test_nothing_is_answered_that_is_not_described(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        command = [
            str(Path(sys.executable).with_name("schemathesis")),
            *("run", f"{running.address}/openapi.json", "--header", f"Authorization: Bearer {running.token}"),
            *("--max-examples", "8", "--phases", "fuzzing", "--checks", CHECKS, "--seed", "1"),
            *("--exclude-path-regex", "stream|instructions", "--generation-database", "none"),
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:]
        statuses = running.ask("GET", "/metrics")[2].decode()
        assert 'requests_total{status="422"}' in statuses
        assert 'requests_total{status="5' not in statuses
