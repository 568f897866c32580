// Answers that were checked: each sentence, and beside it what the documents say of it.

const KINDS = {
  supported: ["good", "supported"],
  "cited elsewhere": ["warn", "elsewhere"],
  contradicted: ["bad", "unsupported"],
  "not found": ["warn", "unsupported"],
};

function checkedRow(each) {
  const text = each.text.replace(/^\n+/, "").trimEnd();
  const [badge, line] = KINDS[each.verdict] ?? [];
  if (!badge) return el("div", { class: "checked" }, el("div", { class: "text soft", dir: "auto" }, text));
  return el("div", { class: "checked" },
    el("div", { class: "text", dir: "auto" }, el("span", { class: `sentence ${line}` }, text)),
    el("div", {}, el("span", { class: `badge ${badge}` }, each.verdict),
      each.difference && el("p", {}, "The answer says ", el("b", { dir: "auto" }, each.difference[0]),
        ", the documents say ", el("b", { dir: "auto" }, each.difference[1]), "."),
      each.verdict === "cited elsewhere" && el("p", { dir: "auto" }, `It cites ${each.cites.join(", ")}, and it stands here:`),
      each.evidence.map(quoted)));
}

function checkedPage(answers) {
  const lines = answers.map((each, at) =>
    el("li", {}, el("a", { href: `#answer-${at + 1}`, dir: "auto" }, each.title), `: ${each.summary}`));
  return [
    ...(answers.length > 1 ? [el("ol", {}, lines)] : []),
    ...answers.map((each, at) => el("section", { id: `answer-${at + 1}` },
      el("h1", { dir: "auto" }, each.title), el("p", { class: "soft" }, each.summary), each.sentences.map(checkedRow))),
  ];
}

document.getElementById("main").replaceChildren(
  ...checkedPage(JSON.parse(document.getElementById("answers").textContent)));
