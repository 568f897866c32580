// The first page of the viewer: the table of runs, and the questions.

const runSources = () => state.sources.flatMap((source, at) => (source.kind === "run" ? [[source, at]] : []));

function listPage(params) {
  const runs = runSources();
  return [
    el("h1", { tabindex: "-1" }, runs.length ? plural(runs.length, "run") : state.sources[0]?.name ?? "Nothing yet"),
    el("div", { id: "runs" }, runsTable(runs)),
    el("div", { id: "notices" }, notices()),
    questionsSection("Questions", params),
  ];
}

function notices() {
  const all = [...state.notices, ...state.sources.flatMap((source) => source.notices)];
  return all.length ? el("ul", { class: "notices" }, all.map((notice) => el("li", { dir: "auto" }, notice))) : null;
}

function runsTable(runs) {
  if (!runs.length) return null;
  const every = (field) => [...new Set(runs.map(([source]) => source[field]))];
  const named = (field) => (every(field).length > 1 ? `${field}s` : field) + ` ${every(field).join(", ")}`;
  const primary = every("primary").join(", ");
  const headers = [["run"], [primary, true], ["95 % interval", true], ["questions", true], ["failed", true],
    ["calls", true], ["tokens", true], ["seconds", true]];
  const to = (at, query, content, why) =>
    el("a", { href: `#/?run=${at}${query}`, "aria-label": why && `${content} ${why}` }, content);
  const line = ([source, at]) => {
    const name = sourceName(source);
    const { score, low, high, done, expected, finished } = source;
    const count = expected && !finished ? `${done} of ${expected}` : `${done}`;
    return [
      to(at, "", name),
      [score !== null && score >= 0 && score <= 1 && bar(score), score === null ? "–" : to(at, "&sort=score", decimals(score, 3), `${source.primary}, ${name}`)],
      low === null ? "–" : `${decimals(low, 3)}–${decimals(high, 3)}`,
      [count, !finished && [" ", el("span", { class: "badge warn" }, "not finished")]],
      source.failed ? to(at, "&show=failed", `${source.failed}`, `failed, ${name}`) : "0",
      decimals(source.calls, 1),
      to(at, "&sort=tokens", tokens(source.tokens), `tokens a question, ${name}`),
      to(at, "&sort=seconds", decimals(source.seconds, 1), `seconds a question, ${name}`),
    ];
  };
  const about = `${named("task")}, ${named("model")}`;
  return [
    el("p", { class: "soft" }, `${about[0].toUpperCase()}${about.slice(1)}. Costs are a question's mean. A number opens its questions.`),
    table("Runs", headers, runs.map(line)),
  ];
}

function updateTop() {
  const table = document.getElementById("runs");
  if (!table.contains(document.activeElement)) table.replaceChildren(...(runsTable(runSources()) ?? []));
  document.getElementById("notices").replaceChildren(...[notices()].filter(Boolean));
}
