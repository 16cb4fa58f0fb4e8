"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const STRIP = D.lanes.length * (D.lanes.length > 5 ? 60 : 84);
let at = 0, tried = []; // the step of the trace, and the numbers of the moves tried from there

const make = (tag, attributes, ...inside) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {}))
    if (name === "onclick") made.onclick = value;
    else if (value !== null && value !== false) made.setAttribute(name, value === true ? "" : value);
  made.append(...inside.filter((part) => part !== null && part !== undefined && part !== ""));
  return made;
};
const svg = (tag, attributes) => {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

/* Where we are: the steps tried, each with the states before and after it. */
function walked() {
  let state = D.path[at];
  const steps = [];
  for (const number of tried) {
    const move = (D.moves[state] || [])[number];
    if (!move) break;
    steps.push({ operation: move[0], answer: move[1], before: state, after: move[2], broken: move[3] });
    state = move[2];
  }
  return steps;
}

function readFragment() {
  const [step, path] = location.hash.slice(1).split("/");
  at = Math.max(0, Math.min(D.steps.length, parseInt(step, 10) || 0));
  tried = (path || "").split(".").filter((part) => /^\d+$/.test(part)).map(Number);
  tried = tried.slice(0, walked().length);
}

function go(step, path) {
  at = Math.max(0, Math.min(D.steps.length, step));
  tried = path;
  history.replaceState(null, "", "#" + at + (tried.length ? "/" + tried.join(".") : ""));
  draw();
  document.querySelector("[aria-current]").focus({ preventScroll: true });
  document.querySelector("[aria-current]").scrollIntoView({ block: "nearest" });
}

function arrow(source, target) {
  const strip = make("span", { class: "strip", "aria-hidden": "true" }, ...D.lanes.map(() => make("i")));
  const drawn = svg("svg", { viewBox: `0 0 ${STRIP} 22` });
  const x = (lane) => ((D.lanes.indexOf(lane) + 0.5) * STRIP) / D.lanes.length;
  const [from, to] = [x(source), x(target)];
  if (from === to) {
    drawn.append(svg("path", { d: `M${from} 5h10q7 0 7 6t-7 6h-4` }));
    drawn.append(svg("polygon", { points: `${from + 1},17 ${from + 9},13 ${from + 9},21` }));
  } else {
    const back = to > from ? -8 : 8;
    drawn.append(svg("line", { x1: from, y1: 11, x2: to + back, y2: 11 }));
    drawn.append(svg("polygon", { points: `${to},11 ${to + back},6 ${to + back},16` }));
  }
  strip.append(drawn);
  return strip;
}

function row(number, operation, answer, current, onclick, extra, other) {
  const [text, source, target, kind] = D.operations[operation];
  return make(
    "button",
    { class: `step ${kind} ${extra || ""}`, "aria-current": current ? "step" : null, onclick },
    arrow(source, target),
    make("span", { class: "what" }, make("b", {}, `${number} ${text}`), ` → ${D.answers[answer]}`, other)
  );
}

function drawSteps() {
  const run = document.getElementById("run");
  const rows = [
    make("div", { class: "lanes" }, make("div", { class: "names" }, ...D.lanes.map((lane) => make("span", {}, lane))), ""),
    make(
      "button",
      { class: "step", "aria-current": at === 0 && !tried.length ? "step" : null, onclick: () => go(0, []) },
      make("span", {}),
      make("span", { class: "what soft" }, "at first")
    ),
  ];
  if (D.beside && D.beside.fork === 0) rows.splice(1, 0, fork(0));
  if (at === 0) rows.push(...triedRows());
  D.steps.forEach(([operation, answer], place) => {
    const number = place + 1;
    const again = D.cycle !== null && place >= D.cycle ? "↻ " : "";
    if (D.beside && D.beside.fork === number) rows.push(fork(number));
    const current = at === number && !tried.length;
    rows.push(row(again + number + ".", operation, answer, current, () => go(number, []), "", parted(number, answer)));
    if (at === number) rows.push(...triedRows());
  });
  if (D.cycle !== null) rows.push(make("p", { class: "soft" }, `↻ steps ${D.cycle + 1} to ${D.steps.length} come again and again`));
  run.replaceChildren(make("h2", {}, "Steps"), ...rows, keys());
}

function fork(number) {
  const turn = D.beside.turns[number];
  const how = !turn ? "does not offer this call" : number ? "answers or shows something else" : "begins in another state";
  const first = turn && turn[2].length ? `, after ${turn[2].join(", ")}` : "";
  return make("div", { class: "forked" }, `the fork: here “${D.beside.name}” ${how}${first}`);
}

function parted(number, answer) {
  const turn = D.beside && D.beside.turns[number];
  return turn && turn[0] >= 0 && turn[0] !== answer ? make("span", { class: "other" }, ` (${D.beside.name}: ${D.answers[turn[0]]})`) : "";
}

function triedRows() {
  const steps = walked();
  return steps.map((step, place) =>
    row("what if:", step.operation, step.answer, place === steps.length - 1, () => go(at, tried.slice(0, place + 1)), "tried")
  );
}

function keys() {
  const key = (name) => make("kbd", {}, name);
  return make("p", { class: "keys soft" }, key("←"), " ", key("→"), " one step, ", key("Home"), " ", key("End"), " first and last; the address holds the position, so a link is a trace");
}

function drawState() {
  const steps = walked();
  const last = steps[steps.length - 1];
  const after = last ? last.after : D.path[at];
  const before = last ? last.before : at ? D.path[at - 1] : null;
  const beside = last || !D.beside || !D.beside.turns[at] ? null : D.beside.turns[at];
  const now = document.getElementById("now");
  now.replaceChildren(
    make("h2", {}, last ? "State after what was tried" : at ? `State before and after step ${at}` : "State at first"),
    ...verdict(last),
    ...besideText(beside, last),
    table(before, after, beside),
    ...grids(before, after, beside),
    ...moves(after, last)
  );
}

function verdict(last) {
  if (last) return last.broken.map((name) => make("p", { class: "wrong" }, make("b", {}, name), ` is broken: ${D.statements[name] || ""}`));
  if (at !== D.steps.length) return [];
  const parts = [];
  if (D.clause) {
    const [name, text, values] = D.clause;
    parts.push(make("p", { class: "wrong" }, "false in ", make("b", {}, name), ": ", make("code", {}, text), values ? make("span", { class: "soft" }, ` for ${values}`) : ""));
  }
  if (D.own) parts.push(make("h2", {}, "The implementation itself"), make("pre", {}, D.own));
  return parts;
}

function besideText(beside, last) {
  if (!last && !beside && D.beside && D.beside.ends) return [make("p", { class: "soft" }, `The run of ${D.beside.name} has ended: it does not offer call ${D.beside.turns.length}.`)];
  if (!beside || beside[0] < 0) return [];
  const first = beside[2].length ? make("span", {}, " after ", make("code", {}, beside[2].join(", "))) : "";
  return [make("p", { class: "soft" }, `${D.beside.name} answers `, make("code", {}, D.answers[beside[0]]), first)];
}

const cell = (state, place) => (state === null || D.states[state][0][place] < 0 ? "" : D.cells[D.states[state][0][place]]);

function table(before, after, beside) {
  const names = D.beside && beside ? ["before", D.columns[0] + ": after", D.beside.name + ": after"] : ["before", "after"];
  const head = make("tr", {}, make("th", {}, "observable"), ...names.map((name) => make("th", {}, name)));
  const rows = [head];
  const lanes = [...new Set(D.observables.map((each) => each.lane))];
  for (const lane of lanes) {
    if (lane) rows.push(make("tr", { class: "lane" }, make("td", { colspan: names.length + 1 }, lane)));
    D.observables.forEach((observable, place) => {
      if (observable.lane !== lane) return;
      const [old, fresh] = [cell(before, place), cell(after, place)];
      const cells = [
        make("td", { title: observable.text }, observable.name),
        make("td", {}, old),
        make("td", { class: before !== null && old !== fresh ? "changed" : null }, fresh),
      ];
      if (beside) {
        const number = beside[1][0][place];
        const other = number < 0 ? "" : D.cells[number];
        cells.push(make("td", { class: number >= 0 && other !== fresh ? "differs" : null }, number < 0 ? make("span", { class: "soft" }, "not shown") : other));
      }
      rows.push(make("tr", {}, ...cells));
    });
  }
  return make("table", {}, ...rows);
}

/* What is said of each individual of a noun in a state. */
function said(numbers) {
  const found = {};
  for (const number of numbers) {
    const [noun, individual, text] = D.facts[number];
    ((found[noun] ||= {})[individual] ||= []).push(text);
  }
  return found;
}
const everyone = said(D.facts.map((_, number) => number));

function grids(before, after, beside) {
  const [old, fresh] = [said(before === null ? [] : D.states[before][1]), said(D.states[after][1])];
  const other = beside ? said(beside[1][1]) : null;
  const nouns = Object.keys(everyone).sort((one, two) => size(two) - size(one)).slice(0, 3);
  return nouns.flatMap((noun) => {
    const parts = [make("h2", {}, `Each ${noun}`), grid(noun, before === null ? null : old, fresh)];
    if (other && JSON.stringify(other[noun] || {}) !== JSON.stringify(fresh[noun] || {}))
      parts.push(make("p", { class: "soft" }, `${D.beside.name}:`), grid(noun, fresh, other, "differs"));
    return parts;
  });
}
const size = (noun) => Object.values(everyone[noun]).reduce((sum, texts) => sum + texts.length, 0);

function grid(noun, old, fresh, mark = "changed") {
  const cells = Object.keys(everyone[noun]).map(Number).sort((one, two) => one - two).map((individual) => {
    const texts = (fresh[noun] || {})[individual] || [];
    const was = old === null ? texts : (old[noun] || {})[individual] || [];
    const owner = texts.map((text) => /: request (\d+), place/.exec(text)).find(Boolean);
    const style = owner ? `--owner: hsl(${(Number(owner[1]) * 137 + 210) % 360} 65% 55%)` : null;
    const changed = texts.join() !== was.join() ? " " + mark : "";
    const lines = texts.length ? texts.map((text) => make("span", {}, text)) : [make("span", { class: "soft" }, "nothing")];
    return make("div", { class: "cell" + changed, style }, make("b", {}, `${noun} ${individual}`), ...lines);
  });
  return make("div", { class: "grid" }, ...cells);
}

function moves(state, last) {
  const known = D.moves[state];
  const heading = make("h2", {}, "What if");
  if (!known) return [heading, make("p", { class: "soft" }, "The calls from this state were not tried: it is too far from the trace.")];
  const next = !last && at < D.steps.length ? D.steps[at][0] : -1;
  const buttons = known.map(([operation, answer, to, broken], number) =>
    make(
      "button",
      { class: broken.length ? "breaks" : null, onclick: () => (operation === next ? go(at + 1, []) : go(at, [...tried, number])) },
      D.operations[operation][0],
      ` → ${D.answers[answer]}`,
      broken.length ? make("em", {}, ` breaks ${broken.join(", ")}`) : "",
      operation === next ? make("span", { class: "soft" }, " (the next step)") : ""
    )
  );
  const note = known.length ? "Each call that can be made here, with its answer." : "No call can be made here.";
  return [heading, make("p", { class: "soft" }, note), make("div", { class: "moves" }, ...buttons)];
}

function drawHead() {
  const parts = [make("h1", {}, D.title), make("p", { class: "soft" }, `${D.summary}; ${D.variant}${D.catalogue ? "; " + D.catalogue : ""}`)];
  D.rules.forEach((rule) => parts.push(make("p", { class: "wrong" }, `${rule.how} `, make("b", {}, rule.name), `: ${rule.statement}`)));
  parts.push(make("p", {}, make("span", { class: "soft" }, "configuration: "), make("code", {}, D.configuration)));
  D.next.forEach((command) => parts.push(make("p", {}, make("span", { class: "soft" }, "next: "), make("code", {}, command))));
  document.getElementById("head").replaceChildren(...parts);
}

function draw() {
  drawSteps();
  drawState();
}

document.addEventListener("keydown", (event) => {
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  const back = () => (tried.length ? go(at, tried.slice(0, -1)) : go(at - 1, []));
  const actions = {
    ArrowRight: () => go(at + 1, []),
    ArrowDown: () => go(at + 1, []),
    ArrowLeft: back,
    ArrowUp: back,
    Home: () => go(0, []),
    End: () => go(D.steps.length, []),
  };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
});
addEventListener("hashchange", () => (readFragment(), draw()));
document.body.style.setProperty("--strip", STRIP + 10 + "px");
document.body.style.setProperty("--lanes", D.lanes.length);
if (!location.hash) at = D.steps.length;
else readFragment();
drawHead();
draw();
