/**
 * The log of a job: its last lines first, then whatever comes, read with the server's cursor. Or from the start, page by
 * page while the reader scrolls. A search is done by the server over the whole log.
 */

import { address, getJson, report } from "../api.js";
import { size } from "../format.js";
import { t, tn } from "../i18n.js";
import { subscribe } from "../job.js";
import { Lines } from "./lines.js";

const TAIL = 1000;
const PAGE = 1000;
const NEAR = 40; // pixels from the end that still count as the end
const TYPING_MS = 250;
const REMEMBERED = "tuneplane-logs";

export function mount(element) {
  const view = new LogView(element);
  view.start();
  return () => view.stop();
}

class LogView {
  constructor(element) {
    this.element = element;
    this.find = (name) => element.querySelector(`[data-${name}]`);
    this.url = `/api/v1/jobs/${encodeURIComponent(element.dataset.job)}/logs`;
    this.lines = new Lines(this.find("lines"));
    this.scroller = this.find("scroller");
    this.following = true;
    this.fromStart = false;
    this.unread = 0;
    const query = new URLSearchParams(location.search);
    this.filter = { grep: query.get("grep") ?? "", rank: query.get("rank") ?? "", attempt: query.get("attempt") ?? "" };
  }

  start() {
    this.#wireControls();
    this.unsubscribe = subscribe({ logs: () => this.#readMore() });
    this.#restart();
  }

  stop() {
    this.unsubscribe();
    this.abort?.abort();
    clearTimeout(this.typing);
    removeEventListener("resize", this.fit);
  }

  #wireControls() {
    const grep = this.find("grep");
    grep.value = this.filter.grep;
    grep.addEventListener("input", () => {
      clearTimeout(this.typing);
      this.typing = setTimeout(() => this.#filterBy("grep", grep.value), TYPING_MS);
    });
    for (const name of ["rank", "attempt"]) {
      const select = this.find(name);
      if (!select) continue;
      select.value = this.filter[name];
      select.addEventListener("change", () => this.#filterBy(name, select.value));
    }
    const last = remembered();
    for (const name of ["wrap", "times"]) {
      const box = this.find(name);
      box.checked = Boolean(last[name]);
      this.element.classList.toggle(name, box.checked);
      box.addEventListener("change", () => {
        this.element.classList.toggle(name, box.checked);
        remember({ ...remembered(), [name]: box.checked });
      });
    }
    this.find("follow").addEventListener("click", () => this.#follow(!this.following));
    this.find("start").addEventListener("click", () => {
      this.fromStart = true;
      this.#restart();
    });
    this.scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    this.fit = () => this.#fit();
    addEventListener("resize", this.fit);
    this.#fit();
  }

  /** The panel ends where the window ends, whatever stands above it. */
  #fit() {
    const above = this.element.getBoundingClientRect().top + scrollY;
    this.element.style.setProperty("--above", `${Math.round(above)}px`);
    if (this.following) this.#toEnd();
  }

  #filterBy(name, value) {
    if (this.filter[name] === value) return;
    this.filter[name] = value;
    const query = new URLSearchParams();
    for (const [key, text] of Object.entries(this.filter)) if (text) query.set(key, text);
    const text = query.toString();
    history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
    const raw = this.find("raw");
    raw.href = address(`${this.url}/raw`, { attempt: this.filter.attempt, rank: this.filter.rank });
    this.#restart();
  }

  /** Forget what is shown and read anew: the end of the log, or its start. */
  async #restart() {
    this.abort?.abort();
    this.abort = new AbortController();
    this.lines.clear(this.filter.grep ? patternOf(this.filter.grep) : null);
    this.cursor = null;
    this.atEnd = false;
    this.reading = null;
    this.again = false;
    this.unread = 0;
    this.#setFollowing(!this.fromStart);
    this.find("note").hidden = true;
    this.find("earlier").hidden = true;
    await this.#readMore();
    if (this.fromStart) this.scroller.scrollTop = 0;
  }

  /** Read what is behind the cursor. Calls while one is under way make it look once more. */
  #readMore() {
    if (this.reading) {
      this.again = true;
      return this.reading;
    }
    const signal = this.abort.signal;
    this.reading = this.#readPages(signal)
      .catch((error) => report(error))
      .finally(() => {
        if (signal.aborted) return;
        this.reading = null;
        if (this.again) {
          this.again = false;
          this.#readMore();
        }
      });
    return this.reading;
  }

  async #readPages(signal) {
    for (;;) {
      const first = this.cursor === null;
      const position = !first ? { cursor: this.cursor, limit: PAGE } : this.fromStart ? { limit: PAGE } : { tail: TAIL };
      const answer = await getJson(address(this.url, { ...position, ...this.filter, fold: "true" }), { signal });
      if (signal.aborted) return;
      this.cursor = answer.next_cursor ?? this.cursor;
      this.atEnd = !answer.more;
      this.dropped = answer.dropped_bytes ?? 0;
      this.#show(answer.items, first);
      // From the start one page at a time: the next when the reader comes near its end.
      if (!answer.more || (this.fromStart && !this.#nearEnd())) return;
    }
  }

  #show(items, first) {
    this.lines.append(items, this.#manyRanks());
    if (first && !this.fromStart && items.length >= TAIL) this.#noteEarlier();
    if (this.lines.dropped) this.#noteEarlier();
    if (this.following) this.#toEnd();
    else if (!this.fromStart) this.unread += items.length;
    this.#showState();
  }

  #noteEarlier() {
    const note = this.find("earlier");
    note.hidden = false;
    note.textContent = t("Earlier lines are not shown. Read from the start, or download the raw log.");
  }

  #showState() {
    const { count } = this.lines;
    const note = this.find("note");
    const text = count > 0 ? this.#droppedText() : this.#emptyText();
    note.hidden = text === "" || !this.atEnd;
    note.textContent = text;
    this.find("count").textContent = count ? (this.filter.grep ? tn("{count} match", "{count} matches", count) : tn("{count} line", "{count} lines", count)) : "";
    const follow = this.find("follow");
    const label = this.unread ? tn("{count} new line", "{count} new lines", this.unread) : t("Follow");
    follow.lastChild.textContent = label;
  }

  #emptyText() {
    if (this.filter.grep) return t("No line matches.");
    if (this.filter.rank || this.filter.attempt) return t("This part has no lines.");
    return this.element.dataset.live === "yes" ? t("Waiting for the first line") : t("This part has no lines.");
  }

  #droppedText() {
    return this.dropped ? t("{size} of output beyond the quota of this job were not kept.", { size: size(this.dropped) }) : "";
  }

  #manyRanks() {
    return !this.find("rank").closest("label").hidden && this.filter.rank === "";
  }

  #onScroll() {
    const near = this.#nearEnd();
    if (this.fromStart) {
      if (near && !this.atEnd) this.#readMore();
      return;
    }
    if (near !== this.following) this.#setFollowing(near);
    if (near) this.#showState();
  }

  #follow(wanted) {
    if (wanted && this.fromStart) {
      this.fromStart = false;
      this.#restart();
      return;
    }
    this.#setFollowing(wanted);
    if (wanted) this.#toEnd();
    this.#showState();
  }

  #setFollowing(following) {
    this.following = following;
    if (following) this.unread = 0;
    this.find("follow").setAttribute("aria-pressed", String(following));
  }

  #nearEnd() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR;
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }
}

function patternOf(text) {
  return new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "gi");
}

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(REMEMBERED)) ?? {};
  } catch {
    return {};
  }
}

function remember(values) {
  try {
    localStorage.setItem(REMEMBERED, JSON.stringify(values));
  } catch {
    return; // storage is full or forbidden: the choice lasts for this page
  }
}
