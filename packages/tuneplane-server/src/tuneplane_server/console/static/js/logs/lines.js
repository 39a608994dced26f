/** Lines of a log in the page: in blocks that the browser skips while they are out of sight, at most MAX_LINES of them. */

import { timeOfDay } from "../format.js";
import { t } from "../i18n.js";

const BLOCK = 250;
const MAX_LINES = 20000;
// CSI sequences, OSC up to its end, and single-character escapes (ECMA-48).
const ANSI = /\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b[@-Z\\-_]/g;
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export class Lines {
  constructor(box) {
    this.box = box;
    this.count = 0;
    this.dropped = false;
    this.pattern = null;
  }

  clear(pattern = null) {
    this.box.replaceChildren();
    this.count = 0;
    this.dropped = false;
    this.pattern = pattern;
  }

  /** Add lines ({attempt, rank, fd, time, text}) at the end. Returns whether earlier ones had to go. */
  append(items, manyRanks) {
    for (const item of items) {
      let block = this.box.lastElementChild;
      if (block === null || block.childElementCount >= BLOCK) {
        block = document.createElement("div");
        block.className = "block";
        this.box.append(block);
      }
      block.append(this.#line(item, manyRanks));
      this.count += 1;
    }
    while (this.count > MAX_LINES && this.box.childElementCount > 1) {
      this.count -= this.box.firstElementChild.childElementCount;
      this.box.firstElementChild.remove();
      this.dropped = true;
    }
  }

  #line(item, manyRanks) {
    const line = document.createElement("div");
    line.className = `line fd-${item.fd}`;
    const time = document.createElement("span");
    time.className = "at";
    time.textContent = timeOfDay(new Date(item.time * 1000));
    line.append(time);
    if (manyRanks) {
      const rank = document.createElement("span");
      rank.className = "rank";
      rank.textContent = item.rank;
      rank.title = t("rank {n}", { n: item.rank });
      line.append(rank);
    }
    const text = document.createElement("span");
    text.className = "text";
    this.#fill(text, clean(item.text));
    line.append(text);
    return line;
  }

  /** The text, with what was searched for marked. */
  #fill(element, text) {
    if (this.pattern === null) {
      element.textContent = text;
      return;
    }
    let from = 0;
    for (const match of text.matchAll(this.pattern)) {
      if (match[0] === "") continue;
      element.append(text.slice(from, match.index));
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      element.append(mark);
      from = match.index + match[0].length;
    }
    element.append(text.slice(from));
  }
}

export function clean(text) {
  return text.replace(ANSI, "").replace(CONTROL, "").replace(/\n$/, "");
}
