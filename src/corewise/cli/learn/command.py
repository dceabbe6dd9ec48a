"""``corewise learn``: run, estimate, solve, adopt, again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.learn.options import LearnChoices, LearnOptions
from corewise.cli.learn.report import Learned
from corewise.cli.learn.session import LearnSession
from corewise.cli.options import AsJson, SystemName, from_options
from corewise.cli.output import emit, terminal_width
from corewise.cli.reporting import INTERRUPTED, reporting
from corewise.cli.targets import draw, print_written, require_figure, require_target
from corewise.cli.waiting import progress_bar, say_if_long, waiting
from corewise.errors import BoxTooLarge, InvalidFile, InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System

__all__ = ["learn"]


@reporting
@from_options(LearnChoices)
def learn(
    system: SystemName,
    given: LearnChoices,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save checkpoints of the run to this file, for --resume."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Go on from the checkpoint in this file as if the run had never stopped. The options are "
            "those in FILE; --steps may ask for more windows in all. Saves to FILE again, unless --save "
            "names another.",
        ),
    ] = None,
    no_gap: Annotated[
        bool,
        typer.Option(
            "--no-gap",
            help="Leave out the exact comparison of each policy with the optimum. It is left out in any case "
            "where exact numbers are out of reach: for more than three classes, or too many states.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the estimates and the gap to the optimum.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the curves and adopt the best policy for them, in turn.

    SYSTEM is simulated, unless there is a log. Of its curves the learner knows the families only, and not
    when they change. The first policy is EQUI. Ctrl-C ends a run early: what was learned by then is printed,
    and saved. Nothing but SYSTEM is needed.
    """
    from corewise.learning.loop import learn as learn_system
    from corewise.model.files import RATES, load_system

    problem = load_system(system, optional=RATES)
    asked = given.values
    options = LearnOptions.new(asked) if resume is None else LearnOptions.resumed(asked, resume, problem)
    if options.events is None:
        problem.require_rates()
    method = options.method(problem)
    if method.policy is None and method.knows_rates:
        say_if_long(problem, "--policy improved or whittle does without it", method.steps)
    target = resume if save is None else save
    inputs = [system] if options.events is None else [system, options.events]
    require_target(target, *inputs)
    _require_plot(plot, problem, *inputs, *([] if resume is None else [resume]))
    require_target(plot, outputs=[] if target is None else [target])
    exact = options.events is None and not no_gap
    with _way_out(), waiting("Preparing ..."):
        loop = learn_system(options.plant(problem), method, resume=resume, diagnose=exact)
        course = LearnSession(loop, target, options.note)
        if method.steps is not None and method.steps < course.before:
            raise InvalidInput(f"{resume}: has {course.before} windows already, got --steps {method.steps}")
        course.require_a_window()
        learned = Learned(problem, options, course, loop.evaluator if exact else None, terminal_width())
        learned.prepare(loop.plant.truth)
    with (
        _way_out(),
        progress_bar(f"Learning, algorithm {method.name}", course.total, "departures") as progress,
    ):
        course.run(progress)
    with _way_out(), waiting("Comparing ..."):
        learned.prepare(learned.truth)
    emit(learned, as_json)
    if not as_json:
        _print_saved(system, course, no_gap)
    # What was learned is out by now, whatever comes of the files.
    undrawn = _draw(learned, plot, quiet=as_json) if plot else None
    failures = [str(failure) for failure in (course.unsaved, undrawn) if failure]
    if failures:
        raise InvalidFile("; ".join(failures))
    if course.interrupted:
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _way_out() -> Iterator[None]:
    """Say what to ask for instead where an exact solution needs more memory than there is."""
    try:
        yield
    except BoxTooLarge as error:
        raise BoxTooLarge(f"{error}; try --policy whittle --no-gap") from None


def _require_plot(plot: Path | None, system: System, *inputs: str | Path) -> None:
    require_figure(plot, system.names, *inputs)
    if plot and not any(known.speedup.bounds for known in system.classes):
        raise InvalidInput(f"{plot}: there is nothing to draw, as no curve has a parameter")


def _print_saved(system: str, course: LearnSession, no_gap: bool) -> None:
    """Print where the run was saved and how to go on with it, or that it was not saved."""
    if not course.target:
        if course.interrupted:
            print("Nothing was saved: there is no --save FILE to go on from.")
    elif not course.rows:
        print("Nothing was saved: the first window was not over.")
    elif not course.unsaved:
        print_written((course.target, "run"))
        if not course.log_ended:
            again = ["corewise", "learn", system, "--resume", str(course.target)]
            more = [*(["--no-gap"] if no_gap else []), *([] if course.interrupted else ["--steps", "MORE"])]
            print(f"To go on:  {shlex.join([*again, *more])}")


def _draw(learned: Learned, plot: Path, *, quiet: bool) -> InvalidFile | None:
    """Draw the epochs, and say so; return why it cannot be done, if so."""
    course, system = learned.course, learned.system
    if not course.rows:
        if not quiet:
            print("Nothing was drawn: the first window was not over.")
        return None
    from corewise.plots.epochs import learn_figure

    baseline = {}
    if learned.baselines and not system.changes:  # of one truth, which later ones may not have
        baseline["EQUI"] = learned.baselines.equi_gap
    truth = system if learned.truth else None
    try:
        draw(plot, lambda: learn_figure(course.rows, system, truth=truth, baseline=baseline))
    except InvalidFile as error:
        return error
    if not quiet:
        print_written((plot, "plot"))
    return None
