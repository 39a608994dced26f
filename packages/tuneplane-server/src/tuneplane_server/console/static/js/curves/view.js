/**
 * All curves of a job. The list of metrics comes first and is cheap; the points of a chart are read when it is about to be
 * seen, a few names per request. New points arrive with the stream and are added; without them the charts that
 * are seen are read again.
 */

import { address, getJson, report } from "../api.js";
import { number } from "../format.js";
import { t, tn } from "../i18n.js";
import { subscribe } from "../job.js";
import { Chart } from "./chart.js";
import { Series } from "./series.js";
import { readOptions, startToolbar } from "./toolbar.js";

const GROUPS = ["train", "validation", "system", "raw"];
const MOST_GROUPS = 24;
const FIRST_SHOWN = 60; // charts of one group before "show all"
const NAMES_PER_REQUEST = 12;
const MAX_POINTS = 600;
const REREAD_BEYOND = 2400; // points in one chart before the server thins them again
const DRAW_MS = 250; // at most this often with new points

export function mount(element) {
  const view = new CurvesView(element);
  view.start();
  return () => view.stop();
}

class CurvesView {
  constructor(element) {
    this.element = element;
    this.job = element.dataset.job;
    this.api = `/api/v1/jobs/${encodeURIComponent(this.job)}`;
    this.groupsBox = element.querySelector("[data-groups]");
    this.options = { ...readOptions(), zoom: null, syncKey: `curves-${this.job}`, onZoom: (range) => this.#onZoom(range) };
    this.groups = new Map(); // prefix -> {details, box, names: [], all: false}
    this.entries = new Map(); // metric -> {series, card, chart, loaded, seen, stale}
    this.abort = new AbortController();
    this.wanted = new Set();
    this.dirty = new Set();
  }

  start() {
    startToolbar(this.element, this.options, (what) => this.#onOption(what));
    this.reset = this.element.querySelector("[data-reset]");
    this.reset.addEventListener("click", () => this.#onZoom(null));
    this.observer = new IntersectionObserver((entries) => this.#onSeen(entries), { rootMargin: "400px 0px" });
    this.unsubscribe = subscribe({ metrics: (event) => this.#onMetrics(event.detail) });
    this.recolour = () => this.#redraw(true);
    document.addEventListener("tp:colours", this.recolour);
    this.#readNames();
  }

  stop() {
    this.abort.abort();
    this.unsubscribe();
    this.observer.disconnect();
    document.removeEventListener("tp:colours", this.recolour);
    for (const entry of this.entries.values()) entry.chart?.remove();
  }

  async #readNames() {
    try {
      const answer = await getJson(`${this.api}/metrics`, { signal: this.abort.signal });
      for (const [name, facts] of Object.entries(answer.metrics)) this.#add(name, facts);
      this.refused = answer.refused_points ?? 0;
      this.#layout();
    } catch (error) {
      report(error);
    }
  }

  #add(name, facts) {
    const known = this.entries.get(name);
    if (known) {
      if (known.facts && facts && known.facts.count !== facts.count) this.#want(name);
      known.facts = facts ?? known.facts;
      return known;
    }
    const entry = { name, facts, series: new Series(name), card: null, chart: null, loaded: false, seen: false };
    this.entries.set(name, entry);
    this.#group(this.#prefixOf(name)).names.push(name);
    return entry;
  }

  /** A script with a name of its own for everything does not get a heading for each. */
  #prefixOf(name) {
    const prefix = name.includes("/") ? name.split("/")[0] : "raw";
    return this.groups.has(prefix) || GROUPS.includes(prefix) || this.groups.size < MOST_GROUPS ? prefix : "raw";
  }

  #group(prefix) {
    if (!this.groups.has(prefix)) {
      const details = this.element.querySelector("[data-group-template]").content.firstElementChild.cloneNode(true);
      details.querySelector("h2").textContent = prefix;
      const group = { prefix, details, box: details.querySelector(".charts"), more: details.querySelector(".more"), names: [], all: false };
      group.more.addEventListener("click", () => {
        group.all = true;
        this.#layout();
      });
      this.groups.set(prefix, group);
    }
    return this.groups.get(prefix);
  }

  /** Cards for the metrics that the filter lets through, in their groups, in order. */
  #layout() {
    const passes = filterOf(this.options.filter);
    let shown = 0;
    const rank = (group) => (GROUPS.includes(group.prefix) ? GROUPS.indexOf(group.prefix) : GROUPS.length - 1.5);
    for (const group of [...this.groups.values()].sort((a, b) => rank(a) - rank(b) || a.prefix.localeCompare(b.prefix))) {
      const names = group.names.sort(byOrder(this.element.dataset.primary)).filter(passes);
      const visible = group.all ? names : names.slice(0, FIRST_SHOWN);
      shown += names.length;
      group.details.hidden = names.length === 0;
      group.details.querySelector("span").textContent = tn("{count} metric", "{count} metrics", names.length);
      group.more.hidden = visible.length === names.length;
      group.more.textContent = t("Show all {count} metrics of this group", { count: names.length });
      const keep = new Set(visible);
      for (const name of group.names) {
        const { card } = this.entries.get(name);
        if (card && !keep.has(name)) card.hidden = true;
      }
      for (const name of visible) this.#card(group, name).hidden = false;
      this.groupsBox.append(group.details);
    }
    const refused = this.element.querySelector("[data-refused]");
    refused.hidden = !this.refused;
    refused.lastChild.textContent = this.refused ? t("{count} values of metrics beyond the limits of a job were not kept.", { count: this.refused.toLocaleString() }) : "";
    const empty = this.element.querySelector("[data-empty]");
    empty.hidden = this.entries.size > 0;
    this.element.querySelector("[data-count]").textContent =
      this.options.filter && this.entries.size ? (shown ? tn("{count} metric", "{count} metrics", shown) : t("No metric has this name.")) : "";
  }

  #card(group, name) {
    const entry = this.entries.get(name);
    if (entry.card === null) {
      entry.card = this.element.querySelector("[data-chart-template]").content.firstElementChild.cloneNode(true);
      entry.card.dataset.metric = name;
      entry.card.classList.toggle("main", name === this.element.dataset.primary);
      entry.chart = new Chart(entry.card, entry.series, this.options);
      if (entry.facts?.latest) entry.card.querySelector("[data-value]").textContent = number(entry.facts.latest.value);
      this.observer.observe(entry.card);
    }
    if (entry.card.parentElement !== group.box || group.box.lastElementChild !== entry.card) group.box.append(entry.card);
    return entry.card;
  }

  #onSeen(observed) {
    for (const { target, isIntersecting } of observed) {
      const entry = this.entries.get(target.dataset.metric);
      entry.seen = isIntersecting;
      if (isIntersecting && !entry.loaded) this.#want(entry.name);
      else if (isIntersecting && this.dirty.has(entry.name)) this.#drawSoon();
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
      try {
        const answer = await getJson(address(`${this.api}/curves`, { name: names, max_points: MAX_POINTS }), { signal: this.abort.signal });
        for (const name of names) this.#loaded(this.entries.get(name), answer.series[name] ?? []);
      } catch (error) {
        report(error);
        return;
      }
    }
  }

  #loaded(entry, list) {
    entry.series.replace(list);
    entry.loaded = true;
    entry.chart?.draw();
    this.#offerEpoch();
  }

  /** New points by name, or null (or nothing in it): look which metrics have more than we know. */
  #onMetrics(detail) {
    if (!detail?.series) return this.#readNames();
    let unknown = false;
    for (const [name, list] of Object.entries(detail.series)) {
      const before = this.entries.size;
      const entry = this.#add(name, null);
      unknown ||= this.entries.size !== before;
      if (!entry.loaded) continue; // it is read whole when it is seen
      entry.series.append(list);
      if (entry.series.size > REREAD_BEYOND) this.#want(name);
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

  #redraw(rebuild) {
    for (const entry of this.entries.values()) if (entry.loaded) entry.chart?.draw({ rebuild });
  }

  #onOption(what) {
    if (what === "filter") this.#layout();
    else this.#redraw(true);
    this.reset.hidden = this.options.zoom === null;
  }

  #onZoom(range) {
    this.options.zoom = range;
    this.reset.hidden = range === null;
    this.#redraw(false);
  }

  #offerEpoch() {
    const has = [...this.entries.values()].some((entry) => entry.series.hasEpoch);
    this.element.querySelector("[data-x=epoch]").disabled = !has;
  }
}

/** The method's main metric first, then by name. */
function byOrder(primary) {
  return (a, b) => (a === primary ? -1 : b === primary ? 1 : a.localeCompare(b, "en", { numeric: true }));
}

/** A filter as a regular expression; as plain text while it is none. */
function filterOf(text) {
  if (!text) return () => true;
  try {
    const pattern = new RegExp(text, "i");
    return (name) => pattern.test(name);
  } catch {
    return (name) => name.toLowerCase().includes(text.toLowerCase());
  }
}
