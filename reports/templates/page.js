// Folds, filters, zooms and walks. Without it every text, table and drill-down of the page is there and open.
// It stands in the head, so that what is folded is never laid out first.
document.documentElement.classList.add("js");
addEventListener("DOMContentLoaded", () => {
  "use strict";
  const bodies = [...document.querySelectorAll(".find tbody.one")];
  const groups = [...document.querySelectorAll(".find tbody.group")];
  const rest = [...document.querySelectorAll(".find tbody.more")];
  const setOpen = (body, open) => {
    body.querySelector(".open").setAttribute("aria-expanded", String(open));
    body.classList.toggle("isopen", open);
  };
  bodies.forEach((body) => {
    body.querySelector(".row").addEventListener("click", (event) => {
      if (!event.target.closest("a")) setOpen(body, !body.classList.contains("isopen"));
    });
  });
  const closed = new Set(groups.filter((group) => group.classList.contains("folded")).map((group) => group.id));
  const showGroup = (group, open) => {
    closed[open ? "delete" : "add"](group.id);
    group.querySelector(".open").setAttribute("aria-expanded", String(open));
    apply();
  };
  const openTarget = () => {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (!target) return;
    for (let around = target; around; around = around.parentElement) if (around.tagName === "DETAILS") around.open = true;
    const group = groups.find((one) => one === target || one.id === target.dataset.group);
    if (group && closed.has(group.id)) {
      showGroup(group, true);
      target.scrollIntoView();
    }
    if (bodies.includes(target)) setOpen(target, true);
  };
  addEventListener("hashchange", openTarget);
  addEventListener("beforeprint", () => bodies.forEach((body) => setOpen(body, true)));

  const filters = [...document.querySelectorAll("[data-filter]")];
  const apply = () => {
    const wanted = Object.fromEntries(filters.map((field) => [field.dataset.filter, field.value.toLowerCase()]));
    const kindFits = (body) => (!wanted.class || body.dataset.class === wanted.class) &&
      (!wanted.check || body.dataset.check === wanted.check);
    const full = new Set();
    let shown = 0;
    bodies.forEach((body) => {
      const fits = kindFits(body) && (!wanted.text || body.textContent.toLowerCase().includes(wanted.text));
      body.hidden = !fits;
      body.classList.toggle("shut", !wanted.text && closed.has(body.dataset.group));
      shown += fits ? 1 : 0;
      if (fits) full.add(body.dataset.group);
    });
    groups.forEach((group) => { group.hidden = !full.has(group.id); });
    rest.forEach((body) => {
      body.hidden = !full.has(body.dataset.group);
      body.classList.toggle("shut", closed.has(body.dataset.group));
    });
    const output = document.querySelector(".filt output");
    if (output) output.textContent = shown + " of " + output.dataset.total + " findings";
  };
  filters.forEach((field) => field.addEventListener("input", apply));
  groups.forEach((group) => {
    group.querySelector(".open").setAttribute("aria-expanded", String(!closed.has(group.id)));
    group.querySelector(".row").addEventListener("click", (event) => {
      if (!event.target.closest("a")) showGroup(group, closed.has(group.id));
    });
  });
  openTarget();

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
  document.querySelectorAll(".unfold").forEach((button) => button.addEventListener("click", () => {
    const inside = button.closest("tbody").nextElementSibling;
    button.setAttribute("aria-expanded", String(inside.classList.toggle("unfolded")));
  }));

  // Where there is no clipboard, as on some browsers' file://, the text is shown and selected.
  const copy = async (button, text, shown) => {
    const says = button.parentElement.querySelector("output");
    try {
      await navigator.clipboard.writeText(text);
      says.textContent = "Copied.";
    } catch {
      const element = shown();
      element.focus();
      if (element.select) element.select();
      else getSelection().selectAllChildren(element);
      const done = document.execCommand("copy");
      says.textContent = done ? "Copied." : "Selected: copy it with Ctrl+C or Cmd+C.";
    }
  };
  document.querySelectorAll("[data-copy]").forEach((button) => button.addEventListener("click", () => {
    const source = document.getElementById(button.dataset.copy);
    copy(button, source.textContent, () => {
      for (let around = source; around; around = around.parentElement) {
        if (around.tagName === "DETAILS") around.open = true;
        if (bodies.includes(around)) setOpen(around, true);
      }
      source.scrollIntoView({block: "nearest"});
      return source;
    });
  }));
  document.querySelectorAll("[data-link]").forEach((button) => button.addEventListener("click", () => {
    const link = location.href.split("#")[0] + "#" + button.dataset.link;
    copy(button, link, () => {
      let field = button.parentElement.querySelector(".copylink");
      if (!field) {
        field = Object.assign(document.createElement("input"), {className: "copylink", readOnly: true});
        field.setAttribute("aria-label", "Link");
        button.parentElement.append(field);
      }
      field.value = link;
      return field;
    });
  }));
  let current = -1;
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input,select") || (event.key !== "j" && event.key !== "k")) return;
    const shown = bodies.filter((body) => !body.hidden && !body.classList.contains("shut"));
    if (!shown.length) return;
    current = Math.min(Math.max(current + (event.key === "j" ? 1 : -1), 0), shown.length - 1);
    shown[current].querySelector(".open").focus();
  });
});
