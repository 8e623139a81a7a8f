"""Draws pictures for people: scenes, contact sheets, films of episodes. Uses the rasteriser of `observations.image` and needs no window.

A picture of a scene has the paper's colours, as networks see them. A film looks like the page (`render.page_look`).

Pillow, matplotlib (for its font) and imageio are imported when they are first used, so that importing this module stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trilith.render.page_look import colour, page_picture
from trilith.render.raster import OUTLINE, SCALE, SHOWN, SUPERSAMPLE, Picture, ring, shown, to_bytes
from trilith.utils.checks import require
from trilith.utils.files import atomic_write, check_png
from trilith.world.episode import State, Step
from trilith.world.observations.image import (
    BLOCK_COLOUR,
    CONNECTING_COLOUR,
    GLUE_COLOUR,
    GLUE_RADIUS,
    OBSTACLE_COLOUR,
    SILHOUETTE_COLOUR,
    STICKY_COLOUR,
    blend,
    colours,
    discs,
    draw_order,
    glue_points,
    rectangles,
    shrink,
)
from trilith.world.observations.image import PIXELS as OBSERVED
from trilith.world.physics import TIME_STEP
from trilith.world.scene import BLOCK_HEIGHT, Floats, Placement, Role, Scene, clipped
from trilith.world.tasks.task import Progress

PIXELS = 640
LIGHTEN, DARKEN = 0.25, 0.45
"""Fractions by which the paper's colours move to white inside an object, and to black along its outline. Pure blue would hide the
outline."""
HIGHEST = 7
"""Height in metres above which no task needs blocks."""
INK = (40, 44, 52)
"""Colour of text."""
PAPER = (255, 255, 255)
"""Background colour of text."""
LEGEND = {
    "block; below the floor: still available": BLOCK_COLOUR,
    "sticky block": STICKY_COLOUR,
    "where it bonded": GLUE_COLOUR,
    "obstacle: do not touch": OBSTACLE_COLOUR,
    "target to fill": SILHOUETTE_COLOUR,
    "target to reach": CONNECTING_COLOUR,
}
"""The entries of a legend, with their colours."""

FPS = 25
"""Frames per second of a film. From one frame to the next, a fall advances by two physics steps."""
HOLD = 0.6
"""Seconds that a film pauses before the first placement and after every placement, twice as long at the end, so that the viewer can read
the reward."""
STILL = 0.01
"""A film cuts off the end of a fall, in which every object stays within this (metres, radians) of its final pose."""
BONDED = 0.05
"""A film shows a glue point as soon as the two points that it joins are closer than this (metres)."""


def picture(scene: Scene, pixels: int = PIXELS) -> Picture:
    """(pixels, pixels, 3): an antialiased picture of the scene. Every object has a thin darker outline, which separates stacked blocks."""
    fine = pixels * SUPERSAMPLE
    scale, pose = SCALE, scene.pose.copy()
    pose[:, :2] = shown(pose[:, :2])
    outer = [shrink(window, SUPERSAMPLE) for window in rectangles(pose, scene.size * scale, fine, SUPERSAMPLE)]
    inner = [shrink(window, SUPERSAMPLE) for window in rectangles(pose, (scene.size - 2 * OUTLINE) * scale, fine, SUPERSAMPLE)]
    fill, line = _shades(colours(scene))
    below, above = draw_order(scene)
    canvas = np.ones((pixels, pixels, 3), dtype=np.float32)

    def draw(rows: list[int]) -> None:
        for row in rows:
            blend(canvas, outer[row], fill[row])
            blend(canvas, ring(outer[row], inner[row]), line[row])

    draw(below)
    for disc in discs(shown(glue_points(scene)), GLUE_RADIUS * scale, fine, SUPERSAMPLE):
        blend(canvas, shrink(disc, SUPERSAMPLE), np.array(GLUE_COLOUR, dtype=np.float32))
    draw(above)
    return to_bytes(canvas)


def thoughts_picture(
    scene: Scene, ideas: Sequence[tuple[Placement, float, int]], path: str | Path, title: str = "", seen: Picture | None = None
) -> None:
    """Writes a PNG of a scene with the placements that a search tried. The placement with the highest value has a thick outline.

    Args:
        scene: the scene in which the agent must choose.
        ideas: (placement, value, number of visits) for each placement. The picture shows both numbers, and the value sets the shade.
        path: where the picture is written.
        title: text above the scene.
        seen: another picture, drawn below the scene: the objects as the agent's network sees them, from `views_picture`.
    """
    from matplotlib import cm, colormaps, colors, patches
    from matplotlib.figure import Figure

    heights = [5.2] if seen is None else [5.2, 8 * seen.shape[0] / seen.shape[1] + 0.4]
    figure = Figure(figsize=(8, sum(heights)), layout="constrained")
    panel, *below = figure.subplots(len(heights), height_ratios=heights, squeeze=False)[:, 0]
    for other in below:
        other.imshow(seen)
        other.set_title("the agent's view of each object (framed), with the highest value of a placement at it or of it", fontsize=9)
        other.set_axis_off()
    panel.imshow(picture(scene, 800), extent=SHOWN)
    panel.set(xlim=SHOWN[:2], ylim=(SHOWN[2], 8), title=title)
    panel.set_axis_off()
    values = [value for _, value, _ in ideas]
    shade = colors.Normalize(min(values, default=0.0), max(values, default=1.0))
    ranked = sorted(ideas, key=lambda idea: idea[1])
    for number, (placement, value, visits) in enumerate(ranked):
        w, h = scene.size[placement.slot].tolist()
        x, y = clipped(placement.x, placement.y)
        colour = colormaps["viridis"](shade(value))
        line = 3.0 if number == len(ranked) - 1 else 1.2
        panel.add_patch(patches.Rectangle((x - w / 2, y - h / 2), w, h, facecolor=(*colour[:3], 0.35), edgecolor=colour, linewidth=line))
        panel.text(x, y, f"{value:.2f}\n×{visits}" + ("\nsticky" if placement.sticky else ""), ha="center", va="center", fontsize=7)
    figure.colorbar(cm.ScalarMappable(shade, "viridis"), ax=panel, label="value: expected reward until the end", shrink=0.8)
    with atomic_write(Path(path)) as aside:
        figure.savefig(aside, dpi=110, format="png")


def views_picture(views: Sequence[tuple[str, int, int, NDArray[np.float32]]], columns: int = 6, scale: int = 2) -> Picture:
    """(height, width, 3): a contact sheet of the images of single objects that a network sees, `columns` in a row. Each has a caption, a
    frame around its window, and `scale` × `scale` pixels for each pixel.

    A view is (caption, top, left, pixels). `top` and `left` are the first row and column of its window in a picture of 64 × 64. `pixels`
    (height, width, 4) has red, green, blue and alpha of the window, with colours multiplied by alpha. Transparent pixels are drawn grey.
    """
    found = []
    for _, top, left, pixels in views:
        canvas = np.full((OBSERVED, OBSERVED, 3), 0.9, dtype=np.float32)
        height, width = pixels.shape[:2]
        part = canvas[top : top + height, left : left + width]
        part[:] = part * (1 - pixels[..., 3:]) + pixels[..., :3]
        large = (canvas * 255 + 0.5).astype(np.uint8).repeat(scale, axis=0).repeat(scale, axis=1)
        frame = large[top * scale : (top + height) * scale, left * scale : (left + width) * scale]
        frame[[0, -1]] = frame[:, [0, -1]] = INK
        found.append(large)
    return contact_sheet(found, [caption for caption, *_ in views], columns)


def without_sky(picture: Picture) -> Picture:
    """The lower part of a picture of a scene, without the area above `HIGHEST` metres."""
    _, _, bottom, top = SHOWN
    return picture[round((top - HIGHEST) / (top - bottom) * len(picture)) :]


def contact_sheet(pictures: Sequence[Picture], captions: Sequence[str], columns: int, legend: bool = False) -> Picture:
    """(height, width, 3): one picture that shows several pictures of the same size, `columns` in a row. Each is below its caption, which
    may have several lines. `legend` adds an explanation of the colours at the bottom.

    Raises ValueError if there is no picture, if the number of captions differs, or if the pictures differ in size.
    """
    require(
        pictures and len(pictures) == len(captions) and columns >= 1,
        f"{len(pictures)} pictures, {len(captions)} captions, {columns} columns: "
        "must be at least one picture, a caption for each, and at least one column",
    )
    require(
        all(each.shape == pictures[0].shape for each in pictures),
        f"pictures of the shapes {sorted({each.shape for each in pictures})}: must all have one",
    )
    height, width, _ = pictures[0].shape
    columns = min(columns, len(pictures))
    margin, size = max(width // 40, 4), max(width // 24, 9)
    lines = max(caption.count("\n") + 1 for caption in captions)
    head = round(size * (1.35 * lines + 0.6))
    cell_height, cell_width = head + height + margin, width + margin
    sheet = np.full((-(-len(pictures) // columns) * cell_height + margin, columns * cell_width + margin, 3), 255, dtype=np.uint8)
    for i, (each, caption) in enumerate(zip(pictures, captions, strict=True)):
        top, left = margin + i // columns * cell_height, margin + i % columns * cell_width
        sheet[top : top + head, left : left + width] = _text(caption, head, width, size)
        framed = sheet[top + head - 1 : top + head + height + 1, left - 1 : left + width + 1]
        framed[:] = 215  # a thin grey frame, because pictures and sheet are both white
        framed[1:-1, 1:-1] = each
    return np.concatenate([sheet, legend_picture(sheet.shape[1], size)]) if legend else sheet


def legend_picture(width: int, size: int) -> Picture:
    """(height, width, 3): a picture that explains the colours, in letters `size` pixels high, on as many lines as needed."""
    from PIL import Image, ImageDraw

    lengths = {name: 3 * size + round(_font(size).getlength(name)) for name in LEGEND}
    corners = {}
    x, y = size, size
    for name, length in lengths.items():
        if x > size and x + length > width:
            x, y = size, y + 2 * size
        corners[name] = (x, y)
        x += length
    page = Image.new("RGB", (width, round(y + 1.5 * size)), "white")
    draw = ImageDraw.Draw(page)
    for name, (x, y) in corners.items():
        fill, edge = (_on_white(each) for each in _shades(np.array(LEGEND[name], dtype=np.float32)[None]))
        draw.rectangle((x, y - size // 2, x + size, y + size // 2), fill=fill, outline=edge)
        draw.text((x + round(1.4 * size), y), name, INK, _font(size), anchor="lm")
    return np.asarray(page)


def film_title(start: State, by: str = "") -> str:
    """The title of a film: the task, the level and, if `by` is not empty, the builder."""
    return f"{start.rules.title}, level {start.level}".replace("_", " ") + (f"   ·   {by}" if by else "")


def episode_frames(start: State, steps: Iterable[Step], pixels: int = PIXELS, by: str = "") -> Iterator[Picture]:
    """Yields the frames of a film, `FPS` per second. They show an episode as the page shows it, with falls in real time. Above the scene
    are two lines: the title with the builder `by`, and the step with its reward and the total.

    All frames have the same shape (height, width, 3). The width is `pixels`, and the height fits the highest block. Both are rounded to
    even numbers, as video requires. Raises ValueError if `steps` were not simulated with `record=True`.
    """
    pixels += pixels % 2
    steps = list(steps)
    sky = _sky(steps, pixels)
    hold, name = round(HOLD * FPS), film_title(start, by)
    stride = max(round(1 / (FPS * TIME_STEP)), 1)
    total, counted = start.total, start.scene

    def frame(scene: Scene, caption: str, progress: Progress | None = None) -> Picture:
        return np.concatenate([_lines(name, caption, pixels), page_picture(scene, pixels, progress)[sky:]])

    yield from [frame(start.scene, f"total {_number(total)}", start.rules.progress(counted))] * hold
    for number, (state, reward, settled) in enumerate(steps, start=start.steps + 1):
        title = f"step {number} of {start.max_steps}"
        if settled is not None:
            if settled.frames is None:
                raise ValueError(f"step {number} has no frames: it must be simulated with record=True")
            for pose in _moving(settled.frames)[::stride]:
                yield frame(_at(settled.scene, pose), f"{title}   ·   total {_number(total)}")
        total = state.total
        if state.ended != "obstacle_hit":  # such a step earns nothing, so the progress before it still counts
            counted = state.scene
        end = f"   ·   {state.ended.replace('_', ' ')}" if state.ended else ""
        caption = f"{title}   ·   reward {_number(reward, '+')}   ·   total {_number(total)}{end}"
        yield from [frame(state.scene, caption, state.rules.progress(counted))] * (2 * hold if state.ended else hold)


def film(frames: Iterable[Picture], path: str | Path, fps: float = FPS) -> None:
    """Writes pictures of one size as a .gif or .mp4, one by one. The file is complete or not written.

    Raises ValueError for any other suffix, if there are no pictures, or if pictures differ in size. Raises OSError if the file cannot be
    written.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    require(suffix in _ENCODERS, f"film {str(path)!r}: its name must end in {' or '.join(_ENCODERS)}")
    frames = iter(frames)
    first = next(frames, None)
    if first is None:
        raise ValueError("a film needs at least one frame, got none")
    # Uses imageio's encoder directly, because imageio's writer refuses .gif.
    from imageio_ffmpeg import count_frames_and_secs, write_frames

    height, width = first.shape[0] + first.shape[0] % 2, first.shape[1] + first.shape[1] % 2
    with atomic_write(path) as aside:
        encoder = write_frames(aside, (width, height), fps=fps, macro_block_size=1, ffmpeg_log_level="error", **_ENCODERS[suffix])
        encoder.send(None)
        with closing(encoder):
            for number, frame in enumerate(chain([first], frames)):
                require(
                    frame.shape == (*first.shape[:2], 3) and frame.dtype == np.uint8,
                    f"frame {number} is {frame.dtype} {frame.shape}: must be uint8 {(*first.shape[:2], 3)}",
                )
                # Video halves the resolution of colour, so its sides must be even.
                padding = [(0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0)]
                try:
                    encoder.send(np.pad(frame, padding, mode="edge").tobytes())
                except OSError:
                    raise OSError(f"film {str(path)!r}: the encoder gave up at frame {number}; is the disk full?") from None
        # The encoder does not report errors, so count the frames that it wrote.
        try:
            written, _ = count_frames_and_secs(aside)
        except RuntimeError:
            written = 0
        if written != number + 1:
            raise OSError(f"film {str(path)!r}: only {written} of {number + 1} frames could be written; is the disk full?")


_OWN_PALETTES = "split[a][b];[a]palettegen=stats_mode=single:reserve_transparent=0[p];[b][p]paletteuse=new=1:dither=none"
"""Filter for .gif films. Each frame has its own palette, so the encoder need not read ahead. There is no dithering, because it flickers."""
_ENCODERS: dict[str, dict[str, Any]] = {
    # No transparent pixels: they save little here, and some readers would then return frames with a fourth channel.
    ".gif": {
        "codec": "gif",
        "pix_fmt_out": "pal8",
        "output_params": ["-gifflags", "-transdiff", "-filter_complex", _OWN_PALETTES],
    },
    ".mp4": {"codec": "libx264", "pix_fmt_out": "yuv420p", "quality": 8},
}
"""Encoder options of each film format."""


def save_png(array: Picture, path: str | Path) -> None:
    """Writes a picture as a .png. The file is complete or not written. Raises ValueError for any other suffix."""
    check_png(path)
    from PIL import Image

    with atomic_write(path) as aside:
        Image.fromarray(array).save(aside)


def _shades(colour: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Returns the fill colours and the outline colours of N objects, (N, 4) each, from the paper's colours `colour` (N, 4). A colour is
    red, green, blue and alpha in [0, 1]."""
    fill, line = colour.copy(), colour * np.float32(1 - DARKEN)
    line[:, 3] = 1
    fill[:, :3] += LIGHTEN * (1 - fill[:, :3])
    return fill, line


def _on_white(colour: NDArray[np.float32]) -> tuple[int, ...]:
    """A colour (1, 4) as it looks on white: red, green, blue, 0 to 255."""
    return tuple(int(255 * (1 + (part - 1) * colour[0, 3]) + 0.5) for part in colour[0, :3].tolist())


def _sky(steps: Sequence[Step], pixels: int) -> int:
    """How many pixel rows can be cut off at the top of all pictures of an episode, because no block is ever in them. `pixels` is the height
    of the pictures. The result is even, and nothing below `HIGHEST` metres is cut off."""
    falls = [each.frames[:, each.scene.rows(Role.BLOCK), 1] for _, _, each in steps if each is not None and each.frames is not None]
    highest = max((float(fall[np.isfinite(fall)].max(initial=0)) for fall in falls), default=0.0)
    _, _, bottom, top = SHOWN
    rows = (top - max(highest + 2 * BLOCK_HEIGHT, HIGHEST)) / (top - bottom) * pixels
    return max(int(rows) // 2 * 2, 0)


def _at(scene: Scene, pose: Floats) -> Scene:
    """Turns a scene at rest back to an earlier moment of the fall before it. `pose` (N, 3) has the poses of that moment. The result has
    only those bonds that already existed then."""
    moved = replace(scene, pose=pose)
    second = replace(moved, glue=scene.glue[:, ::-1], glue_frame=scene.glue_frame[:, [2, 3, 0, 1, 4]])
    bonded = np.hypot(*(glue_points(moved) - glue_points(second)).T) < BONDED
    return replace(moved, glue=scene.glue[bonded], glue_frame=scene.glue_frame[bonded])


def _moving(frames: Floats) -> Floats:
    """Shortens a fall. `frames` (T, N, 3) has the poses of N objects at T moments. Leaves out moments with numbers that are not finite.
    Also leaves out the end of the fall, when every object is within `STILL` of its final pose."""
    frames = frames[np.isfinite(frames).all(axis=(1, 2))]
    away = np.abs(frames - frames[-1:]).max(axis=(1, 2), initial=0) > STILL
    return frames[: len(away) - int(np.argmax(away[::-1]))] if away.any() else frames[:0]


def _lines(title: str, caption: str, pixels: int) -> Picture:
    """(height, pixels, 3): the two lines above a film, the title and the caption of the moment. The height is even.

    Text is left-aligned, so that its beginning does not move while its end changes.
    """
    size = max(pixels // 36, 9)
    sky, ink = ((*(int(255 * part + 0.5) for part in colour(name)[:3].tolist()),) for name in ("sky", "ink"))
    return np.concatenate([_text(line, 2 * size, pixels, size, centred=False, paper=sky, ink=ink) for line in (title, caption)])


def _text(
    text: str, height: int, width: int, size: int, centred: bool = True, paper: tuple[int, ...] = PAPER, ink: tuple[int, ...] = INK
) -> Picture:
    """(height, width, 3): a picture of lines of text, in letters `size` pixels high, or smaller if the text would be too wide. `paper` is
    the colour of the background, `ink` that of the letters."""
    from PIL import Image, ImageDraw

    page = Image.new("RGB", (width, height), paper)
    draw = ImageDraw.Draw(page)
    margin = size // 2
    while size > 6 and draw.multiline_textbbox((0, 0), text, _font(size))[2] > width - 2 * margin:
        size -= 1
    x, anchor = (width / 2, "mm") if centred else (margin, "lm")
    draw.multiline_text((x, height / 2), text, ink, _font(size), anchor=anchor, align="center")
    return np.asarray(page)


@lru_cache
def _font(size: int) -> Any:
    """A sans serif font with letters `size` pixels high. It is matplotlib's: the same on every machine, with characters that Pillow's own
    font lacks."""
    import matplotlib
    from PIL import ImageFont

    return ImageFont.truetype(Path(matplotlib.get_data_path(), "fonts/ttf/DejaVuSans.ttf"), size)


def _number(value: float, sign: str = "") -> str:
    """Formats a number with two decimals, never as minus zero. With the `sign` "+", positive numbers begin with a plus."""
    return format(round(value, 2) + 0.0, f"{sign}.2f")
