/** Where curves are read from: the calls of one run, or of several side by side; the answers have one shape. */

import { address, getJson } from "../api.js";

const ONE = "/api/v1/jobs";

export class Source {
  /** `runs`: ids of the runs. */
  constructor(runs) {
    this.runs = runs;
    this.many = runs.length > 1;
  }

  /** {run: {metrics: {name: facts}, refused_points}} */
  async names(signal) {
    if (this.many) return (await getJson(address("/api/v1/metrics", { run: this.runs }), { signal })).runs;
    const [run] = this.runs;
    return { [run]: await getJson(`${ONE}/${encodeURIComponent(run)}/metrics`, { signal }) };
  }

  /** {run: {name: [part]}}; `query`: {name: [], max_points, x, step_min, step_max} */
  async curves(query, signal) {
    if (this.many) {
      const { runs } = await getJson(address("/api/v1/curves", { run: this.runs, ...query }), { signal });
      return Object.fromEntries(Object.entries(runs).map(([run, found]) => [run, found.series]));
    }
    const [run] = this.runs;
    return { [run]: (await getJson(address(`${ONE}/${encodeURIComponent(run)}/curves`, query), { signal })).series };
  }
}
