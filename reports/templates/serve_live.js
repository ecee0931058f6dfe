"use strict";
const live = document.getElementById("live");
const at = (id) => document.getElementById(id);
const say = (id, text) => { at(id).textContent = text; };
const cell = (row, text, kind) => { const made = row.insertCell(); made.textContent = text; if (kind) made.className = kind; };

function drawn(seconds) {
  const most = Math.max(1, ...seconds.map((each) => each.acknowledged));
  const bars = seconds.map((each, place) => {
    const bar = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const high = 100 * each.acknowledged / most;
    for (const [name, value] of [["x", 90 - seconds.length + place], ["y", 100 - high], ["width", 0.85], ["height", high]]) bar.setAttribute(name, value);
    return bar;
  });
  at("rate").replaceChildren(...bars);
  say("scale", seconds.length ? `The highest bar is ${most} records; the last one is second ${seconds[seconds.length - 1].at_s} of the run.` : "");
}

function shown(told) {
  say("title", `${told.scenario} on ${told.system}`);
  const tail = told.from_the_beginning ? "" : " Counted from the end of long journals: there were more.";
  const unread = told.unreadable ? ` ${told.unreadable} lines could not be read.` : "";
  say("said", `${told.id}: ${told.status}. ${told.verdict ? `${told.verdict}: ${told.sentence}` : ""}${tail}${unread}`);
  if (told.verdict) {
    const link = document.createElement("a");
    link.href = live.dataset.page;
    link.textContent = " Its page";
    at("said").append(link);
  }
  say("phase", told.phase);
  say("elapsed", `${told.elapsed_s} s`);
  say("acks", told.acknowledged_per_s);
  say("reads", told.read_per_s);
  say("total", told.acknowledged);
  say("unknown", told.unknown);
  drawn(told.seconds);
  const faults = told.faults.map((each) => {
    const made = document.createElement("span");
    made.className = "fault";
    made.textContent = `${each.label}, for ${each.since_s} s`;
    return made;
  });
  at("faults").replaceChildren(...(faults.length ? faults : ["None."]), ` ${told.faults_over} over.`);
  say("controller", told.controller === null || told.controller < 0 ? "No controller is seen." : `Controller: ${told.controller}.`);
  const rows = at("partitions");
  rows.replaceChildren();
  for (const each of told.partitions) {
    const row = rows.insertRow();
    cell(row, each.name);
    cell(row, each.leader < 0 ? "none" : each.leader, each.leader < 0 ? "none" : "");
    cell(row, each.epoch, "r");
    cell(row, each.isr.join(", "), each.isr.length < each.replicas.length ? "low" : "");
    cell(row, each.replicas.join(", "));
  }
  say("phases", told.phases.map((each) => `${each.name} at ${each.at_s} s`).join(", "));
}

async function look() {
  let again = 1000;
  try {
    const answer = await fetch(live.dataset.state, { cache: "no-store" });
    if (!answer.ok) throw new Error(`answer ${answer.status}`);
    const told = await answer.json();
    shown(told);
    if (!told.going_on && told.verdict) return;
    if (!told.going_on) again = 3000;
  } catch (error) {
    say("said", `No answer: ${error.message}. Asking again.`);
    again = 3000;
  }
  setTimeout(look, again);
}
look();
