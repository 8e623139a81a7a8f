// The page: holds the episode that is shown, and brings the parts together.

import { api } from "./api.js";
import { Builder } from "./build.js";
import { Comparison } from "./compare.js";
import { Episode } from "./episode.js";
import { Figures } from "./figures.js";
import { Files } from "./files.js";
import { Guide } from "./guide.js";
import { wireKeys } from "./keys.js";
import * as link from "./link.js";
import { Predictions } from "./predict.js";
import { hear, landed } from "./speak.js";
import { Panel, Stage } from "./stage.js";
import { Thinker } from "./think.js";
import { describe } from "./tip.js";
import { ValueMap } from "./values.js";
import { RECORDED, Watcher } from "./watch.js";
import { KEYS, levelName } from "./words.js";

const $ = (id) => document.getElementById(id);
const FIRST = { task: "silhouette", level: 3, seed: 1 };

class App {
  constructor(about) {
    this.api = api;
    this.about = about;
    this.tasks = new Map(about.tasks.map((task) => [task.name, task]));
    this.stage = new Stage($("canvas"), about);
    this.panel = null;
    this.busy = false;
    this.loads = 0;
    this.watch = new Watcher(this);
    this.think = new Thinker(this);
    this.compare = new Comparison(this);
    this.build = new Builder(this);
    this.files = new Files(this);
    this.figures = new Figures(this);
    this.values = new ValueMap(this);
    this.predictions = new Predictions(this);
    this.guide = new Guide(this);
    this.stage.content = (panel, moving) => this.overlay(panel, moving);
    this.wire();
    wireKeys(this);
  }

  get episode() { return this.panel.episode; }
  get agent() { return $("agent").value; }
  get speed() { return Number($("speed").value); }
  get sticky() { return $("sticky").checked; }
  get snap() { return $("snap").checked; }
  get canBuild() { return this.panel !== null && !this.busy && !this.compare.active && !this.episode.ended; }

  /** What is drawn on top of a panel's scene. */
  overlay(panel, moving) {
    const show = { contacts: $("contacts").checked, glue: $("glue").checked, done: $("done").checked };
    if (this.compare.active) return { show };
    const { ghost, hover } = this.build;
    const ideas = ghost || moving ? null : this.think.shown;
    const values = moving ? null : this.values.shown;
    const predicted = this.predictions.shown;
    return { show, ghost, ideas, plan: this.think.plan, values, predicted, lit: this.think.lit, hint: this.guide.hint, hover: moving ? null : hover, sticky: this.sticky, keys: KEYS };
  }

  wire() {
    $("task").replaceChildren(...this.about.tasks.map((task) => new Option(task.title, task.name)));
    for (const id of ["agent", "rival"]) $(id).replaceChildren(...this.about.agents.map((name) => new Option(name, name)));
    const has = (name) => this.about.agents.includes(name);
    $("agent").value = has("planner") ? "planner" : this.about.agents[0];
    $("rival").value = has("scripted") ? "scripted" : this.about.agents.at(-1);

    const go = () => this.attempt(() => this.load({ task: $("task").value, level: this.level(), seed: this.seed() }));
    $("task").addEventListener("change", () => { this.fillLevels($("task").value); go(); });
    $("level").addEventListener("change", go);
    $("seed").addEventListener("change", go);
    $("next-level").addEventListener("click", () => this.attempt(() => this.load(this.nextLevel())));
    $("next").addEventListener("click", () => this.nextScene());
    $("random").addEventListener("click", () => this.randomScene());
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
    for (const id of ["contacts", "glue", "done", "sticky", "snap"]) {
      $(id).addEventListener("change", () => {
        const { ghost } = this.build;
        if (ghost) this.build.moveTo(ghost.rawX, ghost.rawY);
        this.stage.invalidate();
      });
    }
    $("link").addEventListener("click", () => this.copyLink());
    $("help").addEventListener("click", () => $("keys").showModal());
    $("theme").addEventListener("click", () => this.toggleTheme());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.stage.recolour());
    addEventListener("hashchange", () => {
      if (this.panel && location.hash.slice(1) !== link.encode(this.episode)) this.goToAddress();
    });
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

  /** The same scene one level further; null after the last, and for an episode from a file. */
  nextLevel() {
    const { origin } = this.episode;
    if (!origin) return null;
    const { levels } = this.tasks.get(origin.task), next = levels[levels.indexOf(origin.level) + 1];
    return next === undefined ? null : { ...origin, level: next };
  }

  /** The agents that can build in a task; one that cannot is not left chosen. */
  offerAgents(task) {
    const { agents } = this.tasks.get(task);
    for (const [id, favourite] of [["agent", "planner"], ["rival", "scripted"]]) {
      for (const option of $(id).options) option.disabled = option.value !== RECORDED && !(option.value in agents);
      if ($(id).selectedOptions[0]?.disabled ?? true) $(id).value = favourite in agents ? favourite : Object.keys(agents)[0];
    }
  }

  /** After Back, Forward or a change of the address: a moment of the episode that is shown, or else another scene. */
  goToAddress() {
    const { episode } = this, hash = location.hash.slice(1);
    const index = episode.moments.findIndex((_, i) => link.encode(episode, i) === hash);
    if (index < 0 || !episode.origin) return this.attempt(() => this.fromAddress());
    if (this.compare.active) this.compare.close();
    return this.jump(index);
  }

  /** Shows the scene of the address, or the first one where it says nothing; what is wrong with it is told. */
  async fromAddress() {
    let wanted = { task: null, level: null, seed: null, placements: [] }, problem = null;
    try {
      wanted = link.decode(location.hash);
    } catch (error) {
      problem = error.message;
    }
    const task = this.tasks.has(wanted.task) ? wanted.task : FIRST.task;
    if (wanted.task !== null && wanted.task !== task) problem = `The link names a task that is not here: ${wanted.task.slice(0, 40)}`;
    const known = this.tasks.get(task).levels.includes(wanted.level);
    if (problem === null && wanted.level !== null && !known) problem = `The link names a level that ${task} does not have: ${String(wanted.level).slice(0, 40)}`;
    const origin = { task, level: known ? wanted.level : wanted.task === task ? 0 : FIRST.level, seed: wanted.seed ?? FIRST.seed };
    try {
      await this.load(origin, problem === null ? wanted.placements : []);
    } catch (error) {
      if (problem !== null || !wanted.placements.length) throw error;
      problem = `The link cannot be followed: ${error.message}`;
      await this.load(origin);
    }
    if (problem !== null) this.say(`${problem}${problem.endsWith(".") ? "" : "."} This is another scene.`, "bad");
  }

  /** A scene by its task, level and seed, with placements made in it. */
  async load(origin, placements = []) {
    this.quiet();
    const load = this.loads += 1;
    const moments = await this.api.start(origin.task, origin.level, origin.seed, placements);
    if (load !== this.loads) return; // another one was asked for meanwhile
    if (this.agent === RECORDED) this.offerRecorded(false);
    this.replaceEpisode(new Episode(moments, origin));
  }

  showRecorded(episode) {
    this.quiet();
    this.offerRecorded(true);
    this.replaceEpisode(episode);
    this.say("A recorded episode: play it, step through it, or build on from any step.");
  }

  /** In the list of agents, what was recorded is one too, while there is something recorded. */
  offerRecorded(on) {
    const options = [...$("agent").options], there = options.find((option) => option.value === RECORDED);
    if (on && !there) $("agent").prepend(new Option("as recorded", RECORDED));
    if (!on && there) there.remove();
    if (on) $("agent").value = RECORDED;
  }

  replaceEpisode(episode) {
    this.panel?.settle();
    this.panel = new Panel(episode);
    this.stage.panels = [this.panel];
    const { task, level } = episode.state;
    $("task").value = task;
    this.fillLevels(task);
    $("level").value = String(level);
    $("seed").value = episode.origin?.seed ?? "";
    this.offerAgents(task);
    this.values.offer();
    this.figures.describe(this.tasks.get(task));
    this.update();
  }

  /** Nothing goes on any more: before another scene is shown. */
  quiet() {
    this.watch.run = null;
    this.watch.taken = false;
    this.watch.abort();
    this.build.cancel();
    this.build.look(null);
    if (this.compare.active) this.compare.close();
  }

  nextScene() { return this.attempt(() => this.load({ task: $("task").value, level: this.level(), seed: (this.seed() + 1) % 4294967296 })); }
  randomScene() {
    const seed = Math.floor(Math.random() * 100000);
    return this.attempt(() => this.load({ task: $("task").value, level: this.level(), seed }));
  }

  /** On a phone the scene may be out of sight: whoever lets an agent build wants to see it. */
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

  /** A placement by hand. */
  async place(placement) {
    if (!this.canBuild) return;
    this.watch.takeOver();
    const { episode } = this;
    this.busy = true;
    performance.mark("trilith:release");
    await this.attempt(async () => {
      try {
        const moment = await this.api.step(episode.now.text, placement, episode.zero_on_hit);
        if (this.episode !== episode) return;
        moment.by = "you";
        episode.push(moment);
      } finally {
        this.busy = false;
      }
      await this.arrive(episode.now);
    });
  }

  /** Shows the fall that led to a new moment, then what it earned. */
  async arrive(moment) {
    const { panel } = this, rest = this.stage.show(panel, moment.frames, this.speed);
    this.update();
    await rest;
    if (this.panel !== panel || this.episode.now !== moment) return;
    this.update();
    hear(landed(this.about, this.episode.moments[this.episode.cursor - 1], moment));
  }

  /** Goes to a moment of the episode: undo and redo, as far as one likes. */
  jump(index) {
    if (this.busy || this.compare.active || index < 0 || index >= this.episode.moments.length) return;
    if (this.watch.playing && this.agent !== RECORDED) this.watch.takeOver();
    this.panel.settle();
    this.episode.jump(index);
    this.build.cancel();
    this.update();
  }

  /** Brings everything on the page in line with the moment that is shown. */
  update() {
    if (!this.panel) return;
    this.figures.update();
    const hash = link.encode(this.episode);
    if (location.hash.slice(1) !== hash) {
      // So that Back leads to what was seen before, not off the page; all that an agent builds in one go is one step of that.
      const { run } = this.watch, again = this.arrived === undefined || run?.told;
      history[again ? "replaceState" : "pushState"](null, "", hash ? `#${hash}` : location.pathname);
      if (run) run.told = true;
    }
    this.arrived = true;
    if (this.build.hover != null) this.build.look(null);
    if (!this.watch.playing && !this.panel.fall) this.think.refresh();
    this.predictions.refresh();
    if (!this.panel.fall) {
      this.values.offer();
      this.values.refresh();
    }
    this.stage.invalidate();
  }

  async copyLink() {
    if (!this.episode.origin) return this.say("This episode came from a file, so no address holds it: save it instead.", "bad");
    try {
      await navigator.clipboard.writeText(location.href);
      return this.say("Copied: the link shows just this, wherever this server runs.");
    } catch {
      return this.say("The address of this page is the link.");
    }
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

  showTip(row, event) { describe(this, row, event); }

  say(line, tone = "") {
    $("status").textContent = line;
    $("status").dataset.tone = tone;
  }

  fail(error) {
    if (error.name !== "AbortError") this.say(error.message, "bad");
  }

  /** Does something that may fail, and says so if it does. */
  async attempt(work) {
    try {
      return await work();
    } catch (error) {
      this.fail(error);
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
  if (!location.hash && !app.about.opened && !app.guide.known) await app.attempt(() => app.guide.start());
  else await app.attempt(() => app.fromAddress());
  if (!app.panel) await app.attempt(() => app.load(FIRST));
  if (app.about.opened && !location.hash.includes("build=")) await app.attempt(async () => app.files.offer(await api.opened()));
  document.body.dataset.ready = "true";
}

main().catch((error) => { $("status").textContent = error.message; });
