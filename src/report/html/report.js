"use strict";
// Sorting of tables, and the focus of whoever opens and closes evidence. Everything else works without it.
(() => {
  const say = (text) => { const said = document.getElementById("said"); if (said) said.textContent = text; };

  const sort = (button) => {
    const head = button.closest("th"), row = head.parentElement, body = row.closest("table").tBodies[0];
    const at = [...row.children].indexOf(head);
    const rows = [...body.rows];
    rows.forEach((line, place) => { line.dataset.place ??= place; });
    const order = { none: "descending", descending: "ascending", ascending: "none" };
    const now = at === 0 ? { none: "ascending", ascending: "descending", descending: "none" } : order;
    const next = now[head.getAttribute("aria-sort") ?? "none"];
    for (const other of row.children) other.removeAttribute("aria-sort");
    if (next !== "none") head.setAttribute("aria-sort", next);
    const sign = next === "descending" ? -1 : 1;
    const place = (line) => Number(line.dataset.place);
    const value = (line) => {
      const cell = line.children[at];
      return at === 0 ? cell.textContent : cell.dataset.v === undefined ? null : Number(cell.dataset.v);
    };
    rows.sort((a, b) => {
      const [x, y] = [value(a), value(b)];
      if (next === "none" || x === y) return place(a) - place(b);
      if (x === null || y === null) return x === null ? 1 : -1;
      const less = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
      return sign * less || place(a) - place(b);
    });
    body.append(...rows);
    say(next === "none" ? "In the order of the pipeline" : `Sorted by ${button.textContent}, ${next}`);
  };

  const opened = () => {
    const evidence = document.querySelector(".evidence article:target");
    if (evidence) { evidence.focus({ preventScroll: true }); return; }
    const cell = location.hash.startsWith("#from-") && document.getElementById(location.hash.slice(1));
    if (cell) cell.focus({ preventScroll: true });
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest(".sortable thead button");
    if (button) sort(button);
  });
  document.addEventListener("keydown", (event) => {
    const evidence = event.key === "Escape" && document.querySelector(".evidence article:target .close");
    if (evidence) evidence.click();
  });
  window.addEventListener("hashchange", opened);
  opened();
})();
