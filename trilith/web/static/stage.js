// The canvas: one panel for the scene, or two side by side, and the animation of falls in them.

import { paint, readTheme, View } from "./paint.js";

const GAP = 2; // pixels between two panels
const LONG = 2; // seconds: the page offers to skip a fall that takes longer
const quiet = matchMedia("(prefers-reduced-motion: reduce)");

/** A part of the canvas that shows an episode. */
export class Panel {
  constructor(episode) {
    this.episode = episode;
    this.fall = null;
    this.title = null;
  }

  /** The poses to draw at a time: between two frames of a fall, or at rest. */
  poses(time) {
    const rest = this.episode.state.scene.pose;
    if (!this.fall) return rest;
    const { frames, began, speed } = this.fall;
    const at = Math.max((time - began) / 1000 * speed / frames.dt, 0), i = Math.floor(at);
    if (i >= frames.poses.length - 1) {
      this.settle();
      return rest;
    }
    const poses = rest.slice(), a = frames.poses[i], b = frames.poses[i + 1], t = at - i;
    frames.rows.forEach((row, k) => {
      poses[row] = [0, 1, 2].map((part) => a[3 * k + part] * (1 - t) + b[3 * k + part] * t);
    });
    return poses;
  }

  /** Ends the fall at once. */
  settle() {
    const { fall } = this;
    this.fall = null;
    fall?.resolve();
  }
}

export class Stage {
  constructor(canvas, about) {
    this.canvas = canvas;
    this.about = about;
    this.context = canvas.getContext("2d");
    this.panels = [];
    this.content = () => ({}); // set by the app: the content to draw on top of a panel
    this.theme = readTheme();
    this.firstFrame = false;
    this.asked = 0;
    this.skipper = document.getElementById("skip");
    this.skipper.addEventListener("click", () => this.skip());
    new ResizeObserver(() => this.invalidate()).observe(canvas);
  }

  recolour() {
    this.theme = readTheme();
    this.invalidate();
  }

  /** Shows the fall of a panel's newest moment. Resolves when everything is at rest. */
  show(panel, frames, speed) {
    panel.settle();
    this.firstFrame = true;
    this.invalidate();
    if (!frames || frames.poses.length < 2 || quiet.matches) return Promise.resolve();
    return new Promise((resolve) => {
      const long = frames.poses.length * frames.dt / speed > LONG;
      panel.fall = { frames, speed, began: performance.now(), resolve, long };
    });
  }

  /** Ends all falls at once. */
  skip() {
    this.panels.forEach((panel) => panel.settle());
    this.invalidate();
  }

  /** Draws once in the next frame, even if it is called several times. Continues to draw while something falls. */
  invalidate() {
    if (!this.asked) this.asked = requestAnimationFrame((time) => this.draw(time));
  }

  layout() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const stacked = width < 640, n = this.panels.length;
    return this.panels.map((panel, i) => {
      const [highest, widest] = this.extent(panel.episode.state.scene);
      if (n === 1) return new View(0, 0, width, height, highest, widest);
      const size = ((stacked ? height : width) - GAP * (n - 1)) / n, from = i * (size + GAP);
      return stacked ? new View(0, from, width, size, highest, widest) : new View(from, 0, size, height, highest, widest);
    });
  }

  /** The height and half width that must be visible. Blocks that fell off the floor do not count. */
  extent({ pose, size, role }) {
    let highest = 7, widest = 0;
    role.forEach((each, row) => {
      const [x, y] = pose[row], far = Math.abs(x) + size[row][0] / 2 + 0.15;
      if (each !== this.about.roles.block || y < 0) return;
      if (y < 16) highest = Math.max(highest, y + 1.8);
      if (far < 14) widest = Math.max(widest, far);
    });
    return [highest, widest];
  }

  draw(time) {
    this.asked = 0;
    const { canvas, context } = this, { clientWidth: width, clientHeight: height } = canvas;
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.theme.surface;
    context.fillRect(0, 0, width, height);
    this.layout().forEach((view, i) => {
      const panel = this.panels[i];
      const poses = panel.poses(Math.max(time, panel.fall?.began ?? 0)), moving = panel.fall !== null;
      paint(context, view, this.theme, this.about, { moment: panel.episode.now, poses, moving, ...this.content(panel, moving) });
      if (panel.title) this.caption(view, panel.title());
    });
    const long = this.panels.some((panel) => panel.fall?.long);
    if (this.skipper.hidden === long) {
      if (!long && document.activeElement === this.skipper) canvas.focus({ preventScroll: true });
      this.skipper.hidden = !long;
    }
    if (this.firstFrame) { // for a benchmark of the time from releasing a block to the first frame
      this.firstFrame = false;
      if (performance.getEntriesByName("trilith:release").length) performance.measure("trilith:first-frame", "trilith:release");
      performance.clearMarks("trilith:release");
    }
    if (this.panels.some((panel) => panel.fall)) this.invalidate();
  }

  caption(view, { name, line, won }) {
    const { context, theme } = this;
    context.fillStyle = won ? theme.good : theme.ink;
    context.textBaseline = "top";
    context.textAlign = "left";
    context.font = "600 15px system-ui, sans-serif";
    context.fillText(name, view.left + 14, view.top + 12);
    context.fillStyle = theme.muted;
    context.font = "13px system-ui, sans-serif";
    context.fillText(line, view.left + 14, view.top + 33);
  }
}
