"""A run can be interrupted, killed and resumed, and says in one line what is wrong."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from trilith import tensors
from trilith.agents.config import DQNConfig, NetConfig, SearchConfig, to_json
from trilith.agents.dqn import load, make_layout, make_net
from trilith.episode import State, start, step
from trilith.files import alone, write_json
from trilith.training import checkpoint
from trilith.training.actor import Order, Played, _by_chance, _play, collect, play_greedily, valid_states
from trilith.training.config import TrainConfig, recipe_config, run_config
from trilith.training.local import MAX_DEATHS, Inline, Processes, flat_weights
from trilith.training.run import Run, resume, train

AGENT = DQNConfig(
    net=NetConfig(width=16, layers=1, heads=2, decoder=16),
    batch=8,
    ratio=0.2,
    min_replay=20,
    replay_mb=0.2,
    curriculum_steps=10,
    first_demonstrations=0,
    demonstrations=0.0,
)


SEARCHING = replace(AGENT, search=SearchConfig(3), amortise=0.5)
SHOWN = replace(AGENT, first_demonstrations=3, demonstrations=0.1)


def tiny(out: Path, agent: DQNConfig = AGENT, **options: Any) -> TrainConfig:
    return TrainConfig(out=out, actors=0, episodes=4, evaluate_every=5, evaluate_scenes=2, agent=agent, **options)


def saved(out: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    arrays, facts = checkpoint.load(out / checkpoint.NAME)
    for mine in ("seconds", "evaluated", "best", "last_valid"):  # when it was evaluated; nothing of learning depends on it
        del facts[mine]
    return arrays, facts


def go_on(out: Path, screen: bool = False, **changes: Any) -> None:
    resume(replace(run_config(out), **changes), screen)


def returns(played: Played) -> list[float]:
    return [float(episode.rewards.sum()) for episode in played.episodes]


def log(out: Path, kind: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if line["kind"] == kind]


@pytest.mark.parametrize("agent", [AGENT, SEARCHING, SHOWN], ids=["plain", "searching", "shown"])
def test_interrupted_and_resumed_equals_uninterrupted_bit_for_bit(tmp_path: Path, agent: DQNConfig) -> None:
    train(tiny(tmp_path / "whole", agent, steps=24), screen=False)
    train(tiny(tmp_path / "parts", agent, steps=7), screen=False)
    go_on(tmp_path / "parts", steps=13)
    go_on(tmp_path / "parts", steps=24)
    (arrays, facts), (arrays2, facts2) = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    assert facts == facts2
    assert facts["step"] == 24
    assert arrays.keys() == arrays2.keys()
    for name, array in arrays.items():
        assert array.tobytes() == arrays2[name].tobytes(), name
    for out in (tmp_path / "whole", tmp_path / "parts"):
        valid = [line["step"] for line in log(out, "valid")]
        assert valid == sorted(set(valid))
        assert valid[-1] == 24
        assert load(out).discount == AGENT.discount
    # Evaluations at the same steps are the same, whatever others there were at the ends of the parts.
    whole, parts = ({line["step"]: {**line, "minutes": 0} for line in log(tmp_path / name, "valid")} for name in ("whole", "parts"))
    assert list(parts) == [5, 7, 10, 13, 15, 20, 24]
    assert {step: parts[step] for step in whole} == whole
    assert facts["ordered"] == (6 if agent is SHOWN else 0)  # three at first, one for ten learner steps, two at once
    assert (arrays["shown.ring"].size > 0) == (agent is SHOWN)


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    train(tiny(tmp_path / "a", steps=3), screen=False)
    train(tiny(tmp_path / "b", steps=3, seed=1), screen=False)
    assert saved(tmp_path / "a")[1] != saved(tmp_path / "b")[1]


def test_the_ratio_of_learner_to_actor_steps_holds(tmp_path: Path) -> None:
    config = tiny(tmp_path, steps=40)
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    run.go(screen=False)
    longest = config.episodes * 7
    assert AGENT.min_replay + 40 / AGENT.ratio <= run.actor_steps <= AGENT.min_replay + 41 / AGENT.ratio + longest


@pytest.mark.parametrize("actions", ["relative", "relative_xy", "absolute"])
def test_the_first_steps_are_random_placements_that_overlap_nothing(actions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    ends, taken = [], set()

    def spy(state: State, placement: Any) -> Any:
        after = step(state, placement)
        ends.append(after.state.ended)
        return after

    monkeypatch.setattr("trilith.training.actor.step", spy)
    config = replace(recipe_config("paper").agent, actions=actions, offsets=7)
    net = make_net(config, make_layout(config, "covering_hard"))
    for episode in collect(net, "covering_hard", Order((0, 1), 12, (0.0, 1.0), 0.0, (7.0, 7.0), by_chance=True)).episodes:
        taken |= {tuple(action) for action in episode.actions.tolist()}
    assert len(ends) > 20
    assert not {"bad_choice", "invalid_edge", "spawn_collision"} & set(ends), set(ends)
    assert {action[3] for action in taken} == {0, 1}
    assert len(taken) > 0.9 * len(ends)
    ends.clear()
    collect(net, "covering_hard", Order((0, 1), 12, (0.0, 1.0), 3.0, (7.0, 7.0), by_chance=True))
    assert {"invalid_edge", "bad_choice", "spawn_collision"} & set(ends)  # exploring, with the mask none


def test_random_first_steps_say_nothing_of_the_length_of_episodes(tmp_path: Path) -> None:
    config = tiny(
        tmp_path, replace(recipe_config("paper").agent, net=NetConfig(network="graph", width=4, recurrent=1), min_replay=200), steps=1
    )
    write_json(config.out / "config.json", to_json(config))
    run = Run(config)
    before = list(run.lengths)
    run._take(collect(run.learner.net, config.task, order := run._next_order(True)), None)  # type: ignore[arg-type]
    assert order.by_chance
    assert order.epsilon == 1
    assert run.actor_steps > 0
    assert run.lengths == before
    run.actor_steps = 200
    run._take(collect(run.learner.net, config.task, order := run._next_order(True)), None)  # type: ignore[arg-type]
    assert not order.by_chance
    assert order.epsilon == config.agent.epsilon
    assert run.lengths != before


def test_an_actor_that_searches_tells_what_it_found() -> None:
    net = make_net(AGENT, make_layout(AGENT, "silhouette", beyond=False))
    order = Order((0, 1), 4, (0.0, 1.0, *[0.0] * 6), 0.5, (4.0,) * 8, SearchConfig(7))
    played = collect(net, "silhouette", order)
    assert [e.rewards.tolist() for e in collect(net, "silhouette", order).episodes] == [e.rewards.tolist() for e in played.episodes]
    for episode in played.episodes:
        assert episode.tried.shape[0] == len(episode.actions)
        assert 1 <= episode.tried.shape[1] <= 7
        given = episode.tried[:, :, 0] >= 0
        assert given[:, 0].all()
        assert np.isfinite(episode.found[given]).all()
    batch = net.layout.unpack(np.concatenate([e.records for e in played.episodes]))
    first = torch.from_numpy(np.concatenate([e.tried[:, 0] for e in played.episodes]).astype(np.int64))
    allowed = net.mask(batch).flatten(1).gather(1, net.flat(batch, first)[:, None])
    assert allowed.all(), "what was tried is what the mask allows"


def test_a_demonstration_earns_what_the_planner_earns() -> None:
    net = make_net(AGENT, make_layout(AGENT, "silhouette", beyond=False))
    order = Order((0, 1), 3, (0.0, 0.0, 1.0, *[0.0] * 5), 0.5, (4.0,) * 8, demonstrate=True)
    played = collect(net, "silhouette", order)
    assert returns(played) == pytest.approx([3.0] * 3, abs=0.51)  # three targets, glue for one at most
    assert all(len(episode.actions) <= 3 for episode in played.episodes)


def test_actor_processes_demonstrate_where_they_would_have_to_wait(tmp_path: Path) -> None:
    for actors, agent, waits in ((1, SHOWN, False), (0, SHOWN, True), (1, AGENT, True)):
        run = Run(replace(tiny(tmp_path, agent), actors=actors))
        run.ordered = 100  # as many as there should be
        order = run._next_order(wanted=False)
        assert (order is None) == waits
        assert order is None or order.demonstrate
        wanted = run._next_order(wanted=True)
        assert wanted is not None
        assert not wanted.demonstrate


def test_an_order_gives_the_same_episodes_in_any_process() -> None:
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    order = Order((0, 1), 6, (0.5, 0.5), 0.5, (4.0, 4.0))
    here = collect(net, "covering_hard", order)
    actors = Processes(AGENT, "covering_hard", 1)
    try:
        free = actors.idle()
        actors.send(order, flat_weights(net))
        assert actors.idle() == free - 1
        [there] = wait_for(actors)
        assert returns(there) == returns(here)
        for mine, theirs in zip(here.episodes, there.episodes, strict=True):
            assert mine.records.tobytes() == theirs.records.tobytes()
            np.testing.assert_array_equal(mine.actions, theirs.actions)

        victim = next(iter(actors._actors.values()))[0]
        actors.send(order, flat_weights(net))
        assert victim.pid is not None
        os.kill(victim.pid, signal.SIGKILL)
        [again] = wait_for(actors)  # another actor takes over the order
        assert returns(again) == returns(here)
        assert len(actors.deaths) <= 1  # none if it had answered before it died
    finally:
        actors.close()


def test_an_actor_takes_its_next_orders_while_it_plays_one() -> None:
    """Orders and answers are larger than what a pipe holds, so each side would wait for the other if nobody read meanwhile."""
    torch.manual_seed(0)
    agent = DQNConfig()
    net = make_net(agent, make_layout(agent, "covering_hard", beyond=False))
    assert flat_weights(net).nbytes > 2**18
    actors = Processes(agent, "covering_hard", 1)
    try:
        orders = [Order((0, i), 256, (0.5, 0.5), 0.5, (4.0, 4.0)) for i in range(actors.idle())]
        assert len(orders) > 1
        for order in orders:
            actors.send(order, flat_weights(net))
        assert actors.idle() == 0
        played = [wait_for(actors)[0] for _ in orders]
        assert sum(episode.records.nbytes for episode in played[0].episodes) > 2**18
        assert [each.order.seed for each in played] == [order.seed for order in orders]
    finally:
        actors.close()


def wait_for(actors: Processes) -> list[Any]:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        if played := actors.receive(timeout=1):
            return played
    raise TimeoutError


PROGRAM = """
import sys
from pathlib import Path
from training.test_run import tiny
from dataclasses import replace
from trilith.training.run import train
if __name__ == "__main__":
    train(replace(tiny(Path(sys.argv[1])), actors=1, checkpoint_seconds=0.2, log_seconds=0.2))
"""


def test_a_killed_run_goes_on_and_ctrl_c_saves(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    out = tmp_path / "run"
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    process = subprocess.Popen([sys.executable, str(program), str(out)], env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 180
    while time.monotonic() < until and not ((out / checkpoint.NAME).exists() and checkpoint.load(out / checkpoint.NAME)[1]["step"] > 3):
        time.sleep(0.1)
    process.kill()
    process.wait()
    step = saved(out)[1]["step"]
    assert step > 3

    def interrupt() -> None:
        before = len(log(out, "train"))
        while len(log(out, "train")) < before + 3:  # by then the run is under way again
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    go_on(out, actors=0, minutes=30)  # far longer than until the interrupt
    thread.join()
    assert saved(out)[1]["step"] > step
    steps = [line["step"] for line in log(out, "train")]
    assert steps == sorted(steps)


def test_what_does_not_go_together_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a search"):
        Run(tiny(tmp_path / "a", replace(AGENT, amortise=0.5)))
    with pytest.raises(ValueError, match="demonstrates relative actions"):
        Run(tiny(tmp_path / "b", replace(SHOWN, actions="absolute", mask="edges")))
    with pytest.raises(ValueError, match="evaluate_scenes 1001: there are 1000"):
        Run(replace(tiny(tmp_path / "c"), evaluate_scenes=1001))
    assert list(tmp_path.iterdir()) == []


def test_what_is_wrong_is_said_in_one_line(tmp_path: Path) -> None:
    def refused(what: str, *arguments: Any, **options: Any) -> None:
        with pytest.raises(ValueError, match=what) as error:
            go_on(*arguments, **options)
        assert "\n" not in str(error.value)

    refused("cannot read", tmp_path / "nowhere")
    train(tiny(tmp_path / "run", steps=1), screen=False)
    with pytest.raises(ValueError, match="holds another run, with seed 0"):
        train(tiny(tmp_path / "run", steps=1, seed=1), screen=False)
    path = tmp_path / "run" / checkpoint.NAME
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    refused("is damaged", tmp_path / "run")
    path.write_bytes(b"")
    refused("is damaged", tmp_path / "run")
    path.unlink()
    refused("nothing to resume", tmp_path / "run")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write"):
        train(tiny(tmp_path / "file" / "run", steps=1), screen=False)
    with pytest.raises(ValueError, match="choose fast, paper"):
        recipe_config("slow")


def test_a_folder_that_vanishes_ends_the_run_with_a_message(tmp_path: Path) -> None:
    config = tiny(tmp_path / "run", log_seconds=0.2, checkpoint_seconds=0.5)
    write_json(config.out / "config.json", to_json(config))

    def vanish() -> None:
        (config.out / "config.json").unlink()
        while config.out.exists():  # a file may be written while others are removed
            shutil.rmtree(config.out, ignore_errors=True)

    threading.Timer(2, vanish).start()
    with pytest.raises(ValueError, match="cannot write to"):
        Run(config).go(screen=False)


def test_the_same_command_goes_on_with_its_run(tmp_path: Path) -> None:
    train(tiny(tmp_path / "whole", steps=12), screen=False)
    train(tiny(tmp_path / "parts", steps=7), screen=False)
    train(tiny(tmp_path / "parts", steps=12), screen=False)
    assert saved(tmp_path / "parts")[1] == saved(tmp_path / "whole")[1]
    (tmp_path / "parts" / checkpoint.NAME).unlink()  # killed before its first
    train(tiny(tmp_path / "parts", steps=12), screen=False)
    assert saved(tmp_path / "parts")[1] == saved(tmp_path / "whole")[1]
    assert [line["step"] for line in log(tmp_path / "parts", "valid")] == [5, 10, 12]


def test_the_best_weights_are_those_that_were_evaluated(tmp_path: Path) -> None:
    """Learning goes on while they are, and after it."""
    run = Run(tiny(tmp_path, steps=9))
    write_json(tmp_path / "config.json", to_json(run.config))
    played: list[bytes] = []
    send = Inline.send

    def spy(self: Inline, order: Order, weights: Any) -> None:
        if order.valid == 5:
            played.append(weights.tobytes())
        send(self, order, weights)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Inline, "send", spy)
        patch.setattr(run, "best", -100.0)
        patch.setattr(Run, "_finish", lambda *_: None)
        run.go(screen=False)
    assert played == [flat_weights(load(tmp_path / "best.safetensors").net).tobytes()]
    assert json.loads((tmp_path / "best.json").read_text())["learner_steps"] == 5
    assert played != [flat_weights(load(tmp_path / "last.safetensors").net).tobytes()]


def test_an_evaluation_is_of_the_hardest_scenes_and_of_all() -> None:
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    played = collect(net, "covering_hard", Order((0, 0), 6, (), 0.0, (), valid=0))
    assert played.episodes == []
    for level, mean in played.valid.items():
        assert mean == pytest.approx(np.mean(play_greedily(net, valid_states("covering_hard", level, 6))))
    assert {state.level for state in valid_states("covering_hard", "hardest", 6)} == {1}
    assert {state.level for state in valid_states("covering_hard", "all", 6)} == {0, 1}


def test_a_run_killed_after_any_checkpoint_is_the_same_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A checkpoint after every round of the loop, one of them taken up again: also in the midst of an evaluation."""
    train(tiny(tmp_path / "whole", SHOWN, steps=14), screen=False)
    kept: list[Path] = []
    save = Run._save

    def copied(self: Run, log: Any) -> None:
        save(self, log)
        if self.config.out.name == "parts":
            kept.append(Path(shutil.copytree(self.config.out, tmp_path / f"{len(kept):02d}-{self.learner.steps}")))

    monkeypatch.setattr(Run, "_save", copied)
    train(tiny(tmp_path / "parts", SHOWN, steps=12, checkpoint_seconds=0.0), screen=False)
    at_five = [out for out in kept if out.name.endswith(("-5", "-6"))]
    assert len(at_five) >= 2
    for out in at_five:
        shutil.copy(tmp_path / "parts" / "log.jsonl", out)  # what it wrote before it was killed, later than the checkpoint
        go_on(out, steps=14)
        assert saved(out)[1] == saved(tmp_path / "whole")[1]
        valid, whole = ([{**line, "minutes": 0} for line in log(each, "valid")] for each in (out, tmp_path / "whole"))
        assert valid == whole
        assert json.loads((out / "best.json").read_text())["learner_steps"] in (5, 10, 14)


def test_exploring_grows_as_an_episode_nears_its_end() -> None:
    """At step n an action is random with probability ε / max(L - n, 1)."""
    net = make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False))
    by_chance, explored = _by_chance(net), list[Any]()

    def spy(which: Any, states: Any, records: Any, random: Any, rng: Any) -> Any:
        explored.append(random)
        return by_chance(which, states, records, np.zeros_like(random), rng)

    rng = np.random.default_rng(0)
    _play(net.layout, spy, [start("covering_hard", 1, rng) for _ in range(300)], 0.6, [3.0] * 300, rng)
    assert [random.mean() for random in explored[:4]] == pytest.approx([0.2, 0.3, 0.6, 0.6], abs=0.08)


def test_a_network_that_diverged_ends_the_run_and_keeps_the_checkpoint(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=3), screen=False)
    before = (tmp_path / checkpoint.NAME).read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("trilith.agents.learner.F.huber_loss", lambda taken, _: taken.sum() * np.nan)
        with pytest.raises(ValueError, match="the loss is nan at learner step 3"):
            go_on(tmp_path, steps=6)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before


def test_two_processes_do_not_train_the_same_run(tmp_path: Path) -> None:
    train(tiny(tmp_path, steps=1), screen=False)
    with alone(tmp_path), pytest.raises(ValueError, match="another process is at work in"):
        go_on(tmp_path, steps=2)
    go_on(tmp_path, steps=2)
    assert saved(tmp_path)[1]["step"] == 2


def test_an_order_that_kills_its_actors_ends_the_run() -> None:
    actors = Processes(AGENT, "covering_hard", 2)
    weights = flat_weights(make_net(AGENT, make_layout(AGENT, "covering_hard", beyond=False)))

    def kill() -> None:
        pipe, (process, _) = next(each for each in actors._actors.items() if each[1][1])
        process.kill()
        actors._bury(pipe)

    try:
        actors.send(Order((0, 1), 1, (1.0, 0.0), 0.0, (4.0, 4.0)), weights)
        for _ in range(MAX_DEATHS):
            kill()
            assert actors.receive(timeout=0.0) == []  # which gives the order to another
        with pytest.raises(ValueError, match="5 actor processes died of the same episodes"):
            kill()
    finally:
        actors.close()


def test_a_full_disk_is_told_and_the_old_checkpoint_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    train(tiny(tmp_path, steps=2), screen=False)
    before = (tmp_path / checkpoint.NAME).read_bytes()

    def full(*_: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(tensors, "save_file", full)
    capsys.readouterr()
    go_on(tmp_path, steps=12, screen=True)
    assert (tmp_path / checkpoint.NAME).read_bytes() == before
    assert log(tmp_path, "valid")[-1]["step"] == 12
    told = capsys.readouterr().err.replace("\n", "")
    assert all(f"cannot write {tmp_path / name}: I/O error: No space left" in told for name in (checkpoint.NAME, "last.safetensors"))


def test_every_ablation_of_the_paper_trains(tmp_path: Path) -> None:
    paper = recipe_config("paper").agent
    graph = replace(paper.net, width=8)
    short = replace(paper, net=graph, min_replay=5, batch=4)
    ablations = [
        short,
        replace(short, mask="edges", net=replace(graph, connectivity="sparse")),
        replace(short, actions="absolute"),
        replace(short, actions="relative_xy", offsets=5, mask="legal"),
        replace(short, offsets=7, net=replace(graph, recurrent=1), n_step=3, double=False, target_rate=0.0, target_period=2),
    ]
    for i, agent in enumerate(ablations):
        config = TrainConfig(out=tmp_path / str(i), recipe="paper", actors=0, episodes=4, evaluate_scenes=1, steps=4, agent=agent)
        train(config, screen=False)
        arrays, facts = checkpoint.load(config.out / checkpoint.NAME)
        assert facts["step"] == 4
        assert np.isfinite(facts["figures"]["loss"])
        assert all(np.isfinite(array).all() for name, array in arrays.items() if name.startswith("net."))
        copied = all(np.array_equal(array, arrays["target." + name[4:]]) for name, array in arrays.items() if name.startswith("net."))
        assert copied == (not agent.target_rate)  # two steps ago and now


def test_several_seeds_are_several_runs_and_can_be_plotted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from trilith.training.plot import plot

    train(tiny(tmp_path / "runs", steps=6, seeds=2), screen=False)
    runs = [tmp_path / "runs" / f"seed{seed}" for seed in (0, 1)]
    assert all(load(run) for run in runs)
    with pytest.raises(ValueError, match=f"several seeds: choose one, such as {runs[0]}"):
        load(tmp_path / "runs")
    monkeypatch.chdir(tmp_path)
    plot([runs[0], Path("runs/seed1")], tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="not a run"):
        plot([tmp_path], tmp_path / "curves.png")
