// Filters, drills down and walks the page of a campaign. Without it every row of the page is there and open.
// It stands in the head, so that what is folded is never laid out first.
document.documentElement.classList.add("js");
addEventListener("DOMContentLoaded", () => {
  "use strict";
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  const runs = all("#runs tbody.one").map((body) => ({
    body, number: body.dataset.run, verdict: body.dataset.verdict, system: body.dataset.system,
    faults: body.dataset.faults ? body.dataset.faults.split("|") : [],
    groups: body.dataset.groups.split(" ").filter(Boolean), text: "",
  }));
  const byNumber = new Map(runs.map((run) => [run.number, run]));
  const groups = all("#groups tbody.one"), squares = all("#grid a.sq"), strips = all(".dist .sp[data-fault]");
  const dots = all(".dist circle[data-run]"), form = document.querySelector(".pick");
  const setOpen = (body, open) => {
    body.querySelector(".open").setAttribute("aria-expanded", String(open));
    body.classList.toggle("isopen", open);
  };
  const folding = document.querySelectorAll("#groups .find, #runs .find");
  folding.forEach((table) => table.addEventListener("click", (event) => {
    const row = event.target.closest(".row");
    if (row && !event.target.closest("a")) setOpen(row.parentElement, !row.parentElement.classList.contains("isopen"));
  }));

  // ---- what is shown ----
  const picks = all("[data-pick]", form);
  let only = "";
  const apply = () => {
    const wanted = Object.fromEntries(picks.map((field) => [field.dataset.pick, field.value]));
    const text = (wanted.text || "").trim().toLowerCase();
    const any = Boolean(wanted.verdict || wanted.system || wanted.fault || text || only);
    const fitting = new Set(), inGroups = new Set();
    runs.forEach((run) => {
      if (text && !run.text) run.text = run.body.textContent.toLowerCase();
      const fits = (!wanted.verdict || run.verdict === wanted.verdict) && (!wanted.system || run.system === wanted.system) &&
        (!wanted.fault || run.faults.includes(wanted.fault)) && (!only || run.groups.includes(only)) &&
        (!text || run.text.includes(text));
      run.body.hidden = !fits;
      if (fits) fitting.add(run.number), run.groups.forEach((group) => inGroups.add(group));
    });
    squares.forEach((square) => square.classList.toggle("dim", any && !fitting.has(square.dataset.run)));
    dots.forEach((dot) => dot.classList.toggle("dim", any && byNumber.has(dot.dataset.run) && !fitting.has(dot.dataset.run)));
    const others = Boolean(wanted.verdict || wanted.system || wanted.fault);
    groups.forEach((body) => {
      const named = text && !others && body.textContent.toLowerCase().includes(text);
      body.hidden = any && !(only ? body.dataset.group === only : named || inGroups.has(body.dataset.group));
    });
    strips.forEach((strip) => {
      strip.hidden = Boolean((wanted.system && strip.dataset.system !== wanted.system) ||
        (wanted.fault && strip.dataset.fault !== wanted.fault));
    });
    all(".dist").forEach((panel) => {
      let before = "";
      all(".sp[data-fault]", panel).filter((strip) => !strip.hidden).forEach((strip) => {
        strip.classList.toggle("first", strip.dataset.fault !== before);
        before = strip.dataset.fault;
      });
    });
    const none = (section, shown) => {
      const says = document.querySelector(section + " .none");
      if (says) says.hidden = shown;
    };
    none("#groups", groups.some((body) => !body.hidden));
    none("#times", strips.some((strip) => !strip.hidden));
    none("#runs", fitting.size > 0);
    all("[data-only]").forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.only === only)));
    form.querySelector("[type=reset]").disabled = !any;
    form.querySelector("output").textContent = fitting.size + " of " + runs.length + " listed runs" +
      (only ? ", of group " + only : "") + ", " + groups.filter((body) => !body.hidden).length + " of " + groups.length + " groups";
  };
  picks.forEach((field) => field.addEventListener("input", apply));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { only = ""; apply(); }));
  all("[data-only]").forEach((button) => button.addEventListener("click", () => {
    only = only === button.dataset.only ? "" : button.dataset.only;
    apply();
  }));

  // ---- drilling down ----
  const show = (target) => {
    if (target.hidden) form.reset(), only = "", apply();
    setOpen(target, true);
    squares.forEach((square) => square.classList.toggle("at1", square.hash === "#" + target.id));
    target.scrollIntoView({block: "start"});
    target.querySelector(".open").focus({preventScroll: true});
  };
  const openTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.matches("tbody.one")) show(target);
  };
  addEventListener("hashchange", openTarget);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    if (link && link.hash === location.hash) openTarget();
    const dot = event.target.closest(".dist circle[data-run]");
    const run = dot && byNumber.get(dot.dataset.run);
    if (run) location.hash = run.body.id;
  });
  addEventListener("beforeprint", () => runs.concat(groups.map((body) => ({body}))).forEach((one) => setOpen(one.body, true)));

  // ---- the grid is one stop of the Tab key; arrows walk in it ----
  const peek = document.querySelector(".peek");
  squares.forEach((square, place) => { square.tabIndex = place ? -1 : 0; });
  const grid = document.querySelector("#grid .grid");
  const say = (event) => {
    const square = event.target.closest("a.sq");
    if (square) peek.textContent = square.title;
  };
  const below = (from, down) => {
    const here = from.getBoundingClientRect();
    let best = null, least = Infinity;
    squares.forEach((square) => {
      const there = square.getBoundingClientRect(), away = (there.top - here.top) * (down ? 1 : -1);
      const far = away * 4 + Math.abs(there.left - here.left);
      if (away > 4 && far < least) best = square, least = far;
    });
    return best;
  };
  if (grid) {
    grid.addEventListener("mouseover", say);
    grid.addEventListener("focusin", say);
    grid.addEventListener("keydown", (event) => {
      const at = squares.indexOf(event.target.closest("a.sq"));
      const to = at < 0 ? null : {
        ArrowRight: () => squares[at + 1], ArrowLeft: () => squares[at - 1], Home: () => squares[0],
        End: () => squares[squares.length - 1], ArrowDown: () => below(squares[at], true), ArrowUp: () => below(squares[at], false),
      }[event.key];
      const next = to && to();
      if (!next) return;
      squares[at].tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
    });
  }
  let current = -1;
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input,select") || (event.key !== "j" && event.key !== "k")) return;
    const shown = groups.concat(runs.map((run) => run.body)).filter((body) => !body.hidden);
    if (!shown.length) return;
    current = Math.min(Math.max(current + (event.key === "j" ? 1 : -1), 0), shown.length - 1);
    shown[current].querySelector(".open").focus();
  });
  apply();
  openTarget();
});
