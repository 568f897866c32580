// Every step of a question, and one call with its messages.

const MANY = 40; // steps from which on they begin closed
const WORDS = { generate: "model", retrieve: "search", execute: "program", score: "critic", choose: "choice", note: "note" };

function stepsSection(item, told, params) {
  const all = (open) => () =>
    document.querySelectorAll(".steps > li > details").forEach((each) => (each.open = open));
  const list = el("ol", { class: "steps" });
  const named = new Map(told.steps.filter((step) => step.name === "span").map((step) => [step.span, step.data]));
  let before = "";
  told.steps.forEach((step, at) => {
    if (step.span !== before && step.span) list.append(spanHeading(step.span, named.get(step.span)));
    before = step.span;
    if (step.kind !== "note" || step.name !== "span") list.append(stepItem(item, step, at, told.steps.length <= MANY, params));
  });
  return section("Step by step",
    told.steps.length > 1 && el("p", { class: "buttons" }, el("button", { type: "button", onclick: all(true) }, "Open all"), " ",
      el("button", { type: "button", onclick: all(false) }, "Close all")),
    told.steps.length ? list : el("p", { class: "soft" }, "No step was recorded."));
}

// "/step.0/query.1" as "step 1, query 2".
const spanName = (span) => span.split("/").filter(Boolean)
  .map((part) => part.replace(/\.(\d+)$/, (_, number) => ` ${Number(number) + 1}`)).join(", ");

function spanHeading(span, data = {}) {
  const more = Object.entries(data).filter(([name]) => !/^(step|round|index|branch)$/.test(name));
  const said = more.map(([name, value]) => `, ${name} ${plainValue(value)}`).join("");
  return el("li", { class: "span", dir: "auto" }, spanName(span), short(said, 200));
}

function stepItem(item, step, at, open, params) {
  const cost = [
    step.kind === "generate" && `${tokens(callTokens(step))} tokens`,
    step.seconds !== undefined && seconds(step.seconds),
    step.replayed && "replayed",
  ].filter(Boolean).join(" · ");
  const wide = step.kind !== "note" && step.kind !== "score";
  return el("li", { class: `step of-${step.kind}` },
    el("details", { open: open && wide },
      el("summary", { "data-stop": true },
        el("span", { class: "name" }, step.name), " ",
        el("span", { class: "kind" }, WORDS[step.kind]), " ",
        el("span", { class: "gist", dir: "auto" }, short(gist(step), 160)), " ",
        el("span", { class: "cost" }, cost)),
      el("div", { class: "body" }, BODIES[step.kind](step, at, item, params))));
}

const callTokens = (step) =>
  step.replies.reduce((sum, reply) => sum + reply.usage.prompt + reply.usage.completion, 0);

function gist(step) {
  if (step.kind === "generate") return step.replies[0]?.text ?? "";
  if (step.kind === "retrieve") return step.query;
  if (step.kind === "execute") return step.execution.verdict;
  if (step.kind === "score") return step.scores.map((score) => decimals(score)).join(", ");
  if (step.kind === "choose") return step.candidates[step.chosen]?.text ?? "none";
  return Object.entries(step.data).map(([name, value]) => `${name}: ${plainValue(value)}`).join(", ");
}

const plainValue = (value) => (typeof value === "string" ? value : JSON.stringify(value));

const BODIES = {
  generate: (step, at, item, params) => [
    step.replies.map((reply, number) => replyView(reply, step.replies.length > 1 ? number + 1 : null)),
    el("p", {}, el("a", { href: link(`/q/${item.n}/call/${at}`, params) }, "Messages and reply"),
      el("span", { class: "soft", dir: "auto" }, ` of ${step.model}`)),
  ],
  retrieve: (step) => [
    el("p", { class: "query" }, el("span", { class: "soft" }, "query: "), el("span", { dir: "auto" }, step.query)),
    step.passages.length ? null : el("p", { class: "soft" }, "Nothing was found."),
    step.passages.map((passage, at) => passageView(passage, at)),
    (step.skipped ?? []).map((each) => el("p", { class: "soft", dir: "auto" }, `not read: ${each.skipped}: ${each.why}`)),
    el("p", { class: "soft", dir: "auto" }, `found by ${step.retriever}`),
  ],
  execute: (step) => [
    el("p", {}, el("b", {}, step.execution.verdict), " ", el("span", { dir: "auto" }, step.execution.detail)),
    ...Object.entries(step.execution)
      .filter(([name, value]) => value !== "" && !["verdict", "detail"].includes(name)
        && (typeof value === "string" || (name === "value" && value !== null)))
      .map(([name, value]) => [el("p", { class: "soft" }, name), block(plainValue(value), "code")]),
    el("p", { class: "soft" }, "program"), block(step.program.source, "code"),
  ],
  score: (step) => [
    el("p", { class: "soft" }, step.critic),
    table("Scores of a critic", [["score", true], ["what was scored"]],
      step.scores.map((score, at) => [[bar(score), decimals(score, 3)], pairView(step.pairs[at])])),
  ],
  choose: (step) => [
    el("p", {}, `Chosen by ${step.by}`, step.why && ": ", el("span", { dir: "auto" }, step.why)),
    el("ol", { class: "candidates" }, step.candidates.map((each, at) => candidate(each, at === step.chosen))),
    el("details", {}, el("summary", { "data-stop": true }, "What the choice saw"), block(step.context)),
  ],
  note: (step) => el("dl", {}, Object.entries(step.data).map(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, block(plainValue(value)))])),
};

function pairView(pair) {
  return el("dl", { class: "pair" }, Object.entries(pair ?? {}).map(([name, value]) =>
    [el("dt", {}, name), el("dd", { dir: "auto" }, short(plainValue(value), 600))]));
}

function replyView(reply, number, whole = false) {
  const about = [
    number !== null && `sample ${number}`,
    whole && reply.logprob !== null && `mean log-probability ${decimals(reply.logprob)}`,
    reply.finish_reason !== "stop" && `ended by ${reply.finish_reason}`,
  ].filter(Boolean).join(" · ");
  const same = reply.changes?.every(([taken, put]) => !taken && !put);
  return el("div", { class: "reply" },
    about && el("p", { class: "soft" }, about),
    reply.reasoning && el("details", {}, el("summary", { "data-stop": true }, "Thought"), block(reply.reasoning)),
    reply.changes && el("p", { class: "soft" }, same ? "The text before, unchanged:" : "Against the text before:"),
    reply.changes ? difference(reply.changes) : block(reply.text || "(empty)"));
}

function passageView(passage, at) {
  const supports = passage.parts.some(([, marks]) => marks.includes("s"));
  return el("details", { class: "passage", open: supports || at === 0 },
    el("summary", { "data-stop": true }, el("b", { dir: "auto" }, passage.title || passage.id), " ",
      el("span", { class: "soft" }, decimals(passage.score)), " ",
      supports && [el("span", { class: "badge good" }, "supports the answer"), " "],
      el("span", { class: "gist", dir: "auto" }, excerpt(passage.parts).map(marked))),
    el("div", { class: "text", dir: "auto" }, passage.parts.map(marked)),
    el("p", {}, address(passage.url || passage.id)));
}

const marked = ([text, marks]) =>
  marks ? el("mark", { class: marks, title: marks.includes("s") ? "supports the answer" : "word of the query" }, text) : text;

// The part of a passage with the most words of the query: about two lines.
function excerpt(parts) {
  const most = 200;
  let best = [];
  let found = -1;
  for (let start = 0; start < parts.length; start += 1) {
    if (!parts[start][1]) continue;
    let size = 0;
    let end = start;
    while (end < parts.length && size + parts[end][0].length <= most) size += parts[end++][0].length;
    const count = parts.slice(start, end).filter(([, marks]) => marks).length;
    if (count > found) [best, found] = [parts.slice(start, Math.max(end, start + 1)), count];
  }
  if (found < 0) return [[short(parts.map(([text]) => text).join(""), most), ""]];
  return [["… ", ""], ...best.map(([text, marks]) => [text.slice(0, most), marks]), [" …", ""]];
}

function candidate(each, chosen) {
  const worth = [
    chosen && el("b", { class: "badge good" }, "chosen"),
    each.score !== null && `score ${decimals(each.score, 3)}`,
    each.logprob !== null && `log-probability ${decimals(each.logprob)}`,
    each.discarded && el("span", { class: "badge warn", dir: "auto" }, `discarded: ${each.discarded}`),
  ].filter(Boolean).map((part) => [part, " "]);
  return el("li", { class: chosen ? "chosen" : null }, el("p", {}, worth), block(each.text));
}

// One call: every message as it was sent, and every reply.
function callPage(item, told, at, params) {
  const step = told.steps[at];
  if (step?.kind !== "generate") return [crumbs(item, params, "No such call"), el("h1", { tabindex: "-1" }, "No such call")];
  const { sampling } = step;
  const usage = step.replies[0]?.usage;
  const set = Object.entries(sampling).filter(([, value]) => value !== null && !(Array.isArray(value) && !value.length));
  return [
    crumbs(item, params, `Call: ${step.name}`),
    el("h1", { tabindex: "-1" }, step.name, step.span && el("span", { class: "soft" }, ` ${spanName(step.span)}`)),
    el("p", { class: "facts" }, [step.model, usage && `${usage.prompt} prompt tokens (${usage.cached} cached)`,
      usage && `${usage.completion} completion tokens`, step.seconds !== undefined && seconds(step.seconds),
      step.replayed && "replayed"].filter(Boolean).map((text) => [el("span", { class: "badge" }, text), " "])),
    section("Messages", step.messages.map((message) =>
      el("div", { class: "message", tabindex: "-1", "data-stop": true }, el("h3", {}, message.role), block(message.content)))),
    section(step.replies.length > 1 ? "Replies" : "Reply", step.replies.map((reply, number) =>
      el("div", { class: "message", tabindex: "-1", "data-stop": true },
        replyView({ ...reply, changes: undefined }, step.replies.length > 1 ? number + 1 : null, true),
        reply.changes && el("details", {}, el("summary", {}, "Against the text before"), difference(reply.changes))))),
    section("Sampling", el("dl", {}, set.map(([name, value]) =>
      [el("dt", {}, name), el("dd", {}, block(plainValue(value)))]))),
  ];
}
