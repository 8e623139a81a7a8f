// Ideas: the placements that the chosen agent considers in the current state, as ghosts in the scene and as a list beside it.

import { signed } from "./paint.js";
import { NAMES } from "./tip.js";
import { RECORDED } from "./watch.js";
import { COMPARED, fixed, kind } from "./words.js";

const COUNT = 5;
const TWICE = 500; // milliseconds: a second click within this time is part of a double click
const LARGER = 3; // magnification of the windows, the same for all objects

/** The agent's view of an object, with its value below. Pointing at it shows which object it is. */
function view(app, { row, width, pixels, value }) {
  const item = document.createElement("li"), canvas = document.createElement("canvas"), text = document.createElement("span");
  const image = new ImageData(Uint8ClampedArray.from(atob(pixels), (each) => each.charCodeAt(0)), width);
  canvas.width = image.width;
  canvas.height = image.height;
  canvas.style.width = `${LARGER * width}px`;
  canvas.getContext("2d").putImageData(image, 0, 0);
  text.textContent = value == null ? "–" : signed(value);
  item.title = NAMES[app.episode.state.scene.role[row]];
  item.addEventListener("pointerenter", () => app.build.look(row));
  item.addEventListener("pointerleave", () => app.build.look(null));
  item.append(canvas, text);
  return item;
}

export class Thinker {
  constructor(app) {
    this.app = app;
    this.on = false;
    this.about = null; // the state that the ideas belong to
    this.ideas = [];
    this.seen = []; // the agent's views of the objects, if it sees pictures
    this.plan = false; // whether the ideas are the steps of one plan, in order
    this.lit = null;
    this.stop = null;
    this.following = false; // whether the steps of a plan are being placed
    this.placed = -TWICE; // time when the last idea was placed
    this.list = document.getElementById("ideas-list");
    this.note = document.getElementById("ideas-note");
    this.views = document.getElementById("seen");
  }

  /** The ideas to draw; null if they belong to another state or agent. */
  get shown() {
    return this.on && this.about === this.key() ? this.ideas : null;
  }

  key() {
    const { app } = this;
    return `${app.agent}|${app.episode.now.text}`;
  }

  toggle(on) {
    this.on = on;
    if (on) this.refresh();
    else this.clear();
  }

  clear() {
    this.stop?.abort();
    this.about = null;
    this.ideas = [];
    this.seen = [];
    this.show();
  }

  /** Requests ideas for the current state, if there are none yet. */
  async refresh() {
    const { app } = this, key = this.key();
    if (this.on && app.compare.active) {
      this.clear();
      return this.say(COMPARED);
    }
    if (!this.on || this.following || this.about === key) return undefined;
    this.stop?.abort();
    this.about = key;
    this.ideas = [];
    this.seen = [];
    this.say("");
    this.show();
    if (app.episode.ended) return this.say("The episode has ended: there is nothing left to place.");
    if (app.agent === RECORDED) return this.say("A recording has no ideas: choose an agent.");
    const stop = this.stop = new AbortController();
    const name = app.agentName();
    this.say(`${name} is thinking …`);
    try {
      const { source, ideas, seen } = await app.api.ideas(app.episode.now.text, app.agent, app.episode.seed, COUNT, stop.signal);
      if (this.about !== key) return undefined;
      this.ideas = ideas;
      this.seen = seen;
      this.plan = source === "plan";
      const earns = ideas.reduce((sum, { value }) => sum + value, 0);
      if (!ideas.length) this.say(`${name} has no idea here: it sees ${this.plan ? "nothing more to gain" : "no place where a block could go"}.`);
      else if (source === "agent") this.say(`${name}: what it expects to earn from here to the end.`);
      else if (this.plan) this.say(`${name}: its plan from here, which earns ${signed(earns)}.`);
      else this.say(`${name} keeps no values: these are rewards of one placement ahead, by physics.`);
    } catch (error) {
      if (error.name === "AbortError" || this.about !== key) return undefined;
      this.say(error.message);
      if (error.again) this.about = null; // the next update of the page requests them again
      if (error.again) app.fail(error, () => app.update());
    }
    return this.show();
  }

  /** Whether an idea can be placed: it belongs to the current state, everything is at rest, and nobody builds. */
  get usable() {
    const { app } = this;
    return app.canBuild && !app.panel.fall && !app.watch.playing && !this.following && this.shown !== null;
  }

  enable() {
    for (const button of this.list.querySelectorAll("button")) button.setAttribute("aria-disabled", String(!this.usable));
  }

  /** Places an idea. In a plan, places all steps up to it, because the order matters. */
  async follow(index, { timeStamp }) {
    const { app } = this, steps = this.plan ? this.ideas.slice(0, index + 1) : [this.ideas[index]];
    if (!this.usable || timeStamp - this.placed < TWICE) return;
    this.placed = timeStamp;
    this.following = true;
    app.showBoard();
    for (const { placement } of steps) {
      const { episode } = app, before = episode.now;
      await app.place(placement);
      if (app.episode !== episode || episode.moments[episode.cursor - 1] !== before) break; // the step failed, or the user went to another moment
    }
    this.following = false;
    this.enable();
    if (app.panel.fall === null) this.refresh();
  }

  say(line) {
    this.note.textContent = line;
    this.note.hidden = !line;
  }

  show() {
    if (!this.on) this.say("");
    this.lit = null;
    const { size } = this.app.episode.state.scene, held = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.ideas.map((idea, i) => {
      const item = document.createElement("li"), button = document.createElement("button");
      const [slot, x, y, sticky] = idea.placement;
      button.type = "button";
      button.title = this.plan && i ? `Place steps 1 to ${i + 1}` : "Place it";
      const what = document.createElement("span"), value = document.createElement("b");
      what.textContent = `${this.plan ? `${i + 1}. ` : ""}${kind(size[slot][0])}${sticky ? ", sticky" : ""} at ${fixed(x)}, ${fixed(y)}`;
      value.textContent = `${idea.chosen ? "its choice " : ""}${idea.value == null ? "" : signed(idea.value)}`;
      if (idea.visits != null) value.textContent += ` · ${idea.visits} visits`;
      button.append(what, value);
      const light = (on) => { this.lit = on ? i : null; this.app.stage.invalidate(); };
      button.addEventListener("pointerenter", () => light(true));
      button.addEventListener("pointerleave", () => light(false));
      button.addEventListener("focus", () => light(true));
      button.addEventListener("blur", () => light(false));
      button.addEventListener("click", (event) => this.follow(i, event));
      item.append(button);
      return item;
    }));
    this.enable();
    this.views.replaceChildren(...this.seen.map((each) => view(this.app, each)));
    document.getElementById("seen-note").hidden = !this.seen.length;
    if (held) (this.list.querySelector("button") ?? document.getElementById("canvas")).focus({ preventScroll: true });
    this.app.stage.invalidate();
  }
}
