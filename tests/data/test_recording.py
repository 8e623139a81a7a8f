"""Recorded episodes are the same bytes however they were recorded, and give back every state."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from shell import interrupt, launch, refused, trilith, until

from trilith.agents.random_agents import LegalAgent
from trilith.agents.registry import AGENTS
from trilith.data.minari import write_minari
from trilith.data.recording import SHARD, Recorder, record, rewards_of
from trilith.evaluation.scene_sets import start_in_set
from trilith.utils.files import read_json, write_json
from trilith.utils.tensors import load_tensors, save_tensors
from trilith.world.episode import step
from trilith.world.observations.objects import objects
from trilith.world.trajectory import CODEC, read_episodes

SMALL = Recorder(("legal", "scripted"), "covering", "all", 2 * SHARD + 5, seed=3, epsilon=0.3)


def recorded(recorder: Recorder, out: Path, workers: int = 1) -> dict[str, bytes]:
    for _ in record(recorder, out, workers):
        pass
    return contents(out)


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(out.iterdir()) if path.name != ".lock"}


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("recorded")
    recorded(SMALL, out)
    return out


def test_the_number_of_workers_changes_nothing(small, tmp_path):
    assert list(contents(small)) == ["00000.safetensors", "00001.safetensors", "00002.safetensors", "dataset.json"]
    assert recorded(SMALL, tmp_path, workers=2) == contents(small)


def test_every_transition_is_what_the_rules_make_of_it(small):
    episodes = list(read_episodes(small))
    assert [episode.agent for episode in episodes] == [SMALL.agents[k % 2] for k in range(SMALL.episodes)]
    for episode in episodes:
        assert len(episode.states) == len(episode.placements) + 1
        for state, placement, reward, after in zip(episode.states, episode.placements, episode.rewards, episode.states[1:], strict=False):
            happened = step(state, placement)
            assert happened.state == after
            assert happened.reward == reward
        assert episode.states[-1].ended
    shares = [np.mean([e for episode in episodes if episode.agent == name for e in episode.explored]) for name in SMALL.agents]
    assert all(0.2 < share < 0.4 for share in shares)


def test_actions_say_what_was_placed(small):
    arrays, _ = load_tensors(small / "00000.safetensors")
    assert arrays["terminated"].sum() == SHARD
    episodes = list(read_episodes(small))[:SHARD]
    steps = [(s, p) for e in episodes for s, p in zip(e.states, e.placements, strict=False)]
    off = 0
    for (state, placement), action, by_chance in zip(steps, arrays["action"].tolist(), arrays["explored"], strict=True):
        if placement is not None and by_chance:  # chance chooses among these actions: what it placed is told exactly
            assert np.allclose(CODEC.decode(state.scene, action)[1:3], placement[1:3])
            off += 1
    assert off > 10
    assert rewards_of(arrays) == [episode.states[-1].total for episode in episodes]


def test_more_episodes_and_damaged_files_are_recorded_again(small, tmp_path):
    recorded(replace(SMALL, episodes=SHARD + 1), tmp_path)
    path = tmp_path / "00000.safetensors"
    path.write_bytes(path.read_bytes()[:-5])
    assert recorded(SMALL, tmp_path) == contents(small)


def test_a_partly_filled_file_counts_as_missing_as_soon_as_the_folder_grows(small, tmp_path):
    """Otherwise its old episodes would pass for all that the larger folder has there, if the command stops before it is recorded again."""
    recorded(replace(SMALL, episodes=SHARD + 1), tmp_path)
    growing = record(SMALL, tmp_path, workers=1)
    next(growing)  # the full file, which is kept
    growing.close()
    with pytest.raises(ValueError, match=r"not complete, 00001\.safetensors is missing"):
        list(read_episodes(tmp_path))
    assert recorded(SMALL, tmp_path) == contents(small)


def test_what_a_killed_process_left_does_not_make_a_folder_somebody_elses(tmp_path):
    (tmp_path / f".dataset.{2**22 + 1}.part.json").touch()  # no process has such a number
    recorded(Recorder(("legal",), "silhouette", 2, 1), tmp_path)
    assert list(contents(tmp_path)) == ["00000.safetensors", "dataset.json"]


def test_a_file_that_is_not_the_recorded_one_is_noticed_even_with_a_checksum_of_its_own(small, tmp_path):
    shutil.copytree(small, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "00001.safetensors"
    arrays, texts = load_tensors(path)
    save_tensors(path, arrays | {"reward": arrays["reward"] + 1}, texts)
    with pytest.raises(ValueError, match=r"00001\.safetensors is damaged: its checksum is not the one in dataset\.json"):
        list(read_episodes(tmp_path))
    assert recorded(SMALL, tmp_path) == contents(small)


@pytest.mark.parametrize("change", [{"seed": 4}, {"epsilon": 0.2}, {"shards": 1}, {"checksums": []}, {"agents": ["planner"]}])
def test_what_was_changed_in_the_description_of_a_recording_is_noticed(small, tmp_path, change):
    shutil.copytree(small, tmp_path, dirs_exist_ok=True)
    write_json(tmp_path / "dataset.json", read_json(tmp_path / "dataset.json") | change)
    with pytest.raises(ValueError, match=r"dataset\.json is damaged: its checksum does not match its content"):
        list(read_episodes(tmp_path))
    with pytest.raises(ValueError, match=r"dataset\.json is damaged"):
        recorded(SMALL, tmp_path)


def test_episodes_of_a_frozen_set_begin_with_its_scenes(tmp_path):
    recorded(Recorder(("legal",), "silhouette", 2, 3, split="valid"), tmp_path)
    assert [episode.states[0] for episode in read_episodes(tmp_path)] == [start_in_set("silhouette", 2, "valid", k) for k in range(3)]
    with pytest.raises(ValueError, match="1001 episodes: a valid set has 1000 scenes"):
        Recorder(("legal",), "silhouette", 2, 1001, split="valid")


@pytest.mark.slow
def test_a_folder_of_something_else_is_refused(small, tmp_path):
    command = ["record-episodes", *SMALL.agents, "--task=covering", f"--episodes={SMALL.episodes}", "--seed=3"]
    before = contents(small)
    said = refused(trilith(*command, "--epsilon=0.2", f"--out={small}", cwd=tmp_path))
    assert said == f"{small} holds episodes of epsilon 0.3, not 0.2: choose another --out, or remove it"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("Dear")
    assert "is not empty" in refused(trilith(*command, "--out=mine", cwd=tmp_path))
    assert "epsilon 2.0: must be a probability" in refused(trilith(*command, "--epsilon=2", "--out=new", cwd=tmp_path))
    assert "there is no agent 'nobody'" in refused(trilith("record-episodes", "nobody", "--task=covering", "--out=new", cwd=tmp_path))
    assert not (tmp_path / "new").exists()
    assert contents(small) == before


@pytest.mark.longest
@pytest.mark.slow
def test_ctrl_c_keeps_whole_files_and_the_same_command_goes_on(tmp_path):
    command = ["record-episodes", "legal", "--task=silhouette", "--episodes=480", "--workers=2", "--out=data"]
    process = launch(*command, cwd=tmp_path)
    until(lambda: (tmp_path / "data" / "00001.safetensors").exists(), "two files")
    code, out, err = interrupt(process)
    assert code == 130
    assert not out
    assert "episodes are kept, the same command resumes from there" in err
    kept = contents(tmp_path / "data")
    assert kept.pop("dataset.json")  # it has the checksums of the files so far
    assert trilith(*command, cwd=tmp_path).returncode == 0
    after = contents(tmp_path / "data")
    assert len(after) == 16
    assert after.items() >= kept.items()
    assert len(list(read_episodes(tmp_path / "data"))) == 480


READ = """
import json, sys
from minari import MinariDataset
dataset = MinariDataset(sys.argv[1])
episodes = [(e.observations["objects"].tolist(), e.rewards.tolist(), e.infos["placement"].tolist(), e.infos["reason"][-1].decode(),
             bool(e.terminations[-1]), bool(e.truncations[-1]), len(e.actions)) for e in dataset]
assert not any(name == "trilith" or name.startswith("trilith.") for name in sys.modules)
print(json.dumps(episodes))
"""


class Stopper(LegalAgent):
    """Stops after two placements."""

    def act(self, states, rngs):
        return [None if state.steps == 2 else placement for state, placement in zip(states, super().act(states, rngs), strict=True)]


def test_minari_reads_what_was_recorded_without_trilith(tmp_path, monkeypatch):
    pytest.importorskip("minari")
    monkeypatch.setitem(AGENTS, "stopper", Stopper)
    small = tmp_path / "data"
    recorded(Recorder(("stopper", "legal", "random"), "covering_hard", episodes=20), small)
    monkeypatch.chdir(tmp_path)
    count = write_minari(small, Path("minari"))  # relative, as it is given on the command line
    read = subprocess.run([sys.executable, "-c", READ, tmp_path / "minari"], capture_output=True, text=True, check=True, cwd=tmp_path)
    found = json.loads(read.stdout.splitlines()[-1])
    episodes = [episode for episode in read_episodes(small) if episode.placements[0] is not None]
    assert len(found) == len(episodes) == count
    assert {episode.states[-1].ended for episode in episodes} >= {"stopped", "obstacle_hit", "invalid_edge"}
    for episode, (rows, rewards, placements, reason, terminated, truncated, steps) in zip(episodes, found, strict=True):
        stopped = episode.placements[-1] is None
        assert steps == len(rows) - 1 == len(episode.placements) - stopped
        assert (terminated, truncated) == (not stopped, stopped)
        assert reason == episode.states[-1].ended
        assert rewards == list(episode.rewards[:steps])
        assert placements[1:] == [list(map(float, placement)) for placement in episode.placements[:steps]]
        for state, seen in zip(episode.states, rows, strict=False):
            assert np.array_equal(objects(state.scene), np.float32(seen[: len(state.scene)]))


RECOVER = """
import sys
from minari import MinariDataset
dataset = MinariDataset(sys.argv[1])
env = dataset.recover_environment()
assert env.observation_space == dataset.observation_space and env.action_space == dataset.action_space
print(env.unwrapped.task.name, env.unwrapped.level, env.unwrapped.zero_on_hit)
"""


def test_a_minari_dataset_names_its_environment_and_is_small(tmp_path):
    pytest.importorskip("minari")
    recorded(Recorder(("legal",), "silhouette", "hardest", episodes=40, zero_on_hit=True), tmp_path)
    write_minari(tmp_path, tmp_path / "minari")
    read = subprocess.run([sys.executable, "-c", RECOVER, tmp_path / "minari"], capture_output=True, text=True, check=True)
    assert read.stdout.splitlines()[-1] == "silhouette 7 True"
    size = (tmp_path / "minari" / "main_data.hdf5").stat().st_size
    assert size < 2 * sum(path.stat().st_size for path in tmp_path.glob("*.safetensors")), "of the arrays; it was up to thirteen times them"
