/** The trials of a sweep as lines over their parameters. Dragging along an axis chooses those that pass there. */

import { address, getJson, report } from "./api.js";
import { t } from "./i18n.js";
import { axesOf, measured } from "./sweep_axes.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 1000;
const HEIGHT = 300;
const TOP = 44;
const BOTTOM = 24;
const SIDE = 90;
const MOST_COMPARED = 50; // as many as one comparison shows

export function mount(element) {
  const stop = new AbortController();
  const brushes = new Map(); // name of an axis -> [low, high] of its places
  let sweep = null;
  const draw = () => {
    if (sweep) drawLines(element, sweep, brushes, draw);
  };
  const read = async () => {
    try {
      sweep = await getJson(`/api/v1/sweeps/${element.dataset.sweep}`, { signal: stop.signal });
      if (!element.querySelector("[data-dragging]")) draw();
    } catch (error) {
      report(error);
    }
  };
  document.body.addEventListener("tp:tick", read, { signal: stop.signal });
  document.body.addEventListener("htmx:afterSwap", draw, { signal: stop.signal }); // the table came anew
  read();
  return () => stop.abort();
}

function drawLines(element, sweep, brushes, draw) {
  const holder = element.querySelector("[data-lines]");
  element.querySelector("[data-none]").hidden = sweep.trials.length > 0;
  if (!sweep.trials.length) return;
  const axes = axesOf(sweep);
  const x = (index) => (axes.length > 1 ? SIDE + (index * (WIDTH - 2 * SIDE)) / (axes.length - 1) : WIDTH / 2);
  const picture = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-labelledby": "parallel-title" });
  const chosen = sweep.trials.filter((trial) => passes(trial, axes, brushes));
  const inside = new Set(chosen.map((trial) => trial.number));
  const good = goodOnes(sweep);
  for (const trial of sweep.trials) {
    const points = axes.map((axis, index) => [x(index), axis.at(trial)]).filter(([, place]) => place !== null);
    if (!points.length) continue;
    const best = sweep.best?.number === trial.number;
    const marks = [best && "best", good.has(trial.number) && "good", trial.state === "failed" && "failed"];
    const line = make("polyline", {
      points: points.map(([left, place]) => `${left},${y(place)}`).join(" "),
      class: ["trial", ...marks.filter(Boolean), !inside.has(trial.number) && "out"].filter(Boolean).join(" "),
      "data-trial": trial.number,
    });
    line.append(make("title", {}, described(trial, axes)));
    picture.append(line);
  }
  axes.forEach((axis, index) => picture.append(drawAxis(axis, x(index), brushes, draw)));
  holder.replaceChildren(picture);
  showChosen(element, sweep, chosen, brushes.size > 0);
}

function drawAxis(axis, left, brushes, draw) {
  const group = make("g", { class: "axis" });
  group.append(make("line", { x1: left, x2: left, y1: y(1), y2: y(0) }));
  group.append(make("text", { x: left, y: 16, "text-anchor": "middle", class: "name" }, axis.name));
  if (axis.log) group.append(make("text", { x: left, y: 30, "text-anchor": "middle" }, t("log")));
  for (const tick of axis.ticks) {
    group.append(make("text", { x: left + 7, y: y(tick.place) + 4 }, tick.text));
  }
  const brush = brushes.get(axis.name);
  if (brush) {
    group.append(make("rect", { class: "brush", x: left - 7, width: 14, y: y(brush[1]), height: y(brush[0]) - y(brush[1]) }));
  }
  const grip = make("rect", { class: "grip", x: left - 16, width: 32, y: TOP, height: HEIGHT - TOP - BOTTOM, "data-axis": axis.name });
  startBrush(grip, axis.name, brushes, draw);
  group.append(grip);
  return group;
}

/** A drag sets the range, a click without one clears it. */
function startBrush(grip, name, brushes, draw) {
  grip.addEventListener("pointerdown", (event) => {
    const first = placeOf(grip, event);
    grip.setPointerCapture(event.pointerId);
    grip.dataset.dragging = "yes";
    grip.addEventListener("pointerup", (last) => {
      delete grip.dataset.dragging;
      const ends = [first, placeOf(grip, last)].sort((one, other) => one - other);
      if (ends[1] - ends[0] < 0.02) brushes.delete(name);
      else brushes.set(name, ends);
      draw();
    }, { once: true });
  });
}

function placeOf(grip, event) {
  const box = grip.getBoundingClientRect();
  return Math.min(1, Math.max(0, 1 - (event.clientY - box.top) / box.height));
}

function passes(trial, axes, brushes) {
  return axes.every((axis) => {
    const brush = brushes.get(axis.name);
    const place = axis.at(trial);
    return !brush || (place !== null && place >= brush[0] - 0.01 && place <= brush[1] + 0.01);
  });
}

/** Numbers of the best quarter of the trials that have a value. */
function goodOnes(sweep) {
  const sign = sweep.objective?.goal === "max" ? -1 : 1;
  const valued = sweep.trials.filter((trial) => measured(trial) !== null);
  valued.sort((one, other) => sign * (measured(one) - measured(other)));
  return new Set(valued.slice(0, Math.ceil(valued.length / 4)).map((trial) => trial.number));
}

function showChosen(element, sweep, chosen, brushed) {
  const inside = new Set(chosen.map((trial) => trial.number));
  for (const row of document.querySelectorAll("tr[data-trial]")) row.classList.toggle("out", !inside.has(Number(row.dataset.trial)));
  const said = brushed ? t("{count} of {total} trials chosen", { count: chosen.length, total: sweep.trials.length }) : "";
  element.querySelector("[data-chosen]").textContent = said;
  const runs = chosen.map((trial) => trial.job_id).filter(Boolean).slice(0, MOST_COMPARED);
  const link = element.querySelector("[data-compare]");
  link.hidden = !brushed || runs.length < 2;
  link.href = address("/compare", { run: runs });
}

function described(trial, axes) {
  const values = axes.map((axis) => `${axis.name} ${axis.value(trial) ?? "–"}`).join(", ");
  return t("Trial {n}: {values}", { n: trial.number, values });
}

function y(place) {
  return TOP + (1 - place) * (HEIGHT - TOP - BOTTOM);
}

function make(name, attributes, text) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
