/** One chart: a card with a name, a value and a uPlot canvas. */

import { clock, number, timeOfDay } from "../format.js";
import { t } from "../i18n.js";
import { smooth } from "./series.js";

const HEIGHT = 168;
const TALL = 380;
const GROUP_COLOURS = { train: "--series-1", validation: "--series-2", system: "--series-3", raw: "--series-5" };

export class Chart {
  /** `card`: the cloned template; `options`: the shared view options {axis, smoothing, log, zoom, onZoom, syncKey}. */
  constructor(card, series, options) {
    this.card = card;
    this.series = series;
    this.options = options;
    this.plot = null;
    this.value = card.querySelector("[data-value]");
    this.under = card.querySelector("[data-under]");
    this.box = card.querySelector(".plot");
    card.querySelector("h3").textContent = series.name;
    card.querySelector("h3").title = series.name;
    card.querySelector("[data-enlarge]").addEventListener("click", (event) => this.#enlarge(event.currentTarget));
    this.resizer = new ResizeObserver(() => this.#fit());
    this.resizer.observe(this.box);
  }

  /** Draw anew: after new points, other options or other colours. `rebuild` when the scales or colours changed. */
  draw({ rebuild = false } = {}) {
    const columns = this.series.columns(this.options.axis);
    this.columns = columns;
    const log = this.options.log;
    const positive = (values) => (log ? values.map((value) => (typeof value === "number" && value <= 0 ? null : value)) : values);
    const kept = positive(columns.kept);
    const smoothed = this.options.smoothing > 0 ? smooth(kept, this.options.smoothing) : kept.map(() => undefined);
    this.data = [columns.x, positive(columns.replaced), kept, smoothed];
    this.finite = columns.kept.filter((value) => typeof value === "number");
    this.noEpoch = this.options.axis === "epoch" && columns.x.length === 0 && this.series.size > 0;
    this.nothing = log && columns.x.length > 0 && !this.finite.some((value) => value > 0);
    if (rebuild || this.plot === null) this.#build();
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
    const width = this.box.clientWidth || 320;
    this.plot = new uPlot(this.#uplotOptions(width), this.data, this.box);
  }

  #uplotOptions(width) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const line = colour(GROUP_COLOURS[this.series.name.split("/")[0]] ?? "--series-4");
    const faint = this.options.smoothing > 0;
    const axis = {
      stroke: colour("--faint"), font: `11px ${style.getPropertyValue("--sans")}`, grid: { stroke: colour("--grid"), width: 1 },
      ticks: { show: false }, gap: 4,
    };
    const shape = { paths: uPlot.paths.linear(), spanGaps: false, points: { size: 4, width: 0, fill: line, show: showPoints } };
    return {
      width,
      height: this.#height(),
      padding: [8, 18, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        sync: { key: this.options.syncKey, scales: ["x", null] },
        drag: { x: true, y: false, setScale: false },
        points: { size: 7, width: 1.5, stroke: line, fill: colour("--surface") },
        dataIdx: (plot, series, index) => (typeof plot.data[series][index] === "number" ? index : null),
      },
      scales: {
        x: { time: this.options.axis === "time", range: (_plot, min, max) => this.options.zoom ?? widen(min, max) },
        y: { distr: this.options.log ? 3 : 1, range: (_plot, min, max) => (this.options.log ? logRange(min, max) : linearRange(min, max)) },
      },
      axes: [
        { ...axis, size: 26, space: 70, ...(this.options.axis === "time" ? { values: timeTicks } : {}) },
        {
          ...axis, size: 48, space: 34,
          values: (_plot, ticks) => ticks.map((tick) => number(Number(tick.toPrecision(6)))),
          ...(this.options.log ? { splits: (_plot, _axis, min, max) => logTicks(min, max), filter: (_plot, ticks) => ticks } : {}),
        },
      ],
      series: [
        {},
        { ...shape, stroke: withAlpha(line, 0.35), width: 1.2, dash: [3, 3], points: { show: false } },
        { ...shape, stroke: faint ? withAlpha(line, 0.28) : line, width: faint ? 1 : 1.6 },
        { ...shape, stroke: line, width: 1.8, points: { show: false } },
      ],
      hooks: {
        setCursor: [() => this.#hover()],
        setSelect: [(plot) => this.#zoom(plot)],
        draw: [(plot) => this.#drawMarks(plot, colour)],
        ready: [(plot) => plot.over.addEventListener("dblclick", () => this.options.onZoom(null))],
      },
    };
  }

  #zoom(plot) {
    if (plot.select.width < 4) return;
    const range = [plot.posToVal(plot.select.left, "x"), plot.posToVal(plot.select.left + plot.select.width, "x")];
    plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
    this.options.onZoom(range);
  }

  /** The value under the cursor, in this and (through the shared cursor) in every other chart. */
  #hover() {
    const index = this.plot?.cursor.idx;
    const point = index === null || index === undefined ? null : this.columns?.at[index];
    if (!point || point.gap) return this.#showLatest();
    this.value.textContent = number(point.value);
    this.value.classList.add("hovered");
    const parts = [`${t("step")} ${point.step}`, clock(new Date(point.time * 1000))];
    const smoothed = this.options.smoothing > 0 ? this.data[3][index] : null;
    if (smoothed !== null && smoothed !== undefined) parts.push(`${t("smoothed")} ${number(smoothed)}`);
    if (this.series.attempts.length > 1) parts.push(t("attempt {n}", { n: point.attempt }));
    if (point.replacedBy !== null) parts.push(t("replaced by attempt {n}", { n: point.replacedBy }));
    this.under.textContent = parts.join(" · ");
  }

  #showLatest() {
    const latest = this.series.latest;
    this.value.classList.remove("hovered");
    if (latest === undefined) return;
    this.value.textContent = number(latest);
    const facts = {
      metric: this.series.name, count: this.series.count, latest: number(latest),
      min: number(extreme(this.finite, Math.min)), max: number(extreme(this.finite, Math.max)),
    };
    this.under.textContent = this.noEpoch ? t("no epoch was reported with this metric") : this.nothing ? t("no value above zero to show on a log scale") : t("{min} to {max}, {count} points", facts);
    this.box.setAttribute("role", "img");
    this.box.setAttribute("aria-label", t("{metric}: {count} points, latest {latest}, from {min} to {max}", facts));
  }

  /** Where a later attempt took over, and where a value was no number. */
  #drawMarks(plot, colour) {
    const { ctx, bbox } = plot;
    const ratio = devicePixelRatio;
    ctx.save();
    ctx.lineWidth = ratio;
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    ctx.font = `${10 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
    for (const mark of this.columns.marks) {
      const x = Math.round(plot.valToPos(mark.x, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.strokeStyle = ctx.fillStyle = colour("--faint");
      ctx.setLineDash([3 * ratio, 3 * ratio]);
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.fillText(t("attempt {n}", { n: mark.attempt }), x + 4 * ratio, bbox.top + 2 * ratio);
    }
    ctx.setLineDash([]);
    ctx.fillStyle = colour("--bad");
    for (const index of this.columns.odd) {
      const point = this.columns.at[index];
      const x = plot.valToPos(point.x, "x", true);
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      const top = point.value === Infinity;
      const y = top ? bbox.top : bbox.top + bbox.height;
      const size = 5 * ratio;
      ctx.beginPath();
      ctx.moveTo(x, top ? y : y - size * 1.4);
      ctx.lineTo(x - size, top ? y + size * 1.4 : y);
      ctx.lineTo(x + size, top ? y + size * 1.4 : y);
      ctx.fill();
    }
    ctx.restore();
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

/** Points are dots only where lines alone would hide them: few of them, or one between gaps. */
function showPoints(plot, seriesIndex) {
  const count = plot.data[seriesIndex].reduce((sum, value) => sum + (value !== null && value !== undefined ? 1 : 0), 0);
  return count > 0 && count <= Math.max(1, plot.width / 28);
}

function widen(min, max) {
  if (min === null || max === null) return [0, 1];
  return min === max ? [min - 1, max + 1] : [min, max];
}

function linearRange(min, max) {
  if (min === null || max === null) return [0, 1];
  if (min === max) return [min - (Math.abs(min) * 0.1 || 1), max + (Math.abs(max) * 0.1 || 1)];
  const room = (max - min) * 0.06;
  return [min - room, max + room];
}

function logRange(min, max) {
  if (min === null || max === null || min <= 0) return [0.1, 10];
  return min === max ? [min / 2, max * 2] : [min * 0.9, max * 1.1];
}

/** Powers of ten; with 2 and 5 between them where there are few, and the plain range where there is less than that. */
function logTicks(min, max) {
  const low = Math.floor(Math.log10(min));
  const high = Math.ceil(Math.log10(max));
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const steps = high - low <= 3 ? [1, 2, 5] : [1];
  const ticks = [];
  for (let power = low; power <= high; power += every) {
    for (const step of steps) ticks.push(step * 10 ** power);
  }
  const inside = ticks.filter((tick) => tick >= min && tick <= max);
  return inside.length >= 2 ? inside : [min, Math.sqrt(min * max), max].map((tick) => Number(tick.toPrecision(2)));
}

function timeTicks(_plot, ticks) {
  const spread = (ticks.at(-1) ?? 0) - (ticks[0] ?? 0);
  return ticks.map((tick) => {
    if (spread < 10) return timeOfDay(new Date(tick * 1000)).slice(0, 10);
    const text = clock(new Date(tick * 1000));
    return spread > 2 * 86400 ? text.slice(5, 10) : spread > 600 ? text.slice(11, 16) : text.slice(11);
  });
}

function withAlpha(colour, alpha) {
  const [r, g, b] = [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  return `rgba(${r}, ${g}, ${b}, ${alpha})`;
}

function extreme(values, pick) {
  return values.length === 0 ? null : values.reduce((a, b) => pick(a, b));
}
