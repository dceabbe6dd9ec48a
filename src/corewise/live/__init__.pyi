from . import engines as engines
from .journal.journal import Journal as Journal
from .run.job import LiveJob as LiveJob
from .state.controller import Controller as Controller
from .state.controller import Options as Options
from .state.explain import Explanation as Explanation
from .state.report import ClassReport as ClassReport
from .state.report import Report as Report
