"""A kubectl that keeps its cluster in a file and answers like the real one: a program, and a part of tests.

The shapes of pods are those of the documentation, the complaints those that kubectl 1.32 was seen to print. A
node has so many cores. A resize is applied after some looks; beyond what the node has it is infeasible, while
others take the rest it is deferred. Nothing but the standard library, so that it starts quickly.
"""

from __future__ import annotations

import fcntl
import json
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

State = dict[str, Any]
WHERE = "FAKE_CLUSTER"


def cpu(quantity: str) -> int:
    """Thousandths of a processor."""
    return int(quantity[:-1]) if quantity.endswith("m") else 1000 * int(quantity)


def pod_of(name: str, quantity: str, phase: str = "Running", containers: int = 1) -> State:
    """A pod as `kubectl get pod --output=json` shows it."""
    resources = {"limits": {"cpu": quantity, "memory": "1Gi"}, "requests": {"cpu": quantity, "memory": "1Gi"}}
    names = [f"main{k or ''}" for k in range(containers)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"containers": [{"name": row, "image": "busybox", "resources": resources} for row in names]},
        "status": {
            "phase": phase,
            "qosClass": "Guaranteed",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {
                    "name": row,
                    "restartCount": 0,
                    "allocatedResources": resources["requests"],
                    "resources": resources,
                }
                for row in names
            ],
        },
    }


class Cluster:
    """The cluster of a fake kubectl, as a test changes it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    @classmethod
    def make(cls, folder: Path, node: int = 8, delay: int = 1) -> Cluster:
        """A cluster of one node, and a program `kubectl` in a folder ``bin``."""
        made = cls(folder / "cluster.json")
        made.file.write_text(
            json.dumps(
                {
                    "node": node,
                    "delay": delay,
                    "pods": {},
                    "calls": [],
                    "others": 0,
                    "down": False,
                    "refuse": "",
                }
            )
        )
        program = folder / "bin" / "kubectl"
        program.parent.mkdir()
        program.write_text(
            f'#!/bin/sh\n{WHERE}="{made.file}" exec "{sys.executable}" -S -E "{__file__}" "$@"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return made

    @contextmanager
    def changed(self) -> Iterator[State]:
        """The state, which is written back."""
        with self.file.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = json.loads(self.file.read_text())
            yield state
            self.file.write_text(json.dumps(state))

    def set(self, **values: Any) -> None:
        with self.changed() as state:
            state.update(values)

    def run(self, name: str, quantity: str = "2", **options: Any) -> None:
        """Have a pod run."""
        with self.changed() as state:
            state["pods"][name] = pod_of(name, quantity, **options)

    def finish(self, name: str, phase: str = "Succeeded") -> None:
        with self.changed() as state:
            state["pods"][name]["status"]["phase"] = phase

    def vanish(self, name: str) -> None:
        with self.changed() as state:
            del state["pods"][name]

    def cores(self, name: str, where: str = "status") -> str:
        """What a pod has, or by ``spec`` should have."""
        with self.changed() as state:
            pod = state["pods"][name]
        rows = pod["status"]["containerStatuses"] if where == "status" else pod["spec"]["containers"]
        found: str = rows[0]["resources"]["limits"]["cpu"]
        return found

    @property
    def names(self) -> list[str]:
        with self.changed() as state:
            return sorted(state["pods"])

    def calls(self, verb: str) -> list[list[str]]:
        """The commands so far."""
        with self.changed() as state:
            return [call for call in state["calls"] if verb in call]


# --- the node ---------------------------------------------------------------------------------------


def pass_time(state: State) -> None:
    """Let a node do what it can about every resize."""
    for pod in state["pods"].values():
        if pod["status"]["phase"] == "Pending":
            pod["status"].update(pod_of(pod["metadata"]["name"], "1")["status"])
            for row, wanted in zip(
                pod["status"]["containerStatuses"], pod["spec"]["containers"], strict=True
            ):
                row["name"], row["resources"] = wanted["name"], wanted["resources"]
        for row, wanted in zip(pod["status"]["containerStatuses"], pod["spec"]["containers"], strict=True):
            if row.get("resources", wanted["resources"]) != wanted["resources"]:
                resize(state, pod, row, wanted)


def resize(state: State, pod: State, row: State, wanted: State) -> None:
    asked = cpu(wanted["resources"]["requests"]["cpu"])
    others = sum(
        cpu(other["resources"]["requests"]["cpu"])
        for one in state["pods"].values()
        for other in one["status"].get("containerStatuses", ())
        if other is not row and one["status"]["phase"] == "Running"
    )
    room = 1000 * state["node"]
    if asked > room:
        text = f"Node didn't have enough capacity: cpu, requested: {asked}, capacity: {room}"
        say(pod, "PodResizePending", "Infeasible", text)
    elif asked + others + 1000 * state["others"] > room:
        text = f"Node didn't have enough resource: cpu, requested: {asked}, used: {others}, capacity: {room}"
        say(pod, "PodResizePending", "Deferred", text)
    elif pod.setdefault("looks", 0) < state["delay"]:
        pod["looks"] += 1
        say(pod, "PodResizeInProgress")
    else:
        row["resources"] = wanted["resources"]
        row["allocatedResources"] = wanted["resources"]["requests"]
        say(pod, "")


def say(pod: State, kind: str, reason: str | None = None, message: str | None = None) -> None:
    rows = [row for row in pod["status"]["conditions"] if not row["type"].startswith("PodResize")]
    generation = pod["metadata"]["generation"]
    made = {
        "type": kind,
        "status": "True",
        "reason": reason,
        "message": message,
        "observedGeneration": generation,
    }
    pod["status"]["conditions"] = [
        *rows,
        *([{k: v for k, v in made.items() if v is not None}] if kind else []),
    ]


# --- the program ------------------------------------------------------------------------------------


def complain(text: str) -> int:
    print(text, file=sys.stderr)
    return 1


def answer(state: State, words: list[str], options: dict[str, str]) -> int:
    if state["down"]:
        refused = "dial tcp 127.0.0.1:1: connect: connection refused"
        complain(f'E1117 10:33:16.5 1 memcache.go:265] "Unhandled Error" err="couldn\'t get …: {refused}"')
        server = "The connection to the server 127.0.0.1:1 was refused"
        return complain(f"{server} - did you specify the right host or port?")
    verbs = {"auth": may, "create": create, "get": get, "delete": delete, "patch": patch}
    return verbs[words[0]](state, words, options)


def may(state: State, _words: list[str], _options: dict[str, str]) -> int:
    denied = bool(state.get("denied"))
    print("no" if denied else "yes")
    return int(denied)


def create(state: State, _words: list[str], options: dict[str, str]) -> int:
    text = sys.stdin.read() if options["--filename"] == "-" else Path(options["--filename"]).read_text()
    made = json.loads(text)
    if options.get("--dry-run") == "client":
        print(text)
        return 0
    name = made["metadata"]["name"]
    if name in state["pods"]:
        exists = f'error when creating "STDIN": pods "{name}" already exists'
        return complain(f"Error from server (AlreadyExists): {exists}")
    state["pods"][name] = {**made, "status": {"phase": "Pending", "conditions": []}}
    state["pods"][name]["metadata"]["generation"] = 1
    print(f"pod/{name}")
    return 1 if state.get("unanswered") else 0


def get(state: State, words: list[str], _options: dict[str, str]) -> int:
    pass_time(state)
    found = [state["pods"][name] for name in words[2:] if name in state["pods"]]
    if found:
        several = {"apiVersion": "v1", "kind": "List", "items": found}
        print(json.dumps(found[0] if len(words) == 3 else several))
    return 0


def delete(state: State, words: list[str], _options: dict[str, str]) -> int:
    state["pods"].pop(words[2], None)
    return 0


def patch(state: State, words: list[str], options: dict[str, str]) -> int:
    if words[2] not in state["pods"]:
        return complain(f'Error from server (NotFound): pods "{words[2]}" not found')
    if state["refuse"]:
        return complain(state["refuse"])
    assert options["--subresource"] == "resize", options
    pod = state["pods"][words[2]]
    for row in json.loads(options["--patch"])["spec"]["containers"]:
        known = next(one for one in pod["spec"]["containers"] if one["name"] == row["name"])
        known["resources"] = {
            part: {**known["resources"][part], **row["resources"][part]} for part in ("limits", "requests")
        }
    pod["metadata"]["generation"] += 1
    pod["looks"] = 0
    say(pod, "")
    print(json.dumps(pod))
    return 0


def main() -> int:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    options = dict(word.split("=", 1) for word in sys.argv[1:] if word.startswith("--") and "=" in word)
    with Cluster(Path(os.environ[WHERE])).changed() as state:
        state["calls"].append(sys.argv[1:])
        return answer(state, words, options)


if __name__ == "__main__":
    sys.exit(main())
