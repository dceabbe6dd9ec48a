from . import engines as engines
from .controller import Controller as Controller
from .controller import Options as Options
from .explain import Explanation as Explanation
from .job import LiveJob as LiveJob
from .journal import Journal as Journal
from .report import ClassReport as ClassReport
from .report import Report as Report
