/** The lines of one chart brought onto one x column, as uPlot wants them. */

import { smooth } from "./series.js";

/**
 * {data: [x, replaced, kept, smoothed, …], at, columns} of `lines` ({series, start}); three columns a line. `at[line][index]`:
 * the point of the line at that place of x, if it has one there. On a log scale what is not above zero leaves a gap.
 */
export function lay(lines, { axis, smoothing, log }) {
  const columns = lines.map((line) => line.series.columns(axis, line.start));
  const x = [...new Set(columns.flatMap((one) => one.x))].sort((a, b) => a - b);
  const place = new Map(x.map((value, index) => [value, index]));
  const data = [x];
  const at = [];
  for (const one of columns) {
    const positive = (values) => (log ? values.map((value) => (typeof value === "number" && value <= 0 ? null : value)) : values);
    const kept = positive(one.kept);
    const smoothed = smoothing > 0 ? smooth(kept, smoothing) : [];
    const spread = (values) => {
      const column = new Array(x.length).fill(undefined);
      values.forEach((value, index) => {
        const to = place.get(one.x[index]);
        if (value !== undefined && typeof column[to] !== "number") column[to] = value;
      });
      return column;
    };
    data.push(spread(positive(one.replaced)), spread(kept), spread(smoothed));
    const points = new Array(x.length).fill(null);
    one.at.forEach((point, index) => {
      const to = place.get(one.x[index]);
      if (!points[to] || point.replacedBy === null) points[to] = point;
    });
    at.push(points);
  }
  return { data, at, columns };
}

/** The index nearest to `index` at which `column` has a number, at most `reach` away; null when there is none. */
export function nearest(column, index, reach) {
  for (let away = 0; away <= reach; away++) {
    if (typeof column[index - away] === "number") return index - away;
    if (typeof column[index + away] === "number") return index + away;
  }
  return null;
}
