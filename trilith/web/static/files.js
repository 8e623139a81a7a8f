// Opens and saves episodes. The browser reads a file and sends its text to be checked; the server opens no path.

import { Episode } from "./episode.js";
import { keep, recall } from "./memory.js";
import { RECORDED } from "./watch.js";
import { levelName } from "./words.js";

const LARGEST = 8 * 1024 * 1024; // bytes

export class Files {
  constructor(app) {
    this.app = app;
    this.recordings = [];
    this.opening = null; // the file that is being opened
    this.select = document.getElementById("opened");
    this.row = document.getElementById("opened-row");
    const file = document.getElementById("file");
    document.getElementById("open").addEventListener("click", () => file.click());
    file.addEventListener("change", async () => {
      const [chosen] = file.files;
      if (chosen) await app.attempt(() => this.read(chosen));
      file.value = ""; // so that the same file can be opened again
    });
    this.select.addEventListener("change", () => app.attempt(() => this.show(Number(this.select.value))));
    document.getElementById("save").addEventListener("click", () => this.saveJson());
    document.getElementById("film").addEventListener("click", () => this.saveFilm());
  }

  async read(chosen) {
    if (chosen.size > LARGEST) throw new Error(`${chosen.name} is too large: an episode or a result has at most 8 MB.`);
    const mine = this.opening = {};
    this.app.say(`Opening ${chosen.name} …`);
    try {
      const recordings = await this.app.waitFor(this.app.api.open(await chosen.text()), () => this.app.attempt(() => this.read(chosen)));
      if (this.opening !== mine) return; // another file was opened meanwhile
      await this.offer(recordings);
      keep("opened", JSON.stringify(recordings));
    } catch (error) {
      if (error.again === false) error.message = `${chosen.name} cannot be shown: ${error.message}`;
      throw error;
    }
  }

  /** The episodes of a file that was opened before a reload; null if there are none. */
  get kept() { return JSON.parse(recall("opened")); }

  /** Called when another scene is shown: a reload then does not show the file. */
  forget() { keep("opened", null); }

  /** Lists the episodes of a file and shows the first. */
  async offer(recordings) {
    this.recordings = recordings;
    this.select.replaceChildren(...recordings.map(({ text, note }, i) => {
      const { start, placements } = JSON.parse(text), title = this.app.tasks.get(start.task).title;
      return new Option(`${i + 1}. ${title} ${levelName(start.level)}: ${note || `${placements.length} steps`}`, i);
    }));
    try {
      await this.show(0);
    } finally {
      this.row.hidden = false; // whatever is wrong with the first, another can be chosen
    }
  }

  async show(index) {
    const { text, seed } = this.recordings[index], moments = await this.app.api.replay(text);
    moments.forEach((moment) => { moment.by = RECORDED; });
    const { zero_on_hit, by } = JSON.parse(text), episode = new Episode(moments, null, zero_on_hit, seed);
    episode.builder = by;
    episode.jump(0);
    this.select.value = String(index);
    this.app.showRecorded(episode);
  }

  name(suffix) {
    const { state, seed } = this.app.episode;
    return ["trilith", state.task, state.level, seed, `${this.app.episode.cursor}-steps`].filter((x) => x != null).join("-") + suffix;
  }

  /** The builder of the current episode, in words. */
  by() {
    const { moments, cursor, builder } = this.app.episode, all = new Set(moments.slice(1, cursor + 1).map(({ by }) => by));
    return [...all].filter(Boolean).map((by) => ({ you: "by hand", [RECORDED]: builder || "as recorded" }[by] ?? this.app.agentName(by))).join(", ").slice(0, 80);
  }

  saveJson() {
    this.give(new Blob([this.app.episode.recording(this.app.about.physics, this.by()), "\n"], { type: "application/json" }), this.name(".json"));
    this.app.say("Saved: Open… shows it again, as does trilith web with the name of the file.");
  }

  async saveFilm() {
    const button = document.getElementById("film"), name = this.name(".gif");
    if (button.getAttribute("aria-busy") === "true") return; // the button is not disabled, because it would lose the focus
    button.setAttribute("aria-busy", "true");
    this.app.say("Making the film …");
    await this.app.attempt(async () => {
      this.give(await this.app.api.film(this.app.episode.recording(this.app.about.physics), this.by()), name);
      this.app.say("Saved the film.");
    });
    button.removeAttribute("aria-busy");
  }

  give(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }
}
