// A guided first build: which block, onto which target, and what came of it. It ends when the little tower stands.

import { KEYS, kind, reason } from "./words.js";

const $ = (id) => document.getElementById(id);
const LESSON = { task: "silhouette", level: 1, seed: 2 }; // a target on top of another, and nothing in the way

export class Guide {
  constructor(app) {
    this.app = app;
    this.active = false;
    $("guide-start").addEventListener("click", () => app.attempt(() => this.start()));
    $("guide-end").addEventListener("click", () => this.end());
  }

  /** Whether this browser has been guided before. */
  get known() {
    try {
      return localStorage.getItem("guided") !== null;
    } catch {
      return false;
    }
  }

  async start() {
    await this.app.load(LESSON);
    this.active = true;
    this.app.update();
  }

  end() {
    this.active = false;
    try {
      localStorage.setItem("guided", "yes");
    } catch { /* a browser that keeps nothing guides again */ }
    $("canvas").focus({ preventScroll: true });
    this.app.update();
  }

  /** The lowest target that is not filled, and a block of its size, as rows; null if there is nothing to point at. */
  next() {
    const { app } = this, { state, now } = app.episode, { scene } = state, { roles } = app.about;
    const targets = scene.role.map((_, row) => row).filter((row) => scene.role[row] === roles.target);
    const [target] = targets.filter((_, i) => !now.view.done[i]).sort((a, b) => scene.pose[a][1] - scene.pose[b][1]);
    const slot = target === undefined ? -1 : scene.size.findIndex(([w], row) => scene.role[row] === roles.available && w === scene.size[target][0]);
    return slot < 0 ? null : [slot, target];
  }

  /** Rows to point at while nothing falls. */
  get hint() {
    if (!this.active || this.app.episode.ended || this.app.panel.fall) return null;
    return this.app.build.ghost ? this.next()?.slice(1) : this.next();
  }

  update(shown) {
    const { origin } = this.app.episode;
    if (this.active && (this.app.compare.active || !origin || Object.keys(LESSON).some((key) => origin[key] !== LESSON[key]))) this.active = false;
    $("guide").hidden = !this.active;
    if (!this.active || this.app.panel.fall) return;
    $("guide-words").textContent = this.words(shown);
  }

  words({ state, reward }) {
    if (state.ended === "complete") return "It stands: both targets are filled, and each earned +1. Next level, below, has one more.";
    if (state.ended) return `${reason(state.ended).long} Press Undo and try once more.`;
    const next = this.next();
    if (!next) return "Press Undo and try once more.";
    const what = `the outlined ${kind(state.scene.size[next[0]][0])} block`;
    const keys = KEYS ? ` With keys: ${next[0] + 1}, the arrows, Enter.` : "";
    if (state.steps === 0) return `Drag ${what} from below the floor onto the outlined target and let go.${keys}`;
    if (reward > 0) return `+1: the target is filled. Now ${what} onto the one above it.`;
    return `That one missed. Press Undo and drag ${what} onto the outlined target.`;
  }
}
