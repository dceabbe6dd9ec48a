from .base import Engine as Engine
from .base import Round as Round
from .dask import DaskEngine as DaskEngine
from .executor import ExecutorEngine as ExecutorEngine
from .kubernetes import KubernetesEngine as KubernetesEngine
from .ray import RayEngine as RayEngine
from .slurm import SlurmEngine as SlurmEngine
