// The page of a server: ask, check an answer, and read the documents.

const answering = el("div", { id: "answering" });
const checking = el("div", { id: "checking" });
const forms = {};

function listPage(params) {
  forms.ask ??= askForm();
  fill(forms.ask.elements.model, state.models.map((each) => each.id));
  return [
    el("h1", { tabindex: "-1" }, "Ask your documents"),
    state.models.length ? forms.ask : el("p", {}, "This server answers no questions. It ", el("a", { href: "#/check" }, "checks answers"), "."),
    answering,
    el("div", { hidden: !state.items.length }, questionsSection("Earlier questions", params)),
  ];
}

const updateTop = () => fill(forms.ask?.elements.model, state.models.map((each) => each.id));

function fill(select, names) {
  if (!select || select.length === names.length) return;
  select.replaceChildren(...names.map((name) => el("option", {}, name)));
  select.closest("label").hidden = names.length < 2;
}

const labelled = (text, field, more = "") => el("label", { class: more || null }, el("span", {}, text), field);

function form(fields, name, onsubmit) {
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const made = el("form", { class: "asking", onsubmit: (event) => {
    event.preventDefault();
    working(made, stop, onsubmit);
  }, onkeydown: (event) => {
    const sends = event.ctrlKey || event.metaKey || event.target.id === "question";
    if (event.key !== "Enter" || !sends || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    made.requestSubmit();
  } }, fields, el("div", { class: "buttons" },
    el("button", {}, name), " ", stop, " ", el("span", { class: "soft", "aria-hidden": "true" })));
  return made;
}

// One piece of work at a time for each form, which can be stopped.
async function working(made, stop, work) {
  const button = made.querySelector("button");
  if (button.disabled) return;
  const ended = new AbortController();
  const [began, waited] = [Date.now(), made.querySelector(".soft")];
  const clock = setInterval(() => { waited.textContent = `${Math.round((Date.now() - began) / 1000)} s`; }, 1000);
  stop.onclick = () => ended.abort();
  [button.disabled, stop.hidden] = [true, false];
  say("working…");
  try {
    await work(made.elements, ended.signal);
    say("done");
  } catch (error) {
    say("");
    const place = made === forms.ask ? answering : checking;
    place.append(el("p", { class: "failure", dir: "auto" }, ended.signal.aborted ? "Stopped." : error.message));
  }
  clearInterval(clock);
  waited.textContent = "";
  [button.disabled, stop.hidden] = [false, true];
}

const askForm = () => form([
  labelled("Question", el("textarea", { id: "question", name: "question", rows: 2, required: true, maxlength: 20000 }), "grows"),
  labelled("Method", el("select", { name: "model" })),
], "Ask", async ({ question, model }, signal) => {
  const steps = el("div", { class: "text log", dir: "auto", tabindex: "0", role: "region", "aria-label": "Steps" });
  const text = el("div", { class: "text answer", dir: "auto" });
  answering.replaceChildren(el("h2", { dir: "auto" }, question.value), text, el("details", { open: true }, el("summary", {}, "Steps"), steps));
  const messages = [{ role: "user", content: question.value }];
  let report = null;
  const response = await send("v1/chat/completions", { model: model.value, messages, stream: true }, signal);
  for await (const event of events(response)) {
    if (event.error) throw new Error(event.error.message);
    const delta = event.choices[0]?.delta ?? {};
    steps.append(harmless(delta.reasoning_content ?? ""));
    text.append(harmless(delta.content ?? ""));
    steps.scrollTop = steps.scrollHeight;
    report = event.reground ?? report;
  }
  await readNews();
  const item = state.items.find((each) => each.n === report.run.replace("/", "~"));
  if (item && current.page === "list") {
    answering.replaceChildren();
    location.hash = link(`/q/${item.n}`, new URLSearchParams());
  } else if (report.sentences.length) {
    const corpus = model.value.split("@")[1];
    report.sentences.forEach((each) => linked(each.evidence, corpus));
    text.replaceWith(el("div", { class: "answer" }, report.sentences.map(sentence)));
  }
});

const checkForm = () => form([
  labelled("Answer to check", el("textarea", { name: "text", rows: 6, required: true, maxlength: 300000 }), "grows"),
  labelled("Its question, if you have it", el("input", { name: "question", maxlength: 20000 }), "grows"),
  labelled("Documents", el("select", { name: "corpus" })),
], "Check", async ({ text, question, corpus }, signal) => {
  const body = { text: text.value, corpus: corpus.value, ...(question.value && { question: question.value }) };
  const told = await (await send("v1/check", body, signal)).json();
  told.sentences.forEach((each) => linked(each.evidence, told.corpus));
  const found = Object.entries(told.counts).filter(([name, count]) => count && name !== "no claim");
  checking.replaceChildren(
    el("p", { class: "facts" }, found.map(([name, count]) => [el("span", { class: `badge ${VERDICTS[name][0]}` }, `${count} ${name}`), " "])),
    ...told.sentences.map(sentence));
});

const morePages = {
  check: () => {
    forms.check ??= checkForm();
    fill(forms.check.elements.corpus, state.documents.map((each) => each.corpus));
    return [el("h1", { tabindex: "-1" }, "Check an answer"), forms.check, checking];
  },
  documents: () => [el("h1", { tabindex: "-1" }, "Documents"), state.documents.map(documentsSection)],
  text: async ({ params }) => {
    const { file, parts: [before, quote, after], characters } = await asked(`v1/documents/text?${params}`);
    const isWhole = before.length + quote.length + after.length === characters;
    return [
      el("h1", { tabindex: "-1", dir: "auto" }, file),
      el("p", { class: "soft", dir: "auto" }, [params.get("corpus"), params.get("where"), !isWhole && "a part of a long text"].filter(Boolean).join(" · ")),
      params.get("quote") && !quote && el("p", { class: "notices" }, "The passage does not stand here any more."),
      el("div", { class: "text document", dir: "auto" }, before, quote && el("mark", { class: "s here" }, quote), after),
    ];
  },
};

function documentsSection({ corpus, counts, files, unread }) {
  const named = (all, here) => `${all}${all > here ? `, the first ${here} of them here` : ""}`;
  return section(corpus,
    el("p", { class: "soft" }, counts.documents ? plural(counts.documents, "document") : "What is searched here has no list of files."),
    unread.length > 0 && el("details", { open: true }, el("summary", { "data-stop": true }, `Not read, or only in part (${named(counts.unread, unread.length)})`),
      el("ul", {}, unread.map(({ path, why }) => el("li", { dir: "auto" }, el("b", {}, path), `: ${why}`)))),
    files.length > 0 && el("details", { open: files.length <= STEP }, el("summary", { "data-stop": true }, `Files (${named(counts.file, files.length)})`),
      el("ul", {}, files.map((file) => el("li", {}, el("a", { href: textLink(corpus, file), dir: "auto" }, file))))));
}

function askForKey(why) {
  const field = el("input", { type: "password", autocomplete: "off", required: true });
  main.replaceChildren(el("h1", { tabindex: "-1" }, "A key, please"), el("p", {}, `The server says: ${why}. The key is kept until this tab is closed.`),
    el("form", { class: "asking", onsubmit: (event) => {
      event.preventDefault();
      sessionStorage.setItem("key", field.value.trim());
      location.reload();
    } }, labelled("Key", field, "grows"), el("div", { class: "buttons" }, el("button", {}, "Go on"))));
  field.focus();
}

document.getElementById("place").replaceWith(el("nav", { "aria-label": "Pages" },
  [["#/", "Ask"], ["#/check", "Check"], ["#/documents", "Documents"]].map(([href, name]) => el("a", { href }, name))));
addEventListener("hashchange", () => say("")); // what was done here is no news on the next page
