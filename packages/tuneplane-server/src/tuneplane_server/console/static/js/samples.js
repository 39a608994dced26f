/** The samples of a job: says that new ones arrived instead of moving the page under the reader. */

import { sampleCount, subscribe } from "./job.js";

export function mount(element) {
  const button = element.querySelector("[data-new]");
  const show = () => element.dispatchEvent(new CustomEvent("tp:show-samples"));
  button.addEventListener("click", show);
  const tell = (count) => {
    if (count <= Number(element.dataset.stored)) return;
    if (element.querySelector(".empty")) show();
    else button.hidden = false;
  };
  tell(sampleCount); // what came while this page was on its way
  // A poll wakes without saying whether there is anything new.
  return subscribe({ samples: (event) => tell(event.detail?.count ?? 0) });
}
