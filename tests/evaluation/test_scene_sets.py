"""The scenes on which agents are measured are what they were when they were frozen."""

import json
from dataclasses import replace

import numpy as np
import pytest

from trilith.evaluation import scene_sets as module
from trilith.evaluation.scene_sets import (
    CHECKSUMS,
    FIRST,
    SIZES,
    all_sets,
    check,
    checksum,
    freeze,
    generator,
    recorded,
    set_name,
    start_in_set,
)
from trilith.utils.files import read_json, write_json
from trilith.world.episode import start
from trilith.world.tasks import TASKS, get_task
from trilith.world.tasks.silhouette import Silhouette

RECORDED = recorded()
SETS = {set_name(*each): each for each in all_sets()}


@pytest.mark.parametrize("name", SETS)
def test_the_first_scenes_of_a_set_are_what_they_were(name):
    assert checksum(*SETS[name], FIRST) == RECORDED[name]["first"], f"raise scene_sets.VERSION if the scenes of {name} are meant to change"


def test_there_is_a_set_for_every_task_level_and_split_and_a_checksum_for_every_set():
    assert set(SETS) == set(RECORDED)
    assert len(SETS) == len(all_sets()) == sum(2 * (1 + len(task.levels) + len(task.generalisation)) for task in TASKS.values())
    for sums in RECORDED.values():
        assert all(len(sums[which]) == 32 and int(sums[which], 16) for which in ("first", "all"))
    assert len({sums["all"] for sums in RECORDED.values()}) == len(RECORDED), "no set is another one under a second name"
    assert SIZES == {"test": 10_000, "valid": 1_000}


def test_a_checksum_of_all_covers_the_whole_set():
    task, level, split = "connecting", 0, "valid"
    assert checksum(task, level, split, SIZES[split]) == RECORDED[set_name(task, level, split)]["all"]
    assert checksum(task, level, split, SIZES[split] - 1) != RECORDED[set_name(task, level, split)]["all"]


class Wider(Silhouette):
    """A generator with a change hardly to be seen."""

    def generate(self, rng, level):
        scene = super().generate(rng, level)
        size = scene.size.copy()
        size[-1, 0] = np.nextafter(size[-1, 0], np.inf)
        return replace(scene, size=size)


def test_a_changed_generator_is_found(monkeypatch):
    name = set_name("silhouette", 3, "valid")
    monkeypatch.setitem(TASKS, "silhouette", Wider())
    assert checksum(*SETS[name], FIRST) != RECORDED[name]["first"]


class OtherMix(Silhouette):
    mix = (1.0, *(0.0 for _ in Silhouette.levels[1:]))


def test_a_changed_mix_of_levels_is_found(monkeypatch):
    name = set_name("silhouette", "all", "valid")
    monkeypatch.setitem(TASKS, "silhouette", OtherMix())
    assert checksum(*SETS[name], FIRST) != RECORDED[name]["first"]


@pytest.mark.parametrize("task", TASKS)
def test_hardest_is_another_name_of_the_last_level(task):
    last = get_task(task).levels[-1]
    for level in (last, str(last)):
        assert set_name(task, level, "test") == set_name(task, "hardest", "test")
        assert start_in_set(task, level, "test", 7).scene.tobytes() == start_in_set(task, "hardest", "test", 7).scene.tobytes()
    assert start_in_set(task, "hardest", "test", 7).level == last


def test_a_scene_can_be_made_alone_and_differs_from_all_others():
    once = [start_in_set("covering", "all", "valid", index) for index in range(50)]
    again = [start_in_set("covering", "all", "valid", index) for index in reversed(range(50))]
    assert once == again[::-1]
    assert len({state.scene.tobytes() for state in once}) == 50
    assert {state.level for state in once} == set(get_task("covering").levels)
    assert start_in_set("covering", 2, "valid", 0) != start_in_set("covering", 2, "test", 0)


def test_training_never_draws_a_frozen_scene():
    held_out = {start_in_set("connecting", 0, split, index).scene.tobytes() for split in SIZES for index in range(300)}
    assert len(held_out) == 600
    assert not held_out & {start("connecting", 0, np.random.default_rng(seed)).scene.tobytes() for seed in range(300)}


def test_a_name_seeds_a_generator():
    assert generator("a", 1).random() == generator("a", 1).random()
    assert len({generator(*name).random() for name in (("a", 1), ("a", 2), ("b", 1), ("a", 1, 1))}) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("tower", "all", "test", 0), r"no task 'tower': choose silhouette, connecting"),
        (("covering", 9, "test", 0), r"covering has no level 9: choose hardest, all, 0 to 2"),
        (("covering", "easy", "test", 0), r"covering has no level 'easy'"),
        (("covering", 0, "train", 0), r"no split 'train': choose test, valid"),
        (("covering", 0, "test", 10_000), r"scene 10000: test sets have the scenes 0 to 9999"),
        (("covering", 0, "valid", 1000), r"scene 1000: valid sets have the scenes 0 to 999"),
        (("covering", 0, "valid", -1), r"scene -1"),
    ],
)
def test_what_there_is_not_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        start_in_set(*arguments)


@pytest.fixture
def few(monkeypatch, tmp_path):
    """Two small sets, with a file of checksums of their own."""
    path = tmp_path / "scenes.json"
    monkeypatch.setattr(module, "CHECKSUMS", path)
    monkeypatch.setattr(module, "SIZES", {"test": 12, "valid": 6})
    monkeypatch.setattr(module, "FIRST", 4)
    monkeypatch.setattr(module, "all_sets", lambda: [("silhouette", 0, "test"), ("covering", 1, "valid")])
    return path


def test_checksums_of_another_version_are_not_compared(few, monkeypatch):
    list(freeze())
    monkeypatch.setattr(module, "VERSION", 2)
    with pytest.raises(ValueError, match=r"scenes\.json is of version 1 of the scenes, the code of 2: run trilith check-scenes --freeze"):
        recorded()
    with pytest.raises(ValueError, match="of version 1"):
        list(check())


def test_freezing_writes_what_checking_finds(few):
    assert list(freeze()) == ["silhouette/0/test", "covering/1/valid"]
    first = few.read_bytes()
    assert list(check()) == [("silhouette/0/test", True), ("covering/1/valid", True)]
    list(freeze())
    assert few.read_bytes() == first, "freezing again changes nothing"


def test_a_scene_beyond_the_first_that_changed_is_found_by_checking_all(few, monkeypatch):
    list(freeze())
    genuine = module.start_in_set
    monkeypatch.setattr(module, "start_in_set", lambda task, level, split, index: genuine(task, level, split, 0 if index == 11 else index))
    assert list(check()) == [("silhouette/0/test", False), ("covering/1/valid", True)]


def test_a_version_that_is_frozen_stays_as_it_is_until_its_number_is_raised(few, monkeypatch):
    list(freeze())
    before = few.read_bytes()
    monkeypatch.setitem(TASKS, "silhouette", Wider())
    with pytest.raises(ValueError, match=r"silhouette/0/test differ from those frozen as version 1: raise scene_sets.VERSION first"):
        list(freeze())
    assert few.read_bytes() == before
    monkeypatch.setattr(module, "VERSION", 2)
    list(freeze())
    assert read_json(few)["version"] == 2
    assert read_json(few)["sets"]["silhouette/0/test"] != json.loads(before)["sets"]["silhouette/0/test"]


def test_a_new_version_has_other_scenes(monkeypatch):
    before = start_in_set("covering", 0, "test", 0)
    monkeypatch.setattr(module, "VERSION", module.VERSION + 1)
    assert start_in_set("covering", 0, "test", 0) != before


def test_a_freeze_that_is_stopped_writes_nothing(few):
    next(freeze())
    assert not few.exists()


def test_a_set_without_a_checksum_has_changed(few):
    list(freeze())
    data = read_json(few)
    del data["sets"]["covering/1/valid"]
    write_json(few, data)
    assert dict(check())["covering/1/valid"] is False


def test_the_checksums_are_in_the_package():
    assert CHECKSUMS.parent.parent.name == "trilith"
