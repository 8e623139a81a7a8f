// The numbers above the scene, the text and steps below it, and which buttons are enabled.

import { signed } from "./paint.js";
import { RECORDED } from "./watch.js";
import { sceneWords } from "./speak.js";
import { KEYS, fixed, reason } from "./words.js";

const $ = (id) => document.getElementById(id);
const HINT = `Drag a block from below the floor into the scene${KEYS ? ", or press 1 to 7" : ""}.`;

/** The reward of a step, or how the episode ended if the reward is 0. */
const label = ({ state, reward }) => (state.ended && !reward ? reason(state.ended).short : signed(reward));
/** The tone of a reward as it is shown: none for a reward that is rounded to 0. */
const tone = ({ reward }) => ({ "+": "good", "−": "bad" }[signed(reward ?? 0)[0]] ?? "");

/** Enables or disables a button. If a disabled button had the focus, the scene gets it. */
function enable(id, on) {
  if (!on && document.activeElement === $(id)) $("canvas").focus({ preventScroll: true });
  $(id).disabled = !on;
}

/** Shows or hides a button. If a hidden button had the focus, the scene gets it. */
export function reveal(id, on) {
  if (!on && document.activeElement === $(id)) $("canvas").focus({ preventScroll: true });
  $(id).hidden = !on;
}

export class Figures {
  constructor(app) {
    this.app = app;
  }

  /** Shows the description of a task. */
  describe(task) {
    this.task = task;
    $("goal").textContent = task.goal;
    $("rules").textContent = `Reward: ${task.reward} Ends: ${task.end.charAt(0).toLowerCase()}${task.end.slice(1)}`;
    $("sticky-cost").textContent = task.sticky_cost ? `costs ${task.sticky_cost}` : "free";
    $("glue-figure").hidden = !task.sticky_cost;
  }

  update() {
    const { app } = this, { episode, panel, compare, watch } = app;
    // While a block falls, its reward is not shown yet.
    const shown = panel.fall && episode.cursor ? episode.moments[episode.cursor - 1] : episode.now;
    const { state, view } = shown, { unit } = this.app.tasks.get(state.task);
    const figure = (value) => (unit ? fixed(value) : String(Number(fixed(value))));
    $("score").textContent = figure(view.score);
    $("best").textContent = `of ${figure(view.best)}${unit ? ` ${unit}` : ""}`;
    $("cost").textContent = signed(-view.cost);
    $("total").textContent = signed(state.total);
    $("left").textContent = String(view.max_steps - state.steps);
    $("figures").hidden = compare.active;
    Object.assign(document.body.dataset, { steps: state.steps, ended: state.ended ?? "", falling: String(Boolean(panel.fall)) });
    this.status(shown);
    this.timeline(shown);

    const playing = compare.active ? compare.playing : watch.playing;
    $("play").textContent = playing ? "Pause" : "Play";
    $("take").textContent = watch.taken ? "Hand back" : "Take over";
    enable("take", !compare.active && (watch.playing || watch.taken) && !(watch.taken && episode.ended));
    enable("step", !playing && !(compare.active ? compare.ended : app.agent === RECORDED ? !episode.canRedo : episode.ended));
    enable("undo", !compare.active && episode.canUndo);
    enable("redo", !compare.active && episode.canRedo);
    enable("restart", !compare.active && episode.canUndo);
    const next = app.nextLevel();
    $("next-level").textContent = next && next.level === state.level ? "Next scene" : "Next level";
    reveal("next-level", !compare.active && state.ended === "complete" && next !== null);
    $("scene-words").textContent = sceneWords(app.about, app.tasks.get(state.task), shown);
    $("agent-about").textContent = app.tasks.get(state.task).agents[app.agent] ?? "";
    app.guide.update(shown);
    app.welcome.update(episode);
    $("compare").textContent = compare.active ? "Close" : "Compare";
    $("compare").classList.toggle("primary", compare.active);
    $("board").classList.toggle("two", compare.active);
    for (const id of ["save", "film"]) enable(id, !compare.active && episode.canUndo);
    document.body.dataset.playing = String(playing);
  }

  status(shown) {
    const { app } = this, { state } = shown, { ended } = state;
    if (app.pending) return; // the message about it stays
    if (app.compare.active) app.say("The same scene, built by both agents.");
    else if (ended) app.say(`${reason(ended).long} Total reward ${signed(state.total)}.`, reason(ended).tone);
    else if (app.watch.playing) app.say(app.agent === RECORDED ? "Showing what was recorded." : `${app.agentName()} is building.`);
    else if (app.watch.taken && shown.by !== "you") app.say("Your turn: drag a block, then hand back.");
    else if (tone(shown)) app.say(`${signed(shown.reward)} for this block.`, tone(shown));
    else app.say(state.steps ? "Nothing earned by this block." : HINT);
  }

  /** Lists the steps as buttons that go to them. When comparing, lists the steps of both agents, without buttons. */
  timeline(shown) {
    const { app } = this, { episode } = app;
    $("timeline").hidden = app.compare.active;
    $("timelines").hidden = !app.compare.active;
    if (app.compare.active) {
      $("timelines").replaceChildren(...app.compare.panels.map((panel) => {
        const list = document.createElement("ol");
        list.className = "timeline";
        list.setAttribute("aria-label", `Steps of ${app.agentName(panel.agent)}`);
        list.append(...panel.episode.moments.slice(1).map((moment) => {
          const item = document.createElement("li");
          item.textContent = label(moment);
          item.dataset.tone = tone(moment);
          return item;
        }));
        return list;
      }));
      return;
    }
    const held = $("timeline").contains(document.activeElement);
    $("timeline").replaceChildren(...episode.moments.map((moment, i) => {
      const item = document.createElement("li"), button = document.createElement("button");
      button.type = "button";
      const known = i < episode.cursor || moment === shown || !app.panel.fall;
      button.textContent = i === 0 ? "start" : known ? label(moment) : "…";
      button.title = i === 0 ? "The empty scene" : `Step ${i}${moment.by ? ` by ${app.agentName(moment.by)}` : ""}${known ? `: ${signed(moment.reward, 4)}` : ""}`;
      button.dataset.tone = i === 0 || !known ? "" : tone(moment);
      button.classList.toggle("agent", Boolean(moment.by && moment.by !== "you"));
      button.classList.toggle("ahead", i > episode.cursor);
      if (i === episode.cursor) button.setAttribute("aria-current", "step");
      button.addEventListener("click", () => app.jump(i));
      item.append(button);
      return item;
    }));
    if (held) $("timeline").querySelector("[aria-current]")?.focus({ preventScroll: true });
  }
}
