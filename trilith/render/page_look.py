"""Draws a scene as the web page shows it in light mode. Obstacles have stripes, and sticky blocks have dots. Finished
targets, and covered parts of obstacles, are marked."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from trilith.render.raster import OUTLINE, SCALE, SHOWN, SUPERSAMPLE, Picture, ring, shown, to_bytes
from trilith.world.observations.image import GLUE_RADIUS, Window, blend, discs, glue_points, rectangles, shrink
from trilith.world.scene import Role, Scene
from trilith.world.tasks.task import Progress

PAGE = {
    "sky": "#fcfbf8",
    "shelf": "#eeebe3",
    "grid": "#f1eee7",
    "floor": "#4a4f58",
    "block": "#7299c6",
    "block-line": "#3f6795",
    "sticky": "#58b0ab",
    "sticky-line": "#24706c",
    "obstacle": "#e5938a",
    "obstacle-line": "#b5544b",
    "target": "rgb(54 138 98 / 14%)",
    "target-line": "#368a62",
    "done": "rgb(54 138 98 / 42%)",
    "glue": "#c9ece9",
    "covered": "#23775a",
    "ink": "#252a31",
}
"""The page's colours in light mode, the same as in web/static/style.css."""
GRID = 0.7
"""Metres between two lines of the background: the height of a block."""
STRIPES, DASHES = (0.22, 0.07), (0.26, 0.16)
"""Distance from one stripe or dash to the next, and width of a stripe or dash, in metres along x."""
DOT, DOT_INSET = 0.045, 0.14
"""Radius of the dots on a sticky block, and distance of their centres from its upper or lower side, in metres."""
COVERED = 0.11
"""Thickness of the line that marks a covered part of an obstacle, in metres."""

Colour = NDArray[np.float32]
"""(4,): red, green, blue, alpha, each in [0, 1]."""


def page_picture(scene: Scene, pixels: int, progress: Progress | None = None) -> Picture:
    """(pixels, pixels, 3): a picture of the scene in the page's colours, antialiased. It marks the targets that are done and the covered
    parts of obstacles, as `progress` states them; None marks nothing."""
    progress = progress or Progress()
    canvas = _background(pixels).copy()
    targets, done = scene.rows(Role.TARGET).tolist(), [*progress.done]
    reached = {row for row, is_done in zip(targets, done, strict=False) if is_done}
    outer, fine = _boxes(scene, pixels, 0.0)
    inner, _ = _boxes(scene, pixels, OUTLINE)

    def box(row: int, fill: str | None, line: str | None, dashed: bool = False, alpha: float = 1.0) -> None:
        if fill is not None:
            blend(canvas, outer[row], colour(fill))
        if line is not None:
            edge = ring(outer[row], inner[row])
            blend(
                canvas,
                _cut(edge, _stripes(fine[row], *DASHES, pixels)) if dashed else edge,
                colour(line) * np.array([1, 1, 1, alpha], np.float32),
            )

    for row in targets:
        box(row, "done" if row in reached else "target", "target-line", dashed=row not in reached)
    for row, (role, sticky) in enumerate(zip(scene.role.tolist(), scene.sticky.tolist(), strict=True)):
        if role == Role.FLOOR:
            box(row, "floor", None)
        elif role == Role.OBSTACLE:
            box(row, "obstacle", None)
            blend(canvas, _cut(outer[row], _stripes(fine[row], *STRIPES, pixels)), colour("obstacle-line"))
            box(row, None, "obstacle-line")
        elif role in (Role.BLOCK, Role.AVAILABLE):
            box(row, "sticky" if sticky else "block", "sticky-line" if sticky else "block-line")
            if sticky:
                _discs(canvas, _dots(scene, row), DOT, "sticky-line")
    for row in targets:  # only outlines, above the blocks: a block hides the target that it fills
        box(row, None, "target-line", dashed=row not in reached, alpha=0.9 if row in reached else 0.5)
    for left, right, y in progress.covered:
        span = np.array([[(left + right) / 2, y, 0.0]]), np.array([[right - left, COVERED]])
        blend(canvas, shrink(_fine(*span, pixels)[0], SUPERSAMPLE), colour("covered"))
    glue = glue_points(scene)
    _discs(canvas, glue, GLUE_RADIUS, "sticky-line")
    _discs(canvas, glue, GLUE_RADIUS - OUTLINE, "glue")
    return to_bytes(canvas)


@lru_cache
def colour(name: str) -> Colour:
    """Returns the colour of `PAGE` with this name as red, green, blue and alpha, each in [0, 1]."""
    text = PAGE[name]
    if text.startswith("#"):
        return np.array([*(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5)), 1], dtype=np.float32)
    *parts, alpha = text[len("rgb(") : -len("%)")].replace("/", "").split()
    return np.array([*(int(part) / 255 for part in parts), int(alpha) / 100], dtype=np.float32)


@lru_cache(maxsize=4)
def _background(pixels: int) -> NDArray[np.float32]:
    """(pixels, pixels, 3): a picture without objects: the sky, with a horizontal line at every multiple of `GRID`, and the shelf below the
    floor. Values in [0, 1]."""
    canvas = np.empty((pixels, pixels, 3), dtype=np.float32)
    canvas[:] = colour("sky")[:3]
    left, right, _, top = SHOWN
    scale = pixels / (right - left)
    for layer in range(1, int(top / GRID) + 1):
        canvas[round((top - layer * GRID) * scale)] = colour("grid")[:3]
    canvas[round(top * scale) :] = colour("shelf")[:3]
    return canvas


def _fine(pose: NDArray[np.float64], size: NDArray[np.float64], pixels: int) -> list[Window]:
    """Returns the window around each of N rectangles, given by `pose` (N, 3) and `size` (N, 2) in metres. `pixels` is the width of the
    picture. The window consists of fine pixels: `SUPERSAMPLE` times as many along each side of the picture."""
    pose = pose.copy()
    pose[:, :2] = shown(pose[:, :2])
    return rectangles(pose, size * SCALE, pixels * SUPERSAMPLE, SUPERSAMPLE)


def _boxes(scene: Scene, pixels: int, inset: float) -> tuple[list[Window], list[Window]]:
    """Two lists with a window for each object: in the pixels of a picture that is `pixels` wide, and in fine pixels, `SUPERSAMPLE` times as
    many along each side. Each object is drawn smaller by `inset` metres on each side."""
    fine = _fine(scene.pose, scene.size - 2 * inset, pixels)
    return [shrink(window, SUPERSAMPLE) for window in fine], fine


def _stripes(window: Window, period: float, width: float, pixels: int) -> Window:
    """Fills `window` with slanted stripes. The window is given in fine pixels, `SUPERSAMPLE` times as many along each side as the picture
    has; the result is in the picture's pixels. `period` is the distance from one stripe to the next and `width` the width of a stripe, in
    metres along x. `pixels` is the width of the picture."""
    scale = pixels * SUPERSAMPLE / (SHOWN[1] - SHOWN[0])
    along = np.add.outer(np.arange(window.bottom - window.top), np.arange(window.right - window.left)) / scale
    return shrink(window._replace(cover=along % period < width), SUPERSAMPLE)


def _cut(window: Window, by: Window) -> Window:
    """The part of the shape in `window` that the shape in `by` covers too. Both windows must have the same bounds."""
    return window._replace(cover=window.cover * by.cover)


def _dots(scene: Scene, row: int) -> NDArray[np.float64]:
    """(D, 2): the centres of the D dots that mark the block in row `row` as sticky, in metres."""
    (x, y, angle), (w, h) = scene.pose[row].tolist(), scene.size[row].tolist()
    n = max(2, round(w / 0.35))
    along = np.tile(-w / 2 + (np.arange(n) + 0.5) * (w / n), 2)
    across = np.repeat([DOT_INSET - h / 2, h / 2 - DOT_INSET], n)
    c, s = np.cos(angle), np.sin(angle)
    return np.stack([x + along * c - across * s, y + along * s + across * c], axis=1)


def _discs(canvas: NDArray[np.float32], centres: NDArray[np.float64], radius: float, name: str) -> None:
    """Draws discs with the centres `centres` (D, 2) and the radius `radius`, both in metres of the scene, onto `canvas` (pixels, pixels,
    3). `name` is the name of a colour in `PAGE`."""
    for disc in discs(shown(centres), radius * SCALE, len(canvas) * SUPERSAMPLE, SUPERSAMPLE):
        blend(canvas, shrink(disc, SUPERSAMPLE), colour(name))
