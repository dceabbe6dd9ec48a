r"""Kubernetes by kubectl: a job is a pod, whose cores are changed in place while it runs.

A pod is there already, or is begun from a manifest of the user's as soon as there are cores for it. To move
it, requests and limits of cpu of one container are patched by the subresource `resize`; what it holds is what
its node says it has, not what was asked for. `corewise.live.engines.kubectl` has the calls and their sources.

- A resize that is not granted (`Infeasible`), that the server does not accept, or that takes too long (a
  `Deferred` one is tried again by the node, one in progress may be stuck) is reported by `MoveRefused`: there
  is an alert, and the controller counts on what the pod holds. It then asks for a number that the pod can
  have, which also withdraws the old one: an infeasible one left as it is has been seen to be applied at a
  restart (kubernetes/kubernetes#126033), and limits lowered to be disobeyed (#118371).
- A pod that holds no core has a limit of 10m, the least that there is.
- A pod that succeeds has finished, one that fails has failed, one that vanishes is lost.
- Pods that were begun here are deleted when their job is cancelled or the engine closed; others are left as
  they are.

Written to the documentation, tested against a kubectl that is emulated; **not tried on a cluster**.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from corewise.errors import CorewiseError, InvalidInput
from corewise.kit import checks
from corewise.live.engines import kubectl as answers
from corewise.live.engines.base import Holding, JobSpec, Pod, RunsPods
from corewise.live.engines.commanded import CommandedEngine, give
from corewise.live.engines.kubectl import Kubectl, Refused, SeenPod
from corewise.observation.events import CoresHeld, JobEnded, JobFinished, MoveRefused

__all__ = ["KubernetesEngine"]

_log = logging.getLogger("corewise.live")


@dataclass(slots=True, eq=False)
class _PodJob:
    """A pod at work.

    What it is to hold, what was asked of the cluster and in which generation of the pod, and since when; what
    was last reported of it; whether it is there, and why it is given up.
    """

    pod: Pod
    wanted: int | None = None
    asked: int | None = None
    generation: int = 0
    since: float = 0.0
    refused: bool = False
    held: int = 0
    begun: bool = False
    tried: bool = False
    ended: str | None = None

    @property
    def name(self) -> str:
        return self.pod.holding.name


class KubernetesEngine(CommandedEngine, RunsPods):
    """Engine over pods of a Kubernetes cluster, by kubectl; written to the documentation, not tried on one.

    Needs Kubernetes 1.33, better 1.35 where in-place resize is stable, and kubectl 1.32.

    Parameters
    ----------
    cores : int
        The cores that the pods share. A pod cannot leave its node: take one node's, or see to it that every
        node has room.
    namespace, context : str, optional
        Where the pods are; by default where kubectl looks by itself.
    patience : float, optional
        Seconds that a resize may take before it is given up, with an alert.
    every : float, optional
        Seconds between two looks at the pods.
    kubectl : Kubectl, optional
        What to ask, in the place of namespace and context.

    Examples
    --------
    ::

        engine = cw.live.engines.KubernetesEngine(16, namespace="batch")
        with cw.LivePool(classes, engine) as pool:
            there = pool.pod("training", "train-7")              # a pod that runs
            begun = pool.pod("encode", Path("encode-8.yaml"))    # one to begin
    """

    def __init__(
        self,
        cores: int,
        *,
        namespace: str | None = None,
        context: str | None = None,
        patience: float = 60.0,
        every: float = 1.0,
        kubectl: Kubectl | None = None,
    ) -> None:
        super().__init__("kubernetes", checks.count(cores, "cores"), checks.positive(every, "every"))
        self._patience = checks.positive(patience, "patience")
        self._kubectl = Kubectl(namespace, context) if kubectl is None else kubectl
        self._kubectl.require_access()
        self._pods: dict[str, _PodJob] = {}
        self._silent = False

    def pod(self, pod: str | Path, container: str | None = None) -> Pod:
        """Return the job of a pod, by its name or the path of a manifest; refuse one that cannot be moved."""
        if isinstance(pod, Path):
            if not pod.is_file():
                raise InvalidInput(f"there is no manifest {str(pod)!r}")
            manifest = self._kubectl.manifest(pod)
            row = answers.container_of(manifest, container, str(pod))
            name = manifest["metadata"].get("name")
            if not name:
                raise InvalidInput(f"the pod of {pod} needs a name, by which to find it again")
            return Pod(Holding(name), name, row["name"], manifest)
        found = self._kubectl.pods([pod]).get(pod)
        if found is None:
            hint = ": of a manifest give the pathlib.Path" if pod.endswith((".yaml", ".yml", ".json")) else ""
            raise InvalidInput(f"no pod {checks.shown(pod)} is there{hint}")
        row = answers.container_of(found, container, f"pod {pod!r}")
        there = answers.seen(found, row["name"])
        if there.phase in ("Succeeded", "Failed"):
            raise InvalidInput(f"pod {pod!r} has {there.phase.lower()} already")
        if there.phase == "Running" and there.cores is None:
            raise InvalidInput(
                f"pod {pod!r} does not say what it holds: to resize it in place needs Kubernetes 1.33"
            )
        return Pod(Holding(pod), pod, row["name"])

    # --- the thread ---------------------------------------------------------------------------------

    @property
    def _jobs(self) -> dict[str, _PodJob]:
        return self._pods

    def _add(self, job: JobSpec) -> None:
        assert isinstance(job, Pod)  # `require_kind` has checked it
        self._jobs[job.holding.name] = _PodJob(job, begun=job.manifest is None)

    def _waits(self) -> bool:
        return any(job.begun or job.wanted for job in self._jobs.values())

    def _aim(self, name: str, cores: int) -> None:
        job = self._jobs.get(name)
        if job is None or job.ended is not None or (cores == job.wanted and not job.refused):
            return
        job.wanted, job.refused, job.since = cores, False, time.monotonic()
        self._ask(job)

    def _ask(self, job: _PodJob) -> None:
        """Ask the cluster for what a job is to hold; what gets no answer is asked again at the next look."""
        if job.refused or job.ended is not None or job.wanted in (None, job.asked):
            return
        assert job.wanted is not None
        try:
            if job.begun:
                job.generation = self._kubectl.resize(job.pod.pod, job.pod.container, job.wanted)
            elif job.wanted and job.pod.manifest is not None:
                job.tried, tried = True, job.tried
                self._begin(job, tried=tried)
            else:
                return
            job.asked = job.wanted
        except Refused as error:
            self._refuse(job, str(error))
        except CorewiseError as error:
            self._complain(error)

    def _begin(self, job: _PodJob, *, tried: bool) -> None:
        """Create a pod; one that is there after a try that got no answer is the one."""
        assert job.pod.manifest is not None
        manifest = answers.with_cores(job.pod.manifest, job.pod.container, job.wanted or 0)
        try:
            self._kubectl.create(manifest)
        except Refused as error:
            if not (tried and "already exists" in str(error)):
                self._leave(job, "failed", error)
                return
        job.begun = True

    def _look(self) -> None:
        """See what has become of all pods."""
        for job in list(self._jobs.values()):
            self._ask(job)
        begun = [job for job in self._jobs.values() if job.begun]
        if not begun:
            return
        try:
            found = self._kubectl.pods(job.pod.pod for job in begun)
        except CorewiseError as error:
            self._complain(error)
            return
        self._silent = False
        for job in begun:
            pod = found.get(job.pod.pod)
            seen = None if pod is None else answers.seen(pod, job.pod.container, job.generation)
            if seen is None or seen.phase in ("Succeeded", "Failed"):
                self._close(job, seen)
            else:
                self._follow(job, seen)

    def _complain(self, error: CorewiseError) -> None:
        """Log once that there is no answer; the controller alerts if a move takes too long."""
        if not self._silent:
            _log.warning("%s", error)
        self._silent = True

    def _follow(self, job: _PodJob, seen: SeenPod) -> None:
        """Report the cores of a pod, and a refusal if it will not hold what was asked for."""
        if seen.cores is not None and seen.cores != job.held:
            job.held = job.pod.holding.cores = seen.cores
            self._report(CoresHeld, job.name, seen.cores)
        if job.ended is not None:
            self._delete(job)
        elif job.wanted is None or seen.cores == job.wanted:
            job.since = time.monotonic()
        elif seen.pending == "Infeasible" or time.monotonic() - job.since > self._patience:
            self._refuse(job, seen.why or f"nothing has come of it in {self._patience:g} s", seen.fits)

    def _refuse(self, job: _PodJob, why: str, fits: int | None = None) -> None:
        """Report, once, that a pod cannot hold what it is assigned."""
        if job.refused or job.name not in self._jobs:
            return
        job.refused, job.asked = True, None
        self._report(MoveRefused, job.name, job.wanted, " ".join(why.split())[:200], fits)

    # --- ends ---------------------------------------------------------------------------------------

    def _close(self, job: _PodJob, seen: SeenPod | None) -> None:
        """Let a pod go that has come to its end, or is not there any more."""
        if seen is not None and seen.phase == "Succeeded":
            del self._jobs[job.name]
            self._report(JobFinished, job.name, then=partial(give, job.pod.future, None))
        else:
            self._leave(job, job.ended or ("lost" if seen is None else "failed"))

    def _end(self, name: str, why: str) -> None:
        job = self._jobs.get(name)
        if job is None or job.ended is not None:
            return
        job.ended = why
        if job.pod.manifest is None or not (job.begun or job.tried):
            self._leave(job, why)
            return
        self._delete(job)
        if self._closing:  # closing does not wait for it
            self._leave(job, why)

    def _delete(self, job: _PodJob) -> None:
        try:
            self._kubectl.delete(job.pod.pod)
        except CorewiseError as error:
            self._complain(error)

    def _leave(self, job: _PodJob, why: str, error: CorewiseError | None = None) -> None:
        del self._jobs[job.name]
        self._report(JobEnded, job.name, why)
        give(job.pod.future, error or CorewiseError(f"pod {job.name!r} was ended: {why}"))
