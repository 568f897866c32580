// Answers that were checked: each sentence, and beside it what the documents say of it.

function checkedPage(answers) {
  const lines = answers.map((each, at) =>
    el("li", {}, el("a", { href: `#answer-${at + 1}`, dir: "auto" }, each.title), `: ${each.summary}`));
  return [
    ...(answers.length > 1 ? [el("ol", {}, lines)] : []),
    ...answers.map((each, at) => el("section", { id: `answer-${at + 1}` },
      el("h1", { dir: "auto" }, each.title), el("p", { class: "soft" }, each.summary), each.sentences.map(sentence))),
  ];
}

document.getElementById("main").replaceChildren(
  ...checkedPage(JSON.parse(document.getElementById("answers").textContent)));
