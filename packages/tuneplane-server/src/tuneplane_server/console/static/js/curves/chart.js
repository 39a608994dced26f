/** One chart: a card with a name, a value and a uPlot canvas, over one run or several. */

import { clock, duration, number } from "../format.js";
import { t } from "../i18n.js";
import { lay, nearest } from "./lines.js";
import { drawMarks } from "./marks.js";
import { linearRange, logRange, logTicks, plainTicks, shortCount, ticksOf, widen } from "./scales.js";

const HEIGHT = 168;
const TALL = 380;
const REACH = 400; // points of other lines that are looked through for the one under the cursor
const PER_LINE = 3; // columns: replaced, kept, smoothed

export class Chart {
  /**
   * `card`: the cloned template. `lines`: [{series, label, colour, start, hidden}], colour the name of a CSS property.
   * `options`: shared by the charts of a view: {axis, smoothing, log, zoom, onZoom, syncKey, many}. `look`: {format, range} of this
   * one: how its values read, and its vertical range from the least and the greatest.
   */
  constructor(card, name, lines, options, { format = number, range = linearRange } = {}) {
    Object.assign(this, { card, name, lines, options, format, range, plot: null });
    this.value = card.querySelector("[data-value]");
    this.under = card.querySelector("[data-under]");
    this.box = card.querySelector(".plot");
    card.querySelector("h3").textContent = name;
    card.querySelector("h3").title = name;
    card.querySelector("[data-enlarge]").addEventListener("click", (event) => this.#enlarge(event.currentTarget));
    this.resizer = new ResizeObserver(() => this.#fit());
    this.resizer.observe(this.box);
  }

  /** Draw anew: after new points, other options or other colours. `rebuild` when the scales, lines or colours changed. */
  draw({ rebuild = false } = {}) {
    this.shown = this.lines.filter((line) => !line.hidden && line.series.size > 0);
    Object.assign(this, lay(this.shown, this.options));
    this.finite = this.columns.flatMap((one) => one.kept.filter((value) => typeof value === "number"));
    if (rebuild || this.plot === null || this.plot.series.length !== this.data.length) this.#build();
    else this.plot.setData(this.data);
    this.#showLatest();
  }

  remove() {
    this.resizer.disconnect();
    this.plot?.destroy();
    this.card.remove();
  }

  #build() {
    this.plot?.destroy();
    this.plot = new uPlot(this.#uplotOptions(this.box.clientWidth || 320), this.data, this.box);
  }

  #uplotOptions(width) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const { axis, log } = this.options;
    const look = {
      stroke: colour("--faint"), font: `11px ${style.getPropertyValue("--sans")}`, grid: { stroke: colour("--grid"), width: 1 },
      ticks: { show: false }, gap: 4,
    };
    return {
      width,
      height: this.#height(),
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        sync: { key: this.options.syncKey, scales: ["x", null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, width: 1.5, stroke: (plot, index) => plot.series[index].paint, fill: colour("--surface") },
        dataIdx: (plot, series, index) => this.#indexOf(plot.data[series], series, index),
      },
      scales: {
        x: { time: axis === "time", range: (_plot, min, max) => this.options.zoom ?? widen(min, max) },
        y: { distr: log ? 3 : 1, range: (_plot, min, max) => (log ? logRange(min, max) : this.range(min, max)) },
      },
      axes: [
        { ...look, size: 26, space: 70, values: ticksOf(axis) },
        { ...look, size: this.format === number ? 48 : 62, space: 34, values: (plot, ticks) => (this.format === number ? plainTicks(plot, ticks) : ticks.map((tick) => this.format(tick))), ...(log ? { splits: (_plot, _axis, min, max) => logTicks(min, max), filter: (_plot, ticks) => ticks } : {}) },
      ],
      series: [{}, ...this.shown.flatMap((line) => this.#seriesOf(colour(line.colour)))],
      hooks: {
        setCursor: [() => this.#hover()],
        setSelect: [(plot) => this.#zoom(plot)],
        draw: [(plot) => drawMarks(plot, this.columns, colour)],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.options.onZoom(null))],
      },
    };
  }

  /** Three series of uPlot for a line: what a later attempt replaced, what counts, and the smoothed form of that. */
  #seriesOf(paint) {
    const faint = this.options.smoothing > 0;
    const shape = { paths: uPlot.paths.linear(), spanGaps: false, points: { size: 4, width: 0, fill: paint, show: showPoints }, paint };
    return [
      { ...shape, stroke: withAlpha(paint, 0.35), width: 1.2, dash: [3, 3], points: { show: false } },
      { ...shape, stroke: faint ? withAlpha(paint, 0.24) : paint, width: faint ? 1 : 1.6 },
      { ...shape, stroke: paint, width: 1.8, points: { show: false } },
    ];
  }

  /** Several runs rarely have their points at the same place: each shows its nearest one. */
  #indexOf(column, series, index) {
    if (series === 0 || typeof column[index] === "number") return index;
    return this.options.many ? nearest(column, index, REACH) : null;
  }

  #zoom(plot) {
    if (plot.select.width < 4) return;
    const range = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.options.onZoom(range);
  }

  /** The values under the cursor, in this and (through the shared cursor) in every other chart. */
  #hover() {
    const index = this.plot?.cursor.idx;
    if (index === null || index === undefined || this.plot.data[0].length === 0) return this.#showLatest();
    if (this.options.many) return this.#hoverMany(index);
    const point = this.at?.[0]?.[index];
    if (!point || point.gap) return this.#showLatest();
    this.value.textContent = number(point.value);
    this.value.classList.add("hovered");
    const parts = [`${t("step")} ${point.step}`, clock(new Date(point.time * 1000))];
    const smoothed = this.options.smoothing > 0 ? this.data[PER_LINE][index] : null;
    if (smoothed !== null && smoothed !== undefined) parts.push(`${t("smoothed")} ${number(smoothed)}`);
    if (this.shown[0].series.attempts.length > 1) parts.push(t("attempt {n}", { n: point.attempt }));
    if (point.replacedBy !== null) parts.push(t("replaced by attempt {n}", { n: point.replacedBy }));
    this.under.textContent = parts.join(" · ");
  }

  /** A list of the runs with their values, the highest first. */
  #hoverMany(index) {
    const smoothing = this.options.smoothing > 0;
    const found = this.shown.flatMap((line, at) => {
      const column = this.data[at * PER_LINE + (smoothing ? 3 : 2)];
      const place = nearest(column, index, REACH);
      return place === null ? [] : [{ line, value: column[place] }];
    });
    found.sort((a, b) => b.value - a.value);
    this.value.textContent = "";
    this.under.replaceChildren(...found.map(({ line, value }) => keyed(line, this.format(value))));
    this.under.prepend(span("faint", this.#place(this.plot.data[0][index])));
  }

  /** Where on the axis, in words. */
  #place(x) {
    const { axis } = this.options;
    if (axis === "time") return clock(new Date(x * 1000));
    if (axis === "relative") return duration(Math.max(0, x));
    return axis === "step" ? `${t("step")} ${x}` : axis === "tokens" ? t("{count} tokens", { count: shortCount(x) }) : `${t("epoch")} ${number(x)}`;
  }

  #showLatest() {
    this.value.classList.remove("hovered");
    const known = this.lines.filter((line) => line.series.latest !== undefined);
    if (known.length === 0) return;
    const latest = this.format(known[0].series.latest);
    const facts = {
      metric: this.name, count: known.reduce((sum, line) => sum + line.series.count, 0), latest,
      min: number(extreme(this.finite, Math.min)), max: number(extreme(this.finite, Math.max)),
    };
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", t("{metric}: {count} points, latest {latest}, from {min} to {max}", facts));
    if (this.options.many) {
      this.value.textContent = "";
      this.under.replaceChildren(...known.filter((line) => !line.hidden).map((line) => keyed(line, this.format(line.series.latest))));
      return;
    }
    this.value.textContent = latest;
    this.under.textContent = this.#whyEmpty() || t("{min} to {max}, {count} points", facts);
  }

  #whyEmpty() {
    const { axis, log } = this.options;
    const empty = this.data[0].length === 0 && this.lines[0].series.size > 0;
    if (empty && axis === "epoch") return t("no epoch was reported with this metric");
    if (empty && axis === "tokens") return t("no count of tokens is known for these steps");
    return log && !this.finite.some((value) => value > 0) ? t("no value above zero to show on a log scale") : "";
  }

  #enlarge(button) {
    const large = this.card.classList.toggle("large");
    button.setAttribute("aria-pressed", String(large));
    this.#fit();
  }

  #height() {
    return this.card.classList.contains("large") ? TALL : HEIGHT;
  }

  #fit() {
    const width = this.box.clientWidth;
    if (!this.plot || width === 0) return;
    if (width !== this.plot.width || this.#height() !== this.plot.height) this.plot.setSize({ width, height: this.#height() });
  }
}

/** A run's colour and value. */
function keyed(line, text) {
  const item = span("keyed", "");
  const dot = span("dot", "");
  dot.style.background = `var(${line.colour})`;
  item.append(dot, span("number strong", text), span("faint", line.label));
  item.title = line.label;
  return item;
}

function span(className, text) {
  const element = document.createElement("span");
  element.className = className;
  element.textContent = text;
  return element;
}

/** Points are dots only where lines alone would hide them: few of them, or one between gaps. */
function showPoints(plot, seriesIndex) {
  const count = plot.data[seriesIndex].reduce((sum, value) => sum + (value !== null && value !== undefined ? 1 : 0), 0);
  return count > 0 && count <= Math.max(1, plot.width / 28);
}

function withAlpha(colour, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

function extreme(values, pick) {
  return values.length === 0 ? null : values.reduce((a, b) => pick(a, b));
}
