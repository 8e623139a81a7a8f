from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import imageio.v3 as iio
import numpy as np
import pytest

import trilith
from trilith.render.page_look import PAGE, page_picture
from trilith.render.pictures import FPS, HOLD, contact_sheet, episode_frames, film, film_title, legend_picture, picture, save_png
from trilith.world.episode import Recording, State, start, step
from trilith.world.observations.image import render
from trilith.world.scene import PLACE_X, Placement, Scene, fresh_scene, place

HELD = round(HOLD * FPS)
LINES, LINES_640 = 36, 68
"""Rows of pixels with text in a film of at most 324 pixels, and of 640."""


def solid(colour: tuple[int, int, int], height: int = 40, width: int = 60) -> np.ndarray:
    return np.full((height, width, 3), colour, dtype=np.uint8)


def stack() -> Scene:
    scene = fresh_scene([(-4, 0.35, 0.7, 0.7)], [(4, 0.35, 2, 0.35)])
    return place(place(scene, Placement(3, 0, 0.35, False), keep=True), Placement(3, 0, 1.05, True), keep=True)


def episode() -> Recording:
    """A sticky block that falls a metre onto the floor, one that lands on it, and a placement that is not possible."""
    state = State(fresh_scene([(0, 0.35, 2.1, 0.7), (5, 0.35, 2.1, 0.7), (-5, 0.35, 2.1, 0.7)], []), "silhouette", 2)
    return Recording(state, (Placement(3, 0, 1.4, True), Placement(0, 0, 1.1, False), Placement(0, 0, 0.2, False)))


def test_a_picture_shows_what_the_render_shows():
    drawn, plain = picture(stack(), 304), render(stack(), 256)
    assert drawn.shape == (304, 304, 3)
    assert drawn.dtype == np.uint8
    drawn = drawn[-256:, 24:-24]  # 16 pixels a metre in both, the render from -8 to 8 and up to 13
    # Lighter inside, darker along the edge, yet nowhere another colour.
    empty = (plain == 1).all(axis=-1)
    assert (drawn[empty] > 250).all(axis=-1).mean() > 0.99
    blue = (plain == [0, 0, 1]).all(axis=-1)
    assert (drawn[blue][:, 2].astype(int) > drawn[blue][:, 0]).all()


def test_edges_are_smooth_and_stacked_blocks_have_a_line_between_them():
    scene = stack()
    down = picture(scene, 640)[:, 320].astype(int)
    seam, middle_of_lower, middle_of_upper = (round((16 - y) * 640 / 19) for y in (0.7, 0.35, 1.05))
    assert down[seam - 1 : seam + 2].sum(axis=1).min() < 0.8 * down[middle_of_lower].sum()
    assert down[middle_of_upper].tolist() == [64, 217, 255], "sticky blocks are light blue"
    tilted = place(fresh_scene([], []), Placement(6, 0, 6, False), keep=True)
    pose = tilted.pose.copy()
    pose[-1, 2] = 0.1
    grey = picture(Scene(pose, *(getattr(tilted, f) for f in ("size", "velocity", "role", "sticky", "contact", "glue", "glue_frame"))), 200)
    assert len(np.unique(grey[..., 0])) > 8


@pytest.mark.parametrize("x", PLACE_X)
def test_a_block_at_either_end_is_not_cut_off(x):
    drawn = picture(place(fresh_scene([], []), Placement(6, x, 3.0), keep=True), 380)
    across = drawn[round((16 - 3.0) * 20), :, 0] < 255
    assert across.sum() == pytest.approx(3.5 * 20, abs=2)


def test_a_legend_explains_every_colour_in_as_many_lines_as_it_needs():
    pictures, captions = [solid((255, 255, 255))], ["nothing"]
    plain, explained = (contact_sheet(pictures, captions, 1, legend=legend) for legend in (False, True))
    assert np.array_equal(explained[: len(plain)], plain)
    narrow, wide = legend_picture(200, 12), legend_picture(2000, 12)
    assert len(narrow) > len(wide)
    for colour in ((64, 64, 255), (64, 217, 255), (255, 64, 64)):
        for each in (narrow, wide):
            assert (each == colour).all(axis=-1).sum() > 50


@pytest.mark.parametrize("pixels", [1, 31, 100])
def test_pictures_of_any_size(pixels):
    assert picture(stack(), pixels).shape == (pixels, pixels, 3)


def test_contact_sheet_has_every_picture_below_its_caption():
    pictures = [solid((250, 0, 0)), solid((0, 250, 0)), solid((0, 0, 250))]
    sheet = contact_sheet(pictures, ["one", "two\nlines", "a very long caption, much longer than its picture is wide"], 2)
    assert sheet.dtype == np.uint8
    for each in pictures:
        rows, columns = np.nonzero((sheet == each[0, 0]).all(axis=-1))
        assert len(rows) == 40 * 60
        above = sheet[rows.min() - 25 : rows.min() - 2, columns.min() : columns.max() + 1]
        assert (above < 128).any(), "dark letters"
    assert sheet.shape[1] < 3 * 60
    assert sheet.shape[0] > 2 * 40


def test_contact_sheet_of_fewer_pictures_than_columns_has_no_empty_columns():
    assert contact_sheet([solid((9, 9, 9))], [""], 4).shape[1] < 80


@pytest.mark.parametrize(
    ("pictures", "captions", "columns", "message"),
    [
        ([], [], 1, "0 pictures"),
        ([solid((0, 0, 0))], [], 1, "0 captions"),
        ([solid((0, 0, 0))], ["a"], 0, "0 columns"),
        ([solid((0, 0, 0)), solid((0, 0, 0), 10)], ["a", "b"], 1, r"\(10, 60, 3\)"),
    ],
)
def test_contact_sheet_says_what_is_wrong(pictures, captions, columns, message):
    with pytest.raises(ValueError, match=message):
        contact_sheet(pictures, captions, columns)


@pytest.mark.parametrize("suffix", [".gif", ".mp4", ".MP4"])
def test_a_film_can_be_read_back(tmp_path, suffix):
    frames = [solid((level, 0, 200 - level), 48, 64) for level in range(0, 200, 25)]
    film(iter(frames), tmp_path / f"x{suffix}")
    assert [p.name for p in tmp_path.iterdir()] == [f"x{suffix}"]
    again = iio.imread(tmp_path / f"x{suffix}")
    assert again.shape == (8, 48, 64, 3)
    # Video stores colours coarsely; GIF keeps these few exactly.
    tolerance = 0 if suffix == ".gif" else 12
    assert np.abs(again.astype(int) - np.stack(frames)).max() <= tolerance


def test_a_gif_plays_at_the_speed_asked_for_and_repeats(tmp_path):
    film([solid((9, 9, 9)), solid((200, 9, 9))], tmp_path / "x.gif", fps=25)
    about = iio.immeta(tmp_path / "x.gif")
    assert about["duration"] == 40
    assert about["loop"] == 0


def test_a_film_of_odd_size_gets_an_edge_of_a_pixel(tmp_path):
    film([solid((9, 200, 9), 41, 61)] * 3, tmp_path / "x.mp4")
    assert iio.imread(tmp_path / "x.mp4").shape == (3, 42, 62, 3)


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_film_that_fails_half_way_leaves_nothing_and_spoils_nothing(tmp_path, suffix):
    path = tmp_path / f"x{suffix}"
    path.write_bytes(b"an older film")

    def frames():
        yield from [solid((9, 9, 9))] * 5
        raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        film(frames(), path)
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"an older film"


@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_a_film_that_the_disk_has_no_room_for_leaves_nothing(tmp_path, suffix):
    program = """if True:
        import resource, sys
        import numpy as np
        from trilith.render.pictures import film
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        noise = np.random.default_rng(0)
        film((noise.integers(0, 256, (200, 200, 3), dtype=np.uint8) for _ in range(10)), sys.argv[1])
    """
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / f"x{suffix}")], capture_output=True, text=True, timeout=60)
    assert "is the disk full?" in done.stderr.splitlines()[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [solid((0, 0, 0), 41), solid((0, 0, 0)).astype(np.float32), solid((0, 0, 0))[..., 0]])
def test_a_frame_unlike_the_first_is_refused(tmp_path, bad):
    with pytest.raises(ValueError, match=r"frame 1 is .*must be uint8"):
        film([solid((0, 0, 0)), bad], tmp_path / "x.mp4")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x.avi", "x", "x.png"])
def test_a_film_with_another_suffix_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match=rf"{name}'.*\.gif or \.mp4"):
        film([solid((0, 0, 0))], tmp_path / name)


def test_a_film_without_frames_is_refused(tmp_path):
    with pytest.raises(ValueError, match="at least one frame"):
        film([], tmp_path / "x.gif")
    assert not list(tmp_path.iterdir())


def test_a_png_can_be_read_back_and_other_suffixes_are_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    save_png(noise, tmp_path / "x.png")
    assert np.array_equal(iio.imread(tmp_path / "x.png"), noise)
    with pytest.raises(ValueError, match=r"x\.jpg'.*\.png"):
        save_png(noise, tmp_path / "x.jpg")
    assert [p.name for p in tmp_path.iterdir()] == ["x.png"]


def test_an_episode_is_shown_in_real_time(tmp_path: Path):
    recording = episode()
    steps = list(recording.replay(record=True))
    assert [s.state.ended for s in steps] == [None, None, "spawn_collision"]
    frames = list(episode_frames(recording.start, steps, 100))
    assert len({frame.shape for frame in frames}) == 1
    height, width, _ = frames[0].shape
    assert (width, height) == (100, LINES + 54)
    fall = (2 * 1.05 / 9.8) ** 0.5  # seconds until the first block is down
    expected = HELD + fall * FPS + HELD + HELD + 2 * HELD
    assert expected - 2 <= len(frames) <= expected + 12, "the second block only drops 5 cm, and settling takes a moment"
    film(frames, tmp_path / "x.gif")
    assert len(iio.imread(tmp_path / "x.gif")) == len(frames)


def test_a_glue_point_shows_once_the_block_has_landed():
    recording = episode()
    frames = list(episode_frames(recording.start, recording.replay(record=True), 320))
    glue = np.array([np.abs(frame.astype(int) - (0xC9, 0xEC, 0xE9)).max(axis=-1).__lt__(6).sum() for frame in frames])
    assert glue[HELD] == glue[0] == 0, "still in the air"
    assert glue[-1] > 0
    assert all(b >= a - 4 for a, b in pairwise(glue)), "glue stays"


def test_captions_name_step_reward_and_total():
    recording = episode()
    frames = list(episode_frames(recording.start, recording.replay(record=True), 200))
    captions = [frame[:LINES].tobytes() for frame in frames]
    assert len(set(captions)) == 6, "the beginning, two falls, and three results"


def test_a_film_names_its_task_and_who_builds():
    recording = replace(episode(), placements=())
    assert film_title(recording.start, "Script") == "Silhouette, level 2   ·   Script"
    assert film_title(start("connecting", "additional_layer", np.random.default_rng(0))) == "Connecting, level additional layer"
    one, other = (next(episode_frames(recording.start, [], 200, by)) for by in ("Script", "Planner"))
    changed = np.flatnonzero((one != other).any(axis=(1, 2)))
    assert len(changed)
    assert changed.max() < LINES / 2, "the first of two lines"


def test_a_film_has_the_colours_of_the_page():
    css = (Path(trilith.__file__).parent / "web" / "static" / "style.css").read_text().split("@media", 1)[0]
    page = dict(re.findall(r"--([a-z-]+): ([^;]+);", css))
    assert {name: page[name] for name in PAGE} == PAGE
    state = State(stack(), "silhouette", 2)
    frame = next(episode_frames(state, [], 640))[LINES_640:].astype(int)
    where = {"sky": (6.0, 5.2), "shelf": (9.0, -2.0), "block": (0.0, 0.35), "sticky": (0.0, 1.05), "floor": (0.0, -0.2)}
    for name, (x, y) in where.items():
        row, column = round((7 - y) * 640 / 19), round((x + 9.5) * 640 / 19)
        expected = [int(page[name][i : i + 2], 16) for i in (1, 3, 5)]
        assert np.abs(frame[row, column] - expected).max() <= 1, name
    obstacle = frame[round((7 - 0.35) * 640 / 19), round(13.2 * 640 / 19) : round(13.8 * 640 / 19)]
    assert len(np.unique(obstacle, axis=0)) > 3, "striped"


def test_a_film_is_as_high_as_its_highest_block():
    state = start("silhouette", 0, np.random.default_rng(0))
    low, high = (next(episode_frames(state, [step(state, Placement(0, 5, y), record=True)], 190)) for y in (1.0, 12.0))
    assert low.shape == (LINES + 10 * 10, 190, 3)
    assert len(high) >= len(low) + 10 * 6


def test_what_is_done_is_marked_in_a_film():
    state = State(fresh_scene([(0, 0.35, 2.1, 0.7)], []), "silhouette", 0)
    after = step(state, Placement(3, 0, 0.36), record=True)
    assert after.state.ended == "complete"
    marked, plain = (
        page_picture(after.state.scene, 320, after.state.rules.progress(after.state.scene)),
        page_picture(after.state.scene, 320),
    )
    assert (marked != plain).any()
    assert np.array_equal([*episode_frames(state, [after], 320)][-1][-100:], marked[-100:])


def test_steps_without_frames_are_refused():
    state = start("silhouette", 0, np.random.default_rng(0))
    with pytest.raises(ValueError, match="record=True"):
        list(episode_frames(state, [step(state, Placement(0, 0, 2, False))], 50))
