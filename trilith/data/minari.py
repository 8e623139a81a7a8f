"""Exports recorded episodes as a Minari dataset, with observations and actions of the Gymnasium environments. The dataset can be read
without trilith."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from trilith.envs.gymnasium import OBSERVATIONS, ConstructionEnv
from trilith.utils.checks import require
from trilith.world.trajectory import Trajectory, read_dataset, read_episodes, to_arrays

OBSERVATION = "objects"
"""The kind of observation in the dataset: 15 numbers for each object, and which objects touch or are glued."""


def check_minari() -> None:
    """Raises ValueError if the packages that write Minari datasets are not installed."""
    absent = [name for name in ("minari", "h5py") if not find_spec(name)]
    require(not absent, f'--format minari needs more packages ({", ".join(absent)} missing): pip install "trilith[minari]"')


def write_minari(folder: Path, out: Path) -> int:
    """Writes the recorded episodes of a folder as a Minari dataset in the folder `out`, whole or not at all. Replaces `out` if it exists.
    Returns the number of episodes. Raises ValueError if packages or episodes are missing, or if a file is damaged.

    If the agent stopped, the episode is marked as truncated after its last placement, because the action spaces have no stop action.
    Episodes without placements are left out. An episode of L placements has L + 1 rows of infos: a row of zeros, and then one row for each
    placement.
    """
    check_minari()
    from minari.data_collector.episode_buffer import EpisodeBuffer
    from minari.dataset.minari_storage import MinariStorage

    facts = read_dataset(folder)
    options: dict[str, Any] = {key: facts[key] for key in ("task", "level", "zero_on_hit")}
    made = gymnasium.make("trilith/Construction-v0", **options, action_space="discrete_relative", observation=OBSERVATION)
    env = made.unwrapped
    assert isinstance(env, ConstructionEnv)
    aside = out.absolute().parent / f".{out.name}.{os.getpid()}.part"  # absolute, because Minari joins a relative path to itself
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        storage = MinariStorage.new(aside, env.observation_space, env.action_space, made.spec)
        agents = ", ".join(facts["agents"])
        about = {key: facts[key] for key in ("agents", "level", "seed", "epsilon", "zero_on_hit", "physics")}
        storage.update_metadata(
            {
                "dataset_id": f"trilith/{facts['task'].replace(':', '-')}/{_word(agents)}-v0",
                "minari_version": version("minari"),
                "algorithm_name": agents,
                "description": f"Episodes of {facts['task']} by {agents}. {json.dumps(about)}",
            }
        )

        episodes = (_columns(episode, env) for episode in read_episodes(folder))
        storage.update_episodes(EpisodeBuffer(**columns) for columns in episodes if columns is not None)
        count = int(storage.total_episodes)
        _compress(aside / "main_data.hdf5")
        storage.update_metadata({"dataset_size": storage.get_size()})
        if out.exists():
            shutil.rmtree(out)
        os.replace(aside, out)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    return count


def _compress(path: Path) -> None:
    """Reduces an HDF5 file to a tenth of its size. Minari stores kilobytes of index for each small array of an episode. Here each array
    becomes a single compressed chunk, which needs hardly any index."""
    import h5py

    packed = path.with_suffix(".packed")
    with h5py.File(path) as old, h5py.File(packed, "w", libver="latest") as new:

        def copy(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                made = new.create_dataset(name, data=item[()], chunks=item.shape, compression="gzip")
            else:
                made = new.create_group(name)
            made.attrs.update(item.attrs)

        old.visititems(copy)
    os.replace(packed, path)


def _columns(episode: Trajectory, env: ConstructionEnv) -> dict[str, Any] | None:
    """Returns the arrays of one episode, by the names that Minari expects. None if the episode has no placements. Observations have room
    for `env.max_objects` objects."""
    arrays, _ = to_arrays([episode])
    stopped = episode.placements[-1] is None
    steps = len(episode.placements) - stopped
    if not steps:
        return None
    seen = [OBSERVATIONS[OBSERVATION].of(state.scene, env.max_objects, "full") for state in episode.states[: steps + 1]]
    last = np.arange(steps) == steps - 1
    reasons = np.array([*[""] * (steps - 1), episode.states[-1].ended], "S")
    info = {"placement": arrays["placement"], "explored": arrays["explored"], "total": arrays["total"][1:], "reason": reasons}
    return {
        "observations": {name: np.stack([each[name] for each in seen]) for name in seen[0]},
        "actions": arrays["action"][:steps].astype(np.int64),
        "rewards": arrays["reward"][:steps],
        "terminations": last & (not stopped),
        "truncations": last & stopped,
        "infos": {name: np.concatenate([np.zeros_like(rows[:1]), rows[:steps]]) for name, rows in info.items()},
    }


def _word(text: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in text) or "episodes"
