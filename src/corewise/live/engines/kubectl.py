r"""kubectl about the pods of one namespace: what is asked of it, and how its answers read.

The shapes are those that Kubernetes documents:

- *Resize CPU and Memory Resources assigned to Containers*
  (kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources): `kubectl patch pod …
  --subresource resize` (kubectl 1.32 or newer), stable since 1.35; what a container really has is
  `status.containerStatuses[].resources`; a resize under way is shown by the conditions `PodResizePending`
  (`Deferred`: not now, the node tries again; `Infeasible`: never) and `PodResizeInProgress` (with the reason
  `Error` if something is wrong).
- KEP-1287, *In-place Update of Pod Resources* (github.com/kubernetes/enhancements): of a container that does
  not run, `resources` is what it will be given; the class of service of a pod cannot change.
- `observedGeneration` of a condition says which `metadata.generation` it is about: an earlier one is stale.

Not tried on a cluster.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from corewise.errors import CorewiseError, InvalidInput, nearest
from corewise.kit import checks
from corewise.live.engines.commanded import carried_out

__all__ = [
    "PARKED",
    "Kubectl",
    "Refused",
    "SeenPod",
    "container_of",
    "cpu_of",
    "held_by",
    "seen",
    "with_cores",
]

PARKED = "10m"
"""The processor of a pod that holds no core: the least quota there is; none at all would be no limit."""

_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3}
_QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+)|([numk]?))")
_REFUSAL = re.compile(
    r"from server \((?:Forbidden|BadRequest|Invalid|AlreadyExists)\)"
    r"|^The Pod .* is invalid|invalid subresource",
    re.MULTILINE,
)
_LONGEST = 200  # characters of a reason

Run = Callable[[Sequence[str], str | None], tuple[int, str]]
"""Carries out a command, which may be given something to read; returns its exit code and what it printed."""


class Refused(CorewiseError):
    """What the server will never do, however often it is asked."""


@dataclass(frozen=True)
class SeenPod:
    """Pod as the cluster shows it.

    Attributes
    ----------
    name : str
        Its name.
    phase : str
        ``Pending``, ``Running``, ``Succeeded``, ``Failed`` or ``Unknown``.
    cores : int or None
        The cores that the container holds; None if the cluster does not say.
    pending : str or None
        ``Deferred`` or ``Infeasible`` while a resize is not granted.
    why : str
        What the cluster says about a resize that is not there yet, or a pod that does not start.
    fits : int or None
        The cores that the node has, if that is why.
    """

    name: str
    phase: str
    cores: int | None
    pending: str | None = None
    why: str = ""
    fits: int | None = None


class Kubectl:
    """Commands about the pods of a namespace.

    Parameters
    ----------
    namespace, context : str, optional
        Where the pods are; by default where kubectl looks by itself.
    run : callable, optional
        Carries out a command.
    """

    def __init__(
        self, namespace: str | None = None, context: str | None = None, run: Run | None = None
    ) -> None:
        where = {"--namespace": namespace, "--context": context}
        self._where = [f"{option}={value}" for option, value in where.items() if value is not None]
        self._run = run or partial(carried_out, of="kubectl", server="the server")

    def require_access(self) -> None:
        """Raise `CorewiseError` if the cluster does not answer, or pods may not be resized there."""
        code, text = self._run(
            ["kubectl", *self._where, "auth", "can-i", "patch", "pods", "--subresource=resize"], None
        )
        words = text.split()
        if words and words[0] == "no":
            raise CorewiseError("kubectl says that you may not patch pods/resize there")
        if code:
            raise self._error("auth can-i", code, text)

    def pods(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return those of some pods that are there, by their names."""
        answer = self._said("get", "pod", *names, "--ignore-not-found", "--output=json")
        if not answer.strip():  # none of them
            return {}
        found = _parsed(answer)
        rows = found["items"] if found.get("kind") == "List" else [found]
        return {row["metadata"]["name"]: row for row in rows}

    def manifest(self, path: Path) -> dict[str, Any]:
        """Return the pod that a manifest describes."""
        found = _parsed(self._said("create", "--dry-run=client", f"--filename={path}", "--output=json"))
        if found.get("kind") != "Pod":
            raise InvalidInput(
                f"{path} must be the manifest of one Pod, got {checks.shown(found.get('kind'))}"
            )
        return found

    def create(self, manifest: Mapping[str, Any]) -> None:
        """Begin a pod."""
        self._said("create", "--filename=-", "--output=name", given=json.dumps(manifest))

    def resize(self, pod: str, container: str, cores: int) -> int:
        """Ask that a container have so many cores; return the generation of the pod that wants it."""
        cpu = {"cpu": _quantity(cores)}
        row = {"name": container, "resources": {"requests": cpu, "limits": cpu}}
        patch = json.dumps({"spec": {"containers": [row]}})
        answer = self._said("patch", "pod", pod, "--subresource=resize", f"--patch={patch}", "--output=json")
        return int(_parsed(answer)["metadata"].get("generation", 0))

    def delete(self, pod: str) -> None:
        """Have a pod end."""
        self._said("delete", "pod", pod, "--ignore-not-found", "--wait=false", "--output=name")

    def _said(self, *words: str, given: str | None = None) -> str:
        code, text = self._run(["kubectl", *self._where, *words], given)
        if not code:
            return text
        raise self._error(words[0], code, text)

    @staticmethod
    def _error(what: str, code: int, text: str) -> CorewiseError:
        lines = [line for line in text.splitlines() if line.strip()]
        last = checks.shown(" ".join(lines[-1].split())[:_LONGEST]) if lines else "nothing was said"
        kind = Refused if _REFUSAL.search(text) else CorewiseError
        return kind(f"kubectl {what} failed with {code}: {last}")


def _parsed(answer: str) -> dict[str, Any]:
    try:
        found = json.loads(answer)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise CorewiseError(f"kubectl has answered what is no JSON object: {checks.shown(answer[:_LONGEST])}")
    return found


# --- what a pod says --------------------------------------------------------------------------------


def cpu_of(quantity: object) -> float:
    """Return processors by Kubernetes' notation: ``"2"``, ``"1500m"``, ``0.5``."""
    found = _QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise CorewiseError(f"a quantity of processors is like '2' or '1500m', got {checks.shown(quantity)}")
    number, exponent, unit = found.groups()
    return float(number) * (10.0 ** int(exponent) if exponent else _UNITS[unit or ""])


def _quantity(cores: int) -> str:
    return str(cores) if cores else PARKED


def held_by(quantity: object) -> int:
    """Return the whole cores that are reserved for a container with such a limit."""
    cpu = cpu_of(quantity)
    return 0 if cpu <= cpu_of(PARKED) else math.ceil(cpu - 1e-9)


def container_of(pod: Mapping[str, Any], name: str | None, what: str) -> dict[str, Any]:
    """Return the container of a pod that is to be moved; refuse one without a limit."""
    rows = {row["name"]: row for row in pod["spec"]["containers"]}
    if name is None and len(rows) > 1:
        raise InvalidInput(f"{what} has the containers {', '.join(rows)}: say which one")
    if name is not None and name not in rows:
        raise InvalidInput(f"{what} has no container {checks.shown(name)}{nearest(name, list(rows))}")
    found: dict[str, Any] = rows[name] if name is not None else next(iter(rows.values()))
    if "cpu" not in found.get("resources", {}).get("limits", {}):
        raise InvalidInput(
            f"container {found['name']!r} of {what} has no limit of cpu, so that it holds no number of cores"
        )
    return found


def with_cores(manifest: Mapping[str, Any], container: str, cores: int) -> dict[str, Any]:
    """Return a manifest whose container begins with so many cores."""
    made: dict[str, Any] = json.loads(json.dumps(manifest))
    resources = container_of(made, container, "the manifest")["resources"]
    for part in ("requests", "limits"):
        resources[part] = {**resources.get(part, {}), "cpu": _quantity(cores)}
    return made


def seen(pod: Mapping[str, Any], container: str, asked: int = 0) -> SeenPod:
    """Return a pod as the cluster shows it, and what it says about the resize of a generation."""
    status = pod.get("status", {})
    rows = [row for row in status.get("containerStatuses", ()) if row["name"] == container]
    phase = status.get("phase", "Unknown")
    limits = rows[0].get("resources", {}).get("limits", {}) if rows else {}
    cores = 0 if phase == "Pending" else held_by(limits["cpu"]) if "cpu" in limits else None
    about = {
        row["type"]: row
        for row in status.get("conditions", ())
        if row.get("observedGeneration", asked) >= asked
    }
    waits = about.get("PodResizePending") or about.get("PodResizeInProgress") or {}
    if not waits and about.get("PodScheduled", {}).get("status") == "False":
        waits = about["PodScheduled"]
    why = ": ".join(part for part in (waits.get("reason"), waits.get("message")) if part)
    return SeenPod(
        pod["metadata"]["name"],
        phase,
        cores,
        about["PodResizePending"].get("reason") if "PodResizePending" in about else None,
        " ".join(why.split())[:_LONGEST],
        _fits(waits.get("message", "")),
    )


def _fits(message: str) -> int | None:
    """Return the cores that a node has, where it has said that they are too few."""
    found = re.search(r"capacity: cpu, .*capacity: ([0-9]+)", message)
    return None if found is None else int(found[1]) // 1000
