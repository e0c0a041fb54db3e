"""Training: from a configuration to a result and a run folder."""

from lrga.training.callbacks.base import Callback, EpochRecord, RunFacts
from lrga.training.config import DataConfig, ModelConfig, OptimizerConfig, RunConfig, TrainingConfig
from lrga.training.evaluate import evaluate
from lrga.training.problems.graphs import GraphProblem
from lrga.training.problems.links import LinkProblem
from lrga.training.problems.problem import Problem, StepLoss
from lrga.training.problems.walks import WalkProblem
from lrga.training.runs.folder import TrainingResult
from lrga.training.runs.run import Interrupted, continue_run, load_run, new_folder, train
from lrga.training.trainer import Trainer

__all__ = [
    "Callback",
    "DataConfig",
    "EpochRecord",
    "GraphProblem",
    "Interrupted",
    "LinkProblem",
    "ModelConfig",
    "OptimizerConfig",
    "Problem",
    "RunConfig",
    "RunFacts",
    "StepLoss",
    "Trainer",
    "TrainingConfig",
    "TrainingResult",
    "WalkProblem",
    "continue_run",
    "evaluate",
    "load_run",
    "new_folder",
    "train",
]
