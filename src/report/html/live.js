"use strict";
// Asks for what is shown below `main` again, and replaces it if it has changed. What was opened stays open.
(() => {
  const main = document.getElementById("main"), said = document.getElementById("said");
  const soon = 1500, later = 15000;
  let before = main.innerHTML, wait = soon, lost = false;

  const kept = () => {
    const open = [...main.querySelectorAll("details[open]")].map((one) => one.id);
    const places = [...main.querySelectorAll(".scroll, pre")].map((one) => [one.id, one.scrollLeft, one.scrollTop]);
    const focus = document.activeElement?.id;
    return () => {
      for (const id of open) document.getElementById(id)?.setAttribute("open", "");
      for (const [id, left, top] of places) document.getElementById(id)?.scrollTo(left, top);
      if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
    };
  };

  const ask = async () => {
    try {
      const answer = await fetch(`${location.pathname}?part`, { headers: { "X-Ppgnn": "part" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      if (text !== before) {
        const restore = kept();
        main.innerHTML = text;
        before = text;
        restore();
      }
      if (lost) said.textContent = "";
      lost = false;
      wait = document.hidden ? later : soon;
    } catch {
      if (!lost) said.textContent = "The server does not answer; what is shown may be old.";
      lost = true;
      wait = Math.min(wait * 2, later);
    }
    said.classList.toggle("alert", lost);
    setTimeout(ask, wait);
  };

  document.addEventListener("visibilitychange", () => { wait = document.hidden ? later : soon; });
  setTimeout(ask, wait);
})();
