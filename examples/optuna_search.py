"""Optuna looks for good options of a training: pip install optuna, then python optuna_search.py [trials] [steps].

A trial is a run of `steps` learner steps in four parts. After each part it is validated, and pruned if its reward is below the median of
earlier trials. The study and all runs are kept in runs/optuna: the same command adds more trials. A pruned run can be resumed.
"""

import sys
from dataclasses import replace
from pathlib import Path

import optuna

from trilith.training.config import recipe_config
from trilith.training.run import train

OUT, PARTS = Path("runs/optuna"), 4


def objective(trial: optuna.Trial) -> float:
    """Trains with the options of a trial. Returns its mean validation reward on the hardest level plus that on all levels."""
    config = recipe_config("objects", "connecting")
    agent = replace(
        config.agent,
        learning_rate=trial.suggest_float("learning_rate", 1e-4, 3e-3, log=True),
        epsilon=trial.suggest_float("epsilon", 0.05, 1.0, log=True),
        discount=trial.suggest_float("discount", 0.9, 1.0),
        corrections_per_update=0.0,  # they take time, as does a long warm-up: small runs tell trials apart sooner
        learning_starts=500,
        warmup=50,
    )
    config = replace(config, agent=agent, actors=0, evaluate_scenes=20, out=OUT / f"trial{trial.number}")
    reward = 0.0
    for part in range(1, PARTS + 1):
        result = train(replace(config, steps=steps * part // PARTS), screen=False)  # each part resumes the one before
        reward = result["hardest"] + result["all"]
        print(f"trial {trial.number}, {steps * part // PARTS} learner steps: {reward:.2f}", flush=True)
        trial.report(reward, part)
        if trial.should_prune():
            raise optuna.TrialPruned
    return reward


trials = int(sys.argv[1]) if len(sys.argv) > 1 else 20
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 4000
OUT.mkdir(parents=True, exist_ok=True)
study = optuna.create_study(
    study_name="trilith",
    storage=f"sqlite:///{OUT}/study.db",
    load_if_exists=True,
    direction="maximize",
    pruner=optuna.pruners.MedianPruner(n_startup_trials=1),
)
study.sampler = optuna.samplers.TPESampler(seed=len(study.trials))  # a resumed study draws other values than before
study.optimize(objective, n_trials=trials)
print(f"best of {len(study.trials)}: {study.best_value:.2f} with {study.best_params}")
