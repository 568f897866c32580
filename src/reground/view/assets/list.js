// The questions, with a filter.

const STEP = 300; // rows that are added at once
const SORTS = {
  "": ["in their order", (a, b) => a.n - b.n],
  score: ["lowest score first", (a, b) => worth(a) - worth(b) || a.n - b.n],
  "-score": ["highest score first", (a, b) => worth(b) - worth(a) || a.n - b.n],
  tokens: ["most tokens first", (a, b) => (b.tokens ?? 0) - (a.tokens ?? 0) || a.n - b.n],
  seconds: ["slowest first", (a, b) => (b.seconds ?? 0) - (a.seconds ?? 0) || a.n - b.n],
};
const KINDS = {
  "": ["all", () => true],
  failed: ["failed", (item) => Boolean(item.failure)],
  stopped: ["ended by the budget", (item) => Boolean(item.stopped)],
  wrong: ["score 0", (item) => share(item) === 0],
  right: ["score 1", (item) => share(item) === 1],
};
// The score, or else the share of the claims that are supported.
const share = (item) => item.score ?? (item.claims ? item.supported / item.claims : null);
const worth = (item) => (item.failure ? -1 : share(item) ?? -0.5);
let rows = STEP;

// The items that the filter leaves, in order.
function shown(params) {
  const words = (params.get("filter") ?? "").toLowerCase().split(/\s+/).filter(Boolean);
  const run = params.get("run");
  const fits = KINDS[params.get("show") ?? ""]?.[1] ?? KINDS[""][1];
  const said = (item) =>
    [item.question, item.answer, item.id, item.failure, item.method].filter(Boolean).join(" ").toLowerCase();
  const found = state.items.filter((item) => {
    if (item === undefined || (run !== null && item.source !== Number(run)) || !fits(item)) return false;
    const text = words.length ? said(item) : "";
    return words.every((word) => text.includes(word));
  });
  return found.sort((SORTS[params.get("sort") ?? ""] ?? SORTS[""])[1]);
}

function questionsSection(title, params) {
  return section(title, toolbar(params), el("p", { id: "count", role: "status" }), el("ol", { id: "questions" }),
    el("p", { id: "more" }));
}

function toolbar(params) {
  const choice = (name, label, options) => {
    const made = el("select", { id: name, onchange: onFilter },
      options.map(([value, text]) => el("option", { value, selected: value === (params.get(name) ?? "") }, text)));
    return el("label", {}, el("span", {}, label), made);
  };
  const runs = state.sources.flatMap((source, at) => (source.kind === "run" ? [[`${at}`, sourceName(source)]] : []));
  return el("form", { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault() },
    el("label", { class: "grows" }, el("span", {}, "Filter"),
      el("input", { id: "filter", type: "search", autocomplete: "off", value: params.get("filter") ?? "",
        placeholder: "words of a question or an answer", oninput: onFilter })),
    runs.length > 1 && choice("run", "Run", [["", "all"], ...runs]),
    choice("show", "Show", Object.entries(KINDS).map(([value, [text]]) => [value, text])),
    choice("sort", "Sort", Object.entries(SORTS).map(([value, [text]]) => [value, text])));
}

function onFilter() {
  const params = new URLSearchParams();
  for (const name of ["filter", "run", "show", "sort"]) {
    const value = document.getElementById(name)?.value;
    if (value) params.set(name, value);
  }
  rows = STEP;
  setQuery(params);
  fillList(params);
}

function fillList(params) {
  const found = shown(params);
  const all = state.items.length;
  document.getElementById("count").textContent =
    found.length === all ? plural(all, "question") : `${found.length} of ${plural(all, "question")}`;
  document.getElementById("questions").replaceChildren(...found.slice(0, rows).map((item) => row(item, params)));
  const left = found.length - rows;
  const more = () => {
    rows += STEP;
    fillList(params);
  };
  document.getElementById("more").replaceChildren(
    ...(left > 0 ? [el("button", { type: "button", "data-more": true, onclick: more }, `Show more (${left} left)`)] : []));
}

function scoreBadge(item) {
  if (item.failure) return el("span", { class: "score failed" }, "failed");
  const found = share(item);
  if (found === null) return el("span", { class: "score" }, "–");
  const kind = found >= 1 ? "right" : found <= 0 ? "wrong" : "between";
  if (item.score !== undefined) return el("span", { class: `score ${kind}` }, decimals(found));
  const claims = `${item.supported} of ${plural(item.claims, "claim")} supported`;
  return el("span", { class: `score ${kind}`, title: claims, "aria-label": claims, role: "img" }, `${item.supported}/${item.claims}`);
}

function about(item) {
  const source = state.sources[item.source];
  return [
    source.kind === "run" && state.sources.length > 1 ? sourceName(source) : item.method,
    item.tokens !== undefined && `${tokens(item.tokens)} tokens`,
    item.seconds !== undefined && seconds(item.seconds),
    item.stopped && `ended by ${item.stopped}`,
  ].filter(Boolean).join(" · ");
}

function row(item, params) {
  return el("li", {}, el("a", { class: "row", href: link(`/q/${item.n}`, params), "data-stop": true, "data-n": item.n },
    scoreBadge(item),
    el("span", { class: "question", dir: "auto" }, item.question || "(empty)"),
    el("span", { class: "answer", dir: "auto" }, item.failure || item.answer || ""),
    el("span", { class: "about" }, about(item))));
}

// New questions and scores, without losing the place of the reader.
// more: whether the next come at once; then what is full stays as it is until they have come.
function updateList(params, more) {
  if (more && document.querySelectorAll("#questions .row").length >= rows) return;
  const focused = document.activeElement?.dataset?.n;
  updateTop();
  fillList(params);
  if (focused !== undefined) document.querySelector(`[data-n="${focused}"]`)?.focus({ preventScroll: true });
}
