"""``corewise learn``: run, estimate, solve, adopt, again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from corewise.cli.learn.options import LearnOptions
from corewise.cli.learn.report import Learned, print_learned
from corewise.cli.learn.session import LearnSession, Yardstick
from corewise.cli.options import AsJson, SystemName
from corewise.cli.output import (
    INTERRUPTED,
    print_json,
    progress_bar,
    reporting,
    require_figure,
    require_target,
    say_if_long,
    waiting,
)
from corewise.errors import InvalidFile, InvalidInput

if TYPE_CHECKING:
    from corewise.model.system import System

__all__ = ["learn"]


@reporting
def learn(  # noqa: PLR0913, PLR0917  # one argument for each option
    system: SystemName,
    algorithm: Annotated[
        str | None,
        typer.Option(
            metavar="1a|1b|adaptive",
            help="1a: only the latest window counts. 1b: all of them do. adaptive: changes are found, and of "
            "each class all counts since it last changed. Needed unless --resume.",
        ),
    ] = None,
    departures: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Departures in the first window, such as 200. Needed unless --resume."
        ),
    ] = None,
    power: Annotated[
        str | None,
        typer.Option(
            metavar="G",
            help="Window k has N k^G departures. Default: 0.75 for 1a, 0 (equal windows) for the others.",
        ),
    ] = None,
    between_alarms: Annotated[
        str | None,
        typer.Option(
            metavar="G",
            help="For adaptive: while nothing changes, a change is found by chance once in so many "
            "departures, in the mean. With more of them a change is surer and found later. At least 100 "
            "windows. Default: 1e7.",
        ),
    ] = None,
    steps: Annotated[
        str | None,
        typer.Option(
            metavar="K", help="How many windows. Needed unless --resume. Default for a log: all it has."
        ),
    ] = None,
    seed: Annotated[
        str | None, typer.Option(metavar="S", help="Repeats a run. Default: a new one, which is reported.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="P",
            help="What to adopt for the estimates: optimal (the default), improved or whittle (for many "
            "classes), greedy, equi, fixed:0.5,0.5, or priority:two,one.",
        ),
    ] = None,
    events: Annotated[
        Path | None,
        typer.Option(metavar="LOG", help="Learn from this event log rather than from a simulation."),
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save the run to this file as it goes on, for --resume."),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Go on with a saved run as if it had never stopped. The options are those in FILE; --steps "
            "may ask for more windows in all. Saves to FILE again, unless --save names another.",
        ),
    ] = None,
    no_gap: Annotated[
        bool,
        typer.Option(
            "--no-gap",
            help="Leave out the exact comparisons with the optimum, which take long for many classes.",
        ),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="PNG", help="Draw the estimates and the gap to the optimum.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Learn the curves and adopt the best policy for them, in turn.

    SYSTEM is simulated. Of its curves the learner knows the families only, and not when they change. The
    first policy is EQUI. Ctrl-C ends a run early: what was learned by then is printed, and saved.
    """
    from corewise.learning.loop import learn as learn_system
    from corewise.model.files import load_system

    problem = load_system(system)
    given = {
        "algorithm": algorithm,
        "departures": departures,
        "power": power,
        "between_alarms": between_alarms,
        "policy": policy,
        "steps": steps,
        "seed": seed,
        "events": None if events is None else str(events.resolve()),
    }
    options = LearnOptions.new(given) if resume is None else LearnOptions.resumed(given, resume, problem)
    method = options.method(problem)
    if method.policy is None:
        say_if_long(problem, "--policy improved or whittle does without it")
    target = resume if save is None else save
    inputs = [system] if options.events is None else [system, options.events]
    require_target(target, *inputs)
    _require_plot(plot, problem, *inputs, *([] if resume is None else [resume]))
    require_target(plot, outputs=[] if target is None else [target])
    exact = options.events is None and not no_gap
    with waiting("Preparing ..."):
        loop = learn_system(options.plant(problem), method, resume=resume, diagnose=exact)
        course = LearnSession(loop, target, options.note)
        if method.steps is not None and method.steps < course.before:
            raise InvalidInput(f"{resume}: has {course.before} windows already, got --steps {method.steps}")
        course.require_a_window()
        yardstick = Yardstick.of(problem.regime(0.0)) if exact else None
    with progress_bar(f"Learning, algorithm {method.name}", course.total, "departures") as progress:
        course.run(progress)
    truth = None if options.events else problem.regime(course.time)
    if yardstick and truth:
        with waiting("Comparing ..."):
            yardstick = yardstick.moved(truth)
    learned = Learned(problem, options, course, truth, yardstick)
    if as_json:
        print_json(learned.as_mapping())
    else:
        print_learned(learned)
        _print_saved(system, course, no_gap)
    # What was learned is out by now, whatever comes of the files.
    undrawn = _draw(learned, plot, quiet=as_json) if plot else None
    failures = [str(failure) for failure in (course.unsaved, undrawn) if failure]
    if failures:
        raise InvalidFile("; ".join(failures))
    if course.interrupted:
        raise typer.Exit(INTERRUPTED)


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
        print(f"Wrote the run to {course.target}.")
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
    from corewise.plots.style import save_figure

    baseline = {}
    if learned.yardstick and not system.changes:  # of one truth, which later ones may not have
        baseline["EQUI"] = learned.yardstick.equi_gap
    truth = system if learned.truth else None
    try:
        with waiting(f"Drawing {plot} ..."):
            save_figure(learn_figure(course.rows, system, truth=truth, baseline=baseline), plot)
    except InvalidFile as error:
        return error
    if not quiet:
        print(f"Wrote the plot to {plot}.")
    return None
