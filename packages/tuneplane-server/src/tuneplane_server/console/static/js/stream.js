/**
 * What happens to one job, as events: "job", "metrics", "logs", "samples", and "state" (live, polling, paused, ended).
 *
 * A server-sent stream wakes the readers early. Where it does not get through (a proxy that buffers, an old gateway), the same
 * events come every few seconds without data: each reader then reads what it lacks with its own cursor, so nothing
 * depends on which of the two woke it. EventSource itself resumes from the last id after a cut.
 */

const KINDS = ["job", "metrics", "logs", "samples"];
const POLL_MS = 3000;
const FIRST_PROOF_MS = 4000; // a stream that gets through greets at once
const PROOF_MS = 20000; // without any event for this long, poll beside the stream
const HIDDEN_MS = 60000; // a page nobody sees gives its connection back after this long
const SETTLE_MS = 4000; // after the end, the last records may still be on their way

export class JobStream extends EventTarget {
  #url;
  #source = null;
  #poll = null;
  #proof = null;
  #hidden = null;
  #ended = false;
  state = "";

  constructor(job) {
    super();
    this.#url = `/api/v1/jobs/${encodeURIComponent(job)}/stream`;
    document.addEventListener("visibilitychange", this.#onVisibility);
  }

  start() {
    if (this.#ended) return;
    this.#source = new EventSource(this.#url);
    for (const kind of KINDS) this.#source.addEventListener(kind, (event) => this.#onEvent(kind, event.data));
    for (const sign of ["hello", "ping", "open"]) this.#source.addEventListener(sign, () => this.#alive(sign !== "open"));
    this.#source.addEventListener("error", () => this.#onError());
    this.#expectProof(FIRST_PROOF_MS);
  }

  stop() {
    document.removeEventListener("visibilitychange", this.#onVisibility);
    this.#close();
  }

  /** The job has reached its end: read what is left, then be quiet. */
  end() {
    if (this.#ended) return;
    this.#ended = true;
    setTimeout(() => {
      this.#wakeAll();
      this.stop();
      this.#say("ended");
    }, SETTLE_MS);
  }

  #onEvent(kind, text) {
    this.#alive(true);
    this.#emit(kind, parse(text));
  }

  /** An open connection proves nothing yet: a buffering proxy opens it too. Events do. */
  #alive(proved) {
    if (!proved) return;
    clearInterval(this.#poll);
    this.#poll = null;
    this.#say("live");
    this.#expectProof();
  }

  #expectProof(within = PROOF_MS) {
    clearTimeout(this.#proof);
    this.#proof = setTimeout(() => this.#startPolling(), within);
  }

  #onError() {
    this.#startPolling();
    // EventSource tries again by itself unless the server said no.
    if (this.#source?.readyState === EventSource.CLOSED) this.#source = null;
  }

  #startPolling() {
    if (this.#poll !== null || this.#ended) return;
    this.#say("polling");
    this.#wakeAll();
    this.#poll = setInterval(() => this.#wakeAll(), POLL_MS);
  }

  #wakeAll() {
    for (const kind of KINDS) this.#emit(kind, null);
  }

  #emit(kind, data) {
    this.dispatchEvent(new CustomEvent(kind, { detail: data }));
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.dispatchEvent(new CustomEvent("state", { detail: state }));
  }

  #onVisibility = () => {
    clearTimeout(this.#hidden);
    if (document.visibilityState === "hidden") {
      this.#hidden = setTimeout(() => {
        this.#close();
        this.#say("paused");
      }, HIDDEN_MS);
    } else if (this.state === "paused") {
      this.#wakeAll();
      this.start();
    }
  };

  #close() {
    this.#source?.close();
    this.#source = null;
    clearInterval(this.#poll);
    this.#poll = null;
    clearTimeout(this.#proof);
    clearTimeout(this.#hidden);
  }
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // an event without usable data still wakes
  }
}
