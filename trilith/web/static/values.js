// The value map: the chosen agent's value of a block at every position that it considers.

import { heat, signed } from "./paint.js";
import { RECORDED } from "./watch.js";
import { COMPARED, fixed, kind } from "./words.js";

const NEAR = 0.3; // metres: the pointer selects a position within this distance
const $ = (id) => document.getElementById(id);

export class ValueMap {
  constructor(app) {
    this.app = app;
    this.places = null;
    this.wanted = null; // the kind of block that a link asks for
    this.about = null; // agent, block and state that the places belong to
    this.stop = null;
    $("values-bar").style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(heat)})`;
    $("values").addEventListener("change", () => this.refresh());
    $("values-slot").addEventListener("change", () => this.refresh());
  }

  get on() { return $("values").checked; }

  key() {
    const { app } = this;
    return `${app.agent}|${$("values-slot").value}|${app.episode.now.text}`;
  }

  /** The positions to draw; null if they belong to another state, block or agent. */
  get shown() { return this.on && this.about === this.key() ? this.places : null; }

  /** The kinds of block that are left, each by its first slot. */
  offer() {
    const { scene } = this.app.episode.state, { roles, slots } = this.app.about, kinds = new Map();
    for (let slot = 0; slot < slots; slot++) {
      const name = kind(scene.size[slot][0]);
      if (scene.role[slot] === roles.available && !kinds.has(name)) kinds.set(name, slot);
    }
    const before = this.wanted ?? kind(scene.size[Number($("values-slot").value)]?.[0]);
    this.wanted = null;
    $("values-slot").replaceChildren(...[...kinds].map(([name, slot]) => new Option(name, slot)));
    if (kinds.has(before)) $("values-slot").value = String(kinds.get(before));
  }

  /** Chooses the kind of block of `slot`, the block in the hand. */
  choose(slot) {
    const { scene } = this.app.episode.state;
    const same = [...$("values-slot").options].find((option) => scene.size[Number(option.value)][0] === scene.size[slot][0]);
    if (!same || same.selected) return;
    same.selected = true;
    this.app.address.write();
    this.refresh();
  }

  async refresh() {
    const { app } = this, key = this.key();
    if (!this.on || app.compare.active) {
      this.stop?.abort();
      this.about = null;
      this.say(this.on ? COMPARED : "");
    } else if (this.about !== key) {
      this.stop?.abort();
      this.about = key;
      this.places = null;
      this.say("");
      if (!app.episode.ended && app.agent !== RECORDED && $("values-slot").value !== "") await this.ask(key);
    }
    app.stage.invalidate();
  }

  async ask(key) {
    const { app } = this, stop = this.stop = new AbortController(), name = app.agentName();
    this.say(`${name} is thinking …`);
    try {
      const places = await app.api.values(app.episode.now.text, app.agent, app.episode.seed, Number($("values-slot").value), stop.signal);
      if (this.about !== key) return;
      this.places = places?.length ? places : null;
      if (!places) this.say(`${name} keeps no values: choose an agent that has learned.`);
      else if (!places.length) this.say("It considers no place for this block.");
      else this.say(`What ${name} expects to earn from here to the end with this block there.`);
    } catch (error) {
      if (error.name === "AbortError" || this.about !== key) return;
      this.say(error.message);
      if (error.again) this.about = null; // the next update of the page requests them again
      if (error.again) app.fail(error, () => app.update());
    }
  }

  /** The value at the position nearest to a point, in words; null if none is near. */
  at(x, y) {
    const away = ([px, py]) => Math.hypot(px - x, py - y), near = (this.shown ?? []).filter((place) => away(place) < NEAR);
    const [best] = near.sort((a, b) => away(a) - away(b));
    return best ? `${signed(best[2])}\nat ${fixed(best[0])}, ${fixed(best[1])}` : null;
  }

  /** The colour scale. It is the same for all states of a scene: from 0 to the highest possible reward. */
  get most() { return this.app.episode.moments[0].view.best; }

  say(line) {
    $("values-scale").hidden = !this.shown;
    $("values-best").textContent = signed(this.most);
    $("values-note").textContent = line;
    $("values-note").hidden = !line;
  }
}
