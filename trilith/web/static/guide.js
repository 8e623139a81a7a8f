// The guide through a first build, in every task that has a script: which block to place, where, and the result.

import { clamp } from "./geometry.js";
import { signed } from "./paint.js";
import { KEYS, kind, reason } from "./words.js";

const $ = (id) => document.getElementById(id);
const SCRIPT = "scripted"; // the agent whose next step is shown
const LESSONS = { // scenes in which two or three blocks are enough
  silhouette: { level: 1, seed: 2 }, covering: { level: 0, seed: 6 }, covering_hard: { level: 0, seed: 6 }, connecting: { level: 0, seed: 2 },
};
const NEAR = 0.6; // metres: a block released this close to the shown position is moved there

export class Guide {
  constructor(app) {
    this.app = app;
    this.active = false;
    this.advice = null; // {text, placement}: the next step in a state; null if nothing is left to do
    this.asked = null; // the state whose next step is requested
    $("guide-start").addEventListener("click", () => app.episode && app.attempt(() => this.start(app.episode.state.task)));
    $("guide-end").addEventListener("click", () => this.end());
  }

  /** Whether this browser has shown the guide before. */
  get known() {
    try {
      return localStorage.getItem("guided") !== null;
    } catch {
      return false;
    }
  }

  remember() {
    try {
      localStorage.setItem("guided", "yes");
    } catch { /* a browser that keeps nothing guides again */ }
  }

  offers(task) { return SCRIPT in this.app.tasks.get(task).agents; }

  start(task) {
    const { level, seed } = LESSONS[task] ?? { level: this.app.tasks.get(task).levels[0], seed: 0 };
    return this.app.load({ task, level, seed }, { guide: true });
  }

  end() {
    this.active = false;
    this.remember();
    $("canvas").focus({ preventScroll: true });
    this.app.update();
  }

  /** The next step in the current state, as [slot, x, y, sticky]; null if there is none, or if it is not known yet. */
  get next() {
    const { episode, panel } = this.app;
    return this.active && !panel.fall && this.advice?.text === episode.now.text ? this.advice.placement : null;
  }

  /** The outlines to draw: the block to pick, unless it is in the hand, and its goal. */
  get hint() {
    if (!this.next) return null;
    const [slot, x, y] = this.next, { pose, size } = this.app.episode.state.scene;
    const place = { pose: [x, y, 0], size: size[slot] };
    return this.app.build.ghost ? [place] : [{ pose: pose[slot], size: size[slot] }, place];
  }

  /** The shown position, for a block of the right size near it; null for other blocks. */
  near(slot, x, y) {
    const { size } = this.app.episode.state.scene, [wanted, nx, ny] = this.next ?? [];
    return wanted !== undefined && size[wanted][0] === size[slot][0] && Math.hypot(nx - x, ny - y) < NEAR ? [nx, ny] : null;
  }

  update(shown) {
    const { app } = this;
    if (app.compare.active) this.active = false;
    $("guide").hidden = !this.active;
    $("guide-start").disabled = !this.offers(shown.state.task);
    if (!this.active || app.panel.fall) return;
    if (!shown.state.ended && this.advice?.text !== shown.text) this.ask(shown);
    const words = this.words(shown);
    if (words) $("guide-words").textContent = words;
  }

  async ask({ text }) {
    const { app } = this;
    if (this.asked === text) return;
    this.asked = text;
    try {
      const { placement } = await app.api.act(text, SCRIPT, app.episode.seed, false);
      const [slot, x, y, sticky] = placement ?? [], { place_x, place_y } = app.about;
      this.advice = { text, placement: placement && [slot, clamp(x, place_x), clamp(y, place_y), sticky] };
    } catch (error) {
      app.fail(error, () => this.ask({ text }));
    }
    this.asked = null;
    if (app.episode.now.text === text) app.update();
  }

  /** The instruction for the next step; empty while it is being requested. */
  words({ state, reward, text }) {
    if (state.ended === "complete" || (state.ended && state.total > 0)) return this.done(state);
    if (state.ended) return `${reason(state.ended).long} Press Undo and try once more.`;
    if (this.advice?.text !== text) return "";
    if (!this.advice.placement) return state.total > 0 ? this.done(state) : "There is nothing to gain from here. Press Undo and try once more.";
    const [slot, , , sticky] = this.advice.placement, what = `the outlined ${kind(state.scene.size[slot][0])} block`;
    const glue = sticky === this.app.sticky ? "" : `Switch Sticky ${sticky ? "on" : "off"}. `;
    const keys = KEYS ? ` With keys: ${sticky === this.app.sticky ? "" : "S, "}${slot + 1}, the arrows, Enter.` : "";
    if (state.steps === 0) return `${glue}Drag ${what} from below the floor to the outlined place and let go.${keys}`;
    return `${reward > 0 ? `${signed(reward)} for this block.` : "Nothing earned yet."} ${glue}Now ${what} to the outlined place.`;
  }

  done({ total }) {
    this.remember();
    return `It stands, and earned ${signed(total)}. Try a higher level, or watch what an agent makes of this scene.`;
  }
}
