// The page: holds the current episode, and connects the parts of the page.

import { Address } from "./address.js";
import { api } from "./api.js";
import { Builder } from "./build.js";
import { Comparison } from "./compare.js";
import { Episode } from "./episode.js";
import { Figures, reveal } from "./figures.js";
import { Files } from "./files.js";
import { Guide } from "./guide.js";
import { wireKeys } from "./keys.js";
import { Predictions } from "./predict.js";
import { hear, landed } from "./speak.js";
import { Panel, Stage } from "./stage.js";
import { Thinker } from "./think.js";
import { ValueMap } from "./values.js";
import { RECORDED, Watcher } from "./watch.js";
import { Welcome } from "./welcome.js";
import { KEYS, levelName } from "./words.js";

const $ = (id) => document.getElementById(id);
const FAVOURITES = { agent: ["objects", "planner"], rival: ["scripted"] };
const SLOW = 1500; // milliseconds after which the page says that it is waiting

class App {
  constructor(about) {
    this.api = api;
    this.about = about;
    this.tasks = new Map(about.tasks.map((task) => [task.name, task]));
    this.stage = new Stage($("canvas"), about);
    this.panel = null;
    this.pending = null; // a placement that the server has not answered, with the ghost that stands for it
    this.loading = null; // aborts the request for a scene
    this.again = null; // the function of the button Try again
    this.patience = 6000; // milliseconds after which the page says that it waits for an agent
    this.watch = new Watcher(this);
    this.think = new Thinker(this);
    this.compare = new Comparison(this);
    this.build = new Builder(this);
    this.files = new Files(this);
    this.figures = new Figures(this);
    this.values = new ValueMap(this);
    this.predictions = new Predictions(this);
    this.guide = new Guide(this);
    this.welcome = new Welcome(this);
    this.address = new Address(this);
    this.stage.content = (panel, moving) => this.overlay(panel, moving);
    this.wire();
    wireKeys(this);
  }

  get episode() { return this.panel.episode; }
  get agent() { return $("agent").value; }
  get speed() { return Number($("speed").value); }
  get sticky() { return $("sticky").checked; }
  get snap() { return $("snap").checked; }
  get busy() { return this.pending !== null && !this.pending.failed; }
  get canBuild() { return this.panel !== null && !this.busy && !this.compare.active && !this.episode.ended; }

  /** The content to draw on top of a panel's scene. */
  overlay(panel, moving) {
    const show = { contacts: $("contacts").checked, glue: $("glue").checked, done: $("done").checked };
    if (this.compare.active) return { show };
    const { hover } = this.build, ghost = this.build.ghost ?? this.pending?.ghost;
    const ideas = ghost || moving ? null : this.think.shown;
    const values = moving ? null : this.values.shown;
    const predicted = this.predictions.shown;
    return { show, ghost, ideas, plan: this.think.plan, values, most: this.values.most, predicted, lit: this.think.lit, hint: this.guide.hint, hover: moving ? null : hover, sticky: this.sticky, keys: KEYS };
  }

  wire() {
    $("task").replaceChildren(...this.about.tasks.map((task) => new Option(task.title, task.name)));
    for (const id of ["agent", "rival"]) $(id).replaceChildren(...Object.entries(this.about.agents).map(([name, title]) => new Option(title, name)));
    for (const id of ["agent", "rival"]) $(id).value = FAVOURITES[id].find((name) => name in this.about.agents) ?? Object.keys(this.about.agents)[0];

    const go = () => this.show(this.seed());
    $("task").addEventListener("change", () => { this.fillLevels($("task").value); go(); });
    $("level").addEventListener("change", go);
    $("seed").addEventListener("change", go);
    $("next-level").addEventListener("click", () => this.attempt(() => this.load(this.nextLevel())));
    $("next").addEventListener("click", () => this.show((this.seed() + 1) % 4294967296));
    $("random").addEventListener("click", () => this.show(Math.floor(Math.random() * 100000)));
    $("restart").addEventListener("click", () => this.jump(0));
    $("undo").addEventListener("click", () => this.jump(this.episode.cursor - 1));
    $("redo").addEventListener("click", () => this.jump(this.episode.cursor + 1));
    $("play").addEventListener("click", () => this.togglePlay());
    $("step").addEventListener("click", () => {
      this.showBoard();
      return this.compare.active ? this.compare.step() : this.watch.step();
    });
    $("take").addEventListener("click", () => this.watch.toggleTaken());
    $("compare").addEventListener("click", () => this.toggleCompare());
    $("rival").addEventListener("change", () => this.compare.active && this.restartCompare());
    $("agent").addEventListener("change", () => {
      this.watch.abort();
      if (this.compare.active) this.restartCompare();
      else this.update();
    });
    $("ideas").addEventListener("change", () => this.think.toggle($("ideas").checked));
    const leave = () => $("canvas").focus({ preventScroll: true }); // so that the next digit picks a block
    let seedBefore = "";
    $("seed").addEventListener("keydown", ({ key }) => { if (key === "Enter") leave(); });
    $("seed").addEventListener("pointerdown", () => { seedBefore = $("seed").value; });
    $("seed").addEventListener("pointerup", () => { if ($("seed").value !== seedBefore) leave(); }); // its arrows, not a click into it
    for (const id of ["contacts", "glue", "done", "sticky", "snap"]) {
      $(id).addEventListener("change", () => {
        const { ghost } = this.build;
        if (ghost) this.build.moveTo(ghost.rawX, ghost.rawY);
        this.stage.invalidate();
      });
    }
    $("sticky").addEventListener("change", () => this.guide.update(this.episode.now));
    $("help").addEventListener("click", () => $("keys").showModal());
    $("theme").addEventListener("click", () => this.toggleTheme());
    $("retry").addEventListener("click", () => this.again?.());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.stage.recolour());
  }

  fillLevels(name) {
    $("level").replaceChildren(...this.tasks.get(name).levels.map((level) => new Option(levelName(level), level)));
  }

  level() {
    const { value } = $("level");
    return /^\d+$/.test(value) ? Number(value) : value;
  }

  seed() {
    const value = Math.floor(Number($("seed").value));
    return Number.isFinite(value) ? Math.min(Math.max(value, 0), 4294967295) : 0;
  }

  /** The scene at the next level or, after the last level, another scene; null for an episode from a file. */
  nextLevel() {
    const { origin } = this.episode;
    if (!origin) return null;
    const { levels } = this.tasks.get(origin.task), next = levels[levels.indexOf(origin.level) + 1];
    return next === undefined ? { ...origin, seed: (origin.seed + 1) % 4294967296 } : { ...origin, level: next };
  }

  /** Lists the agents that can build in a task. If the chosen agent cannot, another one is chosen. */
  offerAgents(task) {
    const { agents } = this.tasks.get(task);
    for (const id of ["agent", "rival"]) {
      for (const option of $(id).options) option.disabled = option.value !== RECORDED && !(option.value in agents);
      const [first] = [...FAVOURITES[id], ...Object.keys(agents)].filter((name) => name in agents);
      if ($(id).selectedOptions[0]?.disabled ?? true) $(id).value = first;
    }
  }

  /** The name of an agent in a sentence. */
  agentName(name = this.agent) { return (this.about.agents[name] ?? name).replace(/ \(.*\)/, ""); }

  /** Loads a scene by task, level and seed, with placements made in it. If this fails, the current choice stays. */
  async load(origin, { placements = [], by = [], guide = false, again = () => this.attempt(() => this.load(origin, { guide })) } = {}) {
    this.quiet();
    this.loading?.abort(); // only the last requested scene is shown
    const stop = this.loading = new AbortController();
    try {
      const moments = await this.waitFor(this.api.start(origin.task, origin.level, origin.seed, placements, stop.signal), again);
      if (this.loading !== stop) return;
      this.quiet();
      this.files.forget();
      if (this.agent === RECORDED) this.offerRecorded(false);
      by.slice(0, moments.length - 1).forEach((name, i) => { moments[i + 1].by = name || undefined; });
      this.replaceEpisode(new Episode(moments, origin), guide);
    } catch (error) {
      if (this.panel && this.loading === stop) this.showOrigin();
      throw error;
    }
  }

  /** Waits for the decision of an agent. If it takes long and `wanted()` is true, says so, with the button Try again (`again`). */
  async waitForAgent(answer, wanted, again) {
    const slow = setTimeout(() => {
      if (wanted()) this.say("No answer yet: the agent thinks long, or the server hangs. Waiting …", "", again);
    }, this.patience);
    try {
      return await answer;
    } finally {
      clearTimeout(slow);
    }
  }

  /** Waits for an answer. If it takes long, says so, with the button Try again (`again`). */
  async waitFor(answer, again) {
    const slow = setTimeout(() => this.say("The server has not answered yet. Waiting …", "", again), SLOW);
    try {
      return await answer;
    } finally {
      clearTimeout(slow);
    }
  }

  showRecorded(episode) {
    this.quiet();
    this.offerRecorded(true);
    this.replaceEpisode(episode);
    this.say("A recorded episode: play it, step through it, or build on from any step.");
  }

  /** Adds the entry for recorded steps to the list of agents and chooses it, or removes it. */
  offerRecorded(on) {
    const options = [...$("agent").options], there = options.find((option) => option.value === RECORDED);
    if (on && !there) $("agent").prepend(new Option("as recorded", RECORDED));
    if (!on && there) there.remove();
    if (on) $("agent").value = RECORDED;
  }

  replaceEpisode(episode, guide = false) {
    this.guide.active = guide;
    this.panel?.settle();
    if (this.panel?.episode.state.task !== episode.state.task) $("sticky").checked = false; // glue has another cost in another task
    this.panel = new Panel(episode);
    this.stage.panels = [this.panel];
    this.showOrigin();
    this.offerAgents(episode.state.task);
    this.values.offer();
    this.figures.describe(this.tasks.get(episode.state.task));
    this.update();
  }

  /** Task, level and seed of the current scene. */
  showOrigin() {
    const { task, level } = this.episode.state;
    $("task").value = task;
    this.fillLevels(task);
    $("level").value = String(level);
    $("seed").value = this.episode.origin?.seed ?? "";
  }

  /** Stops everything, before another scene is shown. */
  quiet() {
    this.watch.run = null;
    this.watch.taken = false;
    this.watch.abort();
    this.giveUp();
    this.build.cancel();
    this.build.look(null);
    if (this.compare.active) this.compare.close();
  }

  /** Loads the scene of the chosen task and level with a seed. */
  show(seed) {
    const origin = { task: $("task").value, level: this.level(), seed };
    return this.attempt(() => this.load(origin));
  }

  /** Scrolls to the scene when an agent builds, because on a phone the scene may be out of sight. */
  showBoard() {
    const { top, bottom } = $("board").getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) $("board").scrollIntoView({ block: top < 0 ? "start" : "end" });
  }

  togglePlay() {
    this.showBoard();
    const side = this.compare.active ? this.compare : this.watch;
    if (side.playing) side.pause();
    else side.play();
  }

  toggleCompare() {
    if (this.compare.active) this.compare.close();
    else this.restartCompare();
  }

  restartCompare() {
    if (this.agent === RECORDED) this.offerRecorded(false);
    this.compare.close();
    this.quiet();
    this.compare.open([this.agent, $("rival").value]);
    this.showBoard();
  }

  /** Makes a placement by hand. Until the server answers, the block is shown where it was released. */
  async place(placement) {
    if (!this.canBuild) return;
    this.watch.takeOver();
    const { episode } = this, [slot, x, y, sticky] = placement, stop = new AbortController();
    const mine = this.pending = { ghost: { slot, x, y, sticky, landing: y }, stop, failed: false };
    const again = () => { this.giveUp(); return this.place(placement); };
    performance.mark("trilith:release");
    this.think.enable();
    this.stage.invalidate();
    try {
      const moment = await this.waitFor(this.api.step(episode.now.text, placement, episode.zero_on_hit, stop.signal), again);
      if (this.pending !== mine) return;
      this.pending = null;
      moment.by = "you";
      episode.push(moment);
      await this.arrive(moment);
    } catch (error) {
      if (this.pending !== mine) return;
      if (error.again) mine.failed = true;
      else this.giveUp();
      this.fail(error, again);
    }
  }

  /** Cancels a placement without an answer. The server keeps no state, so nothing else has to be undone. */
  giveUp() {
    if (!this.pending) return;
    this.pending.stop.abort();
    this.pending = null;
    this.update();
  }

  /** Shows the fall that led to a new moment, then its reward. */
  async arrive(moment) {
    const { panel } = this, rest = this.stage.show(panel, moment.frames, this.speed);
    this.update();
    await rest;
    if (this.panel !== panel || this.episode.now !== moment) return;
    this.update();
    hear(landed(this.about, this.episode.moments[this.episode.cursor - 1], moment));
  }

  /** Goes to any moment of the episode: undo and redo. */
  jump(index) {
    if (this.compare.active) return;
    if (this.pending) this.giveUp(); // going back first cancels this placement
    else if (index >= 0 && index < this.episode.moments.length) this.goTo(index);
  }

  goTo(index) {
    if (this.watch.playing && this.agent !== RECORDED) this.watch.takeOver();
    this.panel.settle();
    this.episode.jump(index);
    this.build.cancel();
    this.update();
  }

  /** Updates the whole page to the current moment. */
  update() {
    if (!this.panel) return;
    this.figures.update();
    this.address.write();
    if (this.build.hover != null) this.build.look(null);
    if (!this.watch.playing && !this.panel.fall) this.think.refresh();
    this.think.enable();
    this.predictions.refresh();
    if (!this.panel.fall) {
      this.values.offer();
      this.values.refresh();
    }
    this.stage.invalidate();
  }

  toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try {
      localStorage.setItem("theme", root.dataset.theme);
    } catch { /* a browser that keeps nothing: the choice then lasts as long as the page */ }
    this.stage.recolour();
  }

  /** Shows a message below the scene. `again` is the function of the button beside it, if there is one. */
  say(line, tone = "", again = null) {
    $("status").textContent = line;
    $("status").dataset.tone = tone;
    this.again = again;
    reveal("retry", again !== null);
  }

  fail(error, again) {
    if (error.name !== "AbortError") this.say(error.message, "bad", error.again ? again : null);
  }

  /** Runs a function that may fail, and shows its error. */
  async attempt(work) {
    try {
      return await work();
    } catch (error) {
      this.fail(error, () => this.attempt(work));
      this.stage.invalidate();
      return undefined;
    }
  }
}

async function main() {
  try {
    const theme = localStorage.getItem("theme");
    if (theme) document.documentElement.dataset.theme = theme === "dark" ? "dark" : "light";
  } catch { /* as above */ }
  const app = new App(await api.about());
  window.trilith = app; // for the console, and for whoever drives the page
  const { kept } = app.files, free = !location.hash && !app.about.opened; // nobody asks for anything in particular
  const follow = () => app.address.follow().then(() => app.welcome.resume());
  if (free && kept) await app.files.offer(kept).catch(() => app.files.forget());
  if (!app.panel) await app.attempt(() => (free && !app.guide.known ? app.welcome.start() : follow()));
  if (app.about.opened && !location.hash.includes("build=")) await app.attempt(async () => app.files.offer(await api.opened()));
  document.body.dataset.ready = "true";
}

main().catch((error) => { $("status").textContent = error.message; });
