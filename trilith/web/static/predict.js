// Predictions of a learned model, for the last placement or for the block in the hand, beside the simulator's result.

import { signed } from "./paint.js";

const $ = (id) => document.getElementById(id);
const PAUSE = 150; // milliseconds that a block must be held still before a prediction is requested
const SEEN = 0.02; // metres or radians: a block that moves more has moved visibly
const percent = (share) => `${Math.round(100 * share)} %`;
const off = (a, b) => Math.hypot(a[0] - b[0], a[1] - b[1]);
const moved = (a, b) => off(a, b) > SEEN || Math.abs(Math.sin(a[2] - b[2])) > SEEN;

export class Predictions {
  constructor(app) {
    this.app = app;
    this.held = null; // the prediction for the block in the hand, with its key
    this.asked = null; // the key of the requested prediction
    this.problem = "";
    this.stop = null;
    this.timer = 0;
    if (!app.about.world) return;
    $("predictions-switch").hidden = false;
    $("predictions-by").textContent = app.about.world.name;
    $("predictions").addEventListener("change", () => { this.refresh(); app.stage.invalidate(); });
  }

  get on() { return Boolean(this.app.about.world) && $("predictions").checked && !this.app.compare.active; }

  /** The placement to predict, with the moment before it and, unless the block is in the hand, the moment after it. */
  subject() {
    const { busy, episode, build: { ghost } } = this.app, { cursor, moments } = episode;
    if (busy) return null; // the next moment is about to be shown
    if (ghost) {
      if (ghost.home || ghost.objection) return null;
      return { before: episode.now, placement: [ghost.slot, ghost.x, ghost.y, ghost.sticky] };
    }
    return episode.now.placement ? { before: moments[cursor - 1], placement: episode.now.placement, after: episode.now } : null;
  }

  key({ before, placement }) { return `${placement}|${this.app.episode.zero_on_hit}|${before.text}`; }

  /** The prediction for a subject; undefined if it is not known yet. */
  known(subject) {
    return subject.after?.predicted ?? (this.held?.key === this.key(subject) ? this.held.answer : undefined);
  }

  /** The outlines to draw: the new block, blocks that are predicted to move, and blocks that moved although they were predicted to rest. */
  get shown() {
    const subject = this.on ? this.subject() : null, found = subject && this.known(subject);
    if (!found) return null;
    const { before, placement, after } = subject, { pose, size, role } = before.state.scene, { block } = this.app.about.roles;
    return found.poses.filter(([row, ...to]) => role[row] !== block || moved(to, pose[row]) || (after && moved(to, after.state.scene.pose[row])))
      .map(([row, ...to]) => ({ pose: to, size: size[row] ?? size[placement[0]] }));
  }

  /** Called when a block is moved by hand. Requests its prediction when the block is held still. */
  hold() {
    if (!this.on) return;
    this.show();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), PAUSE);
  }

  /** Shows the prediction for the current moment, and requests it if necessary. */
  async refresh() {
    const { app } = this, subject = this.on ? this.subject() : null, key = subject && this.key(subject);
    if (this.asked === key && key !== null) return this.show();
    this.stop?.abort();
    this.asked = null;
    this.problem = "";
    if (!subject) return this.show();
    const found = this.known(subject);
    if (found) {
      if (subject.after) subject.after.predicted = found;
      return this.show();
    }
    const stop = this.stop = new AbortController();
    this.asked = key;
    this.show();
    try {
      const answer = await app.api.predict(subject.before.text, subject.placement, app.episode.zero_on_hit, stop.signal);
      if (subject.after) subject.after.predicted = answer;
      else this.held = { key, answer };
    } catch (error) {
      if (error.name === "AbortError") return undefined;
      this.problem = error.message;
    }
    if (this.asked === key) this.asked = null;
    app.stage.invalidate();
    return this.show();
  }

  /** The prediction in words, beside the actual result. */
  show() {
    $("predicted").hidden = !this.on;
    if (!this.on) return;
    const { app } = this, { name, tasks } = app.about.world, { task } = app.episode.state;
    const note = tasks && !tasks.includes(task) ? `${name} has not learned ${app.tasks.get(task).title}.` : "";
    $("predicted-note").textContent = this.problem || note;
    $("predicted-note").hidden = !$("predicted-note").textContent;
    const subject = this.subject(), found = subject && this.known(subject), wait = this.asked !== null ? "…" : "–";
    const say = (kind, words) => words.forEach((word, i) => { $(`${kind}-${["hit", "end", "reward", "off"][i]}`).textContent = word; });
    if (found) say("predicted", [found.hit === null ? "–" : percent(found.hit), percent(found.end), signed(found.reward)]);
    else say("predicted", [wait, wait, wait]);
    if (!subject?.after) say("came", ["–", "–", "–", "–"]);
    else if (app.panel.fall) say("came", ["…", "…", "…", "…"]);
    else this.came(say, subject.after, found);
  }

  came(say, { state, reward }, found) {
    const hit = state.ended === "obstacle_hit", { pose } = state.scene;
    const far = found?.poses.length && !hit ? `${Math.max(...found.poses.map(([row, ...to]) => off(to, pose[row]))).toFixed(2)} m` : "–";
    say("came", [hit ? "yes" : "no", state.ended ? "yes" : "no", signed(reward), far]);
  }
}
