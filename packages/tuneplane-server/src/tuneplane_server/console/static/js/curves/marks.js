/** What is drawn over the lines of a chart: where a later attempt took over, and where a value was no number. */

import { t } from "../i18n.js";

/** `columns`: of `Series.columns`, one for each line. `colour`: name of a CSS property -> its value. */
export function drawMarks(plot, columns, colour) {
  const { ctx, bbox } = plot;
  const ratio = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = ratio;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  ctx.font = `${10 * ratio}px ${getComputedStyle(document.body).fontFamily}`;
  const inside = (x) => x >= bbox.left && x <= bbox.left + bbox.width;
  for (const mark of columns.length === 1 ? columns[0].marks : []) {
    const x = Math.round(plot.valToPos(mark.x, "x", true));
    if (!inside(x)) continue;
    ctx.strokeStyle = ctx.fillStyle = colour("--faint");
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    const text = t("attempt {n}", { n: mark.attempt });
    // Beside the line, on the side where there is room for it.
    const left = x + ctx.measureText(text).width + 8 * ratio > bbox.left + bbox.width;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(text, x + (left ? -4 : 4) * ratio, bbox.top + 2 * ratio);
  }
  ctx.setLineDash([]);
  ctx.fillStyle = colour("--bad");
  for (const point of columns.flatMap((one) => one.odd)) {
    const x = plot.valToPos(point.x, "x", true);
    if (inside(x)) triangle(ctx, x, bbox, 5 * ratio, point.value === Infinity);
  }
  ctx.restore();
}

/** +Infinity at the top, the others at the bottom. */
function triangle(ctx, x, bbox, size, top) {
  const y = top ? bbox.top : bbox.top + bbox.height;
  ctx.beginPath();
  ctx.moveTo(x, top ? y : y - size * 1.4);
  ctx.lineTo(x - size, top ? y + size * 1.4 : y);
  ctx.lineTo(x + size, top ? y + size * 1.4 : y);
  ctx.fill();
}
