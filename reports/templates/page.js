// Folds, filters, zooms and walks. Without it every text, table and drill-down of the page is there and open.
(function () {
  "use strict";
  document.documentElement.classList.add("js");
  const bodies = [...document.querySelectorAll(".find tbody[id]")];
  const setOpen = (body, open) => {
    body.querySelector(".open").setAttribute("aria-expanded", String(open));
    body.querySelector(".drill").hidden = !open;
    body.querySelector(".row").classList.toggle("isopen", open);
  };
  bodies.forEach((body, number) => {
    setOpen(body, number === 0);
    body.querySelector(".row").addEventListener("click", (event) => {
      if (!event.target.closest("a")) setOpen(body, body.querySelector(".drill").hidden);
    });
  });
  const openTarget = () => {
    const body = location.hash && document.getElementById(location.hash.slice(1));
    if (body && bodies.includes(body)) setOpen(body, true);
  };
  addEventListener("hashchange", openTarget);
  openTarget();
  addEventListener("beforeprint", () => bodies.forEach((body) => setOpen(body, true)));

  const filters = [...document.querySelectorAll("[data-filter]")];
  const apply = () => {
    const wanted = Object.fromEntries(filters.map((field) => [field.dataset.filter, field.value.toLowerCase()]));
    let shown = 0;
    bodies.forEach((body) => {
      const fits = (!wanted.class || body.dataset.class === wanted.class) &&
        (!wanted.check || body.dataset.check === wanted.check) &&
        (!wanted.text || body.textContent.toLowerCase().includes(wanted.text));
      body.hidden = !fits;
      shown += fits ? 1 : 0;
    });
    const output = document.querySelector(".filt output");
    if (output) output.textContent = shown + " of " + bodies.length + " findings";
  };
  filters.forEach((field) => field.addEventListener("input", apply));

  const overview = document.querySelector(".ov");
  if (overview) {
    const duration = Number(overview.dataset.duration);
    const start = Number(overview.dataset.start || 0);
    let from = start, width = duration;
    const show = (at, span) => {
      width = Math.min(Math.max(span, 0.2), duration);
      from = Math.min(Math.max(at, start), start + duration - width);
      overview.style.setProperty("--a", from);
      overview.style.setProperty("--w", width);
      document.querySelectorAll("[data-zoom]").forEach((button) => {
        const [a, w] = button.dataset.zoom.split(",").map(Number);
        button.setAttribute("aria-pressed", String(Math.abs(a - from) < 0.01 && Math.abs(w - width) < 0.01));
      });
    };
    document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
      const [a, w] = button.dataset.zoom.split(",").map(Number);
      show(a, w);
    }));
    overview.addEventListener("keydown", (event) => {
      const moves = {ArrowLeft: [-width / 5, 1], ArrowRight: [width / 5, 1], "+": [width / 4, 0.5], "-": [-width / 2, 2]};
      if (event.key === "Escape") show(start, duration);
      else if (moves[event.key]) show(from + moves[event.key][0], width * moves[event.key][1]);
      else return;
      event.preventDefault();
    });
  }
  let current = -1;
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input,select") || (event.key !== "j" && event.key !== "k")) return;
    const shown = bodies.filter((body) => !body.hidden);
    if (!shown.length) return;
    current = Math.min(Math.max(current + (event.key === "j" ? 1 : -1), 0), shown.length - 1);
    shown[current].querySelector(".open").focus();
  });
})();
