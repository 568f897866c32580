// One question: the answer and what supports it, what was corrected, what it cost, and every step.

function storyPage(item, told, params) {
  return [
    crumbs(item, params),
    el("h1", { tabindex: "-1", dir: "auto" }, told.question),
    facts(item, told),
    told.failure && el("p", { class: "failure", dir: "auto" }, `${told.failure.type}: ${told.failure.message}`),
    told.answer && answerSection(told.answer),
    told.record && scoresSection(told.record),
    elsewhere(item, params),
    told.answer?.steps.length > 0 && section(told.answer.steps.some((each) => each.changes) ? "What was corrected" : "Reasoning", el("ol", { class: "thoughts" },
      told.answer.steps.map(thought))),
    told.stages.length > 0 && costSection(told.stages),
    stepsSection(item, told, params),
  ];
}

function crumbs(item, params, last) {
  const list = shown(params);
  const at = list.findIndex((each) => each.n === item.n);
  const beside = (by, text) => {
    const other = at < 0 ? undefined : list[at + by];
    return other ? el("a", { href: link(`/q/${other.n}`, params) }, text) : el("span", { class: "soft" }, text);
  };
  const place = at < 0 ? item.id : `${at + 1} of ${list.length}`;
  return el("nav", { class: "crumbs", "aria-label": "Where you are" },
    el("a", { href: link("/", params) }, "Questions"),
    last ? el("a", { href: link(`/q/${item.n}`, params) }, `Question ${place}`) : el("span", {}, `Question ${place}`),
    last && el("span", {}, last),
    el("span", { class: "beside" }, beside(-1, "Previous"), beside(1, "Next")));
}

function facts(item, told) {
  const source = state.sources[item.source];
  const { usage } = told;
  const badges = [
    [source.kind === "run" ? sourceName(source) : told.method],
    [`${tokens(usage.prompt)} prompt tokens`],
    [`${tokens(usage.completion)} completion tokens`],
    [plural(usage.calls, "call")],
    usage.usd ? [`${usage.usd.toFixed(usage.usd < 0.001 ? 6 : 4)} USD`] : null,
    [seconds(told.seconds)],
    told.stopped && [`ended by the ${told.stopped} budget`, "warn"],
  ].filter(Boolean);
  return el("p", { class: "facts" }, badges.map(([text, more = ""]) => [el("span", { class: `badge ${more}` }, text), " "]));
}

function answerSection(answer) {
  const misquoted = answer.misquoted ?? [];
  const cited = new Set(answer.sentences.flatMap((each) => each.supports.map((quote) => quote.passage_id)));
  const others = [...answer.citations, ...answer.shown].filter(
    (each, at, all) => !cited.has(each.passage_id) && all.findIndex((one) => one.passage_id === each.passage_id) === at);
  const judged = ({ text, supported, supports }) => ({
    text, evidence: supports, verdict: supported === null ? "no claim" : supported ? "supported" : "not found" });
  return section("Answer",
    answer.sentences.length ? el("div", { class: "answer" }, answer.sentences.map(judged).map(sentence)) : block(answer.text, "answer"),
    misquoted.length > 0 && el("details", { open: true, class: "misquoted" },
      el("summary", { "data-stop": true }, "Quoted, and in nothing that was read"),
      el("ul", {}, misquoted.map((each) => el("li", { dir: "auto" }, each)))),
    others.length > 0 && el("details", {}, el("summary", { "data-stop": true }, `Also read (${others.length})`),
      el("ul", { class: "quotes" }, others.map((each) => el("li", {}, where(each))))));
}

const VERDICTS = {
  supported: ["good", "supported"],
  "cited elsewhere": ["warn", "elsewhere"],
  contradicted: ["bad", "unsupported"],
  "not found": ["warn", "unsupported"],
};

// A sentence of an answer, and beside it what the documents say of it.
function sentence(each) {
  const text = each.text.replace(/^\n+/, "").trimEnd();
  const [badge, line] = VERDICTS[each.verdict] ?? [];
  if (!badge) return el("div", { class: "checked" }, el("div", { class: "text soft", dir: "auto" }, text));
  return el("div", { class: "checked" },
    el("div", { class: "text", dir: "auto" }, el("span", { class: `sentence ${line}` }, text)),
    el("div", {}, el("span", { class: `badge ${badge}` }, each.verdict),
      each.difference && el("p", {}, "The answer says ", el("b", { dir: "auto" }, each.difference[0]),
        ", the documents say ", el("b", { dir: "auto" }, each.difference[1]), "."),
      each.verdict === "cited elsewhere" && el("p", { dir: "auto" }, `It cites ${each.cites.join(", ")}, and it stands here:`),
      each.evidence.map(quoted)));
}

const placeOf = ({ line, page, place }) => (line ? `line ${line}` : page ? `page ${page}` : place);

function where(citation) {
  const place = placeOf(citation);
  const file = citation.url || citation.passage_id;
  return el("span", { class: "where" }, citation.marker && `[${citation.marker}] `,
    el("b", { dir: "auto" }, citation.title || citation.passage_id), " ",
    citation.link ? el("a", { href: citation.link, dir: "auto" }, file) : address(file), place && `, ${place}`,
    citation.heading && citation.heading !== citation.title && el("span", { class: "soft", dir: "auto" }, `, ${citation.heading}`),
    citation.fetched && el("span", { class: "soft" }, `, fetched ${citation.fetched}`));
}

const quoted = (citation) =>
  el("figure", {}, el("blockquote", { dir: "auto" }, citation.quote), el("figcaption", {}, where(citation)));

function scoresSection(record) {
  const rows = Object.entries(record.scores).map(([name, score]) => [name, decimals(score.value, 3), score.why]);
  if (record.scoring) rows.push(["not scored", "–", record.scoring]);
  if (!rows.length) return null;
  return section("Scores", record.answer && el("p", {}, "Compared: ", el("b", { dir: "auto" }, record.answer)),
    table("Scores", [["metric"], ["value", true], ["reason"]], rows));
}

// What the other runs said to the same question. The ids of one's own questions may be the numbers of their lines, so
// the id alone does not tell which question it is.
function elsewhere(item, params) {
  if (item.example === undefined) return null;
  const same = (each) => each.example === item.example && each.question === item.question
    && state.sources[each.source].task === state.sources[item.source].task;
  const others = state.items.filter((each) => each && each.n !== item.n && same(each));
  if (!others.length) return null;
  return el("section", {}, el("details", {},
    el("summary", { "data-stop": true }, el("h2", {}, `The same question elsewhere (${others.length})`)),
    el("ol", { class: "questions" }, others.map((each) => row(each, params)))));
}

function thought(step) {
  return el("li", {},
    step.changes ? difference(step.changes) : block(step.text),
    step.query && el("p", { class: "soft" }, "asked: ", el("span", { dir: "auto" }, step.query)),
    step.reflection && el("p", { class: "soft" }, "reflection: ", el("span", { dir: "auto" }, step.reflection)),
    step.citations.length > 0 && el("p", { class: "soft" }, "cites ", step.citations.map((mark) => `[${mark}]`).join("")));
}

// What was taken out and put in, word by word.
function difference(changes) {
  return el("div", { class: "text changes", dir: "auto" }, changes.map(([taken, put, kept]) =>
    [taken && el("del", {}, taken), put && el("ins", {}, put), kept]));
}

function costSection(stages) {
  const most = Math.max(...stages.map((stage) => stage.seconds), 1e-9);
  const size = Math.max(...stages.map((stage) => stage.prompt + stage.completion), 1e-9);
  const rows = stages.map((stage) => [stage.name, `${stage.calls}`,
    [bar((stage.prompt + stage.completion) / size), tokens(stage.prompt)], tokens(stage.completion),
    [bar(stage.seconds / most), decimals(stage.seconds, 1)]]);
  return section("Cost by step", table("Cost by step",
    [["step"], ["calls", true], ["prompt tokens", true], ["completion tokens", true], ["seconds", true]], rows));
}
