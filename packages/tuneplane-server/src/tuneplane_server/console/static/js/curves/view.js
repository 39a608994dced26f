/**
 * All curves of a job, or of several side by side. The list of metrics comes first and is cheap; the points of a chart are read
 * when it is about to be seen, a few names per request. New points of a job arrive with its stream and are added; without
 * them, and for several runs, the charts that are seen are read again.
 */

import { report } from "../api.js";
import { number } from "../format.js";
import { t, tn } from "../i18n.js";
import { subscribe } from "../job.js";
import { Chart } from "./chart.js";
import { Groups } from "./groups.js";
import { pins, togglePin } from "./pins.js";
import { Series } from "./series.js";
import { Source } from "./source.js";
import { readOptions, startToolbar } from "./toolbar.js";

const NAMES_PER_REQUEST = 12;
const MAX_POINTS = 600;
const POINTS_OF_MANY = 320;
const REREAD_BEYOND = 2400; // points in one chart before the server thins them again
const DRAW_MS = 250; // at most this often with new points
const GROUP_COLOURS = { train: "--series-1", validation: "--series-2", system: "--series-3", raw: "--series-5" };
const TOKENS = ["train/num_tokens", "train/num_input_tokens_seen", "train/total_tokens"];

export function mount(element) {
  const { job, start } = element.dataset;
  const view = new CurvesView(element, [{ id: job, label: "", start: Date.parse(start) / 1000 || 0 }]);
  view.start();
  return () => view.stop();
}

export class CurvesView {
  /** `runs`: [{id, label, start (Unix seconds), colour?}]; without a colour the group of a metric decides. */
  constructor(element, runs) {
    this.element = element;
    this.runs = runs;
    this.source = new Source(runs.map((run) => run.id));
    this.options = {
      ...readOptions(), zoom: null, many: runs.length > 1, syncKey: `curves-${runs[0].id}`, onZoom: (range) => this.#onZoom(range),
    };
    this.entries = new Map(); // metric -> {name, facts: {run: …}, lines, card, chart, loaded, seen, refined}
    this.groups = new Groups(element, {
      primary: element.dataset.primary, makeCard: (name) => this.#card(name), dropCard: (name) => this.#drop(name),
    });
    this.groups.onChange = () => this.#layout();
    this.abort = new AbortController();
    this.wanted = new Set();
    this.asked = new Set(); // by the request under way
    this.dirty = new Set();
    this.refused = 0;
  }

  start() {
    startToolbar(this.element, this.options, (what) => this.#onOption(what));
    this.reset = this.element.querySelector("[data-reset]");
    this.reset.addEventListener("click", () => this.#onZoom(null));
    this.observer = new IntersectionObserver((entries) => this.#onSeen(entries), { rootMargin: "400px 0px" });
    this.unsubscribe = this.options.many ? () => {} : subscribe({ metrics: (event) => this.#onMetrics(event.detail) });
    this.recolour = () => this.redraw(true);
    document.addEventListener("tp:colours", this.recolour);
    this.readNames();
  }

  stop() {
    this.abort.abort();
    this.unsubscribe();
    this.observer.disconnect();
    document.removeEventListener("tp:colours", this.recolour);
    for (const entry of this.entries.values()) entry.chart?.remove();
  }

  /** Which metrics there are, and which have more points than we know. */
  async readNames() {
    try {
      const found = await this.source.names(this.abort.signal);
      for (const [run, { metrics }] of Object.entries(found)) {
        for (const [name, facts] of Object.entries(metrics)) this.#add(name, run, facts);
      }
      this.refused = Object.values(found).reduce((sum, one) => sum + (one.refused_points ?? 0), 0);
      this.element.querySelector("[data-x=tokens]").disabled = !TOKENS.some((name) => this.entries.has(name));
      this.#layout();
    } catch (error) {
      report(error);
    }
  }

  redraw(rebuild) {
    for (const entry of this.entries.values()) if (entry.loaded) entry.chart?.draw({ rebuild });
  }

  #add(name, run, facts) {
    let entry = this.entries.get(name);
    if (!entry) {
      entry = { name, facts: {}, lines: null, card: null, chart: null, loaded: false, seen: false, refined: false };
      this.entries.set(name, entry);
      this.groups.add(name);
    }
    const known = entry.facts[run];
    if (entry.loaded && facts && known?.count !== facts.count) this.#want(name);
    if (facts) entry.facts[run] = facts;
    return entry;
  }

  #layout() {
    const shown = this.groups.layout(this.options.filter);
    const refused = this.element.querySelector("[data-refused]");
    refused.hidden = !this.refused;
    refused.lastChild.textContent = this.refused ? t("{count} values of metrics beyond the limits of a job were not kept.", { count: this.refused.toLocaleString() }) : "";
    this.element.querySelector("[data-empty]").hidden = this.entries.size > 0;
    this.element.querySelector("[data-count]").textContent =
      this.options.filter && this.entries.size ? (shown ? tn("{count} metric", "{count} metrics", shown) : t("No metric has this name.")) : "";
  }

  #card(name) {
    const entry = this.entries.get(name);
    if (entry.card !== null) return entry.card;
    const { card, lines } = Object.assign(entry, {
      card: this.element.querySelector("[data-chart-template]").content.firstElementChild.cloneNode(true),
      lines: this.runs.map((run) => ({
        run, series: new Series(name), label: run.label, start: run.start,
        colour: run.colour ?? GROUP_COLOURS[name.split("/")[0]] ?? "--series-4",
        get hidden() { return run.hidden; },
      })),
    });
    card.dataset.metric = name;
    card.classList.toggle("main", name === this.element.dataset.primary);
    entry.chart = new Chart(card, name, lines, this.options);
    const facts = entry.facts[this.runs[0].id];
    if (facts?.latest && !this.options.many) card.querySelector("[data-value]").textContent = number(facts.latest.value);
    this.#wirePin(card, name);
    this.observer.observe(card);
    return card;
  }

  #wirePin(card, name) {
    const pin = card.querySelector("[data-pin]");
    pin.setAttribute("aria-pressed", String(pins().has(name)));
    pin.addEventListener("click", () => {
      pin.setAttribute("aria-pressed", String(togglePin(name)));
      this.#layout();
    });
  }

  #drop(name) {
    const entry = this.entries.get(name);
    this.observer.unobserve(entry.card);
    entry.chart.remove();
    Object.assign(entry, { card: null, chart: null, lines: null, loaded: false, seen: false, refined: false });
    this.dirty.delete(name);
  }

  #onSeen(observed) {
    for (const { target, isIntersecting } of observed) {
      const entry = this.entries.get(target.dataset.metric);
      if (entry.card !== target) continue;
      entry.seen = isIntersecting;
      if (!isIntersecting) continue;
      if (!entry.loaded) this.#want(entry.name);
      else if (this.dirty.has(entry.name)) this.#drawSoon();
      if (this.options.zoom && !entry.refined) this.#refineSoon();
    }
  }

  /** Read the points of a metric soon, together with others. */
  #want(name) {
    this.wanted.add(name);
    this.reading ??= this.#readWanted().finally(() => (this.reading = null));
  }

  async #readWanted() {
    await new Promise((resolve) => setTimeout(resolve, 30));
    while (this.wanted.size) {
      const names = [...this.wanted].slice(0, NAMES_PER_REQUEST);
      for (const name of names) this.wanted.delete(name);
      this.asked = new Set(names);
      try {
        const axis = this.options.axis;
        const answer = await this.source.curves(this.#query(names), this.abort.signal);
        if (axis !== this.options.axis) for (const name of names) this.wanted.add(name);
        else for (const name of names) this.#loaded(this.entries.get(name), answer);
      } catch (error) {
        report(error);
        return;
      } finally {
        this.asked.clear();
      }
    }
  }

  /** Tokens are joined by the server; the other axes are columns that every answer has. */
  #query(names, steps = null) {
    const x = this.options.axis === "tokens" ? { x: "tokens" } : {};
    const stretch = steps ? { step_min: steps[0], step_max: steps[1] } : {};
    return { name: names, max_points: this.options.many ? POINTS_OF_MANY : MAX_POINTS, ...x, ...stretch };
  }

  #loaded(entry, answer) {
    if (!entry.lines) return; // its card went meanwhile
    for (const line of entry.lines) line.series.replace(answer[line.run.id]?.[entry.name] ?? []);
    entry.loaded = true;
    entry.refined = false;
    entry.chart.draw();
    if (this.options.zoom) this.#refineSoon();
    const hasEpoch = entry.lines.some((line) => line.series.hasEpoch);
    if (hasEpoch) this.element.querySelector("[data-x=epoch]").disabled = false;
  }

  /** New points by name, or null (or nothing in it): look which metrics have more than we know. */
  #onMetrics(detail) {
    if (!detail?.series) return this.readNames();
    const [run] = this.runs;
    let unknown = false;
    for (const [name, list] of Object.entries(detail.series)) {
      unknown ||= !this.entries.has(name);
      const entry = this.#add(name, run.id, null);
      if (this.asked.has(name)) this.#want(name); // the answer under way may be older than these points: it is asked for again
      if (!entry.loaded) continue; // it is read whole when it is seen
      const { series } = entry.lines[0];
      series.append(list);
      if (series.size > REREAD_BEYOND || this.options.axis === "tokens") this.#want(name);
      this.dirty.add(name);
    }
    if (unknown) this.#layout();
    this.#drawSoon();
  }

  #drawSoon() {
    this.drawing ??= setTimeout(() => {
      this.drawing = null;
      for (const name of this.dirty) {
        const entry = this.entries.get(name);
        if (!entry.seen) continue; // drawn when it is scrolled to
        this.dirty.delete(name);
        entry.chart.draw();
      }
    }, DRAW_MS);
  }

  #onOption(what) {
    this.reset.hidden = this.options.zoom === null;
    if (what === "filter") return this.#layout();
    if (what === "axis") {
      for (const entry of this.entries.values()) entry.refined = false;
      if (this.options.axis === "tokens") for (const entry of this.entries.values()) if (entry.loaded) this.#want(entry.name);
    }
    this.redraw(true);
  }

  #onZoom(range) {
    this.options.zoom = range;
    this.reset.hidden = range === null;
    for (const entry of this.entries.values()) {
      if (entry.refined && range === null) for (const line of entry.lines ?? []) line.series.refine([]);
      entry.refined = false;
    }
    this.redraw(false);
    if (range !== null) this.#refineSoon();
  }

  /** Look closer at the stretch that is shown: points that were left out of the whole curve are read for it. */
  #refineSoon() {
    clearTimeout(this.refining);
    this.refining = setTimeout(() => this.#refine().catch((error) => report(error)), 150);
  }

  async #refine() {
    const range = this.options.zoom;
    const todo = [...this.entries.values()].filter((entry) => range && entry.seen && entry.loaded && !entry.refined);
    for (const entry of todo) entry.refined = true;
    const thinned = todo.flatMap((entry) => {
      const steps = stepsOf(entry, range, this.options.axis);
      return steps && entry.lines.some((line) => line.series.isThinned(steps)) ? [{ entry, steps }] : [];
    });
    for (let at = 0; at < thinned.length; at += NAMES_PER_REQUEST) {
      const some = thinned.slice(at, at + NAMES_PER_REQUEST);
      const steps = some.reduce(([low, high], one) => [Math.min(low, one.steps[0]), Math.max(high, one.steps[1])], [Infinity, -Infinity]);
      const answer = await this.source.curves(this.#query(some.map(({ entry }) => entry.name), steps), this.abort.signal);
      if (this.options.zoom !== range) return;
      for (const { entry } of some) {
        for (const line of entry.lines ?? []) line.series.refine(answer[line.run.id]?.[entry.name] ?? []);
        entry.chart?.draw();
      }
    }
  }
}

function stepsOf(entry, range, axis) {
  const found = entry.lines.map((line) => line.series.stepsWithin(range, axis, line.start)).filter(Boolean);
  return found.length ? [Math.min(...found.map(([low]) => low)), Math.max(...found.map(([, high]) => high))] : null;
}
